//! Segments: written and read, held against a file of each version, and any bytes at all.

use bytes::Bytes;
use proptest::prelude::*;
use time::macros::date;
use unslide_artifacts::segment::{
    Codec, Contents, Frame, FrameHead, SegmentError, TRAILER_BYTES, Trailer, VERSION, Writer, fetch,
};
use unslide_artifacts::{Fault, ObjectStore, Operation, Put, keys};
use unslide_model::{ReportId, TenantId};
use uuid::Uuid;

fn acme() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn head(n: u8) -> FrameHead {
    FrameHead {
        report_id: ReportId([n; 16]),
        variant: u32::from(n) - 1,
        revision: n.into(),
        received_at_micros: 1_795_161_600_000_000 + i64::from(n) - 1,
        size: 0,
        codec: Codec::Zstd,
    }
}

fn body(n: u8) -> Vec<u8> {
    format!("{{\"n\":{n},\"frames\":\"{}\"}}", "abcdefgh".repeat(50)).into_bytes()
}

fn segment(count: u8) -> Bytes {
    let mut out = Vec::new();
    let mut writer = Writer::new(&acme(), date!(2026 - 11 - 20), &mut out);
    for n in 1..=count {
        writer.add(&Frame::compress(head(n), &body(n)), &mut out);
    }
    assert_eq!(writer.bytes(), out.len() as u64);
    writer.finish(&mut out);
    out.into()
}

/// The file was made by hand from the format's description. Where this fails, either the description
/// is broken, or the format has changed: then it needs another version, with a file of its own here.
#[test]
fn version_1_is_read_and_written_as_its_file_has_it() {
    let golden = Bytes::from_static(include_bytes!("../data/segment-v1"));
    let contents = Contents::read(&golden).unwrap();
    assert_eq!((VERSION, &contents.tenant, contents.day), (1, &acme(), date!(2026 - 11 - 20)));
    let bodies = [&b"{\"report\":{\"id\":\"first\"}}"[..], b"{\"report\":{\"id\":\"second\"},\"n\":[1,2,3]}"];
    let mut again = Vec::new();
    let mut writer = Writer::new(&contents.tenant, contents.day, &mut again);
    for (n, (entry, json)) in contents.frames.iter().zip(bodies).enumerate() {
        let frame = contents.frame(&golden, entry).unwrap();
        let codec = [Codec::Lz4, Codec::Zstd][n];
        let n = u8::try_from(n).unwrap() + 1;
        assert_eq!(frame.head, FrameHead { size: json.len() as u64, codec, ..head(n) });
        assert_eq!(frame.body(1 << 10).unwrap(), json);
        assert_eq!(writer.add(&frame, &mut again), *entry);
    }
    writer.finish(&mut again);
    assert_eq!(again, golden);
}

#[test]
fn a_segment_lists_itself_and_each_frame_is_read_alone() {
    let bytes = segment(20);
    let contents = Contents::read(&bytes).unwrap();
    assert_eq!(contents.frames.len(), 20);
    for (n, entry) in (1..=20).zip(&contents.frames) {
        let frame = contents.frame(&bytes, entry).unwrap();
        assert_eq!(frame.body(1 << 20).unwrap(), body(n));
        assert_eq!(entry.length, frame.length());
    }
    // From ranges, as an audit of a large one does it.
    let size = bytes.len() as u64;
    let tail = usize::try_from(size - TRAILER_BYTES).unwrap();
    let trailer = Trailer::read(&bytes[tail..], size).unwrap();
    let index = usize::try_from(trailer.index.start).unwrap()..usize::try_from(trailer.index.end).unwrap();
    assert_eq!(Contents::of_parts(&bytes[..128], &bytes[index], &trailer).unwrap(), contents);
    assert!(Contents::read(&segment(0)).unwrap().frames.is_empty());
}

#[test]
fn a_frame_of_another_report_is_never_taken_for_the_right_one() {
    let bytes = segment(2);
    let contents = Contents::read(&bytes).unwrap();
    let at = |n: usize| {
        let entry = contents.frames[n];
        let start = usize::try_from(entry.offset).unwrap();
        bytes.slice(start..start + usize::try_from(entry.length).unwrap())
    };
    assert!(Frame::read_of(at(0), ReportId([1; 16]), 0).is_ok());
    for (id, variant) in [(2, 0), (1, 1)] {
        let wrong = Frame::read_of(at(0), ReportId([id; 16]), variant);
        assert_eq!(wrong, Err(SegmentError::Field("frame's report")));
    }
    assert!(Frame::read_of(at(1), ReportId([2; 16]), 1).is_ok());
}

