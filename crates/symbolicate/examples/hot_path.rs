//! Measures the time of each step for one report, relative to a parse of its JSON into a DOM. The ratios are
//! from one run, each the best of many alternating rounds.
//! `cargo run --release -p unslide-symbolicate --example hot_path -- [DSYM [ROUNDS]]`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for a person to read")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::object::{build_symcache, list_objects};
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{Context, ImageSymbols, Plan, enrich};
use unslide_testkit::reports::{Frame, Image, Thread, sized};

const LOAD: u64 = 0x7_04e4_c000;

fn main() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/app.dsym");
    let path = std::env::args().nth(1).unwrap_or_else(|| default.to_owned());
    let bytes = std::fs::read(&path).unwrap();
    let slice = list_objects(&bytes).unwrap().remove(0);
    let built = build_symcache(&bytes[slice.range]).unwrap();
    let symcache = SymCache::parse(built.symcache).unwrap();
    let rounds = std::env::args().nth(2).map_or(300, |rounds| rounds.parse().unwrap());
    for (frames, app_frames) in [(160, 40), (320, 80), (320, 320)] {
        let report = report(&symcache, frames, app_frames);
        let symbols = ImageSymbols::from_symcache(Arc::new(symcache.clone()));
        println!("150 images, {frames} frames, {app_frames} of them in {path}");
        measure(&report, &symbols, &symcache, rounds);
    }
}

/// Returns a report with threads of sixteen frames that begin with device frames and end with the app's.
fn report(symcache: &SymCache, frames: usize, app_frames: usize) -> Vec<u8> {
    let places: Vec<u64> =
        symcache.ranges().filter(|(_, answer)| answer.is_some()).map(|(start, _)| LOAD + start.0).collect();
    let image = Image::new(
        "/private/var/containers/Bundle/Application/Shop.app/Shop",
        &symcache.debug_id().to_string(),
        LOAD,
    );
    let mut report =
        sized(7, 150, frames - app_frames).image(image.size(symcache.text_size()).cpu(symcache.cpu()));
    for thread in 0..app_frames.div_ceil(16) {
        let here = (thread * 16..app_frames.min(thread * 16 + 16))
            .map(|n| Frame::at(places[n * places.len() / app_frames] + 4).object("Shop", LOAD));
        report = report.thread(Thread::new(100 + thread as u64).frames(here));
    }
    report.bytes()
}

fn measure(input: &[u8], symbols: &ImageSymbols, symcache: &SymCache, rounds: usize) {
    let limits = ReadLimits::default();
    let read = Report::read(input, &limits).unwrap();
    let plan = Plan::new(&read);
    let find = |id: &_| (*id == symcache.debug_id()).then_some(symbols);
    let context = Context::default();
    let enriched = plan.enrich(&find, &context);
    println!("  {} bytes in, {} out, {:?}", input.len(), enriched.bytes.len(), enriched.frames);
    let mut work: [(&str, &mut dyn FnMut()); 6] = [
        ("DOM by sonic-rs", &mut || drop(black_box(sonic_rs::from_slice::<sonic_rs::Value>(input).unwrap()))),
        ("read", &mut || drop(black_box(Report::read(input, &limits).unwrap()))),
        ("plan", &mut || drop(black_box(Plan::new(&read)))),
        ("answer and write", &mut || drop(black_box(plan.enrich(&find, &context)))),
        ("copy of the output", &mut || drop(black_box(enriched.bytes.clone()))),
        ("all of it", &mut || {
            let read = Report::read(input, &limits).unwrap();
            drop(black_box(enrich(&read, &find, &context)));
        }),
    ];
    let mut best = [Duration::MAX; 6];
    for _ in 0..rounds {
        for ((_, work), best) in work.iter_mut().zip(&mut best) {
            let start = Instant::now();
            work();
            *best = start.elapsed().min(*best);
        }
    }
    for ((name, _), time) in work.iter().zip(best) {
        println!("  {name:<20} {time:>10.1?}  {:.2}", time.as_secs_f64() / best[0].as_secs_f64());
    }
}
