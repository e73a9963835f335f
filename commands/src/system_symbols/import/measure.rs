//! Reads a cache as an import does, and sends nothing: for measurements.

use super::READ_BATCH;
use super::read::{open_cache, read_cache_images};
use std::path::Path;
use unslide_system_symbols_formats::dyld_cache::{CacheImage, DyldCacheError};

/// Totals of all libraries of one cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheTotals {
    /// Libraries that the cache lists.
    pub libraries: usize,
    /// Libraries that give no names.
    pub left_out: usize,
    /// Functions that have a name.
    pub functions: u64,
    /// Bytes of the names files, as they are sent and stored.
    pub names_bytes: u64,
}

/// Reads all names of a cache in the batches of an import, on all processors. Calls `after_batch` after each one.
///
/// # Errors
/// Returns an error if a file of the cache is missing, damaged or foreign.
pub fn measure_cache(path: &Path, mut after_batch: impl FnMut()) -> Result<CacheTotals, DyldCacheError> {
    let cache = open_cache(path)?;
    let images: Vec<&CacheImage> = cache.images().iter().collect();
    let mut totals = CacheTotals { libraries: images.len(), ..CacheTotals::default() };
    for batch in images.chunks(READ_BATCH) {
        for image in read_cache_images(&cache, batch) {
            match image {
                Ok(image) => {
                    totals.functions += image.named;
                    totals.names_bytes += image.bytes.len() as u64;
                }
                Err(_) => totals.left_out += 1,
            }
        }
        after_batch();
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_testkit::fixtures;

    #[test]
    fn every_library_of_a_cache_is_counted() {
        let mut batches = 0;
        let path = fixtures::dyld_caches().join("ios26-split/dyld_shared_cache_arm64e");
        let totals = measure_cache(&path, || batches += 1).unwrap();
        assert_eq!((totals.libraries, totals.left_out, batches), (6, 0, 1));
        assert!(totals.functions > 20 && totals.names_bytes > 500, "{totals:?}");
    }
}
