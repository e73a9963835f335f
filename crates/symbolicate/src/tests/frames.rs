//! From a frame to its answer.

use super::{APP, APP_PATH, BASE, Have, LIBRARY, TEXT, app, at, id, lines, symbols};
use crate::ImageSymbols;
use crate::symcache::{CodeOwner, CodePlace, NameSource, ObjectHeader, SymCache, Writer};
use serde_json::{Value, json};
use std::sync::Arc;
use unslide_model::{CpuType, Quality};
use unslide_report::{ReadLimits, Report as Read};
use unslide_testkit::reports::{
    ARM64, ARM64_32, ARM64E, ARMV7, Error, Frame, I386, Image, Json, Report, Thread, X86_64,
};

#[test]
fn a_frame_says_everything_that_the_symbols_know() {
    let frame = Have::app().stopped([Frame::at(BASE + 0x1050), Frame::at(BASE + at::AFTER)]);
    assert_eq!(
        frame[0],
        json!({
            "status": "symbolicated", "source": "dwarf", "debug_id": APP.to_lowercase(),
            "relative_address": 0x1050, "symbol": "_ZN4Shop3addEi", "symbol_offset": 0x50,
            "calls": [
                {"function": "Shop::price(int)", "raw": "_ZN4Shop5priceEi", "file": "/src/cart.cpp",
                 "line": 12, "inlined": true},
                {"function": "Shop::add(int)", "raw": "_ZN4Shop3addEi", "file": "/src/cart.cpp",
                 "line": 40, "column": 9},
            ],
        })
    );
    // The call returns to line 44 and was made from line 12.
    assert_eq!(frame[1]["adjusted"], 1);
    assert_eq!(frame[1]["relative_address"], at::AFTER);
    assert_eq!(frame[1]["symbol_offset"], 0x80);
    assert_eq!(lines(&frame[1]), [12, 40]);
}

#[test]
fn the_relative_address_is_the_offset_in_the_image_whatever_the_slide() {
    for base in [0x4000, BASE, 0x1_8000_0000, u64::MAX - 0x10_FFFF] {
        let image = Image::new(APP_PATH, APP, base).vmaddr(0).size(0x10_0000);
        let report = Report::standard().image(image).crashed_at([base + at::INLINED]);
        let frames = Have::app().frames(&report, 0);
        assert_eq!((lines(&frames[0]), &frames[0]["relative_address"]), (vec![12, 40], &json!(0x1040)));
    }
}

/// Frame 0 at the first instruction of line 44: 44 where it is looked up as it is, 12 one lower.
fn first(report: &Report) -> (Vec<u64>, Value) {
    let frame = Have::app().frames(report, 0).remove(0);
    (lines(&frame), frame)
}

#[test]
fn each_rule_of_the_table_reaches_the_look_up() {
    const EXACT: [u64; 1] = [44];
    const CALL: [u64; 2] = [12, 40];
    let thread = || Thread::new(0).frames([Frame::at(BASE + at::AFTER)]);
    let crashed = || thread().crashed();
    let with = |error: Error, thread: Thread| first(&app().error(error).thread(thread)).0;

    // 1
    assert_eq!(first(&app().thread(crashed().skipped(3)).set("crash.error.type", "profile")).0, EXACT);
    assert_eq!(first(&app().thread(crashed().skipped(3)).set("report.monitor_id", "profile")).0, EXACT);
    // 4
    assert_eq!(with(Error::Mach, crashed().skipped(64_862)), CALL);
    // 5
    let pc = |address: u64| [("sp", 1), ("pc", address)];
    assert_eq!(with(Error::NsException, crashed().registers(pc(BASE + at::AFTER))), EXACT);
    assert_eq!(with(Error::Mach, crashed().registers(pc(BASE + at::FUNCTION))), CALL);
    // 6
    let metric_kit = app().error(Error::NsException).set("report.monitor_id", "MetricKit").thread(crashed());
    assert_eq!(first(&metric_kit).0, EXACT);
    // 7
    assert_eq!(with(Error::Mach, crashed().current()), CALL);
    for error in [Error::NsException, Error::CppException, Error::User] {
        assert_eq!(with(error, crashed()), CALL);
        // 8
        assert_eq!(with(error, thread()), EXACT);
    }
    for error in [Error::Mach, Error::Signal, Error::Deadlock] {
        assert_eq!(with(error, crashed()), EXACT);
    }
    // 9
    let (lines, frame) = first(&app().set("crash.error.type", "plugin").thread(crashed()));
    assert_eq!((lines, &frame["approximate"]), (CALL.to_vec(), &json!(true)));
}

