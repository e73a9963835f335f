//! The kinds of jobs.

use crate::column::words;
use crate::wakes::cursor::WakeCursor;
use crate::wakes::system;
use crate::{ReprocessId, Result, StoreError, UploadId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;
use unslide_model::{ContentHash, DebugId};

/// The work of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// Unpack an uploaded file and build its symcaches.
    Build {
        /// The upload.
        upload: UploadId,
    },
    /// Ask for the reports that waited for a debug id (see [`crate::wakes`]).
    Wake {
        /// The debug id.
        debug_id: DebugId,
        /// The generation that was published.
        generation: u64,
        /// The position to continue from; `None` at the beginning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<WakeCursor>,
    },
    /// Ask for the reports, of all tenants, that waited for system symbols (see
    /// [`crate::wakes::system`]).
    WakeSystem {
        /// The position to continue from; `None` at the beginning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<system::Resume>,
    },
    /// Ask for reports again on demand (see [`crate::reprocess`]).
    Reprocess {
        /// The reprocess.
        id: ReprocessId,
    },
    /// Move stored reports to the groups that the tenant's rules give them (see [`crate::reports::regroup`]).
    Regroup {
        /// The version of the rules.
        version: u64,
    },
    /// Take the symbols of a debug id out of object storage.
    Purge {
        /// The debug id.
        debug_id: DebugId,
        /// The objects that are not needed any more.
        objects: Vec<ContentHash>,
        /// The generation of the deletion: symbols of a later one stay. 0 if nothing was deleted, but an
        /// upload that failed has left the objects.
        generation: u64,
    },
    /// Build symcaches again.
    Backfill {
        /// Those of a format older than this version, and those that were too complex.
        version: u32,
        /// Those of this version, too: a later release may read more out of an object.
        all: bool,
        /// The last object of the page before; none begins.
        after: Option<ContentHash>,
    },
    /// Delete all data of a deleted tenant (see [`crate::erasure`]).
    Erase,
    /// Work of a kind that a feature handles.
    #[serde(untagged)]
    Feature(FeatureWork),
}

/// Work of a feature. Its kind is a word that no [`JobKind`] has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureWork {
    /// The kind.
    pub kind: Cow<'static, str>,
    /// Arguments of the job for the feature.
    #[serde(flatten)]
    pub arguments: Map<String, Value>,
}

impl FeatureWork {
    /// Makes work on one row of the feature, which the argument `name` names.
    #[must_use]
    pub fn on_row(kind: &'static str, name: &str, row: impl Display) -> FeatureWork {
        let arguments = [(name.to_owned(), Value::String(row.to_string()))].into_iter().collect();
        FeatureWork { kind: kind.into(), arguments }
    }
}

impl Work {
    /// Returns the row that an argument of a feature's work names.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the argument names none, or the work is not a feature's.
    pub fn row<Id: FromStr>(&self, name: &str) -> Result<Id> {
        let Work::Feature(FeatureWork { arguments, .. }) = self else {
            return Err(StoreError::corrupt("jobs", "the work is not a feature's"));
        };
        let row = arguments.get(name).and_then(|id| id.as_str()?.parse().ok());
        row.ok_or_else(|| StoreError::corrupt("jobs", format!("the job names no {name}")))
    }
}

words! {
    /// The kinds of [`Work`], without those of features.
    pub enum JobKind {
        /// [`Work::Build`]
        Build = "build",
        /// [`Work::Wake`]
        Wake = "wake",
        /// [`Work::WakeSystem`]
        WakeSystem = "wake_system",
        /// [`Work::Purge`]
        Purge = "purge",
        /// [`Work::Reprocess`]
        Reprocess = "reprocess",
        /// [`Work::Regroup`]
        Regroup = "regroup",
        /// [`Work::Backfill`]
        Backfill = "backfill",
        /// [`Work::Erase`]
        Erase = "erase",
    }
}

impl JobKind {
    /// Returns false for work that carries a promise: it is retried until it is done, however many workers
    /// die with it. Builds may be given up, because a file may be at fault.
    #[must_use]
    pub fn may_be_given_up(self) -> bool {
        matches!(self, JobKind::Build | JobKind::Backfill)
    }
}

impl AsRef<str> for JobKind {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Work {
    /// Returns the word of its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self.core_kind() {
            Ok(kind) => kind.as_str(),
            Err(work) => &work.kind,
        }
    }

    /// See [`JobKind::may_be_given_up`]. Work of features may be: it reads files, and one may be at fault.
    #[must_use]
    pub fn may_be_given_up(&self) -> bool {
        self.core_kind().map_or(true, JobKind::may_be_given_up)
    }

    fn core_kind(&self) -> Result<JobKind, &FeatureWork> {
        Ok(match self {
            Work::Build { .. } => JobKind::Build,
            Work::Wake { .. } => JobKind::Wake,
            Work::WakeSystem { .. } => JobKind::WakeSystem,
            Work::Reprocess { .. } => JobKind::Reprocess,
            Work::Regroup { .. } => JobKind::Regroup,
            Work::Purge { .. } => JobKind::Purge,
            Work::Backfill { .. } => JobKind::Backfill,
            Work::Erase => JobKind::Erase,
            Work::Feature(work) => return Err(work),
        })
    }
}
