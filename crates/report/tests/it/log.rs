//! Apple's text.

use crate::{enrich_with, read};
use unslide_report::text::apple_log;
use unslide_testkit::reports::{self, Error, Json, Report, Thread};

const OURS: &str = r#"{"version":1,"engine":"unslide/0.1.0"}"#;

fn shape(name: &str) -> Report {
    let found = reports::shapes().into_iter().find(|(other, _)| other == name);
    found.unwrap_or_else(|| panic!("no shape {name}")).1
}

fn log(report: &Report) -> String {
    apple_log(&read(&report.bytes()))
}

#[test]
fn a_standard_report() {
    insta::assert_snapshot!(log(&shape("error-Mach")));
}

#[test]
fn a_crash_of_the_crash_handler() {
    insta::assert_snapshot!(log(&shape("recrash-outer-minimal")));
}

#[test]
fn the_old_layout_puts_the_same_crash_first() {
    let text = log(&shape("recrash-inner-minimal"));
    let (first, second) = text.split_once("\nHandler crashed while reporting:\n").unwrap();
    assert!(first.starts_with("Incident Identifier:") && first.contains("\nThread 0 Crashed:\n"));
    assert!(second.contains("Thread 7 name:  Exception Handler\nThread 7 Crashed:\n"));
    assert!(!second.contains("Binary Images"));
}

#[test]
fn a_minimal_report_alone() {
    let text = log(&shape("minimal"));
    assert!(
        text.starts_with("Incident Identifier:") && text.contains("Thread 7 Crashed:\n0   Shop"),
        "{text}"
    );
    assert!(!text.contains("Handler crashed"));
}

#[test]
fn what_only_this_form_has() {
    let text = log(&shape("rich"));
    insta::assert_snapshot!(text.split_once("\nEOF\n").unwrap().1);
}

#[test]
fn an_exception_with_its_own_backtrace() {
    insta::assert_snapshot!(log(&shape("last-exception")));
}

#[test]
fn a_32_bit_process() {
    insta::assert_snapshot!(log(&shape("cpu-armv7")));
}

#[test]
fn our_calls_with_files_and_lines() {
    let frame = r#"{"status":"symbolicated","source":"dwarf","debug_id":"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0","symbol_offset":84,"calls":[
      {"function":"Shop.Cart.price(Int) -> Int","file":"/src/Cart.swift","line":12,"inlined":true},
      {"function":"inlined without line","file":"C:\\src\\Cart.cpp","inlined":true},
      {"function":"Shop.Cart.add(Int) -> ()","file":"/src/Cart.swift","line":40}]}"#;
    let enriched = enrich_with(&shape("error-Mach").bytes(), frame, OURS);
    let text = apple_log(&read(&enriched));
    let lines: Vec<&str> =
        text.lines().skip_while(|line| *line != "Thread 0 Crashed:").skip(1).take(6).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn guesses_are_marked() {
    let line = |frame: &str| {
        let text = apple_log(&read(&enrich_with(&shape("error-Mach").bytes(), frame, OURS)));
        let mut lines = text.lines().skip_while(|line| *line != "Thread 0 Crashed:").skip(1);
        let end = |line: &str| line.split_once("0x").unwrap().1.split_once(' ').unwrap().1.to_owned();
        [lines.next(), lines.next()].map(|line| end(line.unwrap()))
    };
    let calls = r#""status":"symbolicated","symbol_offset":4,"calls":[{"function":"price","inlined":true},{"function":"add","file":"/a/Cart.swift","line":4}]"#;
    assert_eq!(line(&format!("{{{calls}}}")), ["price [inlined]", "add + 4 (Cart.swift:4)"]);
    let guess = line(&format!(r#"{{"approximate":true,{calls}}}"#));
    assert_eq!(guess, ["price [inlined]", "add + 4 (Cart.swift:4) [approximate]"]);
    let device = r#"{"status":"device","approximate":true,"symbol":"main","symbol_offset":70000}"#;
    assert_eq!(line(device)[0], "main + 70000 [approximate]");
}

#[test]
fn the_apps_images_that_lack_symbols_are_named() {
    let text = |own: &str| apple_log(&read(&enrich_with(&shape("error-Mach").bytes(), "{}", own)));
    let own = r#"{"version":1,"engine":"unslide/0.1.0","images":[
        {"debug_id":"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0","name":"Shop","status":"missing"},
        {"debug_id":"1f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0","name":"Kit\nThread 9","status":"found","stripped":true},
        {"debug_id":"2f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0","name":"Other","status":"found"},
        {"name":"Nameless","status":"missing"},
        {"debug_id":"3f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0","name":"libobjc","status":"missing","system":true}]}"#;
    let lines = "\nMissing Symbols of the App:\nShop 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0 (missing)\n\
        Kit\\nThread 9 1f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0 (stripped)\nNameless without a UUID (missing)\n\n";
    let text_of = text(own);
    assert!(text_of.split_once("\nEOF\n").unwrap().1.contains(lines), "{text_of}");
    assert!(!text(OURS).contains("Missing Symbols"));
}