#[test]
fn the_thread_of_a_minimal_report_has_crashed_whether_it_says_so_or_not() {
    let thread = Thread::new(0).without("crashed").frames([Frame::at(BASE + at::AFTER)]);
    let tree = Have::app().tree(&app().error(Error::NsException).crashed_thread(thread));
    let frame = &tree["crash"]["crashed_thread"]["backtrace"]["contents"][0]["symbolication"];
    assert_eq!(lines(frame), [12, 40]);
}

#[test]
fn the_program_counter_is_compared_after_the_same_cleaning() {
    let signed = (BASE + at::AFTER) | 0x0023_0000_0000_0000;
    for (frame, pc) in
        [(signed, BASE + at::AFTER), (BASE + at::AFTER, signed), (BASE + at::AFTER, BASE + 0x1083)]
    {
        let thread = Thread::new(0).crashed().frames([Frame::at(frame)]).registers([("pc", pc)]);
        assert_eq!(first(&app().thread(thread)).0, [44], "{frame:#x} {pc:#x}");
    }
}

#[test]
fn backtraces_of_exceptions_and_profiles_are_answered() {
    let frames = || [Frame::at(BASE + at::AFTER), Frame::at(BASE + at::AFTER)];
    let tree = Have::app().tree(&app().last_exception(frames()).deallocated_exception(1, frames()));
    for contents in [
        &tree["crash"]["last_exception_backtrace"]["contents"],
        &tree["process"]["last_dealloced_nsexception"]["backtrace"]["contents"],
    ] {
        for frame in contents.as_array().unwrap() {
            assert_eq!(lines(&frame["symbolication"]), [12, 40]);
        }
    }
    let tree = Have::app().tree(&app().profile_frames(frames()));
    for frame in tree["crash"]["error"]["profile"]["frames"].as_array().unwrap() {
        assert_eq!(lines(&frame["symbolication"]), [44]);
    }
}

#[test]
fn the_frame_that_a_signal_interrupted_is_exact() {
    let interrupted = Frame::at(BASE + at::AFTER);
    // Known from the symbols of the frame before.
    let known =
        Have::app().stopped([Frame::at(BASE + at::SIGTRAMP + 4), interrupted.clone(), interrupted.clone()]);
    assert_eq!([lines(&known[1]), lines(&known[2])], [vec![44], vec![12, 40]]);
    assert_eq!((&known[1]["adjusted"], &known[2]["adjusted"]), (&Value::Null, &json!(1)));
    // Known from the device alone, in an image without symbols and in none.
    let library = Image::new("/usr/lib/libsystem_platform.dylib", LIBRARY, 0x1_9000_0000);
    let by_device = Frame::at(0x1_9000_1004).symbol("_sigtramp", 0x1_9000_1000);
    for report in [app().image(library), app()] {
        let thread = Thread::new(0).crashed().frames([by_device.clone(), interrupted.clone()]);
        assert_eq!(lines(&Have::app().frames(&report.thread(thread), 0)[1]), [44]);
    }
    // The symbols know better than the device.
    let contradicted = Frame::at(BASE + at::SYMBOL + 4).symbol("_sigtramp", BASE + at::SYMBOL);
    assert_eq!(lines(&Have::app().stopped([contradicted, interrupted])[1]), [12, 40]);
}

