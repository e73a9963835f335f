//! Any bytes as an object file: every slice gives a whole symcache or a reason.

use unslide_symbolicate::object::{build_symcache, list_objects};
use unslide_symbolicate::symcache::{MAX_CALLS, SymCache};

pub fn check(data: &[u8]) {
    let Ok(entries) = list_objects(data) else { return };
    for entry in entries.iter().take(4) {
        let slice = &data[entry.range.clone()];
        let Ok(built) = build_symcache(slice) else { continue };
        assert!(entry.object.as_ref().is_ok_and(|facts| facts.debug_id == Some(built.debug_id)));
        let cache = SymCache::parse(built.symcache.clone()).expect("what was built can be read");
        cache.verify_checksum().expect("and is whole");
        let mut last = None;
        for (start, answer) in cache.ranges() {
            assert!(last < Some(start), "starts ascend");
            last = Some(start);
            assert_eq!(answer.is_some(), cache.lookup(start).into_answer().is_some());
            if let Some(answer) = answer {
                let calls = answer.calls().count();
                assert!((1..=MAX_CALLS).contains(&calls));
                assert_eq!(answer.calls().filter(|call| !call.inlined).count(), 1);
            }
        }
        assert_eq!(build_symcache(slice).expect("again").symcache, built.symcache, "the same bytes each time");
    }
}
