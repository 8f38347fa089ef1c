//! Support for tests that run the program as a whole: workspaces of their own, real agent programs, and a model
//! that says what it is told.

pub mod leftovers;
pub mod normal;
pub mod process;
pub mod program;
pub mod real;
pub mod stub;
pub mod workspace;

pub use workspace::TestWorkspace;
