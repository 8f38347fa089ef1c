//! Everything that is on disk before a seat's process starts: seat file, environment, the provider's own files.
//!
//! Knows the provider seam. Must not know tmux or what the coordinator plans.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use sha2::Digest as _;
use team_model::{AgentName, Channel, ReadyFact, Seat, SpawnId, SpawnMode, Team, TeamKey};
use team_provider::{
    Auth, FolderTrust, Launch, Program, Provider, RecordKind, SeatContext, SeatPlaces, Start,
};

use crate::error::EngineError;
use crate::grants::Grants;
use crate::guardian::self_exe;
use crate::process::{self, DEFAULT_PATH};
use crate::render;
use crate::seat_file::{SEAT_VARIABLE, SeatFile};
use crate::store::Store;
use crate::workspace::{Workspace, check_private, make_dir, short_socket, write, write_bytes};

/// A spawn that is ready to be announced and then started.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The team.
    pub(crate) team: TeamKey,
    /// The seat.
    pub(crate) agent: AgentName,
    /// How its session begins.
    pub(crate) mode: SpawnMode,
    /// What the provider wants.
    pub(crate) launch: Launch,
    /// The conversation's id.
    pub(crate) native: Option<String>,
    /// Where it runs.
    pub(crate) cwd: PathBuf,
    /// Its seat file.
    pub(crate) seat_file: PathBuf,
    /// Its private directory.
    pub(crate) seat_dir: PathBuf,
    /// Its whole environment.
    env: BTreeMap<String, String>,
}

/// The person's environment as it was captured for a team.
pub(crate) fn captured_env(workspace: &Workspace, team: &TeamKey) -> BTreeMap<String, String> {
    std::fs::read_to_string(env_path(workspace, team))
        .ok()
        .and_then(|it| serde_json::from_str(&it).ok())
        .unwrap_or_default()
}

fn env_path(workspace: &Workspace, team: &TeamKey) -> PathBuf {
    workspace.state_dir.join("env").join(format!("{team}.json"))
}

/// Captures the environment of this process for the workers of a team.
pub(crate) fn capture_env(workspace: &Workspace, team: &TeamKey) -> Result<(), EngineError> {
    let all: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    let mut env = team_provider::clean_env(&all);
    if let Some(home) = process::home_dir() {
        env.entry("HOME".to_owned()).or_insert_with(|| home.to_string_lossy().into_owned());
    }
    env.entry("PATH".to_owned()).or_insert_with(|| DEFAULT_PATH.to_owned());
    let text = serde_json::to_string(&env).unwrap_or_default();
    Ok(write(&env_path(workspace, team), &text, 0o600)?)
}

/// Removes the environments that were written for the processes of a seat and not taken.
pub(crate) fn forget_env(seat_dir: &Path) {
    let entries = std::fs::read_dir(seat_dir).into_iter().flatten().filter_map(Result::ok);
    for path in entries.map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "env")) {
        let _ = std::fs::remove_file(path);
    }
}

/// Finds a program on a PATH, as an absolute path.
pub(crate) fn find_program(name: &str, path: &str) -> Option<PathBuf> {
    let runnable = is_runnable;
    if name.contains('/') {
        return std::fs::canonicalize(name).ok().filter(runnable);
    }
    std::env::split_paths(OsStr::new(path))
        .filter(|it| it.is_absolute())
        .map(|it| it.join(name))
        .find(runnable)
}

fn is_runnable(path: &PathBuf) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Finds the program of a provider.
pub(crate) fn program_of(
    provider: &dyn Provider,
    env: &BTreeMap<String, String>,
) -> Result<PathBuf, EngineError> {
    match provider.program() {
        Program::Own(_) => Ok(self_exe()),
        Program::Named(name) => {
            let path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
            let found = find_program(name, path)
                .ok_or_else(|| EngineError::NoProgram { program: name.to_owned() })?;
            // A link leads to where the program's other files are.
            let behind = std::fs::canonicalize(&found).ok();
            let real = std::iter::once(&found)
                .chain(&behind)
                .flat_map(|it| provider.real_programs(it))
                .find(is_runnable);
            Ok(real.unwrap_or(found))
        }
    }
}

