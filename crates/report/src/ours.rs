//! The report-level `symbolication` object that we write, read back.

use time::OffsetDateTime;
use unslide_model::DebugId;

/// What the name of every engine of ours begins with.
pub const ENGINE_PREFIX: &str = "unslide/";

/// Our own report-level key. Members that are absent or of another type are `None`, 0 or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ours {
    /// The version of the object's form.
    pub version: u64,
    /// The engine that wrote it, such as `unslide/0.1.0`.
    pub engine: String,
    /// The revision of this report, from 1.
    pub revision: Option<u32>,
    /// The revision that this one takes the place of.
    pub supersedes: Option<u32>,
    /// `complete`, `partial` or `none`.
    pub status: String,
    /// Why the status is `none`, such as `no_frames`.
    pub reason: Option<String>,
    /// The tenant's slug.
    pub tenant: Option<String>,
    /// When the report was symbolicated.
    pub processed_at: Option<OffsetDateTime>,
    /// How many frames ended how.
    pub frames: FrameCounts,
    /// The images that a frame refers to.
    pub images: Vec<OurImage>,
    /// The debug ids whose symbols the report waits for.
    pub missing: Vec<DebugId>,
    /// What was noted.
    pub warnings: Vec<String>,
}

/// The number of frames in each status; the names are those of the JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the frame status of its name")]
pub struct FrameCounts {
    pub total: u64,
    pub symbolicated: u64,
    pub device: u64,
    pub missing_symbol: u64,
    pub unknown_image: u64,
    pub missing: u64,
    pub malformed: u64,
    pub unsupported: u64,
    pub fetching_failed: u64,
    pub invalid_address: u64,
    pub invalid: u64,
}

/// One of `symbolication.images`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OurImage {
    /// The image's debug id; `None` for an image without one.
    pub debug_id: Option<DebugId>,
    /// The image's file name.
    pub name: Option<String>,
    /// Its architecture, such as `arm64e`.
    pub arch: Option<String>,
    /// `found`, `missing`, `malformed`, `unsupported` or `fetching_failed`.
    pub status: String,
    /// The slide in bytes, signed.
    pub slide: Option<i128>,
    /// The generation of the symbols that answered.
    pub generation: Option<u64>,
}
