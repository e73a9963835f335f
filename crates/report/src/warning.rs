//! Irregularities that were tolerated in a report.

use std::fmt;

/// An irregularity that does not prevent reading the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WarningKind {
    /// A UTF-8 byte order mark before the report.
    ByteOrderMark,
    /// White space or NULs after the report.
    TrailingBytes,
    /// A string with bytes that are not UTF-8.
    InvalidUtf8,
    /// A string with half of a surrogate pair.
    LoneSurrogate,
    /// A number that no double can hold, such as `1e999`.
    NumberOverflow,
    /// An object with the same member twice. The last one counts.
    DuplicateKey,
    /// A member with a value of the wrong type. It counts as absent.
    WrongType,
    /// A non-object in an array of objects. It is skipped.
    NotAnObject,
    /// A `recrash_report` below the fourth. It is skipped.
    RecrashTooDeep,
}

impl WarningKind {
    fn as_str(self) -> &'static str {
        match self {
            WarningKind::ByteOrderMark => "byte order mark before the report",
            WarningKind::TrailingBytes => "white space or NULs after the report",
            WarningKind::InvalidUtf8 => "invalid UTF-8 in a string",
            WarningKind::LoneSurrogate => "lone surrogate in a string",
            WarningKind::NumberOverflow => "number out of range",
            WarningKind::DuplicateKey => "duplicate key, the last one counts",
            WarningKind::WrongType => "wrong type, counts as absent",
            WarningKind::NotAnObject => "not an object, left alone",
            WarningKind::RecrashTooDeep => "nested too deep, left alone",
        }
    }
}

/// One kind of irregularity at one place. Repetitions, such as in each frame of a thread, are counted
/// and not listed, so that the list stays short for any input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The kind.
    pub kind: WarningKind,
    /// The part that contains it: 0 for the outer report, 1 for its `recrash_report`, and so on.
    pub part: usize,
    /// The object that contains it, as a path within the part such as `crash.threads[].backtrace`. Empty for
    /// the part itself, or if the place is not known.
    pub place: &'static str,
    /// The member's name. Empty if the warning is not about a member.
    pub field: &'static str,
    /// The number of occurrences.
    pub count: u64,
    /// The byte offset of the first occurrence.
    pub offset: usize,
}

/// Members that give a frame its address or image, and their expected types.
const LOCATING_FIELDS: [(&str, &str); 22] = [
    ("address", "a number"),
    ("backtrace", "an object"),
    ("binaryUUID", "a UUID"),
    ("binary_images", "an array of objects"),
    ("callStackRootFrames", "an array of objects"),
    ("callStacks", "an array of objects"),
    ("contents", "an array of objects"),
    ("crash", "an object"),
    ("crashed_thread", "an object"),
    ("diagnostics", "an object"),
    ("frames", "an array of objects"),
    ("image_addr", "a number"),
    ("image_size", "a number"),
    ("instruction_addr", "a number"),
    ("last_exception_backtrace", "an object"),
    ("object_addr", "a number"),
    ("object_uuid", "a UUID"),
    ("offsetIntoBinaryTextSegment", "a number"),
    ("profile", "an object"),
    ("subFrames", "an array of objects"),
    ("threads", "an array of objects"),
    ("uuid", "a UUID"),
];

impl Warning {
    /// Returns the member's path without array indexes. Empty for the report itself.
    fn member_path(&self) -> String {
        let prefix = std::iter::repeat_n("recrash_report", self.part);
        let own = [self.place, self.field].into_iter().filter(|s| !s.is_empty());
        prefix.chain(own).collect::<Vec<_>>().join(".")
    }

    /// Describes the member's wrong type and the expected one, if it may cost frames their address or image.
    /// `report` is the bytes that were read.
    #[must_use]
    pub fn lost_location(&self, report: &[u8]) -> Option<String> {
        if !matches!(self.kind, WarningKind::WrongType | WarningKind::NotAnObject) {
            return None;
        }
        let (_, expected) = LOCATING_FIELDS.iter().find(|(field, _)| *field == self.field)?;
        let found = match report.get(self.offset)? {
            b'"' => "a text",
            b'{' => "an object",
            b'[' => "an array",
            b't' | b'f' => "a boolean",
            b'n' => "null",
            _ => "a number",
        };
        let path = self.member_path();
        let times = if self.count > 1 { format!(" ({} times)", self.count) } else { String::new() };
        Some(match self.kind {
            WarningKind::NotAnObject => format!("{path} has {found} in it, not an object{times}"),
            // A text that is not a UUID.
            _ if *expected == "a UUID" && found == "a text" => {
                format!("{path} is a text that is no UUID{times}")
            }
            _ => format!("{path} is {found}, not {expected}{times}"),
        })
    }
}

impl fmt::Display for Warning {
    /// Formats `path: what (n times)`, with the path without its array indexes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.member_path();
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(self.kind.as_str())?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}