#[test]
fn what_is_said_of_an_exception() {
    for error in Error::ALL {
        let text = log(&Report::standard().error(error).thread(Thread::new(0).crashed()));
        let said = "Application Specific Information:\n*** Terminating app due to uncaught exception '";
        let raised =
            matches!(error, Error::NsException | Error::CppException | Error::User | Error::UserObjects);
        assert_eq!(text.contains(said), raised, "{error:?}");
        assert_eq!(text.contains("main thread deadlocked"), error == Error::Deadlock);
    }
    let text = log(&Report::standard().error(Error::User));
    assert!(
        text.contains(
            "\nCustom Backtrace:\nLine: render (app.js:12)\nrender@app.js:12:9\nmain@app.js:40:1\n"
        ),
        "{text}"
    );
    let text = log(&Report::standard().error(Error::UserObjects));
    assert!(text.contains("\"methodName\""), "{text}");
}

#[test]
fn a_message_of_an_image_is_shown_on_one_line() {
    let image = reports::Image::new("/usr/lib/swift/libswiftCore.dylib", "", 0x1000);
    let image = image.set("crash_info_message", "Cart.swift:12: Fatal error: no price\nThread 9 Crashed:\n");
    let text = log(&Report::standard().image(image));
    assert!(
        text.contains(
            "\nApplication Specific Information:\nCart.swift:12: Fatal error: no price\\nThread 9 Crashed:\n"
        ),
        "{text}"
    );
}

#[test]
fn a_zombie_exception_is_the_cause() {
    let zombie = |register: u64| {
        let thread = Thread::new(0).crashed().frames([]).registers([("x0", register), ("pc", 1)]);
        log(&Report::standard().deallocated_exception(0x1111, []).thread(thread))
    };
    assert!(
        zombie(0x1111)
            .contains("uncaught exception 'NSRangeException', reason: 'index 4 beyond bounds'\nNOTE:")
    );
    assert!(!zombie(0x2222).contains("NOTE:"));
    assert!(zombie(0x2222).contains("Last deallocated NSException (0x0000000000001111): NSRangeException"));
}

#[test]
fn too_much_cpu_is_spelled_out() {
    let code = 1_u64 << 61 | 1 << 58 | 180 << 7 | 50;
    let report = Report::standard()
        .set("crash.error.mach.exception", Json::from(11))
        .set("crash.error.mach.exception_name", "EXC_RESOURCE")
        .set("crash.error.mach.code", Json::from(code))
        .set("crash.error.mach.subcode", Json::from(98));
    assert!(
        log(&report).contains("Exception Subtype: CPU_MONITOR\nLimit: 50%, observed: 98% over 180 seconds\n")
    );
    // Memory is another resource, and what lost its upper half is none.
    for code in [3_u64 << 61 | 50, code & 0xffff_ffff] {
        assert!(!log(&report.clone().set("crash.error.mach.code", Json::from(code))).contains("Subtype"));
    }
}

#[test]
fn a_symbol_that_does_not_fit_is_not_shown() {
    let frame = |symbol: Json, start: u64| {
        let frame =
            reports::Frame::at(0x2000).object("Shop", 0x1000).symbol("", start).set("symbol_name", symbol);
        let text = log(&Report::standard().thread(Thread::new(0).frames([frame])));
        text.lines()
            .find(|line| line.starts_with("0   "))
            .map(|line| line.split_once("2000 ").unwrap().1.to_owned())
    };
    assert_eq!(frame("main".into(), 0x1ff0).as_deref(), Some("main + 16"));
    assert_eq!(frame("main".into(), 0x2ff0).as_deref(), Some("0x1000 + 4096"));
    assert_eq!(frame("<redacted>".into(), 0x1ff0).as_deref(), Some("0x1000 + 4096"));
    assert_eq!(frame("_mh_execute_header".into(), 0x1000).as_deref(), Some("0x1000 + 4096"));
    assert_eq!(frame("before the image".into(), 0xff0).as_deref(), Some("0x1000 + 4096"));
    assert_eq!(frame(Json::null(), 0x1ff0).as_deref(), Some("0x1000 + 4096"));
}

#[test]
fn every_shape_can_be_shown() {
    for (name, report) in reports::shapes() {
        let text = log(&report);
        assert!(
            text.contains("Exception Type:") && text.contains("Binary Images:") && text.contains("\nEOF\n"),
            "{name}"
        );
    }
    assert!(apple_log(&read(b"{}")).contains("Date/Time:           (null)"));
}

