//! Reports that were sampled: their frames, and the group of the heaviest path.

use super::*;
use crate::grouping::{GroupKind, Grouping, GroupingRules, regroup_report};
use unslide_testkit::reports::Json;

const SYSTEM: u64 = 0x1_9000_0000;

/// Frames of a profile: two of a function of the app, one of the next symbol, one of the system.
const FRAMES: [u64; 4] =
    [BASE + at::FUNCTION + 4, BASE + at::AFTER + 4, BASE + at::SYMBOL + 4, SYSTEM + 0x100];
const ADD: u64 = 0;
const ADD_LATER: u64 = 1;
const PLAIN: u64 = 2;
const LIBC: u64 = 3;

/// A profile with frames that are loaded `by` bytes higher; each sample has its frames from the innermost on.
fn profile(by: u64, samples: &[(&[u64], usize)]) -> Made {
    let frame = |address: u64| match address {
        SYSTEM.. => Frame::at(address).object("libsystem_c.dylib", SYSTEM).uuid(LIBRARY),
        _ => Frame::at(address + by).object("Shop", BASE + by).uuid(APP),
    };
    let sample = |frames: &[u64]| {
        Json::object([("frames", Json::array(frames.iter().map(|index| Json::from(*index))))])
    };
    let samples = samples.iter().flat_map(|(frames, times)| std::iter::repeat_n(sample(frames), *times));
    let report = Made::standard().without("binary_images").profile_frames(FRAMES.map(frame));
    report.set("crash.error.profile.samples", Json::array(samples))
}

fn group(have: &Have, report: &Made) -> Grouping {
    have.enrich(report).grouping.expect("it was sampled")
}

#[test]
fn a_profile_goes_by_the_heaviest_path_of_the_app_whatever_the_addresses() {
    let have = Have::app();
    let hang =
        |by, samples: &[(&[u64], usize)]| group(&have, &profile(by, samples).set("crash.error.type", "hang"));
    let first = hang(0, &[(&[LIBC, ADD, PLAIN], 6), (&[ADD_LATER, PLAIN], 3), (&[PLAIN], 1)]);
    assert_eq!(first.kind, GroupKind::Hang);
    assert_eq!(first.title, "Hang in Shop::add");
    assert_eq!(first.culprit.as_deref(), Some("Shop::add (cart.cpp)"));
    assert!(!first.provisional);
    let functions: Vec<&str> = first.frames.iter().map(|frame| frame.function.as_str()).collect();
    assert_eq!(functions, ["Shop::add", "plain"]);
    // Other addresses of the function, another slide, another share.
    let same = hang(0x40_0000, &[(&[ADD_LATER, PLAIN], 7), (&[LIBC, PLAIN], 6)]);
    assert_eq!(same.fingerprint, first.fingerprint);
    // Less than half of the samples are in it.
    let outside = hang(0, &[(&[ADD, PLAIN], 4), (&[LIBC, PLAIN], 6)]);
    assert_eq!(outside.culprit.as_deref(), Some("plain"));
    assert_ne!(outside.fingerprint, first.fingerprint);
    assert_eq!(hang(0, &[(&[LIBC], 5)]).culprit, None, "nobody knows the name of the system's function");
}

#[test]
fn an_explanation_says_which_functions_of_a_profile_count() {
    let report = profile(0, &[(&[LIBC, ADD, PLAIN], 4), (&[ADD_LATER], 1), (&[PLAIN], 6)])
        .set("crash.error.type", "hang");
    let bytes = report.bytes();
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    let have = Have::app();
    let explanation = crate::explain_report(&report, &|id| have.0.get(id), &GroupingRules::default(), &[]);
    let backtrace = &explanation.backtraces[0];
    assert!(backtrace.counts);
    let verdict = |at: u64| backtrace.frames[at as usize].grouping[0].verdict.as_str();
    assert_eq!([ADD, ADD_LATER, PLAIN, LIBC].map(verdict), ["off_path", "off_path", "counted", "unnamed"]);
}

#[test]
fn a_profile_of_the_app_has_its_name_in_its_group() {
    let have = Have::app();
    let named = |name: &str| {
        let report = profile(0, &[(&[ADD], 2)]).set("crash.error.profile.name", name);
        group(&have, &report)
    };
    let feed = named("feed");
    assert_eq!((feed.kind, feed.title.as_str()), (GroupKind::Profile, "Profile feed in Shop::add"));
    assert_ne!(named("cart").fingerprint, feed.fingerprint);
}

#[test]
fn an_apps_own_cpu_event_is_of_the_kind_cpu_with_a_profile_and_with_a_stack() {
    let have = Have::app();
    let sampled = profile(0, &[(&[LIBC, ADD, PLAIN], 6), (&[PLAIN], 1)]).set("crash.error.type", "cpu");
    let sampled = group(&have, &sampled);
    assert_eq!((sampled.kind, sampled.title.as_str()), (GroupKind::Cpu, "High CPU use in Shop::add"));
    let stack = Made::standard()
        .image(Image::new(APP_PATH, APP, BASE).vmaddr(TEXT).size(0x10_0000))
        .crashed_at([BASE + at::FUNCTION + 4, BASE + at::SYMBOL + 4])
        .set("crash.error.type", "cpu");
    let stack = group(&have, &stack);
    assert_eq!((stack.kind, stack.title.as_str()), (GroupKind::Cpu, "High CPU use in Shop::add"));
    assert_eq!(stack.culprit, sampled.culprit);
}