#[test]
fn an_interrupted_frame_at_the_start_of_an_image_is_in_that_image() {
    let before = Image::new("/app/Before", LIBRARY, BASE - 0x1000).size(0x1000);
    let platform = "AAAAAAAA-2D2A-3A26-BF90-60D6A8896CF0";
    let library = Image::new("/usr/lib/libsystem_platform.dylib", platform, 0x1_9000_0000);
    let thread =
        Thread::new(0).crashed().frames([Frame::at(0x1_9000_0000 + at::SIGTRAMP + 4), Frame::at(BASE)]);
    let have = Have::app().and(platform, symbols(platform, ARM64, Quality::Symtab));
    let frame = have.frames(&app().image(before).image(library).thread(thread), 0).remove(1);
    assert_eq!((&frame["debug_id"], &frame["relative_address"]), (&json!(APP.to_lowercase()), &json!(0)));
}

#[test]
fn gaps_and_what_lies_behind_the_last_function_have_no_symbol() {
    for offset in [0x10, at::GAP, at::GAP + 0xFC, at::END, 0xF_0000] {
        let frame = Have::app().exact(Frame::at(BASE + offset).symbol("previous", BASE + offset - 4));
        assert_eq!(frame["status"], "missing_symbol", "{offset:#x}");
        assert_eq!(frame.get("calls"), None);
        assert_eq!((&frame["relative_address"], frame.get("source")), (&json!(offset), None));
    }
}

#[test]
fn sources_and_guesses_are_told() {
    let have = Have::app();
    let sized = have.exact(Frame::at(BASE + at::SYMBOL + 8));
    assert_eq!(sized["source"], "symtab");
    assert_eq!(sized["calls"], json!([{"function": "plain"}]));
    assert_eq!(sized.get("approximate"), None);
    let nearest = have.exact(Frame::at(BASE + at::NEAREST + 8));
    assert_eq!((&nearest["source"], &nearest["approximate"]), (&json!("symtab"), &json!(true)));
    let line_0 = have.exact(Frame::at(BASE + at::LINE_0 + 8));
    assert_eq!(line_0["calls"], json!([{"function": "quiet", "file": "/src/cart.cpp"}]));
}

#[test]
fn cleaning_marks_what_it_did() {
    let have = Have::app();
    let signed = have.exact(Frame::at((BASE + at::AFTER) | 0x0023_0000_0000_0000));
    assert_eq!((&signed["pac_stripped"], lines(&signed)), (&json!(true), vec![44]));
    let float = have.exact(Frame::of(Json::Raw(format!("{}.0", BASE + at::AFTER))));
    assert_eq!((&float["approximate"], lines(&float)), (&json!(true), vec![44]));
    let low_bits = have.exact(Frame::at(BASE + at::AFTER + 3));
    assert_eq!(low_bits["relative_address"], at::AFTER);
}

#[test]
fn thumb_and_32_bit_frames_are_cleaned_by_their_images_cpu() {
    for (cpu, address, relative) in [
        (ARMV7, Json::from(0x8000_1081_u64), 0x1080),
        (ARMV7, Json::Raw(format!("-{}", 0x8000_0000_u64 - 0x1081)), 0x1080),
        (ARM64_32, Json::Raw(format!("-{}", 0x8000_0000_u64 - 0x1080)), 0x1080),
        (X86_64, Json::from(0x8000_1081_u64), 0x1081),
    ] {
        let image = Image::new(APP_PATH, APP, 0x8000_0000).cpu(cpu).vmaddr(0x4000);
        let have = Have::default().and(APP, symbols(APP, cpu, Quality::DwarfSymtab));
        let thread = Thread::new(0).crashed().frames([Frame::of(address.clone())]);
        let frame = have.frames(&Report::standard().image(image).thread(thread), 0).remove(0);
        assert_eq!((lines(&frame), &frame["relative_address"]), (vec![44], &json!(relative)), "{address:?}");
    }
}

/// What is said of a caller's frame at this offset, with the symbols of this CPU.
fn caller(cpu: CpuType, offset: u64) -> Value {
    const START: u64 = 0x8000_0000;
    let image = Image::new(APP_PATH, APP, START).cpu(cpu).vmaddr(0x4000).size(0x10_0000);
    let have = Have::default().and(APP, symbols(APP, cpu, Quality::DwarfSymtab));
    let thread = Thread::new(0).crashed().frames([Frame::at(START + at::SYMBOL), Frame::at(START + offset)]);
    have.frames(&Report::standard().image(image).thread(thread), 0).remove(1)
}

