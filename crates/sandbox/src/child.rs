//! This program, started again as a child process, for input that may exhaust or crash its reader.
//!
//! A child has no environment, no file descriptors of its parent and no standard input. It applies limits of
//! the operating system to itself before it reads anything.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::sync::{oneshot, watch};
use unslide_model::{PROCESS_USE, ResourceUse, TenantId};

/// The maximum number of open file descriptors in a child.
const MAX_FILES: u64 = 64;
/// Seconds of CPU time between the soft limit's signal, which shows the cause, and the one that cannot be caught.
const CPU_GRACE_SECONDS: u64 = 5;
/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;
/// The maximum size kept of a child's standard error, in bytes.
const MAX_STDERR_BYTES: u64 = 4096;

/// The program and arguments of child processes.
#[derive(Clone, Debug)]
pub struct ChildProgram {
    path: PathBuf,
    arguments: Vec<OsString>,
    /// True if each child gets a separate process group.
    own_group: bool,
    /// The tenant that uses the CPU time of children.
    tenant: Option<TenantId>,
}

impl ChildProgram {
    /// Returns the current executable with these arguments.
    ///
    /// # Errors
    /// Returns an error if the executable cannot be found.
    pub fn from_current_exe(arguments: &[&str]) -> io::Result<ChildProgram> {
        // This link refers to the same file even after an update replaces it.
        let own = Path::new("/proc/self/exe");
        let path = if own.exists() { own.to_owned() } else { std::env::current_exe()? };
        let arguments = arguments.iter().map(OsString::from).collect();
        Ok(ChildProgram { path, arguments, own_group: true, tenant: None })
    }

    /// Puts children into this process's group, so that Ctrl-C on the terminal ends them, too. For a command that
    /// leaves signals to the operating system.
    #[must_use]
    pub fn in_this_group(self) -> ChildProgram {
        ChildProgram { own_group: false, ..self }
    }

    /// Adds the CPU time of children to what a tenant used, if one is known.
    #[must_use]
    pub fn for_tenant(self, tenant: Option<TenantId>) -> ChildProgram {
        ChildProgram { tenant, ..self }
    }

    /// Returns a command that starts the program without this process's environment.
    #[must_use]
    pub fn build_command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).env_clear();
        if self.own_group {
            // The parent reacts to a signal to the terminal's group.
            command.process_group(0);
        }
        command
    }

    /// Runs the program in a folder until it ends. Stops the process (SIGSTOP) while `stop` is true, and continues
    /// it when `stop` is false or its sender is dropped. Dropping the future kills the process. `held` is dropped
    /// after the process has ended.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started or waited for.
    pub async fn run(
        &self,
        folder: &Path,
        stop: watch::Receiver<bool>,
        held: impl Send + 'static,
    ) -> io::Result<Ended> {
        let mut command = tokio::process::Command::from(self.build_command());
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let process = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let (_waiting, abandoned) = oneshot::channel::<()>();
        let tenant = self.tenant.clone();
        let running = tokio::spawn(async move {
            let ended = tokio::select! {
                ended = wait_for_end(&mut child, tenant.as_ref()) => ended,
                _ = abandoned => child.kill().await.and(Err(io::ErrorKind::Interrupted.into())),
                // The process is not reaped before this future is dropped, so its id cannot be reused.
                never = stop_and_continue(process, stop) => match never {},
            };
            drop(held);
            ended
        });
        running.await.map_err(io::Error::other)?
    }
}

/// Stops a process while `stop` is true. Does not return.
async fn stop_and_continue(process: Option<Pid>, mut stop: watch::Receiver<bool>) -> Infallible {
    let mut stopped = false;
    loop {
        let (wanted, sender_is_gone) = match stop.has_changed() {
            Ok(_) => (*stop.borrow_and_update(), false),
            Err(_) => (false, true),
        };
        if let Some(process) = process.filter(|_| wanted != stopped) {
            let signal = if wanted { Signal::SIGSTOP } else { Signal::SIGCONT };
            if let Err(error) = kill(process, signal) {
                tracing::warn!(error = %error, signal = %signal, "a child process got no signal");
            }
            stopped = wanted;
        }
        match sender_is_gone {
            true => std::future::pending().await,
            // The start of the loop handles an error.
            false => drop(stop.changed().await),
        }
    }
}

