//! Where a server is reached: the tmux program and the socket. Chosen once by the caller and then
//! passed on; nothing here looks at a running server.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};

use crate::{Result, TmuxError};

/// The most bytes a socket path may have: below the limits of Linux (107) and macOS (103).
const LIMIT: usize = 100;
/// The socket's name in its directory.
const NAME: &str = "tmux";

/// The program and the socket of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The tmux program, absolute.
    pub tmux: PathBuf,
    /// The socket, absolute.
    pub socket: PathBuf,
}

/// Finds the tmux program in a list of directories written like `PATH`.
pub fn find_tmux(path: &OsStr) -> Result<PathBuf> {
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("tmux"))
        .find(|tmux| tmux.is_file() && access(tmux, AccessFlags::X_OK).is_ok())
        .ok_or_else(|| TmuxError::NoTmux { path: path.to_string_lossy().into_owned() })
}

/// Chooses the socket for a workspace: in the preferred directory if the path is short enough, else
/// in a private one under `/tmp` that is made from the user and the hash.
///
/// Makes nothing. A fallback directory that exists and is not private is refused.
pub fn socket_path(preferred_dir: &Path, uid: u32, hash: &str) -> Result<PathBuf> {
    let preferred = preferred_dir.join(NAME);
    if preferred.as_os_str().as_bytes().len() <= LIMIT && preferred.is_absolute() {
        return Ok(preferred);
    }
    fallback_path(Path::new("/tmp"), uid, hash)
}

fn fallback_path(base: &Path, uid: u32, hash: &str) -> Result<PathBuf> {
    let top = base.join(format!("team-agent-{uid}"));
    let dir = top.join(hash);
    let socket = dir.join(NAME);
    if socket.as_os_str().as_bytes().len() > LIMIT {
        return Err(TmuxError::SocketPathTooLong { path: socket, limit: LIMIT });
    }
    for dir in [&top, &dir] {
        if let Some(problem) = not_private(dir, uid)? {
            return Err(TmuxError::UnsafeDirectory { path: dir.clone(), why: problem });
        }
    }
    Ok(socket)
}

impl Endpoint {
    /// Makes the socket's directory, private to this user, and refuses one that is not.
    pub(crate) fn make_directory(&self) -> Result<()> {
        let uid = geteuid().as_raw();
        let Some(dir) = self.socket.parent() else { return Ok(()) };
        // Of a fallback path both levels are ours; of any other path only the last one is.
        let is_top =
            |it: &Path| it.file_name().is_some_and(|name| name == format!("team-agent-{uid}").as_str());
        if let Some(top) = dir.parent().filter(|top| is_top(top)) {
            make_private(top, uid)?;
        }
        make_private(dir, uid)
    }
}

fn make_private(dir: &Path, uid: u32) -> Result<()> {
    let io = |doing| move |source| TmuxError::Io { doing, path: dir.to_path_buf(), source };
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(io("create the directory above"))?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
        Err(err) => return Err(io("create directory")(err)),
    }
    match not_private(dir, uid)? {
        None => Ok(()),
        Some(why) => Err(TmuxError::UnsafeDirectory { path: dir.to_path_buf(), why }),
    }
}

/// Says what keeps an existing path from being a private directory of this user.
fn not_private(dir: &Path, uid: u32) -> Result<Option<String>> {
    let meta = match fs::symlink_metadata(dir) {
        Ok(meta) => meta,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(TmuxError::Io { doing: "look at", path: dir.to_path_buf(), source });
        }
    };
    let mode = meta.permissions().mode() & 0o777;
    Ok(if !meta.file_type().is_dir() {
        Some("it is not a directory".to_owned())
    } else if meta.uid() != uid {
        Some(format!("it belongs to user {}", meta.uid()))
    } else if mode != 0o700 {
        Some(format!("its mode is {mode:03o} instead of 700"))
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid() -> u32 {
        geteuid().as_raw()
    }

    #[test]
    fn a_short_directory_is_preferred_and_a_long_one_falls_back() {
        let short = Path::new("/run/user/1/team-agent/abc");
        assert_eq!(socket_path(short, 1, "f00").unwrap(), short.join("tmux"));
        let long = PathBuf::from(format!("/home/中文 dir/{}", "x".repeat(90)));
        let socket = socket_path(&long, 4_000_001, "f00").unwrap();
        assert_eq!(socket, Path::new("/tmp/team-agent-4000001/f00/tmux"));
        assert!(socket_path(&long, 1, &"h".repeat(90)).is_err());
    }

    #[test]
    fn a_fallback_directory_that_others_could_use_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let top = base.path().join(format!("team-agent-{}", uid()));
        let check = || fallback_path(base.path(), uid(), "f00").map_err(|err| err.to_string());
        assert!(check().is_ok());

        DirBuilder::new().mode(0o755).create(&top).unwrap();
        assert!(check().unwrap_err().contains("its mode is 755"), "{:?}", check());
        fs::set_permissions(&top, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(check().is_ok());

        std::os::unix::fs::symlink("/tmp", top.join("f00")).unwrap();
        assert!(check().unwrap_err().contains("not a directory"), "{:?}", check());
    }

    #[test]
    fn the_directory_is_made_private() {
        let base = tempfile::tempdir().unwrap();
        let endpoint = Endpoint {
            tmux: "/usr/bin/tmux".into(),
            socket: base.path().join(format!("team-agent-{}/f00/tmux", uid())),
        };
        endpoint.make_directory().unwrap();
        endpoint.make_directory().unwrap();
        for dir in endpoint.socket.ancestors().skip(1).take(2) {
            assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
        }
        fs::set_permissions(endpoint.socket.parent().unwrap(), fs::Permissions::from_mode(0o770)).unwrap();
        assert!(endpoint.make_directory().is_err());
    }
}
