//! The whole program as a person and as agents use it, with fake agents on a real private tmux.

mod spine;