/// Makes the operating system kill this process when its parent ends. A stopped process would otherwise remain.
///
/// # Errors
/// Returns an error if the operating system refuses.
pub fn end_with_parent() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

async fn wait_for_end(child: &mut Child, tenant: Option<&TenantId>) -> io::Result<Ended> {
    let mut stderr = Vec::new();
    if let Some(pipe) = child.stderr.take() {
        pipe.take(MAX_STDERR_BYTES).read_to_end(&mut stderr).await?;
    }
    if let Some(tenant) = tenant {
        let cpu_micros = child.id().and_then(read_cpu_micros).unwrap_or(0);
        PROCESS_USE.add(Some(tenant), ResourceUse { cpu_micros, ..ResourceUse::default() });
    }
    Ok(Ended::from_status(child.wait().await?, &String::from_utf8_lossy(&stderr)))
}

/// Returns the CPU time of a process that was not waited for yet, where the system has it (proc(5), `stat`).
fn read_cpu_micros(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program before may have spaces. The times are the 14th and 15th field, in ticks of the clock.
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_ascii_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|field| field.parse::<u64>().ok()).sum();
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    Some(ticks * 1_000_000 / u64::try_from(per_second).ok()?)
}

/// Limits that a child applies to itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ChildLimits {
    /// Bytes of writable private memory. Files that are mapped for reading do not count.
    pub memory_bytes: u64,
    /// Seconds of CPU time. `None` for a child that runs as long as its parent.
    pub cpu_seconds: Option<u64>,
    /// Maximum size of a file that the child writes, in bytes.
    pub file_bytes: u64,
}

impl ChildLimits {
    /// Closes inherited file descriptors and applies the limits to this process.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses.
    pub fn apply(&self) -> io::Result<()> {
        close_inherited()?;
        let cpu = self.cpu_seconds.unwrap_or(RLIM_INFINITY);
        for (resource, soft, hard) in [
            // Not RLIMIT_AS: it counts mapped files, and objects may have gigabytes.
            (Resource::RLIMIT_DATA, self.memory_bytes, self.memory_bytes),
            (Resource::RLIMIT_CPU, cpu, cpu.saturating_add(CPU_GRACE_SECONDS)),
            (Resource::RLIMIT_FSIZE, self.file_bytes, self.file_bytes),
            (Resource::RLIMIT_NOFILE, MAX_FILES, MAX_FILES),
            (Resource::RLIMIT_CORE, 0, 0),
        ] {
            let (_, inherited) = getrlimit(resource)?;
            setrlimit(resource, soft.min(inherited), hard.min(inherited))?;
        }
        Ok(())
    }
}

