//! The append-only log: lock, append, seq, hash chain, torn tail, follow, segments, snapshot
