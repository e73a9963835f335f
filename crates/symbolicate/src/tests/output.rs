//! The shape of what is added.

use super::{APP, APP_PATH, BASE, Have, LIBRARY, app, at, symbols};
use crate::grouping::GroupingRules;
use crate::{Context, Detail, ENGINE, ImageSymbols, explain_report};
use serde_json::{Value, json};
use time::OffsetDateTime;
use unslide_model::{Quality, TenantId};
use unslide_report::{ReadLimits, Report as Read, splice};
use unslide_testkit::reports::{ARM64, Frame, Image, Json, Report, Style, Thread};

/// Two threads, the second of which crashed, over an image with symbols, one without and none.
fn two_threads() -> Report {
    app()
        .image(Image::new("/usr/lib/libobjc.A.dylib", LIBRARY, 0x1_9000_0000))
        .thread(Thread::new(0).frames([
            Frame::at(0x1_9000_0104).symbol("objc_msgSend", 0x1_9000_0100),
            Frame::at(BASE + at::AFTER),
        ]))
        .thread(Thread::new(1).crashed().frames([Frame::at(BASE + at::INLINED), Frame::at(0x7000_0000)]))
}

fn context(tenant: &TenantId) -> Context<'_> {
    Context {
        tenant: Some(tenant),
        revision: Some(2),
        supersedes: Some(1),
        processed_at: OffsetDateTime::from_unix_timestamp(1_795_165_200).ok(),
        ..Context::default()
    }
}

/// The keys of a report's own member, in order.
fn member(bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let start = text.rfind("\"symbolication\":{\"version\"").unwrap();
    text.get(start..).unwrap().to_owned()
}

#[test]
fn the_reports_member_has_its_exact_form() {
    let tenant = TenantId::new("acme").unwrap();
    let bytes = two_threads().style(Style::Compact).bytes();
    let enriched = Have::app().enrich_with(&bytes, &context(&tenant));
    let expected = format!(
        "\"symbolication\":{{\"version\":1,\"engine\":\"{ENGINE}\",\"revision\":2,\"supersedes\":1,\
         \"status\":\"partial\",\"tenant\":\"acme\",\"processed_at\":\"2026-11-20T09:00:00.000Z\",\
         \"frames\":{{\"total\":4,\"symbolicated\":2,\"device\":1,\"unknown_image\":1}},\
         \"images\":[{{\"debug_id\":\"{}\",\"name\":\"Shop\",\"arch\":\"arm64\",\"status\":\"found\",\
         \"slide\":67108864}},{{\"debug_id\":\"{}\",\"name\":\"libobjc.A.dylib\",\"arch\":\"arm64\",\
         \"status\":\"missing\",\"slide\":6710886400,\"system\":true}}],\"missing\":[\"{}\"],\
         \"grouping\":{{\"version\":1,\"fingerprint\":\"2cd3de9219c9664ed47d419b524944fe\",\"kind\":\"crash\",\
         \"title\":\"EXC_BAD_ACCESS (KERN_INVALID_ADDRESS) in Shop::price\",\"culprit\":\"Shop::price (cart.cpp)\",\
         \"frames\":[{{\"frame\":0,\"function\":\"Shop::price\"}}]}}}}}}",
        APP.to_lowercase(),
        LIBRARY.to_lowercase(),
        LIBRARY.to_lowercase()
    );
    assert_eq!(member(&enriched.bytes), expected);
}

#[test]
fn without_a_context_nothing_is_made_up() {
    let member = member(&Have::app().enrich(&app().style(Style::Compact)).bytes);
    let ours = format!(
        "{{\"version\":1,\"engine\":\"unslide/{}\",\"status\":\"none\",\"reason\":\"no_frames\",\"frames\":{{\"total\":0}},\
         \"grouping\":{{\"version\":1,\"fingerprint\":\"e4bda8f459c4b1b4b606cc39acfd99d9\",\"kind\":\"crash\",\
         \"title\":\"EXC_BAD_ACCESS (KERN_INVALID_ADDRESS)\"}}}}}}",
        env!("CARGO_PKG_VERSION")
    );
    assert!(member.ends_with(&ours), "{member}");
}

