//! Support for tests that run the program as a whole: a model that says what it is told.

pub mod stub;
