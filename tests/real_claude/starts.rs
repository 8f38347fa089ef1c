//! How it starts, and what stands in the way.
