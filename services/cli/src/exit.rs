//! The exit codes of all commands, and their help.

/// The exit code of a command, the same in every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It is done; the requested thing exists.
    Ready = 0,
    Failed = 1,
    /// The command line or the configuration is wrong. clap ends with the same code.
    Usage = 2,
    /// The requested thing does not exist.
    Missing = 3,
    /// A server does not answer, or has no answer yet.
    Unreachable = 4,
    /// The key or the login may not do it.
    NotAllowed = 5,
    /// `audit` found a report that is lost or doubled, or `fsck` something that the servers disagree on.
    Unbalanced = 6,
}

impl Exit {
    /// The meaning of the codes, as `--help` prints it.
    pub const HELP: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line or the configuration is wrong, or a file that it names does not exist
  3  missing: symbols, a tenant, a key or a report does not exist, or symbols are not ready
  4  a server does not answer, or a release check says that it is too early
  5  not allowed: the key or its scope does not suffice
  6  audit: a report is lost, doubled, or has two outcomes; fsck: the servers disagree";
}
