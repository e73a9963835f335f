//! CODEOWNERS files, and the owner of a source path by them. Pure: texts in, answers out.
//!
//! GitHub and GitLab read the same file differently, so a file has a [`OwnersDialect`]. [`OwnersFile::parse`] reads it,
//! [`resolve_owner`] maps a path of a build machine to one of the repository and finds the lines that decide.

#![warn(missing_docs)]

mod file;
mod github;
mod gitlab;
mod parse;
mod paths;
mod pattern;
mod resolve;

pub use file::{
    DecidingLine, MAX_OWNERS_BYTES, OwnersDialect, OwnersFile, OwnersFileError, OwnersLineProblem,
    OwnersLineProblems,
};
pub use paths::{MAX_PATH_BYTES, PathRewrite, PathRewriteError, check_rewrites};
pub use resolve::{MAX_OWNERS, OwnerOutcome, ResolvedOwner, resolve_owner};
