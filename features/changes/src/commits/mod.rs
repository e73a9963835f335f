//! The commits of builds, and the pages on which code hosts compare them.

mod build_commits;
mod code_host;
mod group_link;
mod new_commit;
mod repository;
mod source_path;

pub use build_commits::{BuildCommits, describe_commits};
pub use group_link::choose_link;
pub use new_commit::{NewBuildCommit, check_commit};
