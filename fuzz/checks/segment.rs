//! Any bytes as a segment: its frames or a reason, within the limit; what is read is written again the
//! same, and what is written is read.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use unslide_artifacts::segment::{
    Codec, Contents, FRAME_HEAD_BYTES, Frame, FrameHead, TRAILER_BYTES, Writer,
};
use unslide_model::{ReportId, TenantId};
use unslide_proto::body::compress;

/// The largest body that is taken.
const LIMIT: usize = 1 << 20;

pub fn check(data: &[u8]) {
    read(data);
    read(&mended(data));
    write(data);
}

fn read(data: &[u8]) {
    let segment = Bytes::copy_from_slice(data);
    let _ = Frame::read(segment.clone()).map(|frame| body(&frame));
    let Ok(contents) = Contents::read(data) else { return };
    assert!(contents.frames.len() <= data.len() / FRAME_HEAD_BYTES as usize);
    let mut again = Vec::new();
    let mut writer = Writer::new(&contents.tenant, contents.day, &mut again);
    for entry in &contents.frames {
        let Ok(frame) = contents.frame(&segment, entry) else { return };
        body(&frame);
        assert_eq!(writer.add(&frame, &mut again), *entry);
    }
    writer.finish(&mut again);
    assert!(again == data, "a segment is written in one way");
}

fn body(frame: &Frame) {
    if let Ok(json) = frame.body(LIMIT) {
        assert!(json.len() <= LIMIT && json.len() as u64 == frame.head.size);
    }
}

/// The same bytes with checksums that fit, as far as there is a place for them.
fn mended(data: &[u8]) -> Vec<u8> {
    let mut segment = data.to_vec();
    let _ = mend(&mut segment);
    segment
}

fn mend(segment: &mut [u8]) -> Option<()> {
    let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.first_chunk().copied()?) as usize);
    let trailer = segment.len().checked_sub(TRAILER_BYTES as usize)?;
    let start = number(&segment[trailer..])?;
    let header = 16 + usize::from(*segment.get(10)?);
    let index = segment.get(start..trailer)?.to_vec();
    for entry in index.chunks_exact(40) {
        let (offset, length) = (number(entry)?, number(&entry[8..])?);
        let Some(frame) = segment.get_mut(offset..offset.saturating_add(length)) else { continue };
        if frame.len() >= FRAME_HEAD_BYTES as usize {
            let sum = Sha256::new().chain_update(&frame[..56]).chain_update(&frame[88..]).finalize();
            frame[56..88].copy_from_slice(&sum);
        }
    }
    let sum = Sha256::new().chain_update(segment.get(..header)?).chain_update(&index).finalize();
    segment[trailer + 12..trailer + 44].copy_from_slice(&sum);
    Some(())
}

/// Each line as a body.
fn write(data: &[u8]) {
    let tenant = TenantId::new("acme").expect("a tenant");
    let mut segment = Vec::new();
    let mut writer = Writer::new(&tenant, time::Date::MIN, &mut segment);
    let mut bodies: Vec<(FrameHead, &[u8])> = Vec::new();
    for (n, json) in (0_u8..16).zip(data.split(|byte| *byte == b'\n')) {
        let (codec, size) = (Codec::Lz4, json.len() as u64);
        let head = FrameHead {
            report_id: ReportId([n; 16]),
            variant: n.into(),
            revision: 1 + u32::from(n),
            received_at_micros: i64::from(n) - 8,
            size,
            codec,
        };
        let frame = match n % 2 {
            0 => Frame::compress(head, json),
            _ => Frame { head, payload: compress(json).into() },
        };
        writer.add(&frame, &mut segment);
        bodies.push((frame.head, json));
    }
    writer.finish(&mut segment);
    let segment = Bytes::from(segment);
    let contents = Contents::read(&segment).expect("what was written");
    assert_eq!(
        (&contents.tenant, contents.day, contents.frames.len()),
        (&tenant, time::Date::MIN, bodies.len())
    );
    for (entry, (head, json)) in contents.frames.iter().zip(bodies) {
        let frame = contents.frame(&segment, entry).expect("what was written");
        assert_eq!((frame.head, frame.body(json.len()).expect("the body")), (head, json.to_vec()));
    }
}