#[test]
fn a_swift_async_continuation_is_the_function_that_it_begins() {
    for cpu in [ARM64, ARM64E, ARM64_32, X86_64, I386] {
        // The function's first instruction, plus one.
        let frame = caller(cpu, at::NEAREST + 1);
        assert_eq!((&frame["symbol"], &frame["symbol_offset"]), (&json!("near"), &json!(1)), "{cpu:?}");
        assert_eq!((&frame["adjusted"], &frame["relative_address"]), (&json!(1), &json!(at::NEAREST + 1)));
        // Return addresses: behind the call that was the last instruction of the function before, and behind another.
        for (offset, symbol) in [(at::NEAREST, "plain"), (at::NEAREST + 4, "near")] {
            let frame = caller(cpu, offset);
            assert_eq!((&frame["symbol"], &frame["relative_address"]), (&json!(symbol), &json!(offset)));
        }
    }
    // The lowest bit of an armv7 address selects Thumb. Swift adds one to it all the same.
    for (offset, symbol) in [(0, "plain"), (1, "plain"), (2, "near"), (4, "near"), (5, "near")] {
        let frame = caller(ARMV7, at::NEAREST + offset);
        assert_eq!(frame["symbol"], symbol, "{offset}");
        assert_eq!(frame["relative_address"], at::NEAREST + offset / 2 * 2);
    }
}

#[test]
fn a_swift_async_continuation_is_found_signed_and_at_the_start_of_an_image() {
    let before = Image::new("/app/Before", LIBRARY, BASE - 0x1000).size(0x1000);
    for address in [BASE + 1, (BASE + 1) | 0x0023_0000_0000_0000] {
        let thread = Thread::new(0).crashed().frames([Frame::at(BASE + at::SYMBOL), Frame::at(address)]);
        let frame = Have::app().frames(&app().image(before.clone()).thread(thread), 0).remove(1);
        assert_eq!((&frame["debug_id"], &frame["relative_address"]), (&json!(APP.to_lowercase()), &json!(1)));
    }
    // The device says that it is one byte behind the symbol.
    let frames = [Frame::at(BASE), Frame::at(BASE + 0x1301).symbol("resumed", BASE + 0x1300)];
    let frame = Have::default().stopped(frames).remove(1);
    assert_eq!((&frame["symbol"], &frame["symbol_offset"]), (&json!("resumed"), &json!(1)));
}

#[test]
fn an_address_that_is_no_return_address_loses_its_low_bits() {
    for offset in 0..4 {
        let stopped = Have::app().exact(Frame::at(BASE + at::NEAREST + offset));
        assert_eq!((&stopped["symbol"], &stopped["relative_address"]), (&json!("near"), &json!(at::NEAREST)));
        let frames = [Frame::at(BASE + at::SIGTRAMP + 4), Frame::at(BASE + at::NEAREST + offset)];
        let interrupted = Have::app().stopped(frames).remove(1);
        assert_eq!(interrupted, stopped);
    }
}

#[test]
fn the_page_at_0_and_no_address_are_invalid() {
    let have = Have::app();
    for frame in [Frame::at(0), Frame::at(0xFFF), Frame::of(Json::from("0x1040")), Frame::of(Json::null())] {
        assert_eq!(have.exact(frame), json!({"status": "invalid_address"}));
    }
    assert_eq!(have.exact(Frame::at(0x1000)), json!({"status": "unknown_image"}));
}

#[test]
fn the_devices_name_stands_in_for_missing_symbols() {
    let have = Have::default();
    let frame = have.exact(Frame::at(BASE + 0x1054).symbol("-[Shop add:]", BASE + 0x1000));
    assert_eq!(
        frame,
        json!({"status": "device", "source": "device", "debug_id": APP.to_lowercase(), "relative_address": 0x1054,
               "symbol": "-[Shop add:]", "symbol_offset": 0x54, "calls": [{"function": "-[Shop add:]"}]})
    );
    let mangled = have.exact(Frame::at(BASE + 0x1054).symbol("_ZN4Shop3addEi", BASE + 0x1000));
    assert_eq!(mangled["calls"], json!([{"function": "Shop::add(int)", "raw": "_ZN4Shop3addEi"}]));
}

