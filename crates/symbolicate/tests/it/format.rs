//! The symcache's format stays what its version says.

use unslide_symbolicate::object;
use unslide_symbolicate::symcache::{SYMCACHE_VERSION, SymCache, SymCacheError};

const APP: &[u8] = include_bytes!("../data/app.dsym");

/// The version of the format, and the length and checksum of what it makes of `data/app.dsym`.
const GOLDEN: (u32, usize, u32) = (1, 2957, 565_501_604);

fn built() -> Vec<u8> {
    object::build_symcache(APP).unwrap().symcache
}

#[test]
fn the_bytes_change_only_with_the_version() {
    let bytes = built();
    let checksum = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    assert_eq!(
        (SYMCACHE_VERSION, bytes.len(), checksum),
        GOLDEN,
        "other bytes than before: raise VERSION, so that stored symcaches are built anew, and write down why"
    );
}

#[test]
fn one_object_gives_the_same_bytes_each_time() {
    assert_eq!(built(), built());
}

#[test]
fn only_a_whole_symcache_of_this_version_is_read() {
    let bytes = built();
    let cache = SymCache::parse(bytes.clone()).unwrap();
    cache.verify_checksum().unwrap();
    assert_eq!(cache.debug_id(), object::build_symcache(APP).unwrap().debug_id);
    assert_eq!(SymCache::parse(bytes[..50].to_vec()).err(), Some(SymCacheError::NotASymCache));
    let short = SymCache::parse(bytes[..bytes.len() - 1].to_vec()).err();
    assert!(matches!(short, Some(SymCacheError::Length { .. })), "{short:?}");
    let mut newer = bytes.clone();
    newer[8] += 1;
    assert_eq!(SymCache::parse(newer).err(), Some(SymCacheError::Version(SYMCACHE_VERSION + 1)));
    let mut damaged = bytes;
    *damaged.last_mut().unwrap() ^= 1;
    let damaged = SymCache::parse(damaged).unwrap().verify_checksum();
    assert!(matches!(damaged, Err(SymCacheError::Checksum { .. })), "{damaged:?}");
}
