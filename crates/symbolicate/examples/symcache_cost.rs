//! Measures the CPU time and size of a symcache: build, size, look-ups per second, compared with symbolic's own
//! symcache of the same file (not with `--alone`).
//! `cargo run --release -p unslide-symbolicate --example symcache_cost -- FILE…`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for a person to read")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use symbolic_debuginfo::Archive;
use symbolic_symcache::{SymCache as TheirCache, SymCacheConverter};
use unslide_model::RelativeAddress;
use unslide_symbolicate::object::{build_symcache, list_objects};
use unslide_symbolicate::symcache::SymCache;

/// Returns the CPU time of this thread. On Linux the scheduler counts it, so that other work on the machine
/// hardly matters; elsewhere it is the wall clock.
fn now() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let scheduler = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = scheduler.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// Returns random positions in the code, the same each time.
fn sample(starts: &[u64], of: usize) -> Vec<u64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap()
    };
    let some: Vec<u64> = (0..of).map(|_| starts[next() % starts.len()]).collect();
    (0..1_000_000).map(|_| some[next() % some.len()]).collect()
}

fn look_up(cache: &SymCache, addresses: &[u64], what: &str) {
    let mut out = Vec::with_capacity(1 << 20);
    let (mut calls, mut bytes, start) = (0_u64, 0, now());
    for address in addresses {
        if let Some(answer) = cache.lookup(RelativeAddress(*address)).into_answer() {
            out.clear();
            for call in answer.calls() {
                out.extend_from_slice(call.function.raw());
                out.extend_from_slice(call.raw.map_or(&[], |raw| raw.raw()));
                out.extend_from_slice(call.file.map_or(&[], |file| file.raw()));
                calls += 1;
            }
            bytes += black_box(&out).len();
        }
    }
    let each = (now() - start) / 1_000_000;
    println!(
        "  {what}: {each:?} an address, {:.2} calls and {} bytes each",
        calls as f64 / 1e6,
        bytes / 1_000_000
    );
}

fn look_up_theirs(cache: &TheirCache<'_>, addresses: &[u64], what: &str) {
    let mut out = Vec::with_capacity(1 << 20);
    let (mut calls, start) = (0_u64, now());
    for address in addresses {
        for location in cache.lookup(*address) {
            out.clear();
            out.extend_from_slice(location.function().name().as_bytes());
            if let Some(file) = location.file() {
                out.extend_from_slice(file.full_path().as_bytes());
            }
            black_box(&out);
            calls += 1;
        }
    }
    let each = (now() - start) / 1_000_000;
    println!("  {what}: {each:?} an address, {:.2} calls each", calls as f64 / 1e6);
}

fn main() {
    let (flags, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        for entry in list_objects(&bytes).unwrap() {
            let slice = &bytes[entry.range];
            let start = now();
            let built = build_symcache(slice).unwrap();
            println!("{path} {}: {} bytes", built.cpu.name(), slice.len());
            println!("  built in {:.2?}, {} bytes", now() - start, built.symcache.len());
            let cache = SymCache::parse(built.symcache).unwrap();
            println!("  {}", cache.describe_contents());
            let starts: Vec<u64> =
                cache.ranges().filter(|(_, answer)| answer.is_some()).map(|(start, _)| start.0).collect();
            let (everywhere, few) = (sample(&starts, 1_000_000), sample(&starts, 1_000));
            look_up(&cache, &everywhere, "lookup with all texts, anywhere");
            look_up(&cache, &few, "lookup with all texts, 1000 places");
            if flags.iter().any(|flag| flag == "--alone") {
                continue;
            }
            let start = now();
            let archive = Archive::parse(slice).unwrap();
            let object = archive.object_by_index(0).unwrap().unwrap();
            let mut converter = SymCacheConverter::new();
            if converter.process_object(&object).is_err() {
                continue;
            }
            let mut theirs = Vec::new();
            converter.serialize(&mut theirs).unwrap();
            println!("  symbolic: built in {:.2?}, {} bytes", now() - start, theirs.len());
            let cache = TheirCache::parse(&theirs).unwrap();
            look_up_theirs(&cache, &everywhere, "symbolic with mangled names, anywhere");
            look_up_theirs(&cache, &few, "symbolic with mangled names, 1000 places");
        }
    }
}