#[test]
fn the_devices_name_is_not_believed_blindly() {
    let have = Have::default();
    let status = |name: Json, distance: u64| {
        let frame = Frame::at(BASE + 0xF_F000).set("symbol_name", name);
        let frame = have.exact(frame.set("symbol_addr", (BASE + 0xF_F000).wrapping_sub(distance)));
        (frame["status"].as_str().unwrap().to_owned(), frame["approximate"] == true)
    };
    for name in ["<redacted>", "_mh_execute_header", "__mh_execute_header", ""] {
        assert_eq!(status(Json::from(name), 8), ("missing".into(), false), "{name}");
    }
    assert_eq!(status(Json::null(), 8), ("missing".into(), false));
    assert_eq!(status(Json::from("near"), 64 << 10), ("device".into(), false));
    assert_eq!(status(Json::from("far"), (64 << 10) + 4), ("device".into(), true));
    // Behind the address, and before the image.
    assert_eq!(status(Json::from("behind"), 0_u64.wrapping_sub(4)), ("missing".into(), false));
    assert_eq!(status(Json::from("before"), 0xF_F000 + 4), ("missing".into(), false));
    // A distance that is not known.
    let unplaced = have.exact(Frame::at(BASE + 0x1050).set("symbol_name", "somewhere"));
    assert_eq!((&unplaced["status"], &unplaced["approximate"]), (&json!("device"), &json!(true)));
    assert_eq!(unplaced.get("symbol_offset"), None);
}

#[test]
fn a_mebibyte_is_the_farthest_that_a_devices_name_reaches() {
    let image = Image::new(APP_PATH, APP, BASE).size(0x100_0000);
    let far = |distance: u64| {
        let frame = Frame::at(BASE + 0x20_0000).symbol("far", BASE + 0x20_0000 - distance);
        let report = Report::standard().image(image.clone()).thread(Thread::new(0).crashed().frames([frame]));
        Have::default().frames(&report, 0)[0]["status"].clone()
    };
    assert_eq!([far(1 << 20), far((1 << 20) + 4)], [json!("device"), json!("missing")]);
}

#[test]
fn symbols_go_before_the_device_unless_they_know_no_names() {
    let named = || Frame::at(BASE + 0x1050).symbol("device_name", BASE + 0x1000);
    assert_eq!(Have::app().exact(named())["source"], "dwarf");
    let nameless = Have::default().and(APP, symbols(APP, ARM64, Quality::None));
    assert_eq!(nameless.exact(named())["status"], "device");
    assert_eq!(nameless.exact(Frame::at(BASE + 0x1050))["status"], "missing_symbol");
}

#[test]
fn an_element_that_is_no_frame_parts_a_signal_from_what_it_interrupted() {
    let interrupted = || Frame::at(BASE + at::AFTER);
    let frames = [Frame::at(BASE + at::SIGTRAMP + 4), interrupted(), interrupted()];
    let thread = Thread::new(0).crashed().frames(frames).set("backtrace.contents.1", "cut off");
    let tree = Have::app().tree(&app().thread(thread));
    let contents = &tree["crash"]["threads"][0]["backtrace"]["contents"];
    assert_eq!((&contents[1], lines(&contents[2]["symbolication"])), (&json!("cut off"), vec![12, 40]));
}

