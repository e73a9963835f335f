//! A server's process. It ends when our process ends, for any reason.

use crate::error::{AtPath, Error, tail};
use crate::fetch::missing;
use crate::locale::LOCALE;
use crate::place;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::{Condvar, Mutex};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A program to run, and how to run it.
pub(crate) struct ServerProgram<'a> {
    pub(crate) what: &'static str,
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<std::ffi::OsString>,
    pub(crate) folder: &'a Path,
    /// Its output; its process id is kept beside it.
    pub(crate) log: &'a Path,
    /// The line that it logs when it is ready, and how long that may take.
    pub(crate) ready: (&'static str, Duration),
    /// The signals that end it, each with the seconds that it then has.
    pub(crate) end: &'static [(Signal, u64)],
    /// The signal that the kernel sends when we are gone.
    pub(crate) orphaned: &'static str,
    /// Whether it must not be root.
    pub(crate) unprivileged: bool,
}

pub(crate) struct Child {
    what: &'static str,
    pid: Pid,
    log: PathBuf,
    end: &'static [(Signal, u64)],
    exited: Arc<(Mutex<Option<ExitStatus>>, Condvar)>,
}

impl Child {
    /// Starts a server and waits until it is ready. The log of the run before is kept as `….old`.
    pub(crate) fn start(program: &ServerProgram<'_>) -> Result<Child, Error> {
        let child = Child::spawn(program)?;
        let pid_file = pid_file(program.log);
        fs::write(&pid_file, child.id().to_string()).at("write", &pid_file)?;
        match child.wait_ready(program.ready) {
            Ok(()) => Ok(child),
            Err(error) => {
                child.kill();
                Err(error)
            }
        }
    }

    fn spawn(program: &ServerProgram<'_>) -> Result<Child, Error> {
        if program.log.exists() {
            let old = program.log.with_extension("log.old");
            fs::rename(program.log, &old).at("rename", program.log)?;
        }
        let out = File::create(program.log).at("create", program.log)?;
        let err = out.try_clone().at("write", program.log)?;
        let mut command = setpriv(program.unprivileged);
        command
            .arg("--pdeathsig")
            .arg(program.orphaned)
            .arg("--")
            .arg(program.program)
            .args(&program.arguments);
        command.current_dir(program.folder).stdin(Stdio::null()).stdout(out).stderr(err);
        // A terminal's Ctrl-C goes to the whole foreground group: the servers must outlive it, so
        // that what drains into them can drain.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let exited = Arc::new((Mutex::new(None), Condvar::new()));
        let seen = exited.clone();
        let (send, receive) = mpsc::channel();
        // The kernel's signal goes out when the *thread* that started the child ends, so this thread
        // stays until the child has ended.
        let keeper = move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => {
                    let _ = send.send(Err(error));
                    return;
                }
            };
            let _ = send.send(Ok(child.id()));
            if let Ok(status) = child.wait() {
                *seen.0.lock() = Some(status);
                seen.1.notify_all();
            }
        };
        std::thread::Builder::new()
            .name(format!("keep {}", program.what))
            .spawn(keeper)
            .map_err(Error::Thread)?;
        let id = receive
            .recv()
            .unwrap_or_else(|_| Err(std::io::Error::other("its thread is gone")))
            .map_err(|error| missing(&error, "setpriv", "util-linux", program.what))?;
        let pid = Pid::from_raw(i32::try_from(id).unwrap_or(i32::MAX));
        Ok(Child { what: program.what, pid, log: program.log.to_path_buf(), end: program.end, exited })
    }

    /// Waits until the log has a text.
    fn wait_ready(&self, ready: (&str, Duration)) -> Result<(), Error> {
        let (text, longest) = ready;
        const STEP: Duration = Duration::from_millis(40);
        let mut waited = Duration::ZERO;
        while !fs::read_to_string(&self.log).is_ok_and(|log| log.contains(text)) {
            if let Some(status) = self.exit_status() {
                let outcome = status.to_string();
                return Err(Error::Failed { what: self.what, outcome, tail: tail(&self.log) });
            }
            if waited >= longest {
                return Err(Error::NotReady { what: self.what, after: longest, tail: tail(&self.log) });
            }
            std::thread::sleep(STEP);
            waited += STEP;
        }
        Ok(())
    }

    pub(crate) fn id(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Returns how it ended, or `None` while it runs.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        *self.exited.0.lock()
    }

    /// Ends it cleanly. Kills it if it does not end in time.
    pub(crate) fn stop(&self) {
        self.signal(self.end);
        self.kill();
    }

    pub(crate) fn kill(&self) {
        self.signal(&[(Signal::SIGKILL, 10)]);
    }

    /// Sends each signal in turn, and waits up to its seconds for the end.
    fn signal(&self, steps: &[(Signal, u64)]) {
        for (signal, seconds) in steps.iter().copied() {
            if self.exit_status().is_some() {
                return;
            }
            // An error means that it has just ended.
            let _ = kill(self.pid, signal);
            let (exited, changed) = &*self.exited;
            changed.wait_while_for(
                &mut exited.lock(),
                |status| status.is_none(),
                Duration::from_secs(seconds),
            );
        }
    }
}

/// Returns `setpriv`, which becomes the program. It runs as another user if `unprivileged` is true and we are
/// root.
fn setpriv(unprivileged: bool) -> Command {
    let mut command = Command::new("setpriv");
    command.env(LOCALE.0, LOCALE.1);
    if unprivileged && place::is_root() {
        let id = place::SERVER_UID;
        command.arg(format!("--reuid={id}")).arg(format!("--regid={id}")).arg("--clear-groups");
    }
    command
}

/// Runs a short program to its end, as [`Child::start`] would run it.
pub(crate) fn run(
    what: &'static str,
    unprivileged: bool,
    program: &Path,
    arguments: &[std::ffi::OsString],
    folder: &Path,
) -> Result<(), Error> {
    let mut command = setpriv(unprivileged);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments).current_dir(folder);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| missing(&error, "setpriv", "util-linux", what))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(Error::Failed { what, outcome: output.status.to_string(), tail: text })
}

fn pid_file(log: &Path) -> PathBuf {
    log.with_extension("pid")
}

/// Ends the server of an earlier run with this log, and waits for its end. Process ids are used again: it has to
/// be a process in the server's folder.
pub(crate) fn end_leftover(log: &Path, folder: &Path) {
    let kept = fs::read_to_string(pid_file(log)).ok();
    let Some(pid) = kept.and_then(|text| text.trim().parse::<i32>().ok()) else { return };
    let process = PathBuf::from(format!("/proc/{pid}/cwd"));
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        for step in 0..50 {
            if pid <= 1 || !fs::read_link(&process).is_ok_and(|cwd| cwd == folder) {
                return;
            }
            if step == 0 {
                let _ = kill(Pid::from_raw(pid), signal);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
