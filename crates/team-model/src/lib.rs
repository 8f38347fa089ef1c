//! Ids, events, states, folds and legal transitions of a team; no I/O, no clock
