//! Errors of reading a record, and the limits of a record.

/// The maximum nesting depth of frames in a call stack tree.
pub(crate) const MOST_TREE_DEPTH: usize = 512;

/// The limits of one report, checked during the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// The maximum size of a record, in bytes.
    pub max_bytes: usize,
    /// The maximum nesting depth of containers. Frames of a call stack tree do not count: they may nest up to 512
    /// deep. Values over 1344 count as 1344.
    pub max_depth: usize,
    /// The maximum number of threads, frames and images together. Each takes some hundred bytes of memory, but may
    /// take only two bytes of the record.
    pub max_items: usize,
}

impl Default for ReadLimits {
    /// 20 MiB, 256 levels and half a million threads, frames and images.
    fn default() -> ReadLimits {
        ReadLimits { max_bytes: 20 << 20, max_depth: 256, max_items: 1 << 19 }
    }
}

/// The most bytes that KSCrash reads of the first report when its handler crashes. It embeds no more of a larger one.
const WRITER_BYTES: usize = 2_000_000;

/// Says who has cut a record that ends at an offset.
fn cut_by_writer(offset: usize) -> &'static str {
    match offset {
        WRITER_BYTES => {
            ": KSCrash has cut this report at its limit of 2,000,000 bytes. Send fewer memory contents and user data, so that \
             reports are smaller"
        }
        _ => "",
    }
}

/// Says what is wrong with diagnostics of MetricKit.
fn diagnostics_problem(count: usize) -> String {
    match count {
        0 => "this payload of MetricKit has no diagnostic".to_owned(),
        1 => "this diagnostic of MetricKit is not read: it needs a `callStackTree` and a `diagnosticMetaData` with the members of a \
              crash (exceptionType, exceptionCode, signal, terminationReason), or with hangDuration, totalCPUTime, writesCaused or \
              launchDuration"
            .to_owned(),
        count => format!(
            "this record has {count} diagnostics of MetricKit, and one is read: send each alone, or the record to POST /v1/reports or \
             POST /i/{{key}}, which split it"
        ),
    }
}

/// The reason why a record is not a report. Nothing is repaired: such a record goes to the dead letters with
/// [`ReadError::reason`] and unchanged bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The record has more bytes than [`ReadLimits::max_bytes`].
    #[error("the record has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// The record's size.
        bytes: usize,
        /// The maximum size.
        limit: usize,
    },
    /// Containers nest deeper than [`ReadLimits::max_depth`].
    #[error("at byte {offset}: containers nest deeper than {limit} levels")]
    TooDeep {
        /// The offset of the first container that is too deep.
        offset: usize,
        /// The maximum depth.
        limit: usize,
    },
    /// The frames of a call stack tree nest too deep.
    #[error("at byte {offset}: a call stack tree is deeper than {limit} frames")]
    TreeTooDeep {
        /// The offset of the first frame that is too deep.
        offset: usize,
        /// The maximum depth.
        limit: usize,
    },
    /// The record is not valid JSON.
    #[error("at byte {offset}: {expected} expected")]
    NotJson {
        /// The offset of the first unexpected byte.
        offset: usize,
        /// The token that the grammar requires there.
        expected: &'static str,
    },
    /// The record is the beginning of a JSON text and ends too early.
    #[error("the record ends at byte {offset} where {expected} is expected{}", cut_by_writer(.offset.to_owned()))]
    Truncated {
        /// The offset of the end of the text, without trailing NULs and white space.
        offset: usize,
        /// The token that the grammar requires there.
        expected: &'static str,
    },
    /// The record is an array of more reports than one record may hold.
    #[error("the record is an array of more than {limit} reports")]
    TooMany {
        /// The maximum number of reports.
        limit: usize,
    },
    /// The report has more threads, frames and images than [`ReadLimits::max_items`].
    #[error("at byte {offset}: the report has more than {limit} threads, frames and images")]
    TooManyItems {
        /// The offset of the first thread, frame or image over the limit.
        offset: usize,
        /// The maximum number.
        limit: usize,
    },
    /// The record is valid JSON, but not an object.
    #[error("at byte {offset}: a report is an object, this is {found}")]
    NotAReport {
        /// The offset of the value.
        offset: usize,
        /// The value's JSON type, with its article.
        found: &'static str,
    },
    /// The record is of MetricKit, but not exactly one diagnostic of a sampled kind.
    #[error("{}", diagnostics_problem(*.count))]
    Diagnostics {
        /// The number of diagnostics.
        count: usize,
    },
    /// The document is of a known format that holds no report.
    #[error("{problem}")]
    Unsupported {
        /// Names the format of the document, and says what to do instead.
        problem: String,
    },
    /// The object has no crash.
    #[error(
        "a crash report has an object `crash` with `error` or `threads`, or an object `recrash_report`; {missing}"
    )]
    NoCrash {
        /// A clause that says which member is missing.
        missing: &'static str,
    },
}

impl ReadError {
    /// Returns the reason in one word, as dead letters carry it: `too_large`, `too_deep`, `not_json`,
    /// `truncated`, `too_many` or `not_a_report`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            ReadError::TooLarge { .. } => "too_large",
            ReadError::TooDeep { .. } | ReadError::TreeTooDeep { .. } => "too_deep",
            ReadError::NotJson { .. } => "not_json",
            ReadError::Truncated { .. } => "truncated",
            ReadError::TooMany { .. } | ReadError::TooManyItems { .. } => "too_many",
            ReadError::NotAReport { .. }
            | ReadError::NoCrash { .. }
            | ReadError::Diagnostics { .. }
            | ReadError::Unsupported { .. } => "not_a_report",
        }
    }
}
