//! Kinds of captures, and how their files are read.

use serde::{Deserialize, Serialize};
use unslide_captures_formats::CaptureKind;

unslide_model::words! {
    /// How a log of allocations lays out its records.
    pub enum MallocLayout {
        /// 24 bytes, of 64-bit processes.
        Disk = "disk",
        /// 16 bytes, of 32-bit processes.
        Disk32 = "disk32",
        /// 32 bytes with the type first.
        Enumerator = "enumerator",
        /// 32 bytes with the type last.
        Index = "index",
    }
}

/// How a capture's files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CaptureForm {
    /// A profile says itself how it is read.
    Profile,
    /// So does a set of stacks.
    StackSet,
    /// And a graph of memory.
    MemoryGraph,
    MallocLog {
        /// How its records are laid out.
        layout: MallocLayout,
        /// The slots of the table of stacks count references.
        lite: bool,
        /// The number of events after which memory is looked at; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<u64>,
        /// Growth is reported since this many events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
    },
}

/// A file of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturePart {
    pub name: &'static str,
    /// True if a capture cannot be analysed without it.
    pub needed: bool,
}

const fn required_part(name: &'static str) -> CapturePart {
    CapturePart { name, needed: true }
}

impl CaptureForm {
    #[must_use]
    pub fn kind(&self) -> CaptureKind {
        match self {
            CaptureForm::Profile => CaptureKind::Profile,
            CaptureForm::StackSet => CaptureKind::StackSet,
            CaptureForm::MemoryGraph => CaptureKind::MemoryGraph,
            CaptureForm::MallocLog { .. } => CaptureKind::MallocLog,
        }
    }

    /// Returns how a log of allocations lays out its records.
    #[must_use]
    pub fn layout(&self) -> Option<MallocLayout> {
        match self {
            CaptureForm::MallocLog { layout, .. } => Some(*layout),
            _ => None,
        }
    }

    /// Returns the files that it may have. One that needs a single file takes it as a plain body, too.
    #[must_use]
    pub fn list_parts(&self) -> &'static [CapturePart] {
        match self {
            CaptureForm::Profile | CaptureForm::StackSet | CaptureForm::MemoryGraph => {
                const { &[required_part("file")] }
            }
            CaptureForm::MallocLog { .. } => {
                const {
                    &[
                        required_part("events"),
                        required_part("stacks"),
                        CapturePart { name: "images", needed: false },
                    ]
                }
            }
        }
    }
}
