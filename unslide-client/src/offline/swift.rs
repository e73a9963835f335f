//! Runs Swift's demangler in separate processes.
//!
//! It is C++, and some names end its process (see [`unslide_symbolicate::demangle`]). So this binary starts
//! itself again as `unslide swift-demangler`, without this process's environment, and sends requests over a
//! socket. A request is names, each as its length (u32, little-endian) and its bytes, with a length of
//! [`END_OF_NAMES`] after them. Each answer is a length and bytes, or a length of [`END_OF_NAMES`] if there is none. The
//! process sends each answer at once, so that the missing one shows which name ended the process. A request
//! is read whole before the first answer is written, so neither side waits for the other. Before the first
//! request the process sends a length of [`END_OF_NAMES`] to say that it is ready.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use unslide_cli::Exit;
use unslide_sandbox::child::{ChildLimits, ChildProgram};
use unslide_symbolicate::demangle::{Swift, Unavailable, demangle_here, demangle_with};

/// The subcommand of the process that demangles.
pub const DEMANGLER_COMMAND: &str = "swift-demangler";

/// In the place of a length: the end of the names, or no answer.
const END_OF_NAMES: u32 = u32::MAX;
/// The longest name or answer, in bytes.
const NAME_BYTES: u32 = 1 << 20;
/// For longer than this no name is tried.
const DEMANGLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The demangler only writes to its socket.
const DEMANGLER_LIMITS: ChildLimits = ChildLimits { memory_bytes: 1 << 30, cpu_seconds: None, file_bytes: 0 };

/// From now on, other processes demangle Swift's names.
pub fn isolate_demangler() {
    demangle_with(Pool::default());
}

/// Idle processes. A thread that asks takes one, or starts one if there is none, so there are no more of them
/// than threads.
#[derive(Default)]
struct Pool(Mutex<Vec<Process>>);

impl Pool {
    fn lock_idle(&self) -> MutexGuard<'_, Vec<Process>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Swift for Pool {
    fn demangle(&self, names: &[&str]) -> Result<Vec<Option<String>>, Unavailable> {
        let waiting = self.lock_idle().pop();
        let mut process = match waiting {
            Some(process) => process,
            None => Process::start().map_err(|error| {
                tracing::error!(error = %error, "no process for Swift's demangler could be started");
                Unavailable
            })?,
        };
        let mut answers = Vec::with_capacity(names.len());
        match process.demangle_names(names, &mut answers) {
            Ok(()) => self.lock_idle().push(process),
            Err(error) => {
                tracing::warn!(error = %error, names = names.len(), answered = answers.len(), "Swift's demangler ended");
            }
        }
        Ok(answers)
    }
}

struct Process {
    child: Child,
    requests: BufWriter<UnixStream>,
    answers: BufReader<UnixStream>,
}

impl Process {
    fn start() -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(DEMANGLE_TIMEOUT))?;
        ours.set_write_timeout(Some(DEMANGLE_TIMEOUT))?;
        let child = ChildProgram::from_current_exe(&[DEMANGLER_COMMAND])?
            .build_command()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::null())
            .spawn()?;
        let requests = BufWriter::new(ours.try_clone()?);
        let mut process = Process { child, requests, answers: BufReader::new(ours) };
        read_frame(&mut process.answers)?;
        Ok(process)
    }

    fn demangle_names(&mut self, names: &[&str], answers: &mut Vec<Option<String>>) -> io::Result<()> {
        for name in names {
            write_frame(&mut self.requests, Some(name.as_bytes()))?;
        }
        write_frame(&mut self.requests, None)?;
        self.requests.flush()?;
        for _ in names {
            let answer = read_frame(&mut self.answers)?;
            answers.push(answer.and_then(|bytes| String::from_utf8(bytes).ok()));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already. The wait for it matters.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_frame(to: &mut impl Write, bytes: Option<&[u8]>) -> io::Result<()> {
    let length = bytes.map_or(Ok(END_OF_NAMES), |bytes| u32::try_from(bytes.len()));
    to.write_all(&length.map_err(io::Error::other)?.to_le_bytes())?;
    to.write_all(bytes.unwrap_or_default())
}

fn read_frame(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length == END_OF_NAMES {
        return Ok(None);
    }
    if length > NAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a longer name than there are"));
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// Answers requests on standard input until there are no more.
pub fn run() -> Exit {
    if DEMANGLER_LIMITS.apply().is_err() {
        return Exit::Failed;
    }
    let (mut input, mut output) = (BufReader::new(io::stdin().lock()), io::stdout().lock());
    if write_frame(&mut output, None).and_then(|()| output.flush()).is_err() {
        return Exit::Failed;
    }
    while let Ok(names) = read_request(&mut input) {
        for name in names {
            let answer = std::str::from_utf8(&name).ok().and_then(demangle_here);
            let mut bytes = Vec::new();
            let sent = write_frame(&mut bytes, answer.as_deref().map(str::as_bytes))
                .and_then(|()| output.write_all(&bytes))
                .and_then(|()| output.flush());
            if sent.is_err() {
                return Exit::Failed;
            }
        }
    }
    Exit::Ready
}

fn read_request(input: &mut impl Read) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    while let Some(name) = read_frame(input)? {
        names.push(name);
    }
    Ok(names)
}
