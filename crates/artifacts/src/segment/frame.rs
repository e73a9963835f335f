//! One body with what says whose it is.

use super::{Fields, SegmentError};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use unslide_model::ReportId;
use unslide_proto::body;

/// Bytes of a frame before its payload.
pub const FRAME_HEAD_BYTES: u64 = 88;

const MAGIC: [u8; 4] = *b"UFRM";
/// Bytes of the head that the checksum covers, which is all before the checksum itself.
const COVERED: usize = 56;
const SUM: usize = 32;
/// Levels above cost several times the time for a tenth of the bytes.
const ZSTD_LEVEL: i32 = 3;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// An lz4 block behind its length, as [`unslide_proto::body`] has it.
    Lz4,
    /// One zstd frame.
    Zstd,
}

impl Codec {
    fn code(self) -> u8 {
        match self {
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
        }
    }

    fn read(code: u8) -> Result<Codec, SegmentError> {
        match code {
            1 => Ok(Codec::Lz4),
            2 => Ok(Codec::Zstd),
            _ => Err(SegmentError::Field("codec")),
        }
    }
}

/// What a frame says of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The report's id.
    pub report_id: ReportId,
    /// Which of the reports with this id, from 0.
    pub variant: u32,
    /// The body's revision, from 1.
    pub revision: u32,
    /// When the report arrived, in microseconds since the Unix epoch.
    pub received_at_micros: i64,
    /// Bytes of the JSON.
    pub size: u64,
    /// How it is compressed.
    pub codec: Codec,
}

/// A frame whose checksum was right, or that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it says of its body.
    pub head: FrameHead,
    /// The compressed body.
    pub payload: Bytes,
}

impl Frame {
    /// A frame of JSON, compressed as [`Codec::Zstd`]; where that fails, which it does only for want
    /// of memory, as [`Codec::Lz4`]. `head` says the rest.
    #[must_use]
    pub fn compress(head: FrameHead, json: &[u8]) -> Frame {
        let size = u64::try_from(json.len()).unwrap_or(u64::MAX);
        let (codec, payload) = match zstd::bulk::compress(json, ZSTD_LEVEL) {
            Ok(payload) => (Codec::Zstd, payload),
            Err(_) => (Codec::Lz4, body::compress(json)),
        };
        Frame { head: FrameHead { size, codec, ..head }, payload: payload.into() }
    }

    /// Bytes of the frame with its head.
    #[must_use]
    pub fn length(&self) -> u64 {
        FRAME_HEAD_BYTES + u64::try_from(self.payload.len()).unwrap_or(u64::MAX - FRAME_HEAD_BYTES)
    }

    /// Appends the frame's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let head = self.covered();
        out.extend_from_slice(&head);
        out.extend_from_slice(&checksum(&head, &self.payload));
        out.extend_from_slice(&self.payload);
    }

    fn covered(&self) -> [u8; COVERED] {
        let FrameHead { report_id, variant, revision, received_at_micros, size, codec } = self.head;
        let mut head = [0; COVERED];
        head[..4].copy_from_slice(&MAGIC);
        head[4] = codec.code();
        head[8..24].copy_from_slice(&report_id.0);
        head[24..28].copy_from_slice(&variant.to_le_bytes());
        head[28..32].copy_from_slice(&revision.to_le_bytes());
        head[32..40].copy_from_slice(&received_at_micros.to_le_bytes());
        head[40..48].copy_from_slice(&size.to_le_bytes());
        let length = u64::try_from(self.payload.len()).unwrap_or(u64::MAX);
        head[48..56].copy_from_slice(&length.to_le_bytes());
        head
    }

    /// Reads exactly one frame, and checks all of it.
    ///
    /// # Errors
    /// [`SegmentError`] for anything that is not a whole, undamaged frame.
    #[expect(clippy::needless_pass_by_value, reason = "the frame keeps a part of the bytes")]
    pub fn read(bytes: Bytes) -> Result<Frame, SegmentError> {
        let mut fields = Fields::of(&bytes, "frame");
        if fields.array::<4>()? != MAGIC {
            return Err(SegmentError::Magic("frame"));
        }
        let codec = Codec::read(fields.u8()?)?;
        if fields.array::<3>()? != [0; 3] {
            return Err(SegmentError::Field("frame's reserve"));
        }
        let head = FrameHead {
            report_id: ReportId(fields.array()?),
            variant: fields.u32()?,
            revision: fields.u32()?,
            received_at_micros: i64::from_le_bytes(fields.array()?),
            size: fields.u64()?,
            codec,
        };
        let length = usize::try_from(fields.u64()?).map_err(|_| SegmentError::Length("frame"))?;
        let sum = fields.array::<SUM>()?;
        let payload = fields.take(length)?;
        fields.end()?;
        let covered = bytes.get(..COVERED).ok_or(SegmentError::Length("frame"))?;
        if checksum(covered, payload) != sum {
            return Err(SegmentError::Checksum("frame"));
        }
        Ok(Frame { head, payload: bytes.slice_ref(payload) })
    }

    /// Reads the frame of this report, which must say that it is of no other.
    ///
    /// # Errors
    /// [`SegmentError`] for anything else.
    pub fn read_of(bytes: Bytes, report_id: ReportId, variant: u32) -> Result<Frame, SegmentError> {
        let frame = Frame::read(bytes)?;
        if (frame.head.report_id, frame.head.variant) == (report_id, variant) {
            Ok(frame)
        } else {
            Err(SegmentError::Field("frame's report"))
        }
    }

    /// The JSON, at most `limit` bytes. Work for the CPU pool where it is large.
    ///
    /// # Errors
    /// [`SegmentError::TooLarge`] before memory is taken, [`SegmentError::Body`] where the payload is
    /// not what the head says.
    pub fn body(&self, limit: usize) -> Result<Vec<u8>, SegmentError> {
        let size = self.head.size;
        let wanted = usize::try_from(size).ok().filter(|size| *size <= limit);
        let wanted = wanted.ok_or(SegmentError::TooLarge { size, limit })?;
        let json = match self.head.codec {
            Codec::Lz4 => body::decompress(&self.payload, wanted).map_err(|_| SegmentError::Body)?,
            Codec::Zstd => zstd::bulk::decompress(&self.payload, wanted).map_err(|_| SegmentError::Body)?,
        };
        if json.len() == wanted { Ok(json) } else { Err(SegmentError::Body) }
    }
}

fn checksum(covered: &[u8], payload: &[u8]) -> [u8; SUM] {
    let mut hash = Sha256::new();
    hash.update(covered);
    hash.update(payload);
    hash.finalize().into()
}
