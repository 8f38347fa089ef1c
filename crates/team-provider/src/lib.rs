//! What differs between agent programs; pure