#[test]
fn floats_for_the_image_and_for_what_the_frame_says_of_it_are_no_certainties() {
    let image = Image::new(APP_PATH, APP, 0).set("image_addr", Json::Raw(format!("{BASE}.0")));
    let thread = Thread::new(0).crashed().frames([Frame::at(BASE + at::AFTER)]);
    let frame = Have::app().frames(&Report::standard().image(image).thread(thread), 0).remove(0);
    assert_eq!((&frame["approximate"], lines(&frame)), (&json!(true), vec![44]));
    let rounded = Frame::at(BASE + at::AFTER).set("object_addr", Json::float(BASE));
    assert_eq!(Have::app().exact(rounded).get("reattributed"), None);
    let symbol = Frame::at(BASE + 0x54).set("symbol_name", "f").set("symbol_addr", Json::float(BASE));
    let frame = Have::default().exact(symbol);
    assert_eq!((&frame["approximate"], frame.get("symbol_offset")), (&json!(true), None));
}

#[test]
fn one_address_in_many_frames_keeps_what_is_each_frames_own() {
    let address = || Frame::at(BASE + at::AFTER);
    let thread = || {
        Thread::new(0).frames([
            Frame::at(BASE + at::SIGTRAMP + 4),
            address(),
            address(),
            address().set("object_name", "Other"),
            Frame::at((BASE + at::AFTER) | 0x0023_0000_0000_0000),
            address(),
        ])
    };
    let report = app().thread(thread()).thread(thread().crashed());
    for frames in [Have::app().frames(&report, 0), Have::app().frames(&report, 1)] {
        assert!(frames[1..].iter().map(lines).eq([
            vec![44],
            vec![12, 40],
            vec![12, 40],
            vec![12, 40],
            vec![12, 40]
        ]));
        let of = |key: &str| frames.iter().map(|frame| frame[key] == true).collect::<Vec<_>>();
        assert_eq!(of("reattributed"), [false, false, false, true, false, false]);
        assert_eq!(of("pac_stripped"), [false, false, false, false, true, false]);
    }
}

#[test]
fn code_outside_of_an_images_size_is_named_where_its_symbols_agree() {
    let small = || Report::standard().image(Image::new(APP_PATH, APP, BASE).vmaddr(TEXT).size(0x800));
    let frame = |offset: u64| Frame::at(BASE + offset).object("Shop", BASE).set("object_uuid", APP);
    let answer = |have: &Have, frame: Frame| {
        have.frames(&small().thread(Thread::new(0).crashed().frames([frame])), 0).remove(0)
    };
    let have = Have::app();
    for (offset, line) in [(at::FUNCTION, 40), (at::AFTER, 44)] {
        let named = answer(&have, frame(offset));
        assert_eq!((&named["status"], &named["outside_image_size"]), (&json!("symbolicated"), &json!(true)));
        assert_eq!((lines(&named)[0], &named["relative_address"]), (line, &json!(offset)));
        assert_eq!(named.get("reattributed"), None);
    }
    assert_eq!(answer(&have, frame(at::SYMBOL))["source"], "symtab");
    let unknown = json!({"status": "unknown_image"});
    // A gap; a symbol without a size; past the end; another address than the image's; another image's id; no id.
    for other in [
        frame(at::GAP),
        frame(at::NEAREST),
        frame(0x20_0000),
        frame(at::FUNCTION).set("object_addr", BASE + 0x1000),
        frame(at::FUNCTION).set("object_uuid", LIBRARY),
        Frame::at(BASE + at::FUNCTION).object("Shop", BASE),
    ] {
        assert_eq!(answer(&have, other), unknown);
    }
    // Inside of an image nothing changes.
    assert_eq!(answer(&have, frame(0x40))["status"], "missing_symbol");
    // Without symbols the device's word is not enough, and the report waits for them.
    let report = small()
        .thread(Thread::new(0).crashed().frames([frame(at::FUNCTION).symbol("device", BASE + at::FUNCTION)]));
    let without = Have::default().enrich(&report);
    assert_eq!((without.frames.unknown_image, without.missing), (1, vec![id(APP)]));
    let bytes = report.bytes();
    let needs = crate::list_needs(&Read::read(&bytes, &ReadLimits::default()).unwrap());
    assert_eq!(needs.iter().map(|need| need.debug_id).collect::<Vec<_>>(), [id(APP)]);
}

