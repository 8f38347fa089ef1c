//! Support for tests that run the program as a whole: real agent programs, and a model that says what it is told.

pub mod process;
pub mod real;
pub mod stub;
