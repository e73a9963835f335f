//! A segment as a whole: its header, its index, and writing both.

use super::{FRAME_HEAD_BYTES, Fields, Frame, SegmentError, VERSION, read_tenant, slice};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::ops::Range;
use time::Date;
use unslide_model::{ReportId, TenantId};

const MAGIC: [u8; 8] = *b"UNSLDSEG";
const END: [u8; 8] = *b"UNSLDEND";
/// Bytes of the header before the tenant's name.
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: u64 = 40;
/// Bytes at a segment's end that say where its index is.
pub const TRAILER_BYTES: u64 = 56;
/// The Julian day of 1 January 1970, from which days are counted.
const EPOCH: i32 = 2_440_588;

/// Where one frame lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Bytes from the segment's start.
    pub offset: u64,
    /// Bytes of the frame with its head.
    pub length: u64,
    /// Whose body it holds.
    pub report_id: ReportId,
    /// Which of the reports with this id.
    pub variant: u32,
    /// The body's revision.
    pub revision: u32,
}

/// Writes a segment piece by piece; the pieces are for the caller to store one after the other.
#[derive(Debug)]
pub struct Writer {
    header: Vec<u8>,
    entries: Vec<Entry>,
    offset: u64,
}

impl Writer {
    /// Begins a segment. `out` gets its header.
    #[must_use]
    pub fn new(tenant: &TenantId, day: Date, out: &mut Vec<u8>) -> Writer {
        let name = tenant.as_str().as_bytes();
        let mut header = Vec::with_capacity(HEADER_BYTES + name.len());
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        // A tenant's name has at most 40 bytes.
        header.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        header.push(0);
        header.extend_from_slice(&(day.to_julian_day() - EPOCH).to_le_bytes());
        header.extend_from_slice(name);
        out.extend_from_slice(&header);
        let offset = u64::try_from(header.len()).unwrap_or_default();
        Writer { header, entries: Vec::new(), offset }
    }

    /// Adds a frame to `out`, and says where in the segment it lies.
    pub fn add(&mut self, frame: &Frame, out: &mut Vec<u8>) -> Entry {
        frame.write(out);
        let entry = Entry {
            offset: self.offset,
            length: frame.length(),
            report_id: frame.head.report_id,
            variant: frame.head.variant,
            revision: frame.head.revision,
        };
        self.offset += entry.length;
        self.entries.push(entry);
        entry
    }

    /// Bytes so far, without the index.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// The frames so far.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Ends the segment. `out` gets its index and its trailer.
    pub fn finish(self, out: &mut Vec<u8>) {
        let mut index = Vec::with_capacity(self.entries.len() * 40);
        for entry in &self.entries {
            index.extend_from_slice(&entry.offset.to_le_bytes());
            index.extend_from_slice(&entry.length.to_le_bytes());
            index.extend_from_slice(&entry.report_id.0);
            index.extend_from_slice(&entry.variant.to_le_bytes());
            index.extend_from_slice(&entry.revision.to_le_bytes());
        }
        let sum = checksum(&self.header, &index);
        out.extend_from_slice(&index);
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.entries.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&sum);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&END);
    }
}

/// The end of a segment: where its index is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Where in the object the index lies.
    pub index: Range<u64>,
    sum: [u8; 32],
}

impl Trailer {
    /// Reads the last [`TRAILER_BYTES`] bytes of an object that has `size` bytes.
    ///
    /// # Errors
    /// [`SegmentError`] where these end no segment of that size.
    pub fn read(bytes: &[u8], size: u64) -> Result<Trailer, SegmentError> {
        let mut fields = Fields::of(bytes, "trailer");
        let start = fields.u64()?;
        let frames = fields.u32()?;
        let sum = fields.array()?;
        let version = fields.u16()?;
        let reserve = fields.u16()?;
        let end = fields.array::<8>()?;
        fields.end()?;
        if end != END {
            return Err(SegmentError::Magic("segment's end"));
        }
        if version != VERSION {
            return Err(SegmentError::Version(version));
        }
        let index = start..start.saturating_add(u64::from(frames) * ENTRY_BYTES);
        if reserve != 0 || index.end.checked_add(TRAILER_BYTES) != Some(size) {
            return Err(SegmentError::Length("index"));
        }
        Ok(Trailer { index, sum })
    }
}

