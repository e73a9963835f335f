//! A git checkout on this machine. Git is started with a list of arguments, reads only, and has a time and a size.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

/// How long one run of git may take.
const GIT_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes that a run may print.
const OUTPUT_BYTES: u64 = 32 << 20;
/// The most bytes of a message of git.
const MESSAGE_BYTES: u64 = 4_096;
/// Settings of a repository that would start other programs or change the output.
const SETTINGS: [&str; 3] = ["core.fsmonitor=false", "core.quotePath=false", "log.showSignature=false"];
/// Variables that would lead to another repository.
const OTHER_REPOSITORY: [&str; 3] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"];

/// The failure of a run of git.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot run git: is it installed?")]
    Start(#[source] io::Error),
    #[error("cannot read the output of git")]
    Read(#[source] io::Error),
    #[error("git did not end within {} s", GIT_TIMEOUT.as_secs())]
    TooSlow,
    #[error("git printed more than {OUTPUT_BYTES} bytes")]
    TooLarge,
    #[error("git: {0}")]
    Failed(String),
}

/// The root of a checkout of a git repository.
pub struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// Finds the checkout that a folder lies in.
    ///
    /// # Errors
    /// Returns an error if the folder is in none, or git cannot be run.
    pub async fn find(folder: &Path) -> Result<Checkout, GitError> {
        let root = run_git(folder, ["rev-parse", "--show-toplevel"]).await?;
        let root = String::from_utf8_lossy(&root);
        Ok(Checkout { root: PathBuf::from(root.trim_end_matches('\n')) })
    }

    /// Runs git at the root, and returns its output.
    ///
    /// # Errors
    /// [`GitError`].
    pub async fn run_git(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Vec<u8>, GitError> {
        run_git(&self.root, arguments).await
    }

    /// Returns true if the object exists here.
    ///
    /// # Errors
    /// Returns an error if git cannot be run.
    pub async fn has_object(&self, name: &str) -> Result<bool, GitError> {
        match self.run_git(["cat-file", "-e", name]).await {
            Ok(_) => Ok(true),
            Err(GitError::Failed(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns true if commits before some are not here.
    ///
    /// # Errors
    /// [`GitError`].
    pub async fn is_shallow(&self) -> Result<bool, GitError> {
        Ok(self.run_git(["rev-parse", "--is-shallow-repository"]).await?.starts_with(b"true"))
    }
}

async fn run_git(
    folder: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<Vec<u8>, GitError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["--no-pager", "--literal-pathspecs"]);
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    for variable in OTHER_REPOSITORY {
        command.env_remove(variable);
    }
    // It asks nobody, locks nothing, and fetches nothing.
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_LAZY_FETCH", "1");
    command.env("LC_ALL", "C").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(GitError::Start)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let work = async {
        let (output, message) =
            tokio::join!(read_pipe(stdout, OUTPUT_BYTES), read_pipe(stderr, MESSAGE_BYTES));
        let output = output.map_err(GitError::Read)?;
        if output.len() as u64 > OUTPUT_BYTES {
            return Err(GitError::TooLarge);
        }
        let status = child.wait().await.map_err(GitError::Read)?;
        if status.success() {
            return Ok(output);
        }
        let message = message.map_err(GitError::Read)?;
        Err(GitError::Failed(String::from_utf8_lossy(&message).trim().to_owned()))
    };
    // A child that is not waited for is killed.
    timeout(GIT_TIMEOUT, work).await.map_err(|_| GitError::TooSlow)?
}

/// Reads a pipe, and one byte over the limit at most.
async fn read_pipe(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(limit + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