/// Works out a spawn; writes nothing but the seat's directory.
pub(crate) fn prepare(
    workspace: &Workspace,
    store: &Store,
    (key, team): (&TeamKey, &Team),
    (agent, seat): (&AgentName, &Seat),
    mode: SpawnMode,
) -> Result<Prepared, EngineError> {
    let provider = team_provider::provider(&seat.spec.provider)
        .ok_or_else(|| EngineError::NoProgram { program: seat.spec.provider.clone() })?;
    crate::wish::check(workspace, key, &team.dir, agent, &seat.spec)?;
    let env = captured_env(workspace, key);
    let program = program_of(provider, &env)?;
    let own = self_exe();
    let seat_dir = workspace.seat_dir(key.as_str(), agent.as_str());
    make_dir(&seat_dir, 0o700)?;
    let token = uuid::Uuid::new_v4().simple().to_string();
    let seat_file = seat_dir.join(format!("{}.json", &token[..16]));
    let cwd = match &seat.spec.working_directory {
        Some(relative) => workspace.root.join(relative),
        None => workspace.root.clone(),
    };
    let cwd = std::fs::canonicalize(&cwd).map_err(|source| EngineError::Io {
        doing: "enter",
        path: cwd.clone(),
        source,
    })?;
    let instructions = store
        .line(seat.added)?
        .and_then(|line| match line.event.0 {
            team_model::Event::AgentAdded { spec, .. } => Some(spec.instructions),
            _ => None,
        })
        .map(|it| store.text_of(&it))
        .transpose()?
        .unwrap_or_default();
    let tools = provider.tool_names();
    let preamble = render::start_text(team, agent, seat, &instructions, &tools);
    let profile = match (&seat.spec.profile, team_spec::AuthMode::parse(&seat.spec.auth_mode)) {
        (Some(name), Some(mode)) => {
            let dir = Path::new(&team.dir).join(team_spec::PROFILES_DIR);
            let profile = team_spec::read_profile(&dir, name, mode)?;
            let known = crate::ops::known();
            let names =
                known.providers.get(&seat.spec.provider).map(|it| it.key_names.clone()).unwrap_or_default();
            profile.environment(&names)
        }
        _ => BTreeMap::new(),
    };
    let home = env.get("HOME").map(PathBuf::from).or_else(process::home_dir).unwrap_or_else(|| "/".into());
    let trust = trust_of(workspace, provider, &env, &home, &cwd);
    let known = seat.session.as_ref().and_then(|it| it.native.clone());
    let native = match (mode, known) {
        (SpawnMode::Resume, Some(known)) => known,
        // A conversation that never had a turn can begin again under its id, if the program has written nothing of it.
        (_, Some(known))
            if seat.session.as_ref().is_some_and(|it| !it.used)
                && transcript_before(provider, &seat_dir, seat, &known).is_none() =>
        {
            known
        }
        _ => uuid::Uuid::new_v4().to_string(),
    };
    // In another folder its id alone would not be found.
    let transcript = transcript_before(provider, &seat_dir, seat, &native)
        .and_then(|(folder, path)| (folder != cwd).then_some(path));
    let start = match mode {
        SpawnMode::Resume => Start::Resume { native_id: &native, transcript: transcript.as_deref() },
        SpawnMode::Fresh | SpawnMode::Fork => Start::Fresh { native_id: &native },
    };
    let socket = seat_socket(workspace, key, agent, &seat_dir)?;
    let port = free_port();
    let secret = uuid::Uuid::new_v4().simple().to_string();
    let git_root = cwd.ancestors().find(|it| it.join(".git").exists()).map(Path::to_owned);
    let own_settings: Vec<Option<String>> =
        provider.settings_files(&env, &home).iter().map(|it| std::fs::read_to_string(it).ok()).collect();
    let context = SeatContext {
        agent: agent.as_str(),
        team: key.as_str(),
        cwd: &cwd,
        git_root: git_root.as_deref(),
        program: &program,
        self_exe: &own,
        seat_file: &seat_file,
        seat_dir: &seat_dir,
        socket: &socket,
        port,
        secret: &secret,
        preamble: &preamble,
        model: seat.spec.model.as_deref(),
        effort: seat.spec.effort.as_deref(),
        tools: &seat.spec.tools,
        auth: Auth::parse(&seat.spec.auth_mode).unwrap_or(Auth::Subscription),
        profile: &profile,
        env: &env,
        home: &home,
        own_settings: &own_settings,
        start,
        trust,
        skip_permissions: false,
        version: None,
    };
    let launch = provider.launch(&context)?;
    let mut env = env;
    for name in &launch.env_remove {
        env.remove(name);
    }
    env.extend(launch.env_set.clone());
    env.extend(launch.secret_env.clone());
    env.insert(SEAT_VARIABLE.to_owned(), seat_file.to_string_lossy().into_owned());
    env.insert("TEAM_AGENT_EXE".to_owned(), own.to_string_lossy().into_owned());
    // The worker's shell finds this very program under its name.
    if let Some(dir) = link_dir(workspace, &own) {
        let path = env.get("PATH").cloned().unwrap_or_else(|| DEFAULT_PATH.to_owned());
        env.insert("PATH".to_owned(), format!("{}:{path}", dir.display()));
    }
    let native = launch.native_id.clone();
    Ok(Prepared {
        team: key.clone(),
        agent: agent.clone(),
        mode,
        launch,
        native,
        cwd,
        seat_file,
        seat_dir,
        env,
    })
}

