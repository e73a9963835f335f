//! Measures the CPU time of reading all names of a dyld shared cache, as a ratio to reading its files, and the size of
//! the names files.
//! `tests/fixtures/dyld-cache/generate --big 3000 2000 /tmp/big`, then
//! `cargo run --release -p unslide-symbolicate --example dyld_cache_cost -- /tmp/big/dyld_shared_cache_arm64e`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for a person to read")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use bytes::Bytes;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;
use unslide_symbolicate::dyld_cache::DyldCache;
use unslide_symbolicate::object::build_symcache;

/// Libraries of which the symcache is built too: one of this many.
const SYMCACHE_SHARE: usize = 100;

fn read_file(path: &Path) -> Option<Bytes> {
    std::fs::read(path).ok().map(Bytes::from)
}

/// Reads every byte of the files, as a sum.
fn sum_bytes(files: &[Bytes]) -> u64 {
    files
        .iter()
        .flat_map(|file| file.chunks_exact(8))
        .fold(0, |sum: u64, chunk| sum.wrapping_add(u64::from_le_bytes(*chunk.first_chunk().unwrap())))
}

fn main() {
    let path = PathBuf::from(std::env::args().nth(1).unwrap());
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut files = vec![read_file(&path).unwrap()];
    let main = files[0].clone();
    let cache = DyldCache::open(main, &name, |part| {
        let file = read_file(&path.with_file_name(part));
        files.extend(file.clone());
        Ok(file)
    });
    let cache = cache.unwrap();
    let start = Instant::now();
    black_box(sum_bytes(&files));
    let reading = start.elapsed();
    let start = Instant::now();
    let (mut starts, mut bytes, mut failed) = (0, 0, 0);
    let mut sample = Vec::new();
    for (index, image) in cache.images().iter().enumerate() {
        match cache.read_names(image).ok().and_then(|names| Some((names.starts.len(), names.to_file().ok()?)))
        {
            Some((count, file)) => {
                starts += count;
                bytes += file.len();
                if index % SYMCACHE_SHARE == 0 {
                    sample.push(file);
                }
            }
            None => failed += 1,
        }
    }
    let names = start.elapsed();
    let size: usize = files.iter().map(Bytes::len).sum();
    println!(
        "{} files, {} MB, {} libraries, {failed} failed",
        files.len(),
        size / 1_000_000,
        cache.images().len()
    );
    println!(
        "{starts} starts, {} MB of names files, {:.1} bytes a start",
        bytes / 1_000_000,
        bytes as f64 / starts as f64
    );
    println!(
        "reading the bytes {reading:?}, reading the names {names:?}: {:.1} times",
        names.as_secs_f64() / reading.as_secs_f64()
    );
    let start = Instant::now();
    let symcaches: usize = sample.iter().map(|file| build_symcache(file).unwrap().symcache.len()).sum();
    let files: usize = sample.iter().map(Vec::len).sum();
    println!(
        "symcaches of {} libraries: {:.1} times the names files, {:?} each",
        sample.len(),
        symcaches as f64 / files as f64,
        start.elapsed() / u32::try_from(sample.len().max(1)).unwrap()
    );
}
