//! Input that is made to hurt.
//! Proves: bounded-input

use crate::{enrich, enrich_with, read, reason, strip, warnings};
use proptest::prelude::*;
use unslide_report::text::apple_log;
use unslide_report::{FrameSlot, ReadError, ReadLimits, Report, split_record};
use unslide_testkit::memory::peak;
use unslide_testkit::reports::{self, Style};

fn nested(levels: usize, open: &str, close: &str) -> Vec<u8> {
    // The report object itself is the first level.
    format!("{{\"a\":{}1{}}}", open.repeat(levels - 1), close.repeat(levels - 1)).into_bytes()
}

#[test]
fn depth_is_bounded_everywhere() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let each = open.matches(['[', '{']).count();
        let most = 255 / each * each + 1;
        assert_eq!(reason(&nested(1 + (most - 1) / each, open, close)), "none");
        assert_eq!(reason(&nested(1 + 256_usize.div_ceil(each), open, close)), "too_deep");
        assert_eq!(reason(format!("{{\"a\":{}", open.repeat(1_000_000)).as_bytes()), "too_deep");
    }
    // Within what is read, and at the root.
    let frame = |value: &str| {
        format!(r#"{{"crash":{{"threads":[{{"backtrace":{{"contents":[{{"x":{value}}}]}}}}]}}}}"#)
    };
    let deep = |levels: usize| frame(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
    assert_eq!(reason(deep(249).as_bytes()), "none");
    assert_eq!(reason(deep(250).as_bytes()), "too_deep");
    assert_eq!(reason("[".repeat(1_000_000).as_bytes()), "too_deep");
    assert_eq!(reason("{\"recrash_report\":".repeat(1_000_000).as_bytes()), "too_deep");
}

#[test]
fn size_and_depth_are_settings() {
    let limits = ReadLimits { max_bytes: 10, max_depth: 2, ..ReadLimits::default() };
    let read = |bytes: &[u8]| Report::read(bytes, &limits).map(|_| ()).map_err(|error| error.reason());
    assert_eq!(read(br#"{"a":[12]}"#), Ok(()));
    assert_eq!(read(br#"{"a":[12]} "#), Err("too_large"));
    assert_eq!(read(br#"{"a":[[]]}"#), Err("too_deep"));
    assert!(matches!(
        Report::read(b"this is no JSON", &limits),
        Err(ReadError::TooLarge { bytes: 15, limit: 10 })
    ));
    // The levels that can be asked for are bounded too.
    let deep = ReadLimits { max_depth: usize::MAX, ..ReadLimits::default() };
    assert_eq!(Report::read(&nested(1344, "[", "]"), &deep).map(|_| ()), Ok(()));
    let error = Report::read(&nested(1345, "[", "]"), &deep).map(|_| ()).map_err(|e| e.reason());
    assert_eq!(error, Err("too_deep"));
}

#[test]
fn an_array_of_very_many_is_refused_as_a_whole() {
    let array = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
    let split = |record: &str| {
        unslide_report::split_record(record.as_bytes(), &ReadLimits::default())
            .map(|e| e.len())
            .map_err(|e| e.reason())
    };
    assert_eq!(split(&array(unslide_report::MOST_ELEMENTS)), Ok(unslide_report::MOST_ELEMENTS));
    assert_eq!(split(&array(unslide_report::MOST_ELEMENTS + 1)), Err("too_many"));
}

#[test]
fn every_beginning_of_a_report_is_truncated() {
    for (name, report) in reports::shapes().into_iter().filter(|(name, _)| name.starts_with("cpu-")) {
        let mut bytes = report.style(Style::Pretty).bytes();
        bytes.splice(0..0, *b"\xEF\xBB\xBF");
        for end in 0..bytes.len() {
            assert_eq!(reason(&bytes[..end]), "truncated", "{name} at {end}");
        }
    }
    let tokens = r#"{"a":"\u00e4\\\uD83D\uDE00ä","b":[true,false,null,-1.5e+7],"c":{}}"#.as_bytes();
    for end in 0..tokens.len() {
        assert_eq!(reason(&tokens[..end]), "truncated", "at {end}");
    }
}

#[test]
fn a_file_laid_out_before_it_was_filled_is_truncated() {
    for bytes in ["{\"a\":1,\0\0\0\0", "{\"a\":\"x\0\0\0", "{\"a\":1\n\n\0", "", "\n", "\0\0"] {
        assert_eq!(reason(bytes.as_bytes()), "truncated", "{bytes:?}");
    }
}

#[test]
fn a_report_that_kscrash_has_cut_says_so() {
    let cut = |bytes: usize| format!("{{\"crash\":{{\"error\":{{}}}},\"a\":\"{}", "x".repeat(bytes - 27));
    let error = |text: &str| Report::read(text.as_bytes(), &ReadLimits::default()).unwrap_err().to_string();
    assert_eq!(cut(2_000_000).len(), 2_000_000);
    assert!(error(&cut(2_000_000)).contains("KSCrash has cut this report"));
    assert!(!error(&cut(1_999_999)).contains("KSCrash"));
}

#[test]
fn reading_takes_bounded_memory_however_small_the_things_are() {
    let of = |list: &str, thing: &str, close: &str| {
        let count = ((20 << 20) - 200) / (thing.len() + 1);
        format!("{{{list}{}{thing}{close}}}", format!("{thing},").repeat(count - 1)).into_bytes()
    };
    for (bytes, expected) in [
        (of(r#""crash":{"threads":[{"backtrace":{"contents":["#, "{}", "]}}]}"), "too_many"),
        (of(r#""crash":{"threads":["#, r#"{"backtrace":{"contents":[]}}"#, "]}"), "too_many"),
        (of(r#""binary_images":["#, "{}", "]"), "too_many"),
        (of(r#""crash":{"threads":["#, "0", "]}"), "none"),
        (of(r#""symbolication":{"version":1,"engine":"unslide/1","images":["#, "{}", "]}"), "none"),
        (of(r#""symbolication":{"version":1,"engine":"unslide/1","warnings":["#, "\"\"", "]}"), "none"),
    ] {
        let (found, most) = peak(|| reason(&bytes));
        assert_eq!(found, expected);
        assert!(most < 160 << 20, "{most} bytes for {} bytes of {:?}", bytes.len(), &bytes[..60]);
    }
    let limits = ReadLimits { max_items: 3, ..ReadLimits::default() };
    let three = br#"{"binary_images":[{}],"crash":{"threads":[{"backtrace":{"contents":[{}]}}]}}"#;
    assert!(Report::read(three, &limits).is_ok());
    let four = br#"{"binary_images":[{}],"crash":{"threads":[{"backtrace":{"contents":[{},{}]}}]}}"#;
    assert_eq!(
        Report::read(four, &limits).err(),
        Some(ReadError::TooManyItems { offset: four.len() - 8, limit: 3 })
    );
}

#[test]
fn objects_that_say_nothing_take_little_memory() {
    let of = |open: &str, each: &str, close: &str| {
        format!(r#"{{{open}{}{{}}{close}}}"#, format!("{each},").repeat(500_000)).into_bytes()
    };
    let frames = of(r#""crash":{"threads":[{"backtrace":{"contents":["#, "{}", "]}}]}");
    for (bytes, times) in [
        (of(r#""binary_images":["#, "{}", "]"), 1),
        (of(r#""crash":{"threads":["#, "{}", "]}"), 1),
        // Each becomes forty-eight bytes of the output.
        (frames.clone(), 9),
        (of(r#""crash":{"threads":[{"backtrace":{"contents":["#, r#"{"a":0}"#, "]}}]}"), 4),
    ] {
        let (report, most) = peak(|| read(&bytes));
        assert!(most <= times * bytes.len(), "{most} for {} of {:?}", bytes.len(), &bytes[..60]);
        assert!(report.backtraces.iter().all(|backtrace| backtrace.frames.is_empty()));
    }
    let report = read(&frames);
    let blank = &report.backtraces[0].blank_frames;
    assert_eq!(
        (blank.len(), blank[500_000].index(), blank[500_000].has_members()),
        (500_001, 500_000, false)
    );
    let mixed = br#"{"crash":{"threads":[{"backtrace":{"contents":[{},{"instruction_addr":1},{"x":2},{"symbol_name":"a"},{}]}}]}}"#;
    let enriched = enrich(mixed);
    assert_eq!(
        String::from_utf8(enriched.clone()).unwrap().matches("\"symbolication\":{\"status\"").count(),
        5
    );
    assert_eq!(strip(&enriched), mixed);
    let again = read(&enriched);
    let at: Vec<usize> = again.backtraces[0]
        .frame_slots()
        .map(|slot| match slot {
            FrameSlot::Frame(frame) => frame.index,
            FrameSlot::Blank(blank) => blank.index(),
        })
        .collect();
    assert_eq!(at, [0, 1, 2, 3, 4]);
}

#[test]
fn a_text_is_bounded_whatever_is_repeated_in_it() {
    let long = "x".repeat(100_000);
    let image = format!(r#"{{"image_addr":4096,"image_size":4096,"name":"{long}"}}"#);
    let frames = r#"{"instruction_addr":4100},"#.repeat(2_000);
    let named = format!(
        r#"{{"binary_images":[{image}],"crash":{{"threads":[{{"crashed":true,"backtrace":{{"contents":[{frames}{{}}]}}}}]}}}}"#
    );
    // A line a call: each shows the image's name.
    let calls = format!(r#"{{"status":"symbolicated","calls":[{}{{}}]}}"#, "{},".repeat(20_000));
    let few = named.replace(&frames, r#"{"instruction_addr":4100},"#);
    let inlined = enrich_with(few.as_bytes(), &calls, r#"{"version":1,"engine":"unslide/1"}"#);
    let deep = format!("{}{}0{}", "[".repeat(200), "0,".repeat(20_000), "]".repeat(200));
    let indented = format!(r#"{{"system":{{"application_stats":{{"a":{deep}}}}}}}"#);
    for bytes in [named.as_bytes(), &inlined, indented.as_bytes()] {
        let report = read(bytes);
        let (text, most) = peak(|| apple_log(&report));
        assert!(text.ends_with("\n(cut off: the text would be too large)\n"));
        assert!(text.len() < 9 * bytes.len() + (1 << 17), "{} for {}", text.len(), bytes.len());
        assert!(most < 24 * bytes.len() + (8 << 20), "{most} bytes for {}", bytes.len());
    }
    assert!(!apple_log(&read(&few.into_bytes())).contains("cut off"));
}

#[test]
fn a_summary_holds_no_more_of_a_frame_than_it_shows() {
    let long = "x".repeat(100_000);
    let id = "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0";
    let report = format!(
        r#"{{"binary_images":[{{"uuid":"{id}","name":"{long}"}}],"crash":{{"threads":[{{"crashed":true,"backtrace":{{"contents":[{{}},{{}}]}}}}]}}}}"#
    );
    let calls = r#"{"function":"f"},"#.repeat(255);
    let frame = format!(r#"{{"status":"symbolicated","debug_id":"{id}","calls":[{calls}{{}}]}}"#);
    let bytes = enrich_with(report.as_bytes(), &frame, r#"{"version":1,"engine":"unslide/1"}"#);
    let report = read(&bytes);
    let (summary, most) = peak(|| report.summary());
    assert_eq!(summary.top_frames.len(), 10);
    assert_eq!(summary.top_frames[9].image.as_ref().map(String::len), Some(long.len()));
    assert!(most < 3 << 20, "{most}");
}

#[test]
fn a_hundred_thousand_of_everything() {
    let images: String = (0..100_000_u64)
        .map(|n| format!(r#"{{"image_addr":{n},"image_size":"none","uuid":"no"}},"#))
        .collect();
    let frames: String =
        (0..100_000_u64).map(|n| format!(r#"{{"instruction_addr":{n},"object_addr":"x"}},7,"#)).collect();
    let threads = r#"{"backtrace":{"contents":[{}]}},"#.repeat(100_000);
    let bytes = format!(
        r#"{{"binary_images":[{images}0],"crash":{{"threads":[{threads}{{"backtrace":{{"contents":[{frames}0]}}}}]}}}}"#
    );
    let report = read(bytes.as_bytes());
    assert_eq!(report.parts[0].images.len(), 100_000);
    assert_eq!(report.backtraces.len(), 100_001);
    assert_eq!(report.backtraces[100_000].frames.len(), 100_000);
    assert_eq!(report.invalid.frames, 100_001);
    assert_eq!(report.warnings.len(), 5, "{:?}", report.warnings);
    assert_eq!(strip(&enrich(bytes.as_bytes())), bytes.as_bytes());
}

#[test]
fn a_hundred_thousand_duplicates_keep_only_the_last() {
    let bytes = format!(
        r#"{{{}"crash":{{}}}}"#,
        r#""crash":{"threads":[{"backtrace":{"contents":[{}]}}]},"#.repeat(100_000)
    );
    assert!(read(bytes.as_bytes()).backtraces.is_empty());
    assert_eq!(warnings(bytes.as_bytes()), ["crash: duplicate key, the last one counts (100000 times)"]);
}

#[test]
fn every_value_may_be_of_any_type() {
    let mut report = reports::Report::standard()
        .image(reports::Image::new("/usr/lib/a", "0F1E2D3C4B5A69788796A5B4C3D2E1F0", 0x1000))
        .crashed_at([0x1010, 0x1020])
        .last_exception([reports::Frame::at(1).object("a", 2).symbol("b", 3)])
        .deallocated_exception(1, [reports::Frame::at(1)])
        .profile_frames([reports::Frame::at(1)]);
    report = report.clone().recrash(report);
    let bytes = report.style(Style::Compact).bytes();
    // Each value of the document in turn is replaced by one of each type.
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let mut paths = Vec::new();
    collect(&document, String::new(), &mut paths);
    assert!(paths.len() > 150, "{}", paths.len());
    for path in &paths {
        for other in
            ["null", "true", "17", "-1", "1.5", "1e999", "\"x\"", "[]", "{}", "[{}]", "[[]]", "{\"a\":{}}"]
        {
            let mut changed = document.clone();
            *changed.pointer_mut(path).unwrap() = serde_json::Value::from("REPLACED");
            let text = changed.to_string().replace("\"REPLACED\"", other);
            assert_eq!(strip(&enrich(text.as_bytes())), text.as_bytes(), "{path} is {other}");
        }
    }
}

fn collect(value: &serde_json::Value, path: String, paths: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                collect(value, format!("{path}/{key}"), paths);
            }
        }
        serde_json::Value::Array(elements) => {
            for (index, value) in elements.iter().enumerate() {
                collect(value, format!("{path}/{index}"), paths);
            }
        }
        _ => {}
    }
    if !path.is_empty() {
        paths.push(path);
    }
}

fn all(bytes: &[u8]) {
    let limits = ReadLimits::default();
    let _ = split_record(bytes, &limits);
    if let Ok(report) = Report::read(bytes, &limits) {
        let _ = report.summary();
        let _ = unslide_report::text::apple_log(&report);
        let _ = report.strip_additions();
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        all(&bytes);
    }

    #[test]
    fn no_text_of_json_tokens_panics(tokens in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", " ", "\"crash\"", "\"threads\"", "\"backtrace\"", "\"contents\"",
        "\"symbolication\"", "\"version\"", "\"engine\"", "\"unslide/\"", "\"report\"", "\"error\"", "1", "-1", "1e999", "null", "\"",
        "\\", "\\ud800", "\0", "\u{feff}", "\"instruction_addr\":", "{\"crash\":{\"threads\":[{\"backtrace\":{\"contents\":[{",
    ]), 0..60)) {
        all(tokens.concat().as_bytes());
    }

    #[test]
    fn no_damaged_report_panics(seed: u64, at: prop::sample::Index, bytes in prop::collection::vec(any::<u8>(), 0..8)) {
        let mut report = enrich(&reports::random(seed).bytes());
        let at = at.index(report.len());
        let end = (at + bytes.len() / 2).min(report.len());
        report.splice(at..end, bytes);
        all(&report);
    }
}