/// Closes descriptors from the parent. Rust opens files as close-on-exec, but C libraries may not.
fn close_inherited() -> io::Result<()> {
    let open: Vec<i32> = std::fs::read_dir("/dev/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect();
    for descriptor in open {
        // The descriptor of the directory listing is already closed.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// The result of a child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The child ended with exit code 0.
    Done,
    /// The child exceeded a limit.
    LimitReached(Limit),
    /// The child crashed or panicked. The text has the details.
    Failed(String),
    /// The child ended for a reason other than its input: a full disk, or a signal from another process or from the
    /// kernel when memory is short.
    Interrupted(String),
}

/// A limit of [`ChildLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`ChildLimits::memory_bytes`]
    Memory,
    /// [`ChildLimits::cpu_seconds`]
    Cpu,
    /// [`ChildLimits::file_bytes`]
    FileSize,
}

impl Ended {
    fn from_status(status: ExitStatus, stderr: &str) -> Ended {
        let failed = || Ended::Failed(format!("{status}: {}", stderr.trim()));
        let Some(signal) = status.signal() else {
            return match status.code() {
                Some(0) => Ended::Done,
                Some(PANICKED) => failed(),
                // The child could not start, or could not write its answer.
                _ => Ended::Interrupted(format!("{status}: {}", stderr.trim())),
            };
        };
        match Signal::try_from(signal) {
            Ok(Signal::SIGXCPU) => Ended::LimitReached(Limit::Cpu),
            Ok(Signal::SIGXFSZ) => Ended::LimitReached(Limit::FileSize),
            // Rust's runtime writes this before it aborts.
            Ok(Signal::SIGABRT) if stderr.contains("memory allocation of") => {
                Ended::LimitReached(Limit::Memory)
            }
            Ok(Signal::SIGABRT | Signal::SIGSEGV | Signal::SIGILL | Signal::SIGFPE | Signal::SIGTRAP) => {
                failed()
            }
            // SIGBUS is a disk error: a mapped file cannot be read.
            _ => Ended::Interrupted(status.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_from_crashes_and_from_kills() {
        let of = |signal: Signal, stderr| Ended::from_status(ExitStatus::from_raw(signal as i32), stderr);
        assert_eq!(of(Signal::SIGXCPU, ""), Ended::LimitReached(Limit::Cpu));
        assert_eq!(of(Signal::SIGXFSZ, ""), Ended::LimitReached(Limit::FileSize));
        let no_memory = "memory allocation of 4096 bytes failed\n";
        assert_eq!(of(Signal::SIGABRT, no_memory), Ended::LimitReached(Limit::Memory));
        assert!(matches!(of(Signal::SIGABRT, "stack overflow"), Ended::Failed(_)));
        assert!(matches!(of(Signal::SIGSEGV, ""), Ended::Failed(_)));
        for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGBUS] {
            assert!(matches!(of(signal, ""), Ended::Interrupted(_)));
        }
        assert_eq!(Ended::from_status(ExitStatus::from_raw(0), "a warning"), Ended::Done);
        assert!(matches!(Ended::from_status(ExitStatus::from_raw(101 << 8), "panicked"), Ended::Failed(_)));
        assert!(matches!(
            Ended::from_status(ExitStatus::from_raw(1 << 8), "disk full"),
            Ended::Interrupted(_)
        ));
    }

    #[test]
    fn a_child_is_in_a_group_of_its_own_or_in_its_parents() {
        let script = "read -r process name state parent group rest </proc/self/stat; echo $group";
        let arguments = ["-c", script].map(OsString::from).to_vec();
        let own = ChildProgram { path: "/bin/sh".into(), arguments, own_group: true, tenant: None };
        let group = |program: &ChildProgram| {
            let output = program.build_command().output().unwrap().stdout;
            String::from_utf8(output).unwrap().trim().parse::<i32>().unwrap()
        };
        let parents = nix::unistd::getpgrp().as_raw();
        assert_ne!(group(&own), parents);
        assert_eq!(group(&own.in_this_group()), parents);
    }

    /// The test that is its own child.
    const NEXT: &[&str] =
        &["child::tests::a_child_has_nothing_of_its_parent_and_ends_at_its_limits", "--exact"];

    #[test]
    fn a_child_has_nothing_of_its_parent_and_ends_at_its_limits() {
        use std::os::fd::AsRawFd;
        const MIB: u64 = 1 << 20;
        // In the child: the folder says what to do.
        if let Ok(task) = std::fs::read_to_string("task") {
            if task == "kill" {
                nix::sys::signal::raise(Signal::SIGKILL).unwrap();
            }
            let limits = ChildLimits { memory_bytes: 128 * MIB, cpu_seconds: Some(1), file_bytes: MIB };
            limits.apply().unwrap();
            match task.as_str() {
                "memory" => drop(std::hint::black_box(vec![1_u8; 256 << 20])),
                "cpu" => loop {
                    std::hint::black_box(0);
                },
                "file" => std::fs::write("large", vec![0; 2 << 20]).unwrap(),
                _ => {
                    assert_eq!(std::env::vars_os().count(), 0);
                    let inherited: i32 = task.parse().unwrap();
                    assert!(nix::unistd::close(inherited).is_err(), "an inherited descriptor is open");
                    std::fs::write("answer", "done").unwrap();
                }
            }
            return;
        }
        let program =
            ChildProgram::from_current_exe(&[NEXT, &["--test-threads=1", "--nocapture"]].concat()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let end = |task: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("task"), task).unwrap();
            let (_run, stop) = watch::channel(false);
            let program = program.clone().for_tenant(TenantId::new("acme").ok());
            let ended = runtime.block_on(program.run(folder.path(), stop, ())).unwrap();
            (ended, folder.path().join("answer").exists())
        };
        assert_eq!(end("memory"), (Ended::LimitReached(Limit::Memory), false));
        PROCESS_USE.take();
        assert_eq!(end("cpu"), (Ended::LimitReached(Limit::Cpu), false));
        let used = PROCESS_USE.take()[&TenantId::new("acme").ok()];
        // The limit of one second counts ticks of the clock, the use counts what ran: on a virtual machine they differ.
        assert!(used.cpu_micros > 250_000, "it had a second: {used:?}");
        assert_eq!(end("file"), (Ended::LimitReached(Limit::FileSize), false));
        assert!(matches!(end("kill"), (Ended::Interrupted(_), false)));
        // A descriptor as a library in C may leave it: not closed when another program starts.
        let leaked = nix::unistd::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
        let ended = end(&leaked.as_raw_fd().to_string());
        assert_eq!(ended, (Ended::Done, true), "{leaked:?}");
    }

    /// The test that is its own child, and that child's own.
    const FAMILY: &[&str] = &["child::tests::a_stopped_child_continues_and_ends_with_its_parent", "--exact"];

    /// The letter of a process's state.
    #[cfg(target_os = "linux")]
    fn state(process: i32) -> Option<char> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("State:"))?;
        line.trim().chars().next()
    }

    #[cfg(target_os = "linux")]
    async fn until(is_so: impl Fn() -> bool) {
        let reached = async {
            while !is_so() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), reached).await.unwrap();
    }

    /// Runs a child that writes its process id to `child` and works until `end` is there.
    #[cfg(target_os = "linux")]
    async fn run_in(folder: &Path, stop: watch::Receiver<bool>) -> io::Result<Ended> {
        std::fs::write(folder.join("role"), "child").unwrap();
        let program =
            ChildProgram::from_current_exe(&[FAMILY, &["--test-threads=1", "--nocapture"]].concat()).unwrap();
        program.run(folder, stop, ()).await
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_stopped_child_continues_and_ends_with_its_parent() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match std::fs::read_to_string("role").as_deref() {
            Ok("child") => {
                end_with_parent().unwrap();
                std::fs::write("new", std::process::id().to_string()).unwrap();
                std::fs::rename("new", "child").unwrap();
                while !Path::new("end").exists() {
                    std::hint::black_box(0);
                }
                return;
            }
            Ok("parent") => {
                let (stop, stopped) = watch::channel(false);
                let stops = async {
                    until(|| Path::new("child").exists()).await;
                    stop.send_replace(true);
                };
                let here = Path::new(".");
                runtime.block_on(async { tokio::join!(run_in(here, stopped), stops).0 }).unwrap();
                return;
            }
            _ => {}
        }
        let folder = tempfile::tempdir().unwrap();
        let (stop, stopped) = watch::channel(false);
        let id = || std::fs::read_to_string(folder.path().join("child")).ok()?.parse().ok();
        let watched = async {
            until(|| id().is_some()).await;
            let child: i32 = id().unwrap();
            for (wanted, states) in [(true, "T"), (false, "RS"), (true, "T")] {
                stop.send_replace(wanted);
                until(|| state(child).is_some_and(|state| states.contains(state))).await;
            }
            // Without a sender nobody would continue it.
            drop(stop);
            std::fs::write(folder.path().join("end"), "").unwrap();
        };
        let ended = runtime.block_on(async { tokio::join!(run_in(folder.path(), stopped), watched).0 });
        assert_eq!(ended.unwrap(), Ended::Done);

        // A parent that is killed takes its stopped child along.
        for file in ["child", "end"] {
            std::fs::remove_file(folder.path().join(file)).unwrap();
        }
        std::fs::write(folder.path().join("role"), "parent").unwrap();
        let program =
            ChildProgram::from_current_exe(&[FAMILY, &["--test-threads=1", "--nocapture"]].concat()).unwrap();
        let mut parent = program.build_command().current_dir(folder.path()).spawn().unwrap();
        let killed = async {
            until(|| id().is_some()).await;
            let child = id().unwrap();
            until(|| state(child) == Some('T')).await;
            parent.kill().unwrap();
            parent.wait().unwrap();
            until(|| matches!(state(child), None | Some('Z' | 'X'))).await;
        };
        runtime.block_on(killed);
    }
}
