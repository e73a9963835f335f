//! Measures the reading part of `unslide system-symbols import`: time as a ratio to reading the same bytes, memory, and
//! bytes that a build takes when it is stored. `scripts/bench system` generates a large cache and runs it.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for a person to read")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use unslide_commands::system_symbols::measure_cache;

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// Files of a cache that are read for the comparison: the main file and those beside it with names that begin with its.
fn list_files(main: &Path) -> Vec<PathBuf> {
    let name = main.file_name().unwrap().to_str().unwrap();
    let entries = fs::read_dir(main.parent().unwrap()).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name)).collect()
}

/// Reads every byte of the files, as a sum, and returns their size.
fn read_bytes(files: &[PathBuf]) -> (u64, u64) {
    let (mut size, mut sum) = (0, 0_u64);
    let mut buffer = vec![0; READ_BYTES];
    for path in files {
        let mut file = File::open(path).unwrap();
        loop {
            let count = file.read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            size += count as u64;
            sum = buffer[..count]
                .chunks_exact(8)
                .fold(sum, |sum, chunk| sum.wrapping_add(u64::from_le_bytes(*chunk.first_chunk().unwrap())));
        }
    }
    (size, sum)
}

/// Returns a number of bytes that the kernel tells of this process.
fn read_memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn measure<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}

fn main() {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        println!("usage: import_cost MAIN_FILE_OF_A_CACHE");
        return;
    };
    let files = list_files(&path);
    // The first time brings the files into memory.
    read_bytes(&files);
    let ((size, sum), reading) = measure(|| read_bytes(&files));
    let mut peak = 0;
    let (totals, importing) =
        measure(|| measure_cache(&path, || peak = read_memory("RssAnon:").max(peak)).unwrap());
    println!("{} files, {} MB (sum {sum:x})", files.len(), size / 1_000_000);
    println!(
        "{} libraries, {} left out, {} functions named",
        totals.libraries, totals.left_out, totals.functions
    );
    println!(
        "reading the bytes {reading:.2?}, reading the names {importing:.2?}: {:.1} times, {:.2} million functions a second",
        importing.as_secs_f64() / reading.as_secs_f64(),
        totals.functions as f64 / importing.as_secs_f64() / 1e6
    );
    println!(
        "memory at most {} MB, {} MB with pages of the mapped files",
        peak / 1_000_000,
        read_memory("VmHWM:") / 1_000_000
    );
    println!(
        "stored for the build: {:.1} MB of names files, {:.1} bytes a function",
        totals.names_bytes as f64 / 1e6,
        totals.names_bytes as f64 / totals.functions.max(1) as f64
    );
}
