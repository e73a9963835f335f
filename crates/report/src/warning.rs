//! What was tolerated in a report.

use std::fmt;

/// Something that was not as it should be and did not keep the report from being read.
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
    /// An object with a member twice, of which the last counts.
    DuplicateKey,
    /// A member with a value of another type than it should have; it counts as absent.
    WrongType,
    /// Something that is no object in an array of objects; it is left alone.
    NotAnObject,
    /// A `recrash_report` below the fourth; it is left alone.
    RecrashTooDeep,
}

impl WarningKind {
    fn text(self) -> &'static str {
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

/// One kind of thing that was tolerated at one place; repetitions (each frame of a thread, say)
/// are counted, not listed, so that the list stays short for any input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it was.
    pub kind: WarningKind,
    /// The part that it was found in: 0 for the outer report, 1 for its `recrash_report`, and so on.
    pub part: usize,
    /// The object that it was found in, as a path within the part such as
    /// `crash.threads[].backtrace`; empty for the part itself or where the place is not known.
    pub place: &'static str,
    /// The member's name; empty where the warning is about no member.
    pub field: &'static str,
    /// How many there were.
    pub count: u64,
    /// The byte offset of the first.
    pub offset: usize,
}

impl fmt::Display for Warning {
    /// `path: what (n times)`, the path with its array indexes left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = std::iter::repeat_n("recrash_report", self.part);
        let own = [self.place, self.field].into_iter().filter(|s| !s.is_empty());
        let mut any = false;
        for segment in prefix.chain(own) {
            if any {
                f.write_str(".")?;
            }
            f.write_str(segment)?;
            any = true;
        }
        if any {
            f.write_str(": ")?;
        }
        f.write_str(self.kind.text())?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}