/// What a segment says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Whose reports it holds.
    pub tenant: TenantId,
    /// Their day of arrival in UTC.
    pub day: Date,
    /// Its frames, in their order.
    pub frames: Vec<Entry>,
}

impl Contents {
    /// Reads a whole segment's header, trailer and index. The frames are for [`Frame::read`].
    ///
    /// # Errors
    /// [`SegmentError`] for what is no whole, undamaged segment.
    pub fn read(segment: &[u8]) -> Result<Contents, SegmentError> {
        let size = u64::try_from(segment.len()).map_err(|_| SegmentError::Length("segment"))?;
        let start = size.checked_sub(TRAILER_BYTES).ok_or(SegmentError::Length("segment"))?;
        let trailer = Trailer::read(slice(segment, &(start..size), "segment")?, size)?;
        Contents::of_parts(segment, slice(segment, &trailer.index, "index")?, &trailer)
    }

    /// The same from what was read in ranges: the first bytes (128 are enough), the index, the trailer.
    ///
    /// # Errors
    /// [`SegmentError`] where they do not go together.
    pub fn of_parts(first: &[u8], index: &[u8], trailer: &Trailer) -> Result<Contents, SegmentError> {
        let mut fields = Fields::of(first, "header");
        if fields.array()? != MAGIC {
            return Err(SegmentError::Magic("segment"));
        }
        let version = fields.u16()?;
        if version != VERSION {
            return Err(SegmentError::Version(version));
        }
        let name = usize::from(fields.u8()?);
        if fields.u8()? != 0 {
            return Err(SegmentError::Field("header's reserve"));
        }
        let day = i32::from_le_bytes(fields.array()?);
        let tenant = fields.take(name)?;
        let header = first.get(..HEADER_BYTES + name).ok_or(SegmentError::Length("header"))?;
        if checksum(header, index) != trailer.sum {
            return Err(SegmentError::Checksum("index"));
        }
        let day = day.checked_add(EPOCH).and_then(|day| Date::from_julian_day(day).ok());
        let mut frames = Vec::with_capacity(index.len() / 40);
        let mut fields = Fields::of(index, "index");
        let mut next = u64::try_from(header.len()).unwrap_or_default();
        while !fields.left.is_empty() {
            let entry = Entry {
                offset: fields.u64()?,
                length: fields.u64()?,
                report_id: ReportId(fields.array()?),
                variant: fields.u32()?,
                revision: fields.u32()?,
            };
            // Frames lie one behind the other, so that no byte of a segment is unaccounted for.
            if entry.offset != next || entry.length < FRAME_HEAD_BYTES {
                return Err(SegmentError::Field("index"));
            }
            next = next.checked_add(entry.length).ok_or(SegmentError::Field("index"))?;
            frames.push(entry);
        }
        if next != trailer.index.start {
            return Err(SegmentError::Field("index"));
        }
        Ok(Contents { tenant: read_tenant(tenant)?, day: day.ok_or(SegmentError::Field("day"))?, frames })
    }

    /// One of the frames, from the bytes of the whole segment.
    ///
    /// # Errors
    /// [`SegmentError`] where it is damaged, or not the one that the index names.
    pub fn frame(&self, segment: &Bytes, entry: &Entry) -> Result<Frame, SegmentError> {
        let range = entry.offset..entry.offset.saturating_add(entry.length);
        let frame = Frame::read(segment.slice_ref(slice(segment, &range, "frame")?))?;
        let named = (entry.report_id, entry.variant, entry.revision);
        let found = (frame.head.report_id, frame.head.variant, frame.head.revision);
        if named == found { Ok(frame) } else { Err(SegmentError::Field("index")) }
    }
}

fn checksum(header: &[u8], index: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(header);
    hash.update(index);
    hash.finalize().into()
}
