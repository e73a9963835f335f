//! What a report takes in memory while it is symbolicated.

use std::sync::Arc;
use unslide_model::RelativeAddress;
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::object::build_symcache;
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{Context, ImageSymbols, enrich};
use unslide_testkit::memory::peak;
use unslide_testkit::reports::{ARM64, Frame, Image, Thread, sized};

const APP: &[u8] = include_bytes!("../data/app.dsym");
const LOAD: u64 = 0x1_04e4_c000;

#[test]
fn a_report_in_flight_takes_at_most_three_times_its_bytes_and_its_answers() {
    let cache = SymCache::parse(build_symcache(APP).unwrap().symcache).unwrap();
    let named: Vec<RelativeAddress> =
        cache.ranges().filter(|(_, answer)| answer.is_some()).map(|(start, _)| start).collect();
    for (images, frames) in [(150, 320), (400, 40), (10, 2_000)] {
        let path = "/private/var/containers/Bundle/Application/Shop.app/Shop";
        let own = Image::new(path, &cache.debug_id().to_string(), LOAD).size(0x10_0000).cpu(ARM64);
        let mut report = sized(7, images, 0).image(own);
        for index in 0..frames / 16 {
            let frame =
                |n: usize| Frame::at(LOAD + named[(index * 16 + n) % named.len()].0 + 1).object("Shop", LOAD);
            report = report.thread(Thread::new(index as u64).frames((0..16).map(frame)));
        }
        let input = report.bytes();
        let symbols = ImageSymbols::from_symcache(Arc::new(cache.clone()) as _);
        let (enriched, most) = peak(|| {
            let report = Report::read(&input, &ReadLimits::default()).unwrap();
            enrich(&report, &|id| (*id == cache.debug_id()).then_some(&symbols), &Context::default())
        });
        assert!(enriched.bytes.len() > input.len());
        let (taken, bytes) = (input.len() + most, input.len() + enriched.bytes.len());
        assert!(taken <= 3 * bytes, "{taken} bytes for {bytes}: {images} images, {frames} frames");
    }
}

#[test]
fn short_lists_of_frames_take_no_more() {
    for (list, stacks) in [(r#"{"frames":[]}"#, 1 << 19), (r#"{"frames":[5]}"#, (1 << 18) + 1)] {
        let stacks = vec![list; stacks].join(",");
        let input = format!(r#"{{"crash_type":"foom_crash","stack_oom":[{stacks}]}}"#).into_bytes();
        let (enriched, most) = peak(|| {
            let report = Report::read(&input, &ReadLimits::default()).unwrap();
            enrich(&report, &|_| None, &Context::default())
        });
        let output = enriched.bytes.len();
        assert!(
            most <= 3 * input.len() + output + (64 << 10),
            "{most} for {} and {output}: {list}",
            input.len()
        );
    }
}

#[test]
fn frames_that_say_nothing_take_no_more() {
    let report = |contents: &str| {
        format!(r#"{{"crash":{{"threads":[{{"backtrace":{{"contents":[{contents}]}}}}]}}}}"#).into_bytes()
    };
    let tree = |frames: &str| {
        let stacks = format!(r#"{{"callStackTree":{{"callStacks":[{{"callStackRootFrames":[{frames}]}}]}}"#);
        format!(r#"{stacks},"diagnosticMetaData":{{"hangDuration":"1 sec"}}}}"#).into_bytes()
    };
    for input in [
        tree(&vec!["{}"; 500_000].join(",")),
        tree(&format!(r#"{{"subFrames":[{}]}}"#, vec![r#"{"sampleCount":1}"#; 100_000].join(","))),
        report(&vec!["{}"; 500_000].join(",")),
        // Just more than half of that: lists that double have most room to spare.
        report(&vec!["{}"; (1 << 18) + 1].join(",")),
        report(&vec![r#"{"a":1}"#; 200_000].join(",")),
    ] {
        let (enriched, most) = peak(|| {
            let report = Report::read(&input, &ReadLimits::default()).unwrap();
            enrich(&report, &|_| None, &Context::default())
        });
        let output = enriched.bytes.len();
        let frames = enriched.frames.total;
        assert_eq!(frames, enriched.frames.invalid_address);
        assert!(most <= 3 * input.len() + output + (64 << 10), "{most} for {} and {output}", input.len());
        // Nor once they are answered.
        let (again, most) = peak(|| {
            let limits = ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() };
            let report = Report::read(&enriched.bytes, &limits).unwrap();
            assert!(report.backtraces[0].frames.is_empty());
            enrich(&report, &|_| None, &Context::default())
        });
        assert!(again.bytes == enriched.bytes);
        assert!(most <= 3 * output, "{most} for {output}");
    }
}