/// The transcript of the seat's conversation, and the folder it was held in, as its last start left them.
fn transcript_before(
    provider: &dyn Provider,
    seat_dir: &Path,
    seat: &Seat,
    native: &str,
) -> Option<(PathBuf, PathBuf)> {
    let path = seat_dir.join(&seat.spawn.as_ref()?.seat);
    let before = SeatFile::read(&path).ok()?;
    let told = SeatFile::live(&path).filter(|it| it.native == native).and_then(|it| it.transcript);
    let places = SeatPlaces {
        config_home: &before.config_home,
        cwd: &before.cwd,
        native_id: Some(native),
        transcript: told.as_deref(),
        provider_pid: None,
    };
    let watched = provider.files_to_watch(&places);
    let transcript = watched.into_iter().find(|it| it.kind == RecordKind::Transcript && it.path.exists())?;
    Some((before.cwd, transcript.path))
}

fn words(arguments: &[std::ffi::OsString]) -> Vec<String> {
    arguments.iter().map(|it| it.to_string_lossy().into_owned()).collect()
}

/// Where a server of this seat may listen.
fn seat_socket(
    workspace: &Workspace,
    team: &TeamKey,
    agent: &AgentName,
    seat_dir: &Path,
) -> Result<PathBuf, EngineError> {
    let socket = short_socket(seat_dir, &workspace.id, "server");
    if socket.starts_with(seat_dir) {
        return Ok(socket);
    }
    let dir = socket.parent().unwrap_or(seat_dir);
    make_dir(dir, 0o700)?;
    check_private(dir)?;
    let digest = sha2::Sha256::digest(format!("{team}/{agent}"));
    let short = digest.iter().take(8).fold(0_u64, |short, byte| (short << 8) | u64::from(*byte));
    Ok(dir.join(format!("{short:016x}")))
}

/// A port of the loopback interface on which nobody listens now; 0 if there is none.
fn free_port() -> u16 {
    let bound = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    bound.and_then(|it| it.local_addr()).map_or(0, |it| it.port())
}

