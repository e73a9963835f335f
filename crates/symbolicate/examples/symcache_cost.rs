//! What a symcache costs and gives: build time, size, lookups a second, beside symbolic's own symcache
//! of the same file. `cargo run --release -p unslide-symbolicate --example symcache_cost -- FILE…`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for a person to read")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::hint::black_box;
use std::time::Instant;
use symbolic_debuginfo::Archive;
use symbolic_symcache::{SymCache as TheirCache, SymCacheConverter};
use unslide_model::RelativeAddress;
use unslide_symbolicate::object::{Limits, build, objects};
use unslide_symbolicate::symcache::SymCache;

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).unwrap();
        for entry in objects(&bytes, &Limits::default()).unwrap() {
            let slice = &bytes[entry.range];
            let start = Instant::now();
            let built = build(slice, &Limits::default()).unwrap();
            let ours_built = start.elapsed();

            let start = Instant::now();
            let archive = Archive::parse(slice).unwrap();
            let object = archive.object_by_index(0).unwrap().unwrap();
            let mut converter = SymCacheConverter::new();
            let theirs = converter.process_object(&object).ok().map(|()| {
                let mut out = Vec::new();
                converter.serialize(&mut out).unwrap();
                out
            });
            let theirs_built = start.elapsed();

            println!("{path} {}: {} bytes", built.cpu.name(), slice.len());
            println!("  built in {ours_built:.2?}, {} bytes", built.symcache.len());
            let cache = SymCache::parse(&built.symcache[..]).unwrap();
            println!("  {}", cache.contents());
            let starts: Vec<u64> =
                cache.ranges().filter(|(_, answer)| answer.is_some()).map(|(start, _)| start.0).collect();
            let mut state = 0x9E37_79B9_7F4A_7C15_u64;
            let addresses: Vec<u64> = (0..1_000_000)
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    starts[usize::try_from(state >> 33).unwrap() % starts.len()]
                })
                .collect();
            let mut out = Vec::with_capacity(1 << 20);
            let (mut calls, start) = (0_u64, Instant::now());
            for address in &addresses {
                if let Some(answer) = cache.lookup(RelativeAddress(*address)).found() {
                    out.clear();
                    for call in answer.calls() {
                        out.extend_from_slice(call.function.as_bytes());
                        out.extend_from_slice(call.raw.map_or(&[], |raw| raw.as_bytes()));
                        out.extend_from_slice(call.file.map_or(&[], |file| file.as_bytes()));
                        calls += 1;
                    }
                    black_box(&out);
                }
            }
            let each = start.elapsed() / 1_000_000;
            println!(
                "  lookup with all texts copied: {each:?} an address, {:.2} calls each",
                calls as f64 / 1e6
            );
            if let Some(theirs) = theirs {
                println!("  symbolic: built in {theirs_built:.2?}, {} bytes", theirs.len());
                let cache = TheirCache::parse(&theirs).unwrap();
                let (mut calls, start) = (0_u64, Instant::now());
                for address in &addresses {
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
                let each = start.elapsed() / 1_000_000;
                println!(
                    "  symbolic: {each:?} an address with mangled names, {:.2} calls each",
                    calls as f64 / 1e6
                );
            }
        }
    }
}
