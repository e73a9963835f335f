//! The `unslide` binary of this build, and its processes.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The binary that was built together with this test.
///
/// # Panics
/// Where it was not built: `cargo test --workspace` builds it.
#[must_use]
pub fn path() -> PathBuf {
    let mut folder = std::env::current_exe().expect("a test knows its own file");
    while folder.pop() {
        let candidate = folder.join("unslide");
        if candidate.is_file() {
            return candidate;
        }
    }
    panic!("the unslide binary is not built: run `cargo build -p unslide`, or `make test`");
}

/// A command of the binary that inherits none of this process's `UNSLIDE_…` variables.
#[must_use]
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(path());
    command.args(arguments);
    for (name, _) in std::env::vars() {
        if name.starts_with("UNSLIDE_") {
            command.env_remove(name);
        }
    }
    command
}

/// A running process of the binary; killed when dropped, so that a failed test leaves none behind.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts `command`, its output going to `log`.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start(name: &str, mut command: Command, log: &std::path::Path) -> Process {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let same = file.try_clone().expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(same).spawn().expect("starts");
        Process { child, name: name.to_owned() }
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process at once, as a lost machine would.
    ///
    /// # Panics
    /// Where the signal cannot be sent.
    pub fn kill(mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("ends");
    }

    /// Asks the process to end and waits for it.
    ///
    /// # Panics
    /// Where it has not ended after `limit`.
    pub fn terminate(mut self, limit: Duration) -> ExitStatus {
        let id = i32::try_from(self.child.id()).expect("a process id");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM)
            .expect("SIGTERM");
        let mut waited = Duration::ZERO;
        loop {
            if let Some(status) = self.child.try_wait().expect("can be asked") {
                return status;
            }
            assert!(waited < limit, "{} has not ended {limit:?} after SIGTERM", self.name);
            std::thread::sleep(Duration::from_millis(50));
            waited += Duration::from_millis(50);
        }
    }

    /// How the process ended, if it has.
    ///
    /// # Panics
    /// Where it cannot be asked.
    #[must_use]
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("can be asked")
    }

    /// The most bytes of memory that were resident at once.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// CPU time that the process has used, in user and kernel mode, to a hundredth of a second.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The second field is the command's name in parentheses; utime and stime are 14 and 15.
        let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
