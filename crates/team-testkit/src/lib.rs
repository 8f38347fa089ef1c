//! Support for tests that run the program as a whole: workspaces of their own, real agent programs, and a model
//! that says what it is told.

mod abandoned;
pub mod home;
pub mod leftovers;
pub mod normal;
pub mod pane;
pub mod process;
pub mod program;
pub mod real;
pub mod recording;
pub use team_stub as stub;
pub mod workspace;

pub use home::TestHome;
pub use pane::TestPane;
pub use team_stub::ModelStub;
pub use workspace::TestWorkspace;