#[test]
fn while_symbols_are_missing_a_profile_is_provisional_and_waits_for_the_app_alone() {
    let report = profile(0, &[(&[LIBC, ADD, PLAIN], 6)]).set("crash.error.type", "hang");
    let enriched = Have::default().enrich(&report);
    let grouping = enriched.grouping.as_ref().unwrap();
    assert!(grouping.provisional && grouping.title.ends_with("symbols missing"), "{}", grouping.title);
    let system: Vec<bool> = enriched.images.iter().map(|image| image.system).collect();
    assert_eq!(system, [false, true]);
    // With rules of the tenant it is grouped by what it says.
    for have in [Have::default(), Have::app()] {
        for text in ["", "ignore function Shop::*", "not-app function plain"] {
            let rules = GroupingRules::parse(text).unwrap();
            let context = Context { rules: Some(&rules), ..Context::default() };
            let wanted = have.enrich_with(&report.bytes(), &context).grouping;
            let stored = have.enrich(&report).bytes;
            let stored = Report::read_stored(&stored).unwrap();
            assert_eq!(regroup_report(&stored, &rules).unwrap(), wanted, "{text:?}");
        }
    }
}

#[test]
fn a_shortened_frame_of_a_profile_keeps_it_where_it_is_and_one_far_out_in_a_crash_does_not() {
    let have = Have::app();
    let frames = || (0..300).map(|_| Frame::at(BASE + at::FUNCTION + 4).object("Shop", BASE).uuid(APP));
    let sample = Json::object([("frames", Json::array([Json::from(299_u64)]))]);
    let sampled = Made::standard().without("binary_images").profile_frames(frames());
    let sampled = sampled.set("crash.error.profile.samples", Json::array([sample]));
    let crash = Made::standard().without("binary_images").thread(Thread::new(0).frames(frames()).crashed());
    for (report, kind, shortened) in [(sampled, "hang", true), (crash, "mach", false)] {
        let enriched = have.enrich(&report.set("crash.error.type", kind)).bytes;
        let mut text = String::from_utf8(enriched).unwrap();
        let last = text.rfind("\"relative_address\"").unwrap();
        text.replace_range(last..last + 9, "\"shorter_");
        let report = Report::read_stored(text.as_bytes()).unwrap();
        assert_eq!(regroup_report(&report, &GroupingRules::default()).is_err(), shortened, "{kind}");
    }
}

#[test]
fn a_diagnostic_is_symbolicated_by_return_addresses_and_program_counters() {
    let frame = |address: u64, count: u64, below: &str| {
        let offset = address - BASE;
        format!(
            "{{\"binaryUUID\":\"{APP}\",\"binaryName\":\"Shop\",\"address\":{address},\"sampleCount\":{count},\
             \"offsetIntoBinaryTextSegment\":{offset},\"subFrames\":[{below}]}}"
        )
    };
    // The caller's address is the first one after its call.
    let tree = frame(BASE + at::NEAREST, 3, &frame(BASE + at::FUNCTION, 3, ""));
    let text = format!(
        "{{\"callStackTree\":{{\"callStacks\":[{{\"callStackRootFrames\":[{tree}]}}]}},\
         \"diagnosticMetaData\":{{\"writesCaused\":\"2000 byte\"}}}}"
    );
    let enriched = Have::app().enrich_with(text.as_bytes(), &Context::default());
    let json: Value = serde_json::from_slice(&enriched.bytes).unwrap();
    let caller = &json["callStackTree"]["callStacks"][0]["callStackRootFrames"][0];
    assert_eq!(caller["symbolication"]["calls"][0]["function"], "plain");
    assert_eq!(caller["subFrames"][0]["symbolication"]["calls"][0]["function"], "Shop::add(int)");
    let grouping = enriched.grouping.unwrap();
    assert_eq!(
        (grouping.kind, grouping.title.as_str()),
        (GroupKind::DiskWrite, "Many disk writes in Shop::add")
    );
}

/// A profile of a hang, as KSCrash 3.0 makes it from MetricKit's diagnostic.
fn metric_kit_hang() -> Made {
    let frame = |address: u64| Frame::at(address).object("Shop", BASE).uuid(APP);
    let frames = [BASE + at::FUNCTION, BASE + at::NEAREST];
    let thread = Json::Raw(r#"{"index":0,"primary":true,"samples":[{"count":9,"frames":[0,1]}]}"#.into());
    Made::standard()
        .without("binary_images")
        .profile_frames(frames.map(frame))
        .set("report.monitor_id", "MetricKit")
        .set("crash.error.type", "profile")
        .set("crash.error.subtype", "hang")
        .set("crash.error.profile.name", "com.kscrash.profile.hang")
        .set("crash.error.profile.samples", Json::array([]))
        .set("crash.error.profile.threads", Json::array([thread]))
}

#[test]
fn a_hang_that_kscrash_took_from_metric_kit_is_titled_and_looked_up_like_one() {
    let have = Have::app();
    let hang = group(&have, &metric_kit_hang());
    assert_eq!((hang.kind, hang.title.as_str()), (GroupKind::Hang, "Hang in Shop::add"));
    let function = |report: &Made, at: usize| {
        let frames = &have.tree(report)["crash"]["error"]["profile"]["frames"];
        frames[at]["symbolication"]["calls"][0]["function"].as_str().unwrap_or_default().to_owned()
    };
    // A sample ends at frame 0; frame 1 is a return address, the first after the call.
    let report = metric_kit_hang();
    assert_eq!([function(&report, 0), function(&report, 1)], ["Shop::add(int)", "plain"]);
    let own = report.set("report.monitor_id", "Profiler");
    let frames = &have.tree(&own)["crash"]["error"]["profile"]["frames"];
    assert_eq!(frames[1]["symbolication"]["symbol"], "near", "KSCrash decrements its own");
}