#[test]
fn a_body_over_the_readers_bound_takes_no_memory_and_a_wrong_length_is_found() {
    let frame = Frame::compress(head(1), &vec![b'x'; 1 << 20]);
    assert_eq!(frame.body(1 << 10), Err(SegmentError::TooLarge { size: 1 << 20, limit: 1 << 10 }));
    for size in [(1 << 20) - 1, (1 << 20) + 1] {
        let lying = Frame { head: FrameHead { size, ..frame.head }, payload: frame.payload.clone() };
        assert_eq!(lying.body(2 << 20), Err(SegmentError::Body), "{size}");
    }
}

#[tokio::test]
async fn a_range_of_a_segment_comes_back_whole_short_or_not_at_all() {
    let (store, memory) = ObjectStore::memory();
    let bytes = segment(3);
    let key = keys::segment(&acme(), date!(2026 - 11 - 20), Uuid::nil());
    assert_eq!(fetch(&store, &key, 0, 200).await.unwrap(), None);
    store.put(&key, bytes.clone(), &Put::default()).await.unwrap();
    let entry = Contents::read(&bytes).unwrap().frames[1];
    let frame = fetch(&store, &key, entry.offset, entry.length).await.unwrap().unwrap();
    assert_eq!(Frame::read_of(frame, ReportId([2; 16]), 1).unwrap().body(1 << 20).unwrap(), body(2));
    // Places that no segment has are damage, not a reason to try again; nor is anything fetched for them.
    let size = bytes.len() as u64;
    let calls = memory.calls(Operation::Get);
    for (offset, length) in [(0, 87), (0, 0), (u64::MAX, 100), (10, u64::MAX), (0, 1 << 40)] {
        let got = fetch(&store, &key, offset, length).await.unwrap().unwrap();
        assert!(Frame::read(got).is_err(), "{offset} {length}");
    }
    assert_eq!(memory.calls(Operation::Get), calls);
    for (offset, length) in [(size, 100), (size - 90, 100), (1, entry.length)] {
        let got = fetch(&store, &key, offset, length).await.unwrap().unwrap();
        assert!(Frame::read(got).is_err(), "{offset} {length}");
    }
    memory.fail(Operation::Get, "", Fault::Transient, None);
    assert!(fetch(&store, &key, entry.offset, entry.length).await.unwrap_err().is_transient());
}

/// Everything that reads a segment's bytes; none of it may panic.
fn read_everything(bytes: &Bytes) -> Option<Vec<Frame>> {
    let _ = Frame::read(bytes.clone()).map(|frame| frame.body(1 << 20));
    let tail = bytes.slice(bytes.len().saturating_sub(56)..);
    let _ = Trailer::read(&tail, bytes.len() as u64);
    let contents = Contents::read(bytes).ok()?;
    let frames = contents.frames.iter().map(|entry| contents.frame(bytes, entry));
    let frames: Result<Vec<Frame>, SegmentError> = frames.collect();
    let frames = frames.ok()?;
    frames.iter().try_for_each(|frame| frame.body(1 << 20).map(drop)).ok()?;
    Some(frames)
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read_everything(&bytes.into());
    }

    /// One damaged byte anywhere is noticed: by the index's checksum, a frame's, or a bound.
    #[test]
    fn no_damage_goes_unnoticed(at in any::<prop::sample::Index>(), other in 1..=255_u8, cut in any::<prop::sample::Index>()) {
        let whole = segment(4);
        prop_assert!(read_everything(&whole).is_some());
        let mut damaged = whole.to_vec();
        let at = at.index(damaged.len());
        damaged[at] ^= other;
        prop_assert!(read_everything(&damaged.into()).is_none(), "byte {}", at);
        prop_assert!(read_everything(&whole.slice(..cut.index(whole.len()))).is_none());
    }

    /// Damage that keeps the frame's checksum right: the fields themselves have to make sense.
    #[test]
    fn a_frame_with_any_fields_is_read_or_refused(
        size in any::<u64>(), lz4 in any::<bool>(), payload in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        let codec = if lz4 { Codec::Lz4 } else { Codec::Zstd };
        let frame = Frame { head: FrameHead { size, codec, ..head(1) }, payload: payload.into() };
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let read = Frame::read(bytes.into()).unwrap();
        prop_assert_eq!(&read, &frame);
        let _ = read.body(1 << 20);
    }
}
