//! The `unslide` binary of this build, and its processes.

use crate::EVENTUAL_TIMEOUT;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

/// The binary that was built together with this test.
///
/// # Panics
/// If it was not built: `cargo test --workspace` builds it.
#[must_use]
pub fn find_binary() -> PathBuf {
    let mut folder = std::env::current_exe().expect("a test knows its own file");
    while folder.pop() {
        let candidate = folder.join("unslide");
        if candidate.is_file() {
            return candidate;
        }
    }
    panic!("the unslide binary is not built: run `cargo build -p unslide`, or `make test`");
}

/// A command of the binary that inherits none of this process's `UNSLIDE_…` and `OTEL_…` variables, and that ends
/// with this process.
#[must_use]
pub fn build_command(arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(find_binary()).args(arguments);
    without_variables(command)
}

/// As [`build_command`], with a file system of its own mounted on `folder` that has room for `bytes`. Only
/// the process itself sees it; another finds it under `/proc/<its id>/root`.
#[must_use]
pub fn command_with_disk(arguments: &[&str], folder: &Path, bytes: u64) -> Command {
    let mut command = Command::new("unshare");
    // Whoever is not root becomes root of a namespace, to be allowed to mount.
    command.arg(if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" });
    let script = r#"mount -t tmpfs -o "size=$1" tmpfs "$2" && shift 2 && exec "$@""#;
    command.args(["--", "sh", "-c", script, "sh"]).arg(bytes.to_string()).arg(folder);
    command.args(["setpriv", "--pdeathsig", "KILL", "--"]).arg(find_binary()).args(arguments);
    without_variables(command)
}

/// Whether [`command_with_disk`] is allowed here.
#[must_use]
pub fn can_mount() -> bool {
    let flag = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
    let tried = Command::new("unshare")
        .args([flag, "--", "sh", "-c", "mount -t tmpfs -o size=65536 tmpfs /mnt"])
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

fn without_variables(mut command: Command) -> Command {
    for (name, _) in std::env::vars() {
        if name.starts_with("UNSLIDE_") || name.starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
    // The profiles of the person who runs the tests.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// Starts a command on a thread that never ends: the kernel's signal for orphans goes out when the
/// thread that started them is gone, not the process.
fn spawn_child(command: Command) -> Child {
    type Order = (Command, mpsc::Sender<std::io::Result<Child>>);
    static SPAWNER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (send, orders) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in orders {
                // Whoever does not wait for the answer any more has no use for it.
                let _ = answer.send(command.spawn());
            }
        });
        send
    });
    let (answer, child) = mpsc::channel();
    SPAWNER.send((command, answer)).expect("the spawner runs");
    child.recv().expect("the spawner answers").expect("starts")
}

/// Returns true if `address` is the process's end of a TCP connection.
#[must_use]
pub fn connects_from(process: u32, address: SocketAddr) -> bool {
    let SocketAddr::V4(address) = address else { return false };
    let own = format!("{:08X}:{:04X}", u32::from_le_bytes(address.ip().octets()), address.port());
    let folder = PathBuf::from(format!("/proc/{process}"));
    let sockets = std::fs::read_to_string(folder.join("net/tcp")).unwrap_or_default();
    // Behind a line's number is its local address; its inode is the tenth field.
    let line = sockets.lines().find(|line| line.split_whitespace().nth(1) == Some(&own));
    let Some(inode) = line.and_then(|line| line.split_whitespace().nth(9)) else { return false };
    let socket = PathBuf::from(format!("socket:[{inode}]"));
    let mut files = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    files.any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == socket))
}

/// A running process of the binary; killed when dropped, so that a failed test leaves none behind.
pub struct Process {
    child: Child,
    name: String,
}

/// Number, CPU time and wake-ups of the threads with one name.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadUse {
    /// The number of them that run.
    pub count: usize,
    /// Their CPU time.
    pub cpu: Duration,
    /// How often they went to sleep and were woken.
    pub wakes: u64,
}

