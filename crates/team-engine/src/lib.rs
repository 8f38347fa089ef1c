//! Operations and the coordinator loop: observe, plan, act, record
