//! Why a record is not read, and how much of one is read at all.

/// The most frames of a call stack tree in one another.
pub(crate) const MOST_TREE_DEPTH: usize = 512;

/// The bounds of one report, checked while it is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// The most bytes that a record may have.
    pub max_bytes: usize,
    /// The most containers that may lie in each other; frames of a call stack tree, at most 512 in each other, do not
    /// count. Values over 1344 count as 1344.
    pub max_depth: usize,
    /// The most threads, frames and images together. Each takes some hundred bytes of memory, and may
    /// take two of the record.
    pub max_items: usize,
}

impl Default for ReadLimits {
    /// 20 MiB, 256 levels and half a million threads, frames and images.
    fn default() -> ReadLimits {
        ReadLimits { max_bytes: 20 << 20, max_depth: 256, max_items: 1 << 19 }
    }
}

/// Why a record is not a report. Nothing is repaired: such a record goes to the dead letters with
/// [`ReadError::reason`], its bytes untouched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The record has more bytes than [`ReadLimits::max_bytes`].
    #[error("the record has {bytes} bytes and may have {limit}")]
    TooLarge {
        /// The record's size.
        bytes: usize,
        /// The size that is allowed.
        limit: usize,
    },
    /// Containers lie deeper in each other than [`ReadLimits::max_depth`].
    #[error("at byte {offset}: containers nest deeper than {limit} levels")]
    TooDeep {
        /// The offset of the container that is one too many.
        offset: usize,
        /// The depth that is allowed.
        limit: usize,
    },
    /// A call stack tree has more frames in one another than are read.
    #[error("at byte {offset}: a call stack tree is deeper than {limit} frames")]
    TreeTooDeep {
        /// The offset of the frame that is one too many.
        offset: usize,
        /// The depth that is allowed.
        limit: usize,
    },
    /// The grammar of JSON is broken.
    #[error("at byte {offset}: {expected} expected")]
    NotJson {
        /// The offset of the first byte that does not fit.
        offset: usize,
        /// What the grammar wants there.
        expected: &'static str,
    },
    /// The record is the beginning of a JSON text and ends too early.
    #[error("the record ends at byte {offset} where {expected} is expected")]
    Truncated {
        /// Where the text ends (NULs and white space behind it not counted).
        offset: usize,
        /// What the grammar wants there.
        expected: &'static str,
    },
    /// The record is an array of more reports than one record may hold.
    #[error("the record is an array of more than {limit} reports")]
    TooMany {
        /// How many it may hold.
        limit: usize,
    },
    /// The report has more threads, frames and images than [`ReadLimits::max_items`].
    #[error("at byte {offset}: the report has more than {limit} threads, frames and images")]
    TooManyItems {
        /// The offset of the one that is one too many.
        offset: usize,
        /// How many it may have.
        limit: usize,
    },
    /// Valid JSON, but no object.
    #[error("at byte {offset}: a report is an object, this is {found}")]
    NotAReport {
        /// The offset of the value.
        offset: usize,
        /// The value's JSON type, with its article.
        found: &'static str,
    },
    /// A payload of MetricKit that is not one diagnostic of what was sampled.
    #[error(
        "a payload of MetricKit holds one diagnostic of a hang, CPU use, disk writes or a launch; this one has {count}, \
         or a crash: send each by itself, and crashes through KSCrash"
    )]
    Diagnostics {
        /// How many it has.
        count: usize,
    },
    /// An object without a crash.
    #[error(
        "a crash report has an object `crash` with `error` or `threads`, or an object `recrash_report`; {missing}"
    )]
    NoCrash {
        /// What this object lacks, as a clause.
        missing: &'static str,
    },
}

impl ReadError {
    /// The reason in one word, as dead letters carry it: `too_large`, `too_deep`, `not_json`,
    /// `truncated`, `too_many` or `not_a_report`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            ReadError::TooLarge { .. } => "too_large",
            ReadError::TooDeep { .. } | ReadError::TreeTooDeep { .. } => "too_deep",
            ReadError::NotJson { .. } => "not_json",
            ReadError::Truncated { .. } => "truncated",
            ReadError::TooMany { .. } | ReadError::TooManyItems { .. } => "too_many",
            ReadError::NotAReport { .. } | ReadError::NoCrash { .. } | ReadError::Diagnostics { .. } => {
                "not_a_report"
            }
        }
    }
}
