//! Crash logs as text.

use crate::{enriched, places, report, stripped, translate};
use serde_json::{Value, json};
use unslide_report::{ReadError, ReadLimits, Report, text};

/// A crash log as text: an exception in the app, with calls that were inlined.
pub const TEXT: &str = "\
Incident Identifier: 11111111-2222-3333-4444-555555555555
CrashReporter Key:   0123456789abcdef0123456789abcdef01234567
Hardware Model:      iPhone16,1
Process:             Shop [4242]
Path:                /private/var/containers/Bundle/Application/1/Shop.app/Shop
Identifier:          org.example.shop
Version:             4.2.0 (4201)
Code Type:           ARM-64 (Native)
Parent Process:      launchd [1]

Date/Time:           2026-03-02 10:11:11.9012 +0900
OS Version:          iPhone OS 18.3.1 (22D72)
Report Version:      104

Exception Type:  EXC_CRASH (SIGABRT)
Exception Codes: 0x0000000000000000, 0x0000000000000000
Termination Reason: SIGNAL 6 Abort trap: 6

Application Specific Information:
*** Terminating app due to uncaught exception 'NSRangeException', reason: 'it is beyond 7'

Triggered by Thread:  7

Last Exception Backtrace:
0   libobjc.A.dylib    0x1800000a0 objc_exception_throw + 56 (objc-exception.mm:356)
1   Shop               0x100002000 Cart.inlined() + 16 (Cart.swift:12)
2   Shop               0x100002000 Cart.add() + 40 (Cart.swift:40)
3   Shop               0x0000000100003001 <deduplicated_symbol> + 1

Thread 3 name:  worker
Thread 3:
0   libobjc.A.dylib    0x0000000180000010 0x180000000 + 16

Thread 7 name:
Thread 7 Crashed:
0   libobjc.A.dylib    0x0000000180000040 __pthread_kill + 8 (:-1)
1   Shop               0x0000000100002100 main + 4
2   Shop               0x0000000100002100 main + 4
3   ???                0x0000000000000007 ???

Thread 7 crashed with ARM Thread State (64-bit):
    x0: 0x0000000000000001   x1: 0xffffffffffffffff
    lr: 0x0000000100002100   pc: 0x0000000180000040  far: 0x0000000000000000  esr: 0x56000080  Address size fault

Binary Images:
       0x100000000 -        0x10000ffff Shop arm64  <a1b2c3d4000031118222012345678 9ab> /private/var/x
       0x100000000 -        0x10000ffff Shop arm64  <a1b2c3d40000311182220123456789ab> /private/var/containers/Bundle/Application/1/Shop.app/Shop
       0x180000000 -        0x18000ffff libobjc.A.dylib arm64e  <b1b2c3d40000311182220123456789ab> /usr/lib/libobjc.A.dylib

EOF
";

