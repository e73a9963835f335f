//! `unslide-servers`: the embedded servers alone, for tests and benchmarks.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks on its output")]

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use std::fmt::Write;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use unslide_embedded::{ClickHouse, Options, Servers, private_file};

const USAGE: &str = "\
usage: unslide-servers up DIR [--fast] [--owner PID] [--kafka-port N] [--postgres-port N]
       unslide-servers down DIR [--delete]
       unslide-servers run DIR [the options of up]

up    starts Apache Kafka, PostgreSQL and, if `scripts/setup test` has installed it, the engine of
      ClickHouse on DIR in the background and prints where they are, as lines for a shell; on running
      ones it only prints. --fast: no waiting for the disk. --owner: stop when that process has ended.
down  stops them. --delete: and deletes DIR.
run   the same in the foreground, until SIGTERM or SIGINT.";

type Failure = Box<dyn std::error::Error>;

struct Arguments {
    command: String,
    folder: PathBuf,
    options: Options,
    owner: Option<i32>,
    delete: bool,
    /// The options as they were given, for the background process.
    given: Vec<String>,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    let result = match arguments.command.as_str() {
        "up" => up(&arguments),
        "down" => down(&arguments),
        _ => run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("unslide-servers: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let command = words.next().filter(|word| ["up", "down", "run"].contains(&word.as_str()))?;
    let folder = PathBuf::from(words.next()?);
    let given: Vec<String> = words.collect();
    let options = Options { data: folder.clone(), ..Options::default() };
    let mut arguments =
        Arguments { command, folder, options, owner: None, delete: false, given: given.clone() };
    let mut words = given.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--fast" => arguments.options.fast = true,
            "--delete" => arguments.delete = true,
            "--owner" => arguments.owner = Some(words.next()?.parse().ok()?),
            "--postgres-port" => arguments.options.postgres_port = Some(words.next()?.parse().ok()?),
            "--kafka-port" => {
                let port = words.next()?.parse().ok()?;
                arguments.options.kafka_listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            }
            _ => return None,
        }
    }
    Some(arguments)
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    // Blocked before any thread starts, so that all inherit it and one waits for them.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    let folder = &arguments.folder;
    let servers = Servers::start(&arguments.options, &|line| eprintln!("{line}"))?;
    let clickhouse = ClickHouse::start(folder)?;
    fs::write(pid_file(folder), std::process::id().to_string())?;
    let mut exports = format!(
        "export UNSLIDE_TEST_KAFKA={}\nexport UNSLIDE_TEST_POSTGRES={}\n",
        servers.kafka_bootstrap(),
        servers.postgres_url()
    );
    if let Some(clickhouse) = &clickhouse {
        writeln!(exports, "export UNSLIDE_TEST_CLICKHOUSE={}", clickhouse.url())?;
    }
    let ready = ready_file(folder);
    let part = ready.with_extension("part");
    // It holds the password.
    private_file(&part, &exports)?;
    fs::rename(&part, &ready)?;
    print!("{exports}");
    let (send, stop) = mpsc::channel();
    std::thread::spawn(move || send.send(signals.wait()));
    let ended = loop {
        if stop.recv_timeout(Duration::from_millis(500)).is_ok() {
            break None;
        }
        if arguments.owner.is_some_and(|owner| kill(Pid::from_raw(owner), None).is_err()) {
            break None;
        }
        if let Some(failed) = servers.failed().or_else(|| clickhouse.as_ref()?.failed()) {
            break Some(failed);
        }
    };
    let _ = fs::remove_file(&ready);
    drop(clickhouse);
    servers.stop();
    let _ = fs::remove_file(pid_file(folder));
    ended.map_or(Ok(()), |failed| Err(failed.into()))
}

fn up(arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder)?;
    if in_use(folder)? {
        eprintln!("already running");
        return wait_ready(folder, None);
    }
    let _ = fs::remove_file(ready_file(folder));
    let log = File::create(log_file(folder))?;
    let mut child = Command::new("setsid")
        .arg(std::env::current_exe()?)
        .arg("run")
        .arg(folder)
        .args(&arguments.given)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    wait_ready(folder, Some(&mut child))
}

/// Prints the output of the background process, until it is ready.
fn wait_ready(folder: &Path, mut child: Option<&mut std::process::Child>) -> Result<(), Failure> {
    let mut shown = 0;
    for _ in 0..6000 {
        let said = fs::read_to_string(log_file(folder)).unwrap_or_default();
        if child.is_some() {
            eprint!("{}", said.get(shown..).unwrap_or_default());
            shown = said.len();
        }
        if let Ok(exports) = fs::read_to_string(ready_file(folder)) {
            print!("{exports}");
            return Ok(());
        }
        match &mut child {
            Some(child) => {
                if let Some(status) = child.try_wait()? {
                    return Err(format!("the servers did not start ({status})").into());
                }
            }
            None if !in_use(folder)? => return Err("the servers have just ended: try again".into()),
            None => {}
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("the servers were not ready in time".into())
}

fn down(arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    if folder.is_dir() && in_use(folder)? {
        let pid: i32 = fs::read_to_string(pid_file(folder))?.trim().parse()?;
        kill(Pid::from_raw(pid), Signal::SIGTERM)?;
        let mut waited = 0;
        while in_use(folder)? {
            waited += 1;
            if waited > 400 {
                return Err("the servers do not stop".into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    if arguments.delete {
        Servers::delete(folder)?;
    }
    Ok(())
}

/// Returns true if a process holds the data folder's lock.
fn in_use(folder: &Path) -> Result<bool, Failure> {
    let lock = File::options().create(true).write(true).truncate(false).open(folder.join("servers.lock"))?;
    Ok(lock.try_lock().is_err())
}

fn ready_file(folder: &Path) -> PathBuf {
    folder.join("servers.env")
}

fn pid_file(folder: &Path) -> PathBuf {
    folder.join("servers.pid")
}

fn log_file(folder: &Path) -> PathBuf {
    folder.join("servers.log")
}