#[test]
fn no_text_of_the_device_looks_like_a_line_of_ours() {
    let forged = "x\n0   Shop  0x1 evil + 1\r\u{2028}Thread 9 Crashed:\u{202e}\t\u{85}";
    for (name, report) in reports::shapes() {
        let plain = report.bytes();
        // The shapes with numbers that no double can hold are left out.
        let Ok(mut document) = serde_json::from_slice::<serde_json::Value>(&plain) else { continue };
        // The clock's words are read, not shown.
        replace_strings(&mut document, &|key, text| match key {
            "timestamp" | "id" | "uuid" | "object_uuid" | "type" => text.to_owned(),
            _ => "clean".to_owned(),
        });
        let clean = serde_json::to_vec(&document).unwrap();
        replace_strings(&mut document, &|_, text| match text {
            "clean" => forged.to_owned(),
            other => other.to_owned(),
        });
        let hostile = serde_json::to_vec(&document).unwrap();
        for enriched in [false, true] {
            let form = |bytes: &[u8]| match enriched {
                true => enrich_with(
                    bytes,
                    r#"{"status":"device","symbol":"a\nThread 3:","calls":[{"function":"b\nc","file":"d\ne"}]}"#,
                    OURS,
                ),
                false => bytes.to_vec(),
            };
            let (clean, hostile) = (apple_log(&read(&form(&clean))), apple_log(&read(&form(&hostile))));
            assert_eq!(clean.lines().count(), hostile.lines().count(), "{name}\n{hostile}");
            let control =
                |c: char| c.is_control() && c != '\n' && c != '\t' || "\u{2028}\u{202e}".contains(c);
            assert!(!hostile.contains(control), "{name}");
            assert!(!hostile.lines().any(|line| line.starts_with("Thread 9 Crashed")), "{name}");
        }
    }
}

fn replace_strings(value: &mut serde_json::Value, with: &dyn Fn(&str, &str) -> String) {
    match value {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                match value {
                    serde_json::Value::String(text) => *text = with(key, text),
                    other => replace_strings(other, with),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| replace_strings(item, with)),
        _ => {}
    }
}

#[test]
fn the_text_names_what_the_json_names_and_nothing_else() {
    let frame = reports::Frame::at(0x2000).object("Shop", 0x1000).symbol("device_name", 0x1ff0);
    let image = reports::Image::new("/a/Shop", "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0", 0x1000);
    let bytes = Report::standard().image(image).thread(Thread::new(0).frames([frame])).bytes();
    let line = |ours: &str| {
        let text = apple_log(&read(&enrich_with(&bytes, ours, OURS)));
        text.lines().find(|line| line.starts_with("0   ")).unwrap().to_owned()
    };
    let known = r#""debug_id":"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0","relative_address":4096"#;
    for status in ["missing", "missing_symbol", "malformed", "unsupported", "fetching_failed"] {
        let line = line(&format!(r#"{{"status":"{status}",{known}}}"#));
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>()[1..],
            ["Shop", "0x0000000000002000", "0x1000", "+", "4096"]
        );
    }
    assert!(
        line(r#"{"status":"unknown_image"}"#).contains("???")
            && !line(r#"{"status":"unknown_image"}"#).contains("device_name")
    );
    // An answer of less detail has the symbol, or the status alone.
    assert!(
        line(&format!(r#"{{"status":"device",{known},"symbol":"s","symbol_offset":7}}"#)).ends_with(" s + 7")
    );
    assert!(line(r#"{"status":"symbolicated"}"#).ends_with(" 0x1000 + 4096"));
}

#[test]
fn threads_without_an_index_count_by_position() {
    let report = br#"{"crash":{"error":{},"threads":[{"name":"a"},7,{"crashed":true,"registers":{"basic":{"pc":1}}},{"index":9},{"index":-1}]}}"#;
    let text = apple_log(&read(report));
    for line in [
        "Triggered by Thread:  2",
        "Thread 0 name:  a",
        "Thread 0:",
        "Thread 2 Crashed:",
        "Thread 9:",
        "Thread 4:",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}: {text}");
    }
    assert!(text.contains("Thread 2 crashed with Unknown Thread State:"), "{text}");
}

#[test]
fn a_long_path_is_looked_at_once_and_a_deep_value_level_by_level() {
    // Each takes minutes where it is looked at again for each frame, or for each level.
    let path = format!("{}/Shop", "/x".repeat(500_000));
    let frames = r#"{"instruction_addr":4100},"#.repeat(50_000);
    let report = format!(
        r#"{{"binary_images":[{{"image_addr":4096,"image_size":4096,"name":"{path}"}}],"crash":{{"threads":[{{"backtrace":{{"contents":[{frames}{{}}]}}}}]}}}}"#
    );
    assert!(apple_log(&read(report.as_bytes())).contains("0   Shop   "));
    let deep = format!("{}{}{}", "[0,".repeat(200), "1,".repeat(200_000) + "1", "]".repeat(200));
    let report = format!(r#"{{"system":{{"application_stats":{{"a":{deep}}}}}}}"#);
    assert!(apple_log(&read(report.as_bytes())).contains("Application Stats"));
}

#[test]
fn what_a_device_wrote_drives_no_terminal() {
    let report = br#"{"report":{"id":"a","version":"3.4.0"},"crash":{"error":{"type":"signal"},
        "threads":[{"index":0,"name":"\u001b]0;mine\u0007","crashed":true,"backtrace":{"contents":[]}}]}}"#;
    let text = apple_log(&read(report));
    assert!(text.contains(r"Thread 0 name:  \u{1b}]0;mine\u{7}"), "{text}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
}
