//! Segments: frames sealed and opened, and fetched from objects.

use bytes::Bytes;
use proptest::prelude::*;
use time::macros::date;
use unslide_artifacts::segment::{
    BodyId, SEGMENT_HEADER, SEGMENT_VERSION, SegmentError, fetch_frame, open_frame, seal_frame,
};
use unslide_artifacts::{Fault, ObjectStore, Operation, Put, keys};
use unslide_model::{BodyKey, ReportId, TenantId};
use uuid::Uuid;

fn id(n: u8) -> BodyId {
    let tenant = TenantId::new("acme").unwrap();
    BodyId { tenant, report_id: ReportId([n; 16]), variant: u32::from(n), revision: 1 + u32::from(n) }
}

fn body(n: u8) -> Vec<u8> {
    format!("{{\"n\":{n},\"frames\":\"{}\"}}", "abcdefgh".repeat(50)).into_bytes()
}

/// The frame was made by another program, from the format's description. Where this fails the format has changed:
/// then it needs another version, and its history a line.
#[test]
fn a_frame_of_version_1_is_opened() {
    const FRAME: &str =
        "ebc36524273f3b8d95a6c3ff508441a85131a7595443c3daf11659f8cc0bf08051562d93b3e2e393d379ba3162a1";
    let bytes: Vec<u8> = (0..FRAME.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(FRAME.get(at..at + 2).unwrap(), 16).unwrap())
        .collect();
    assert_eq!((SEGMENT_VERSION, &SEGMENT_HEADER), (1, b"UNSLDSEG\x01\0"));
    assert_eq!(open_frame(&id(7), &BodyKey([9; 32]), bytes.into(), 100).unwrap(), b"{\"report\":{}}");
}

/// Proves: replay
#[test]
fn a_frame_opens_for_its_own_body_alone() {
    let (frame, key) = seal_frame(&id(1), &body(1)).unwrap();
    let frame = Bytes::from(frame);
    let opened = |id: &BodyId, key: &BodyKey| open_frame(id, key, frame.clone(), 1 << 20);
    assert_eq!(opened(&id(1), &key).unwrap(), body(1));
    let other_tenant = BodyId { tenant: TenantId::new("umbrella").unwrap(), ..id(1) };
    let other_report = BodyId { report_id: ReportId([2; 16]), ..id(1) };
    for other in [other_tenant, other_report, BodyId { variant: 0, ..id(1) }, BodyId { revision: 9, ..id(1) }]
    {
        assert_eq!(opened(&other, &key), Err(SegmentError::Damaged), "{other:?}");
    }
    let (again, other_key) = seal_frame(&id(1), &body(1)).unwrap();
    assert!(again != frame && other_key != key, "each frame has a key of its own");
    assert_eq!(opened(&id(1), &other_key), Err(SegmentError::Damaged));
    assert_eq!(format!("{key:?}"), "BodyKey(…)");
    let size = body(1).len();
    assert_eq!(
        open_frame(&id(1), &key, frame, 10),
        Err(SegmentError::TooLarge { size: size as u64, limit: 10 })
    );
}

#[tokio::test]
async fn a_range_of_a_segment_comes_back_whole_short_or_not_at_all() {
    let (store, memory) = ObjectStore::memory();
    let (frame, body_key) = seal_frame(&id(2), &body(2)).unwrap();
    let (offset, length) = (SEGMENT_HEADER.len() as u64, frame.len() as u64);
    let bytes = [SEGMENT_HEADER.to_vec(), frame].concat();
    let key = keys::for_segment(&id(2).tenant, date!(2026 - 11 - 20), Uuid::nil());
    assert_eq!(fetch_frame(&store, &key, 0, 200).await.unwrap(), None);
    let size = bytes.len() as u64;
    store.put(&key, bytes.into(), &Put::default()).await.unwrap();
    let fetched = fetch_frame(&store, &key, offset, length).await.unwrap().unwrap();
    assert_eq!(open_frame(&id(2), &body_key, fetched, 1 << 20).unwrap(), body(2));
    // Places that no segment has are damage, not a reason to try again; nor is anything fetched for them.
    let calls = memory.call_count(Operation::Get);
    for (offset, length) in [(0, 0), (u64::MAX, 100), (10, u64::MAX), (0, 1 << 40)] {
        let got = fetch_frame(&store, &key, offset, length).await.unwrap().unwrap();
        assert!(open_frame(&id(2), &body_key, got, 1 << 20).is_err(), "{offset} {length}");
    }
    assert_eq!(memory.call_count(Operation::Get), calls);
    for (offset, length) in [(size, 100), (size - 20, 100), (1, length)] {
        let got = fetch_frame(&store, &key, offset, length).await.unwrap().unwrap();
        assert!(open_frame(&id(2), &body_key, got, 1 << 20).is_err(), "{offset} {length}");
    }
    memory.fail(Operation::Get, "", Fault::Transient, None);
    assert!(fetch_frame(&store, &key, offset, length).await.unwrap_err().is_transient());
}

proptest! {
    /// Proves: replay
    #[test]
    fn no_damage_goes_unnoticed(
        at in any::<prop::sample::Index>(), other in 1..=255_u8, cut in any::<prop::sample::Index>(),
    ) {
        let (frame, key) = seal_frame(&id(3), &body(3)).unwrap();
        let mut damaged = frame.clone();
        damaged[at.index(frame.len())] ^= other;
        prop_assert_eq!(open_frame(&id(3), &key, damaged.into(), 1 << 20), Err(SegmentError::Damaged));
        let cut = cut.index(frame.len());
        let cut = Bytes::from(frame).slice(..cut);
        prop_assert_eq!(open_frame(&id(3), &key, cut, 1 << 20), Err(SegmentError::Damaged));
    }
}