impl Process {
    /// Starts `command`, its output going to `log`.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(name: &str, mut command: Command, log: &Path) -> Process {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let same = file.try_clone().expect("a log file");
        command.stdin(Stdio::null()).stdout(file).stderr(same);
        Process { child: spawn_child(command), name: name.to_owned() }
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the process a signal, unless it has ended.
    ///
    /// # Panics
    /// If it cannot be sent.
    pub fn send_signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        match kill(Pid::from_raw(id), signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => panic!("{}: {signal}: {error}", self.name),
        }
    }

    /// Ends the process at once, as a lost machine would.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn kill(mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("ends");
    }

    /// Asks the process to end and waits for it. Returns `None` if it had to be killed after `limit`.
    ///
    /// # Panics
    /// If it cannot be asked.
    pub fn end_within(mut self, limit: Duration) -> Option<ExitStatus> {
        if self.exit_status().is_none() {
            self.send_signal(Signal::SIGTERM);
        }
        let mut waited = Duration::ZERO;
        while waited < limit {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(50));
            waited += Duration::from_millis(50);
        }
        None
    }

    /// Asks the process to end and waits for it.
    ///
    /// # Panics
    /// If it has not ended after [`EVENTUAL_TIMEOUT`].
    pub fn terminate(self) -> ExitStatus {
        let name = self.name.clone();
        self.end_within(EVENTUAL_TIMEOUT)
            .unwrap_or_else(|| panic!("{name} has not ended {EVENTUAL_TIMEOUT:?} after SIGTERM"))
    }

    /// How the process ended, if it has.
    ///
    /// # Panics
    /// If it cannot be asked.
    #[must_use]
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("can be asked")
    }

    /// Returns true if `address` is this process's end of a TCP connection.
    #[must_use]
    pub fn connects_from(&self, address: SocketAddr) -> bool {
        connects_from(self.child.id(), address)
    }

    /// The ids of its threads of this name, which the kernel cuts to fifteen bytes.
    #[must_use]
    pub fn list_threads(&self, name: &str) -> Vec<i32> {
        let mut found = Vec::new();
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        for task in tasks.into_iter().flatten().flatten() {
            let called = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let id = task.file_name().to_str().and_then(|id| id.parse::<i32>().ok());
            if called.trim_end() == name {
                found.extend(id);
            }
        }
        found
    }

    /// The most bytes of memory that were resident at once.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.read_memory("VmHWM:")
    }

    /// The bytes of memory that are resident.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.read_memory("VmRSS:")
    }

    fn read_memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// Returns the use of its threads so far, by their names, which the kernel cuts to fifteen bytes.
    #[must_use]
    pub fn use_by_thread(&self) -> BTreeMap<String, ThreadUse> {
        let mut found: BTreeMap<String, ThreadUse> = BTreeMap::new();
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        for task in tasks.into_iter().flatten().flatten() {
            let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
            // The first field is the time on a CPU in nanoseconds.
            let nanos = read("schedstat").split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            let status = read("status");
            let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            let threads = found.entry(read("comm").trim_end().to_owned()).or_default();
            threads.count += 1;
            threads.cpu += Duration::from_nanos(nanos);
            threads.wakes += waits.and_then(|waits| waits.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        found
    }

    /// CPU time that the process has used, in user and kernel mode, to a hundredth of a second.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let [user, kernel] = self.cpu_by_mode();
        user + kernel
    }

    /// CPU time that the process has used in user mode, and in kernel mode, to a hundredth of a second.
    #[must_use]
    pub fn cpu_by_mode(&self) -> [Duration; 2] {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The second field is the command's name in parentheses; utime and stime are 14 and 15.
        let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let mut ticks = fields.split(' ').skip(11).map(|field| field.parse::<u64>().unwrap_or(0));
        [(); 2].map(|()| Duration::from_millis(ticks.next().unwrap_or(0) * 10))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
