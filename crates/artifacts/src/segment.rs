//! Segments: objects that hold the bodies of many stored reports of one tenant and day.
//!
//! Each body is compressed by itself, in a frame that says whose it is and has a checksum over all of
//! it, so that one range read is all that a reader needs and a wrong body is never taken for the right
//! one. The index at the end makes a segment complete in itself: whoever has only the object can list,
//! check and rebuild what is in it. `docs/formats.md` has the layout and its history; [`VERSION`] goes
//! up with each change.

mod frame;
mod index;

pub use frame::{Codec, FRAME_HEAD_BYTES, Frame, FrameHead};
pub use index::{Contents, Entry, TRAILER_BYTES, Trailer, Writer};

use crate::keys::Key;
use crate::{ObjectStore, StoreError};
use bytes::Bytes;
use std::ops::Range;
use unslide_model::TenantId;

/// The version that is written. Readers take this one only.
pub const VERSION: u16 = 1;

/// The largest body that is put into a segment, in bytes of JSON.
pub const MAX_BODY_BYTES: usize = 256 << 20;

/// The largest frame that a reader fetches: a body that compression made no smaller.
pub const MAX_FRAME_BYTES: u64 = (256 << 20) + (2 << 20);

/// The bytes of one frame, for [`Frame::read_of`]; `None` where the segment is gone. What is cut off,
/// or cannot be a frame, comes back shorter than asked for, which no frame reads as.
///
/// # Errors
/// As [`ObjectStore::get_range`], but a range outside the object is none.
pub async fn fetch(
    objects: &ObjectStore,
    key: &Key,
    offset: u64,
    length: u64,
) -> Result<Option<Bytes>, StoreError> {
    let end = offset.checked_add(length).filter(|_| (FRAME_HEAD_BYTES..=MAX_FRAME_BYTES).contains(&length));
    let Some(end) = end else { return Ok(Some(Bytes::new())) };
    match objects.get_range(key, offset..end).await {
        Err(StoreError::Range { .. }) => Ok(Some(Bytes::new())),
        other => other,
    }
}

/// Why bytes are no segment or no frame of one. Every kind means that they are damaged or foreign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// It ends too early, or goes on where it should end.
    #[error("the {0} has another length than it says")]
    Length(&'static str),
    /// It does not begin or end as one does.
    #[error("this is no {0}")]
    Magic(&'static str),
    /// It was written by a program that this one does not know.
    #[error("the segment has version {0}")]
    Version(u16),
    /// The bytes are not those that were written.
    #[error("the checksum of the {0} is wrong")]
    Checksum(&'static str),
    /// A field holds what no writer writes.
    #[error("the {0} makes no sense")]
    Field(&'static str),
    /// The body has more bytes than the reader takes.
    #[error("the body has {size} bytes; at most {limit} are taken")]
    TooLarge {
        /// Bytes that it says it has.
        size: u64,
        /// Bytes that the reader takes.
        limit: usize,
    },
    /// The compressed body can't be read, or is not as long as it says.
    #[error("the body can't be decompressed")]
    Body,
}

/// Takes fields off the front of some bytes.
struct Fields<'b> {
    left: &'b [u8],
    what: &'static str,
}

impl<'b> Fields<'b> {
    fn of(bytes: &'b [u8], what: &'static str) -> Fields<'b> {
        Fields { left: bytes, what }
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], SegmentError> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(SegmentError::Length(self.what))?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SegmentError> {
        self.take(N)?.try_into().map_err(|_| SegmentError::Length(self.what))
    }

    fn u8(&mut self) -> Result<u8, SegmentError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, SegmentError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, SegmentError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, SegmentError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn end(self) -> Result<(), SegmentError> {
        if self.left.is_empty() { Ok(()) } else { Err(SegmentError::Length(self.what)) }
    }
}

/// A slice of some bytes by numbers that came from them.
fn slice<'b>(bytes: &'b [u8], range: &Range<u64>, what: &'static str) -> Result<&'b [u8], SegmentError> {
    let at = |n: u64| usize::try_from(n).map_err(|_| SegmentError::Length(what));
    bytes.get(at(range.start)?..at(range.end)?).ok_or(SegmentError::Length(what))
}

fn read_tenant(bytes: &[u8]) -> Result<TenantId, SegmentError> {
    let text = std::str::from_utf8(bytes).map_err(|_| SegmentError::Field("tenant"))?;
    TenantId::new(text).map_err(|_| SegmentError::Field("tenant"))
}