#[test]
fn a_frames_member_has_its_exact_form() {
    let report = app().crashed_at([BASE + at::INLINED + 4, BASE + at::AFTER]).style(Style::Compact);
    let text = String::from_utf8(Have::app().enrich(&report).bytes).unwrap();
    let expected = format!(
        "{{\"instruction_addr\":{},\"symbolication\":{{\"status\":\"symbolicated\",\"source\":\"dwarf\",\
         \"debug_id\":\"{}\",\"relative_address\":4224,\"adjusted\":1,\"symbol\":\"_ZN4Shop3addEi\",\
         \"symbol_offset\":128,\"calls\":[{{\"function\":\"Shop::price(int)\",\"raw\":\"_ZN4Shop5priceEi\",\
         \"file\":\"/src/cart.cpp\",\"line\":12,\"inlined\":true}},{{\"function\":\"Shop::add(int)\",\
         \"raw\":\"_ZN4Shop3addEi\",\"file\":\"/src/cart.cpp\",\"line\":40,\"column\":9}}]}}}}",
        BASE + at::AFTER,
        APP.to_lowercase()
    );
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn generations_and_warnings_are_passed_on() {
    let crate::ImageSymbols::Found { symcache, .. } = symbols(APP, ARM64, Quality::Dwarf) else {
        unreachable!()
    };
    let found = crate::ImageSymbols::Found { symcache, generation: Some(7), object: None };
    let report = app()
        .set("crash.threads.0", "cut off")
        .set("crash.threads.1", Json::null())
        .last_exception([Frame::at(BASE + 0x1050).set("symbol_name", Json::from(7))]);
    let tree = Have::default().and(APP, found).tree(&report);
    assert_eq!(tree["symbolication"]["images"][0]["generation"], 7);
    assert_eq!(tree["symbolication"]["warnings"].as_array().unwrap().len(), 2);
    let cut_off =
        app().thread(Thread::new(0).crashed().frames([Frame::at(BASE)]).set("backtrace.contents.1", "x"));
    assert_eq!(Have::app().enrich(&cut_off).frames.invalid, 1);
}

#[test]
fn one_bad_frame_or_image_costs_nothing_else() {
    let good = || Frame::at(BASE + at::INLINED);
    let bad = [
        Frame::of(Json::from("0x1040")),
        Frame::of(Json::Raw("1e999".into())),
        Frame::of(Json::object([("a", Json::from(1))])),
        good().set("object_addr", Json::array([])).set("symbol_name", Json::from(1)).set("object_uuid", "zz"),
    ];
    let bad_image = Image::new("/x", "not a uuid", 0).set("image_addr", "1").set("image_size", Json::null());
    for frame in bad {
        let thread = Thread::new(0).crashed().frames([good(), frame, good()]);
        let report = app().image(bad_image.clone()).set("binary_images.2", "cut off").thread(thread);
        assert!(Have::app().enrich(&report).frames.symbolicated >= 2);
    }
}

#[test]
fn a_foreign_key_of_our_name_is_left_alone() {
    let foreign = Json::object([("version", Json::from(1)), ("engine", Json::from("other/1"))]);
    let frame = Frame::at(BASE + at::INLINED).set("symbolication", foreign.clone());
    let report = app().thread(Thread::new(0).crashed().frames([frame])).set("symbolication", foreign);
    let bytes = report.bytes();
    let enriched = Have::app().enrich(&report);
    assert_eq!(enriched.bytes.windows(9).filter(|w| w == b"\"other/1\"").count(), 2);
    let stripped = splice::strip_additions(&enriched.bytes, &ReadLimits::default()).unwrap();
    assert_eq!(String::from_utf8_lossy(&stripped), String::from_utf8_lossy(&bytes));
}

#[test]
fn enriching_again_with_better_symbols_replaces_the_answer() {
    let bytes = two_threads().style(Style::Wild(7)).bytes();
    let poor = Have::default().enrich_with(&bytes, &Context::default());
    let rich = Have::app().enrich_with(&bytes, &Context::default());
    assert_ne!(poor.bytes, rich.bytes);
    assert_eq!(Have::app().enrich_with(&poor.bytes, &Context::default()).bytes, rich.bytes);
    assert_eq!(Have::default().enrich_with(&rich.bytes, &Context::default()).bytes, poor.bytes);
}

#[test]
fn smaller_outputs_keep_the_crash_and_say_that_they_are_cut() {
    let bytes = two_threads().bytes();
    let with = |detail| {
        let bytes = Have::app().enrich_with(&bytes, &Context { detail, ..Context::default() }).bytes;
        let tree: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(splice::strip_additions(&bytes, &ReadLimits::default()).unwrap(), two_threads().bytes());
        (bytes.len(), tree)
    };
    let frame = |tree: &Value, thread: usize, frame: usize| {
        tree["crash"]["threads"][thread]["backtrace"]["contents"][frame]["symbolication"].clone()
    };
    let (full_size, full) = with(Detail::Full);
    assert_eq!(full["symbolication"].get("truncated"), None);
    let (less_size, less) = with(Detail::CrashedThreadOnly);
    assert_eq!(less["symbolication"]["truncated"], true);
    assert_eq!(frame(&less, 1, 0), frame(&full, 1, 0));
    let mut without_calls = frame(&full, 0, 1);
    without_calls.as_object_mut().unwrap().remove("calls");
    assert_eq!(frame(&less, 0, 1), without_calls);
    let (least_size, least) = with(Detail::FunctionsOnly);
    let functions = json!([{"function": "Shop::price(int)"}, {"function": "Shop::add(int)"}]);
    assert_eq!(frame(&least, 1, 0), json!({"status": "symbolicated", "calls": functions}));
    assert_eq!(frame(&least, 0, 0), json!({"status": "device"}));
    assert_eq!(least["symbolication"]["frames"], full["symbolication"]["frames"]);
    assert!(full_size > less_size && less_size > least_size);
}

#[test]
fn an_output_that_is_full_has_the_status_alone_of_what_is_left() {
    let frames = || (0..1_000).map(|_| Frame::at(BASE + at::AFTER));
    let report = app().thread(Thread::new(0).crashed().frames(frames())).bytes();
    let with = |most_bytes| {
        let bytes = Have::app().enrich_with(&report, &Context { most_bytes, ..Context::default() }).bytes;
        assert_eq!(splice::strip_additions(&bytes, &ReadLimits::default()).unwrap(), report);
        let tree: Value = serde_json::from_slice(&bytes).unwrap();
        (bytes.len(), tree)
    };
    let (whole, all) = with(None);
    assert_eq!(all["symbolication"].get("truncated"), None);
    // Room is kept for the status of each frame and the report's own member.
    assert_eq!(with(Some(whole + 1_000 * 64 + 4_096)).1, all);
    let most = report.len() + 150_000;
    let (bytes, cut) = with(Some(most));
    assert!(bytes <= most && bytes < whole, "{bytes} of {whole} bytes");
    assert_eq!(cut["symbolication"]["truncated"], true);
    assert_eq!(cut["symbolication"]["frames"], all["symbolication"]["frames"]);
    let frame = |tree: &Value, n: usize| {
        tree["crash"]["threads"][0]["backtrace"]["contents"][n]["symbolication"].clone()
    };
    assert_eq!(frame(&cut, 0), frame(&all, 0));
    assert_eq!(frame(&cut, 999), json!({"status": "symbolicated"}));
}

#[test]
fn smaller_outputs_keep_exceptions_and_tell_threads_apart_that_share_addresses() {
    let same = || [Frame::at(BASE + at::AFTER), Frame::at(BASE + at::AFTER), Frame::at(BASE + at::AFTER)];
    let report = app()
        .thread(Thread::new(0).frames(same()))
        .thread(Thread::new(1).crashed().frames(same()))
        .last_exception(same());
    let context = Context { detail: Detail::CrashedThreadOnly, ..Context::default() };
    let bytes = Have::app().enrich_with(&report.bytes(), &context).bytes;
    let tree: Value = serde_json::from_slice(&bytes).unwrap();
    let calls = |contents: &Value| {
        let frames = contents.as_array().unwrap().iter();
        frames.map(|frame| frame["symbolication"].get("calls").is_some()).collect::<Vec<_>>()
    };
    assert_eq!(calls(&tree["crash"]["threads"][0]["backtrace"]["contents"]), [false; 3]);
    assert_eq!(calls(&tree["crash"]["threads"][1]["backtrace"]["contents"]), [true; 3]);
    assert_eq!(calls(&tree["crash"]["last_exception_backtrace"]["contents"]), [true; 3]);
}

#[test]
fn a_report_whose_rest_is_named_by_the_system_is_complete() {
    let system = Image::new("/usr/lib/libobjc.A.dylib", LIBRARY, 0x1_9000_0000);
    let named = Frame::at(0x1_9000_0104).symbol("objc_msgSend", 0x1_9000_0100);
    let thread = Thread::new(0).crashed().frames([Frame::at(BASE + at::INLINED), named]);
    let status = |image: Image| Have::app().enrich(&app().image(image).thread(thread.clone())).status;
    assert_eq!(status(system.clone()), crate::ReportStatus::Complete);
    assert_eq!(status(system.set("name", "/app/libobjc.A.dylib")), crate::ReportStatus::Partial);
}

#[test]
fn a_missing_debug_id_is_waited_for_once_however_often_it_is_loaded() {
    let twice = Image::new("/app/Shop", APP, BASE + 0x100_0000);
    let enriched = Have::default().enrich(&app().image(twice).crashed_at([BASE + 8, BASE + 0x100_0008]));
    assert_eq!((enriched.images.len(), enriched.missing), (2, vec![super::id(APP)]));
}

#[test]
fn texts_of_the_report_are_written_a_second_time_only_where_they_are_sound() {
    let bytes = app()
        .thread(Thread::new(0).crashed().frames([
            Frame::at(BASE + 8).symbol("bad\u{1}\"name", BASE),
            Frame::at(BASE + 8).set("symbol_name", Json::Raw("\"lone \\ud800\"".into())),
        ]))
        .style(Style::Compact)
        .bytes();
    let enriched = Have::default().enrich_with(&bytes, &Context::default());
    let text = String::from_utf8(enriched.bytes).unwrap();
    assert!(text.contains("\"symbol\":\"bad\\u0001\\\"name\""), "{text}");
    assert!(text.contains("\"symbol\":\"lone \u{FFFD}\""), "{text}");
}

#[test]
fn an_explanation_names_the_dsym_that_a_frame_lacks_wherever_it_lies() {
    let reasons = |have: Option<&ImageSymbols>, image: Image, offset| {
        let frame = Frame::at(BASE + offset).object("Shop", BASE).set("object_uuid", APP);
        let bytes = Report::standard().image(image).thread(Thread::new(0).crashed().frames([frame])).bytes();
        let report = Read::read(&bytes, &ReadLimits::default()).unwrap();
        let explained = explain_report(&report, &|_| have, &GroupingRules::default(), &[]);
        explained.backtraces[0].frames[0].reason.clone()
    };
    let image = || Image::new(APP_PATH, APP, BASE);
    let exports = symbols(APP, ARM64, Quality::Exports);
    let nameless = symbols(APP, ARM64, Quality::None);
    let whole = symbols(APP, ARM64, Quality::DwarfSymtab);
    for (reason, begin) in [
        (reasons(None, image(), at::GAP), "the device gives no name either; no symbols are known for Shop"),
        (
            reasons(Some(&exports), image(), at::GAP),
            "the image's symbols have no function at the look-up address; the symbols of Shop",
        ),
        (
            reasons(Some(&nameless), image(), at::FUNCTION),
            "the image's symbols have no function at the look-up address; the symbols of Shop",
        ),
        (reasons(None, image().size(0x800), at::GAP), "the look-up address lies in no image"),
        (reasons(Some(&exports), image().size(0x800), at::GAP), "the look-up address lies in no image"),
    ] {
        assert!(reason.starts_with(begin), "{reason}");
        assert!(reason.contains(&format!("(UUID {})", super::id(APP))), "{reason}");
        assert!(reason.ends_with(": unslide upload Shop.app.dSYM"), "{reason}");
    }
    // With a dSYM nothing better can come.
    for image in [image(), image().size(0x800)] {
        assert!(!reasons(Some(&whole), image, at::GAP).contains("upload"));
    }
}

#[test]
fn an_explanation_says_which_rule_image_and_symbols_answered() {
    let bytes = two_threads().bytes();
    let report = Read::read(&bytes, &ReadLimits::default()).unwrap();
    let symbols = symbols(APP, ARM64, Quality::DwarfSymtab);
    let explanation = explain_report(
        &report,
        &|debug_id| (*debug_id == super::id(APP)).then_some(&symbols),
        &GroupingRules::default(),
        &[],
    );
    let mut tree = serde_json::to_value(&explanation).unwrap();
    assert_eq!(tree["engine"].take(), ENGINE);
    insta::assert_json_snapshot!(tree);
}
