//! A private PostgreSQL on the loopback interface.

use crate::child::{Child, ServerProgram, end_leftover, run};
use crate::error::{AtPath, Error};
use crate::place::{self, database_folder, give_to_server, kept, private_file, private_folder};
use crate::ports;
use crate::random::random_text;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

const READY: &str = "database system is ready to accept connections";
const LONGEST_START: Duration = Duration::from_secs(60);

/// Small memory, few processes. Parallel queries and compiled ones do not pay at this size.
const SETTINGS: [&str; 11] = [
    "unix_socket_directories=",
    "max_connections=100",
    // A statement over all stored days locks each partition and its indexes.
    "max_locks_per_transaction=512",
    "io_method=sync",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=256MB",
    "max_parallel_workers_per_gather=0",
    "jit=off",
    "huge_pages=off",
    "max_logical_replication_workers=0",
];
/// For tests only, several of which run at once: a crash of the machine may cost the data.
const FAST: [&str; 6] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_connections=500",
    "max_locks_per_transaction=128",
    CHEAP_PASSWORDS,
];
/// Makes a password as cheap to check as it can be. Thousands of connections of tests check a random one.
const CHEAP_PASSWORDS: &str = "scram_iterations=1";

pub(crate) struct Postgres {
    pub(crate) child: Child,
    /// A connection URL of the superuser, with its password.
    pub(crate) url: String,
    pub(crate) port: u16,
}

/// Starts the server of a data folder. Creates its database first if the folder is new.
pub(crate) fn start(
    binaries: &Path,
    data: &Path,
    port: Option<u16>,
    fast: bool,
    settings: &[String],
) -> Result<Postgres, Error> {
    if place::is_root() && !place::reachable(binaries) {
        let source = std::io::Error::other(
            "PostgreSQL's user cannot go there: set UNSLIDE_CACHE to a folder that it can reach",
        );
        return Err(Error::File { action: "use", path: binaries.to_path_buf(), source });
    }
    let password = kept(&data.join("postgres-password"), random_text)?;
    let folder = database_folder(data)?;
    if !folder.join("PG_VERSION").exists() {
        create(binaries, &folder, &password, fast)?;
    }
    let log = data.join("postgres.log");
    end_leftover(&log, &folder);
    let wanted = port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let listen = ports::address(wanted, &data.join("postgres-port"))?;
    let mut arguments: Vec<OsString> = vec!["-D".into(), folder.clone().into()];
    arguments.extend([
        "-h".into(),
        listen.ip().to_string().into(),
        "-p".into(),
        listen.port().to_string().into(),
    ]);
    let own = SETTINGS.iter().chain(fast.then_some(&FAST).into_iter().flatten()).copied();
    for setting in own.chain(settings.iter().map(String::as_str)) {
        arguments.extend(["-c".into(), setting.into()]);
    }
    let server = binaries.join("bin/postgres");
    let program = ServerProgram {
        what: "PostgreSQL",
        program: &server,
        arguments,
        folder: &folder,
        log: &log,
        ready: (READY, LONGEST_START),
        // A fast shutdown (clients are disconnected), then an immediate one.
        end: &[(Signal::SIGINT, 10), (Signal::SIGQUIT, 5)],
        // A quick end of the server and all its processes; the next start recovers from the log.
        orphaned: "QUIT",
        unprivileged: true,
    };
    let mut tries_left = 10;
    let child = loop {
        match Child::start(&program) {
            // Processes of a server that was killed take a moment to notice.
            Err(Error::Failed { tail, .. })
                if tries_left > 0 && tail.contains("pre-existing shared memory") =>
            {
                tries_left -= 1;
                std::thread::sleep(Duration::from_millis(300));
            }
            started => break started?,
        }
    };
    let url = format!("postgres://postgres:{password}@{listen}/postgres");
    Ok(Postgres { child, url, port: listen.port() })
}

/// Creates a new database next to its final place and renames it, so that an incomplete one is never used.
fn create(binaries: &Path, folder: &Path, password: &str, fast: bool) -> Result<(), Error> {
    let part = folder.with_extension("part");
    let password_file = folder.with_extension("password");
    for old in [&part, &folder.to_path_buf()] {
        if old.exists() {
            fs::remove_dir_all(old).at("remove", old)?;
        }
    }
    private_folder(&part)?;
    give_to_server(&part)?;
    private_file(&password_file, password)?;
    give_to_server(&password_file)?;
    let mut arguments: Vec<OsString> =
        vec!["-D".into(), part.clone().into(), "--pwfile".into(), password_file.clone().into()];
    let fixed = [
        "--username=postgres",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--no-sync",
        "--no-instructions",
    ];
    arguments.extend(fixed.map(OsString::from));
    if fast {
        arguments.extend(["-c".into(), CHEAP_PASSWORDS.into()]);
    }
    let made = run("making the database", true, &binaries.join("bin/initdb"), &arguments, &part);
    fs::remove_file(&password_file).at("remove", &password_file)?;
    made?;
    fs::rename(&part, folder).at("rename", &part)
}