/// A directory that holds a link to this program, so that workers find it.
fn link_dir(workspace: &Workspace, own: &Path) -> Option<PathBuf> {
    let dir = workspace.state_dir.join("bin");
    make_dir(&dir, 0o700).ok()?;
    let link = dir.join("team-agent");
    if std::fs::read_link(&link).ok().as_deref() != Some(own) {
        let new = dir.join(format!(".new-{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        std::os::unix::fs::symlink(own, &new).ok()?;
        std::fs::rename(&new, &link).ok()?;
    }
    Some(dir)
}

/// Makes a link where its target is there, in place of one that was made before.
fn make_link(link: &team_provider::FileLink) -> Result<(), EngineError> {
    if let Some(dir) = link.path.parent() {
        make_dir(dir, 0o700)?;
    }
    let linked = std::fs::read_link(&link.path).ok();
    if linked.as_ref() == Some(&link.target) || (linked.is_none() && link.path.exists()) {
        return Ok(());
    }
    let failed = |source| EngineError::Io { doing: "link", path: link.path.clone(), source };
    if linked.is_some() {
        std::fs::remove_file(&link.path).map_err(failed)?;
    }
    if link.target.exists() {
        std::os::unix::fs::symlink(&link.target, &link.path).map_err(failed)
    } else {
        Ok(())
    }
}

/// A folder counts as trusted only if the person's own configuration of that program says so, or they granted it to us.
fn trust_of(
    workspace: &Workspace,
    provider: &dyn Provider,
    env: &BTreeMap<String, String>,
    home: &Path,
    cwd: &Path,
) -> FolderTrust {
    let trusted = provider
        .trust_file(env, home)
        .and_then(|it| std::fs::read_to_string(it).ok())
        .is_some_and(|text| provider.trusts(&text, cwd));
    if trusted {
        FolderTrust::OwnConfig
    } else if Grants::read(workspace).trusts(workspace, cwd) {
        FolderTrust::Granted
    } else {
        FolderTrust::No
    }
}

impl Prepared {
    /// What a person should know of this start.
    pub(crate) fn notes(&self) -> &[String] {
        &self.launch.notes
    }

    /// What must be seen before the seat is ready.
    pub(crate) fn needs(&self) -> Vec<ReadyFact> {
        self.launch
            .ready
            .iter()
            .map(|it| match it {
                team_provider::ReadyFact::ToolsListed => ReadyFact::ToolsListed,
                team_provider::ReadyFact::SessionStarted => ReadyFact::SessionStarted,
                team_provider::ReadyFact::StatusIdle => ReadyFact::StatusIdle,
            })
            .collect()
    }

    /// How messages reach it.
    pub(crate) fn channel(&self) -> Channel {
        match &self.launch.channel {
            team_provider::Channel::Bell { .. } => Channel::Bell,
            team_provider::Channel::Keys => Channel::Keys,
        }
    }

    /// Writes everything that the process will read.
    pub(crate) fn write(
        &self,
        workspace: &Workspace,
        spawn: SpawnId,
        provider: &str,
    ) -> Result<(), EngineError> {
        for file in &self.launch.files {
            if let Some(dir) = file.path.parent() {
                make_dir(dir, 0o700)?;
            }
            if !(file.keep_existing && file.path.exists()) {
                write_bytes(&file.path, file.contents.as_bytes(), file.mode)
                    .map_err(|source| EngineError::Io { doing: "write", path: file.path.clone(), source })?;
            }
        }
        crate::answers::make_place(&self.seat_dir)?;
        for link in &self.launch.links {
            make_link(link)?;
        }
        let (inbox, bell) = match &self.launch.channel {
            team_provider::Channel::Bell { bell, inbox } => {
                make_dir(&inbox.join("taken"), 0o700)?;
                if !bell.exists() {
                    write(bell, "", 0o600)?;
                }
                (Some(inbox.clone()), Some(bell.clone()))
            }
            team_provider::Channel::Keys => (None, None),
        };
        let env_file = self.seat_file.with_extension("env");
        write(&env_file, &serde_json::to_string(&self.env).unwrap_or_default(), 0o600)?;
        let seat = SeatFile {
            workspace: workspace.root.clone(),
            state_dir: workspace.state_dir.clone(),
            workspace_id: workspace.id.clone(),
            team: self.team.clone(),
            agent: self.agent.clone(),
            spawn,
            provider: provider.to_owned(),
            native: self.native.clone(),
            start_ids: self.launch.start_ids.clone(),
            resumed: self.mode == SpawnMode::Resume,
            argv: words(&self.launch.argv),
            server: words(self.launch.server.as_deref().unwrap_or_default()),
            link: self.launch.link.clone(),
            cwd: self.cwd.clone(),
            env_file,
            seat_dir: self.seat_dir.clone(),
            config_home: self.launch.config_home.clone(),
            inbox,
            bell,
        };
        Ok(seat.write(&self.seat_file)?)
    }
}
