//! What jobs are there to do.

use crate::Uuid;
use crate::wakes::{WakeCursor, system};
use serde::{Deserialize, Serialize};
use unslide_model::{ContentHash, DebugId};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// Take an uploaded file apart and build its symcaches.
    Build {
        /// The upload.
        upload: Uuid,
    },
    /// Ask for the reports that waited for a debug id (see [`crate::wakes`]).
    Wake {
        /// The debug id.
        debug_id: DebugId,
        /// The generation that was published.
        generation: u64,
        /// Where to go on; none begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<WakeCursor>,
    },
    /// Ask for the reports, of all tenants, that waited for system symbols (see
    /// [`crate::wakes::system`]).
    WakeSystem {
        /// Where to go on; none begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<system::Resume>,
    },
    /// Ask for reports that somebody wants again (see [`crate::reprocess`]).
    Reprocess {
        /// The reprocess.
        id: Uuid,
    },
    /// Take the symbols of a debug id out of object storage.
    Purge {
        /// The debug id.
        debug_id: DebugId,
        /// The objects that are not needed any more.
        objects: Vec<ContentHash>,
        /// The generation of the deletion: symbols of a later one stay. 0 where nothing was deleted, and
        /// an upload that failed has left the objects.
        generation: u64,
    },
    /// Build symcaches anew whose format is older than a version.
    Backfill {
        /// The version.
        version: u32,
        /// The last object of the page before; none begins.
        after: Option<ContentHash>,
    },
    /// Take away everything of a deleted tenant (see [`crate::erasure`]).
    Erase,
}

/// The kinds of [`Work`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Work::Build`]
    Build,
    /// [`Work::Wake`]
    Wake,
    /// [`Work::WakeSystem`]
    WakeSystem,
    /// [`Work::Reprocess`]
    Reprocess,
    /// [`Work::Purge`]
    Purge,
    /// [`Work::Backfill`]
    Backfill,
    /// [`Work::Erase`]
    Erase,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 7] = [
        Kind::Build,
        Kind::Wake,
        Kind::WakeSystem,
        Kind::Purge,
        Kind::Reprocess,
        Kind::Backfill,
        Kind::Erase,
    ];

    /// False for work that carries a promise: it is tried until it is done, however many workers die with
    /// it. Builds may be given up, because a file may be at fault.
    #[must_use]
    pub fn may_be_given_up(self) -> bool {
        matches!(self, Kind::Build | Kind::Backfill)
    }

    /// The kind's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Build => "build",
            Kind::Wake => "wake",
            Kind::WakeSystem => "wake_system",
            Kind::Reprocess => "reprocess",
            Kind::Purge => "purge",
            Kind::Backfill => "backfill",
            Kind::Erase => "erase",
        }
    }
}

impl Work {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Work::Build { .. } => Kind::Build,
            Work::Wake { .. } => Kind::Wake,
            Work::WakeSystem { .. } => Kind::WakeSystem,
            Work::Reprocess { .. } => Kind::Reprocess,
            Work::Purge { .. } => Kind::Purge,
            Work::Backfill { .. } => Kind::Backfill,
            Work::Erase => Kind::Erase,
        }
    }
}
