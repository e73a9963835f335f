//! Where the bodies of reports are: in the database at first, then in segments in object storage.
//!
//! A segment begins with an *intent*, a row from before anything is written. The object is put, and
//! one transaction makes the segment live, points the reports to it and takes their bodies out of the
//! database; a report that has another revision by then keeps the body it has. A writer that died
//! leaves an intent, which is given up after a while: then whatever it wrote is *condemned*, and so
//! is a segment that no report refers to any more. Only what has been condemned for longer than any
//! reader can still be at it is deleted.

mod condemned;
mod frames;
mod rewrite;
mod write;

pub use condemned::{Condemned, abandon, apart, condemn, condemned_due, forget};
pub use frames::count_dead;
pub(crate) use frames::{drop_frames, drop_frames_at};
pub use rewrite::{Held, Source, due, finish_rewrite, frames_of, rest, sources};
pub use write::{Begun, Finished, Moved, Pending, Waiting, begin, finish, give_up, new_id, page, pending};

use crate::{Result, StoreError, Uuid};
use time::{Date, OffsetDateTime, UtcOffset};

/// The most bytes that a stored report may have.
const MAX_BODY_BYTES: usize = 1 << 30;

/// Where a body lies in object storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The segment.
    pub segment: Uuid,
    /// The segment's day, in UTC.
    pub day: Date,
    /// Bytes from the segment's start.
    pub offset: u64,
    /// Bytes of the frame.
    pub length: u64,
}

/// A stored report's body, or where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The enriched JSON as [`unslide_proto::body::compress`] makes it.
    Inline(Vec<u8>),
    /// In a segment.
    Segment(Place),
}

impl Body {
    /// From the columns of both tables. What is in the database is the newer one.
    pub(crate) fn read(
        inline: Option<Vec<u8>>,
        received_at: OffsetDateTime,
        (segment, offset, length): (Option<Uuid>, Option<i64>, Option<i64>),
    ) -> Result<Body> {
        match (inline, segment, offset, length) {
            (Some(body), ..) => Ok(Body::Inline(body)),
            (None, Some(segment), Some(offset), Some(length)) => Ok(Body::Segment(Place {
                segment,
                day: day(received_at),
                offset: crate::number::from_row(offset),
                length: crate::number::from_row(length),
            })),
            _ => Err(StoreError::corrupt("report_frames", "a report without a body")),
        }
    }

    /// The enriched JSON of a body that is here. Work for the CPU pool where it is large.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] where the stored bytes are damaged; [`StoreError::InSegment`] where
    /// they are not here.
    pub fn json(&self) -> Result<Vec<u8>> {
        match self {
            Body::Inline(body) => unslide_proto::body::decompress(body, MAX_BODY_BYTES)
                .map_err(|e| StoreError::corrupt("report_bodies", e)),
            Body::Segment(_) => Err(StoreError::InSegment),
        }
    }
}

/// The day of arrival that a report is filed under.
pub(crate) fn day(received_at: OffsetDateTime) -> Date {
    received_at.to_offset(UtcOffset::UTC).date()
}

/// A day's first moment and the next day's.
pub(crate) fn bounds(day: Date) -> (OffsetDateTime, OffsetDateTime) {
    let start = day.midnight().assume_utc();
    (start, start.saturating_add(time::Duration::DAY))
}
