//! What the journal promises, seen from outside.

mod basics;
mod cache;
mod disk;
mod follow;
mod properties;
mod recovery;
mod rotation;
mod stress;
mod support;