/// Returns the text without the damaged line among its images.
fn log() -> String {
    TEXT.lines().filter(|line| !line.contains(" 9ab>")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_text_has_the_facts_of_its_header() {
    let report = report(log().as_bytes());
    assert_eq!(report["report"]["id"], "11111111-2222-3333-4444-555555555555");
    assert_eq!(report["report"]["timestamp"], "2026-03-02T10:11:11.9012+09:00");
    for (key, expected) in [
        ("CFBundleIdentifier", json!("org.example.shop")),
        ("CFBundleShortVersionString", json!("4.2.0")),
        ("CFBundleVersion", json!("4201")),
        ("app_uuid", json!("a1b2c3d40000311182220123456789ab")),
        ("system_name", json!("iOS")),
        ("os_version", json!("22D72")),
        ("machine", json!("iPhone16,1")),
        ("process_id", json!(4242)),
        ("cpu_arch", json!("arm64")),
    ] {
        assert_eq!(report["system"][key], expected, "{key}");
    }
    let error = &report["crash"]["error"];
    assert_eq!(
        (&error["type"], &error["nsexception"]["name"]),
        (&json!("nsexception"), &json!("NSRangeException"))
    );
    assert_eq!(error["reason"], "it is beyond 7");
    assert_eq!(error["mach"]["exception_name"], "EXC_CRASH");
    let threads = report["crash"]["threads"].as_array().unwrap();
    assert_eq!((&threads[0]["name"], &threads[1]["crashed"]), (&json!("worker"), &json!(true)));
    assert_eq!(threads[1]["registers"]["basic"]["x1"], json!(u64::MAX));
}

#[test]
fn inlined_calls_are_one_frame_and_a_recursion_stays() {
    let log = log();
    let frames = places(log.as_bytes(), 2);
    let looked_up: Vec<u64> = frames.iter().map(|frame| frame.lookup).collect();
    assert_eq!(looked_up.len(), 3, "two lines of one address are one frame");
    assert_eq!(looked_up[..2], [159, 8191], "an exception has return addresses only");
    assert_eq!(looked_up[2], 0x3000, "an async frame is looked up where it begins");
    let crashed = report(log.as_bytes())["crash"]["threads"][1]["backtrace"]["contents"].clone();
    assert_eq!(crashed.as_array().unwrap().len(), 4, "equal frames are a recursion");
    assert!(places(log.as_bytes(), 1)[0].is_exact);
}

/// Proves: unchanged-bytes
#[test]
fn a_text_is_answered_beside_itself() {
    for log in [log(), log().replace('\n', "\r\n"), format!("\u{FEFF}{}\0\u{1}\"\\", log())] {
        let (result, written) = enriched(log.as_bytes());
        assert_eq!(result.frames.total, 8, "{log}");
        let answered: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(answered["text"], log.as_str());
        let answers = answered["symbolication"]["answers"].as_array().unwrap();
        assert_eq!(answers.len(), 8);
        let line = usize::try_from(answers[6]["line"].as_u64().unwrap()).unwrap();
        assert!(log.lines().nth(line - 1).unwrap().contains("Cart.inlined()"), "{answers:?}");
        assert_eq!(answers[6]["symbolication"]["status"], "device");
        assert_eq!(stripped(&written), log.as_bytes());
        assert_eq!(enriched(&written).1, written);
        let stored = translate(&written).unwrap();
        let again = Report::read_stored(&stored.json).unwrap();
        assert_eq!(again.ours.as_ref().unwrap().frames.total, 8);
        assert!(text::apple_log(&again).contains("NSRangeException"));
    }
}

#[test]
fn a_header_of_json_says_more_than_the_text() {
    let header = json!({"app_name": "Shop  ", "bug_type": "109", "bundleID": "org.example.other",
        "share_with_app_devs": true, "adam_id": 7, "incident_id": "99999999-2222-3333-4444-555555555555"});
    let log = format!("{header}\n{}", log());
    let read = report(log.as_bytes());
    assert_eq!(read["system"]["CFBundleIdentifier"], "org.example.other");
    assert_eq!(read["report"]["id"], "99999999-2222-3333-4444-555555555555");
    let (_, written) = enriched(log.as_bytes());
    let answered: Value = serde_json::from_slice(&written).unwrap();
    let line = usize::try_from(answered["symbolication"]["answers"][5]["line"].as_u64().unwrap()).unwrap();
    assert!(log.lines().nth(line - 1).unwrap().contains("objc_exception_throw"));
    assert_eq!(stripped(&written), log.as_bytes());
}

#[test]
fn the_log_under_full_report_counts() {
    let below = String::from_utf8(crate::log_of(&crate::body())).unwrap();
    let rule = "-".repeat(20);
    let log = format!(
        "{rule}\nTranslated Report (Full Report Below)\n{rule}\n{}\n{rule}\nFull Report\n{rule}\n\n{below}",
        log()
    );
    let read = report(log.as_bytes());
    assert_eq!(read["crash"]["error"]["mach"]["exception_name"], "EXC_BAD_ACCESS");
    let (result, written) = enriched(log.as_bytes());
    assert_eq!(result.frames.total, 4);
    assert_eq!(stripped(&written), log.as_bytes());
    let answered: Value = serde_json::from_slice(&written).unwrap();
    let line = usize::try_from(answered["symbolication"]["answers"][1]["line"].as_u64().unwrap()).unwrap();
    assert!(log.lines().nth(line - 1).unwrap().contains('}'), "the end of a frame");
    let cut = log.get(..log.len() - 300).unwrap();
    assert_eq!(report(cut.as_bytes())["crash"]["error"]["type"], "nsexception", "the text of a damaged log");
}

#[test]
fn an_image_is_found_by_its_start_then_by_range_then_by_name() {
    let log = log()
        .replace("0x180000010 0x180000000 + 16", "0x190000010 0x180000000 + 268435472")
        .replace("0x0000000180000010 0x180000000", "0x0000000190000010 0x180000000");
    let frame = report(log.as_bytes())["crash"]["threads"][0]["backtrace"]["contents"][0].clone();
    assert_eq!(frame["object_addr"], json!(0x1_8000_0000_u64), "{frame}");
    let unknown_end = log.replace("0x10000ffff Shop", "??? Shop");
    let frame = report(unknown_end.as_bytes())["crash"]["threads"][1]["backtrace"]["contents"][1].clone();
    assert_eq!(frame["object_addr"], json!(0x1_0000_0000_u64), "{frame}");
}

#[test]
fn an_exception_without_names_and_a_backtrace_of_the_app_are_looked_up() {
    let (before, after) = log()
        .split_once("0   libobjc.A.dylib    0x1800000a0")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let (_, after) = after.split_once("\n\n").unwrap();
    let raw = format!("{before}(0x1800000a0 0x100002000\n0x100003001)\n\n{after}");
    assert_eq!(places(raw.as_bytes(), 2).len(), 3);
    let app = raw.replace("Last Exception Backtrace:\n(0x1800000a0 0x100002000\n0x100003001)\n",
        "Application Specific Backtrace 1:\n0   libobjc.A.dylib  0x1800000a0 wrong.cold.1 + 0\n1   Shop  0x100002000 main + 1\n");
    let contents = report(app.as_bytes())["crash"]["last_exception_backtrace"]["contents"].clone();
    assert_eq!(contents[0]["symbol_name"], Value::Null, "names in it are those of the next function");
    assert_eq!(places(app.as_bytes(), 2)[0].lookup, 159);
}

#[test]
fn a_watchdog_of_old_systems_has_its_code() {
    let log = log()
        .replace("EXC_CRASH (SIGABRT)", "00000020")
        .replace("0x0000000000000000, 0x0000000000000000", "0x000000008badf00d")
        .replace("Termination Reason: SIGNAL 6 Abort trap: 6\n", "")
        .replace("Triggered by Thread:  7", "Highlighted Thread:  7")
        .replace("Thread 7 Crashed:", "Thread 7:");
    let error = report(log.as_bytes())["crash"]["error"].clone();
    assert_eq!(error["exit_reason"]["code"], json!(0x8BAD_F00D_u64));
}

#[test]
fn a_text_without_a_backtrace_is_refused() {
    for text in
        ["Incident Identifier: 1\nProcess: Shop [1]\n", "Thread 0:\n0 Shop 0x0000000100002000 main + 1\n"]
    {
        let error = translate(text.as_bytes()).unwrap_err();
        assert!(
            matches!(&error, ReadError::Unsupported { problem } if problem.contains("send the whole file") || problem.contains("Send the whole file")),
            "{error}"
        );
    }
}

#[test]
fn a_text_without_an_id_has_one_of_its_own_bytes() {
    let without =
        log().replace("11111111-2222-3333-4444-555555555555", "00000000-0000-0000-0000-000000000000");
    let id = |text: &str| report(text.as_bytes())["report"]["id"].as_str().unwrap().to_owned();
    assert_eq!(id(&without), id(&without));
    assert_ne!(id(&without), id(&without.replace("main", "mian")));
    let answered = enriched(without.as_bytes()).1;
    let again: Value = serde_json::from_slice(&translate(&answered).unwrap().json).unwrap();
    assert_eq!(again["report"]["id"], id(&without).as_str());
}

#[test]
fn backtraces_that_an_app_wrote_are_read_with_and_without_images() {
    let bare = "Call Backtrace of 2 threads:\nBacktrace of Thread 771:\n====\n\
                libsystem_kernel.dylib         0x18000c2a0 __workq_kernreturn + 10\n\
                Shop With Blanks               0x100002000 Cart.add() + 40\n\n\
                Backtrace of Thread 1027:\nlibsystem_kernel.dylib         0x18000c2b0 kevent + 10\n\n";
    let read = report(bare.as_bytes());
    let threads = read["crash"]["threads"].as_array().unwrap();
    assert_eq!((threads.len(), &threads[0]["crashed"]), (2, &json!(true)));
    let frame = &threads[0]["backtrace"]["contents"][1];
    assert_eq!(
        (&frame["symbol_name"], &frame["instruction_addr"]),
        (&json!("Cart.add()"), &json!(0x1_0000_2000_u64))
    );
    let images = "Binary Images:\n0x100000000 - 0x10000ffff Shop arm64 <a1b2c3d40000311182220123456789ab> /a/Shop.app/Shop\n";
    let log = format!("{bare}{images}");
    assert_eq!(places(log.as_bytes(), 0)[1].lookup, 8191);
    let (result, written) = enriched(log.as_bytes());
    assert_eq!((result.frames.total, stripped(&written)), (3, log.into_bytes()));
}

#[test]
fn limits_hold_for_texts() {
    let limits = ReadLimits { max_items: 5, ..ReadLimits::default() };
    let error = crate::readers().translate(log().as_bytes(), &limits).unwrap_err();
    assert!(matches!(error, ReadError::TooManyItems { .. }), "{error}");
    // A line of a hundred thousand digits is no frame and no image.
    let long = format!("{}0 {} 0x{}\n", log(), "x".repeat(100_000), "1".repeat(100_000));
    assert!(translate(long.as_bytes()).is_ok());
}
