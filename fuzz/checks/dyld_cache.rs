//! Any bytes as a dyld shared cache in one file: the names of each image are read or refused, and what is read can be
//! sent and built.

use bytes::Bytes;
use unslide_system_symbols_formats::dyld_cache::DyldCache;
use unslide_symbolicate::object::build_symcache;

pub fn check(data: &[u8]) {
    let main = Bytes::copy_from_slice(data);
    // Each further file is the same one.
    let open = |_: &str| Ok(Some(main.clone()));
    let Ok(cache) = DyldCache::open(main.clone(), "dyld_shared_cache_arm64e", open) else { return };
    for image in cache.images().iter().take(8) {
        let Ok(names) = cache.read_names(image) else { continue };
        assert!(names.starts.is_sorted_by_key(|start| start.offset), "starts ascend");
        let file = names.to_file().expect("what was read can be written");
        if let Ok(built) = build_symcache(&file) {
            assert_eq!(built.debug_id, image.debug_id);
        }
    }
}