#[test]
fn nobody_waits_for_a_uuid_of_zeros() {
    let zeros = "00000000-0000-0000-0000-000000000000";
    let image = Image::new(APP_PATH, zeros, BASE).vmaddr(TEXT).size(0x10_0000);
    let frame = Frame::at(BASE + 0x1050).object("Shop", BASE).set("object_uuid", zeros);
    let report = Report::standard().image(image).thread(Thread::new(0).crashed().frames([frame]));
    let enriched = Have::default().enrich(&report);
    assert_eq!(
        (enriched.frames.missing, enriched.missing, enriched.images[0].debug_id),
        (1, Vec::new(), None)
    );
    assert_eq!(enriched.images[0].status, crate::ImageStatus::Missing);
    let bytes = report.bytes();
    assert!(crate::list_needs(&Read::read(&bytes, &ReadLimits::default()).unwrap()).is_empty());
}

#[test]
fn the_names_of_one_report_cost_so_much_and_no_more() {
    // Three languages share it; what comes too late keeps its raw form.
    let cpp = |n: usize| format!("_ZN45s{n:044}3addEi");
    let rust = |n: usize| format!("_RNvCs1234_45r{n:044}3foo");
    let swift = |n: usize| format!("$s45S{n:044}3addyyF");
    let frame = |name: String| Frame::at(BASE + 0x1050).symbol(&name, BASE + 0x1000);
    let named =
        |from: usize, count: usize| (from..from + count).flat_map(move |n| [cpp(n), rust(n), swift(n)]);
    let few: Vec<Frame> = named(0, 100).map(frame).collect();
    let raw = |frames: &[Value]| frames.iter().filter(|frame| frame["calls"][0].get("raw").is_none()).count();
    let have = Have::default();
    assert_eq!(raw(&have.stopped(few)), 0);
    let many: Vec<Frame> = named(0, 12_000).map(frame).collect();
    let answers = have.stopped(many);
    let readable = answers.len() - raw(&answers);
    assert!((1_000..20_000).contains(&readable), "{readable}");
    let last = answers.last().unwrap();
    assert_eq!((&last["status"], &last["calls"][0]["function"]), (&json!("device"), &last["symbol"]));
    // Deterministic: the same names are read each time.
    let again: Vec<Frame> = named(0, 12_000).map(frame).collect();
    assert_eq!(have.stopped(again), answers);
}

#[test]
fn a_frame_in_the_code_of_several_functions_lists_the_others_and_is_a_guess() {
    let mut w = Writer::new(1 << 20);
    let mut function = |name: &str, others: &[&str], start: u32| {
        let function = w.add_function(name, None).unwrap();
        let owner =
            CodeOwner { function, start: Some(start), source: NameSource::Symtab, approximate: false };
        let scope = w.add_owner(owner, others.iter().copied()).unwrap();
        Some(CodePlace { scope, line: 0, column: 0 })
    };
    let alone = function("alone", &[], 0x1000);
    let folded = function("plain", &["_ZN4Shop3addEi", "quo\"te"], 0x1100);
    let last = function("last", &[], 0x1200);
    let facts = ObjectHeader {
        debug_id: id(APP),
        cpu: ARM64,
        text_address: TEXT,
        text_size: 0x10_0000,
        extent: 0x10_0000,
        quality: Quality::Symtab,
    };
    let bytes = w
        .into_bytes(
            &facts,
            [(0x1000, alone), (0x1100, folded), (0x1200, last), (0x1300, None)].into_iter().collect(),
        )
        .unwrap();
    let cache = SymCache::parse(bytes).unwrap();
    cache.verify_checksum().unwrap();
    let have = Have::default().and(APP, ImageSymbols::from_symcache(Arc::new(cache)));
    let frame = have.exact(Frame::at(BASE + 0x1150));
    assert_eq!(frame["folded_with"], json!(["Shop::add(int)", "quo\"te"]));
    assert_eq!((&frame["approximate"], &frame["symbol"]), (&json!(true), &json!("plain")));
    for alone in [0x1050, 0x1250] {
        let frame = have.exact(Frame::at(BASE + alone));
        assert_eq!((frame.get("folded_with"), frame.get("approximate")), (None, None));
    }
}
