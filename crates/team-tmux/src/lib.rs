//! tmux: server, panes, typing, screens, exits.
//!
//! This crate is the only one that knows tmux. It knows nothing of agents' programs, of events or
//! of the log: it opens panes, types into them, reads them and closes them, and says exactly what
//! happened. Nothing here decides *whether* something should be typed.
//!
//! [`Terminal`] is what callers use; [`Tmux`] is the real thing and [`FakeTerminal`] the one in
//! memory. [`UserPane`] looks at one pane of a server that is not ours.

mod attach;
mod batch;
mod call;
mod control;
mod endpoint;
mod env;
mod error;
mod fake;
mod guard;
mod pane;
mod panes;
mod process;
mod screen;
mod server;
mod styled;
mod terminal;
mod text;
mod tmux;
mod typing;
mod user;
mod version;
mod watch;

pub use attach::{ATTACH_REMOVES, attach_argv};
pub use endpoint::{Endpoint, find_tmux, socket_path};
pub use env::CleanEnv;
pub use error::TmuxError;
pub use fake::{FakeInput, FakeTerminal, Operation};
pub use guard::Guard;
pub use pane::{
    Closed, Exit, HEIGHT, OpenPane, OpenedPane, Pane, PaneId, PaneInfo, ParseIdError, Viewers, WIDTH,
    WindowId,
};
pub use screen::Screen;
pub use styled::{Color, Line, Span, Style};
pub use terminal::{Fence, ServerInfo, Terminal};
pub use text::{Cleaned, clean_text};
pub use tmux::Tmux;
pub use typing::{Key, Paste, Pasted, Press, Pressed};
pub use user::{UserPane, UserPaneInfo};
pub use version::{KNOWN_BUGS, KnownBug, MINIMUM_VERSION, TmuxVersion, supported_version, version};
pub use watch::{ServerWatch, WatchEnd};

/// What a fallible call of this crate returns.
pub type Result<T, E = TmuxError> = std::result::Result<T, E>;
