//! The statements of the feature.

mod commits;
mod version_commits;
mod versions;

pub use commits::{BuildCommitRow, NewBuildCommitRow, delete_commit, list_commits, set_commit};
pub use version_commits::{VersionCommit, list_version_commits};
pub use versions::{NewGroup, VersionWithGroup, list_new_groups, list_versions};

use unslide_store::tables::{KeyColumn, OwnedTable};

/// The tables of the feature.
pub const OWNED_TABLES: &[OwnedTable] =
    &[OwnedTable { key: &[KeyColumn::Value("debug_id")], ..OwnedTable::new("build_commits") }];
