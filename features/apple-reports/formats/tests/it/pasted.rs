//! Logs with other text around them, in another encoding, and without their list of images.

use crate::texts::TEXT;
use crate::{body, enriched, log_of, places, readers, report, stripped, translate};
use serde_json::{Value, json};
use unslide_report::{Element, ReadLimits};

/// Returns a log as text without the damaged line among its images.
fn log() -> String {
    TEXT.lines().filter(|line| !line.contains(" 9ab>")).map(|line| format!("{line}\n")).collect()
}

fn quoted(log: &str, mark: &str) -> String {
    log.lines().map(|line| format!("{mark}{line}\n")).collect()
}

fn utf_16(text: &str) -> Vec<u8> {
    "\u{FEFF}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

/// Returns the documents in which a log is pasted.
fn pasted(log: &str) -> Vec<Vec<u8>> {
    let html = log.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let texts = [
        format!("It crashed again, see below.\n\n{}", quoted(log, "> ")),
        quoted(log, ">> "),
        quoted(log, "| "),
        format!("{{noformat}}\n{log}{{noformat}}\n"),
        format!("{{code:title=Shop.ips}}\n{log}{{code}}\nThanks"),
        format!("See:\n\n```text\n{log}```\nThanks"),
        format!("<pre>{html}</pre>"),
        quoted(log, "    "),
    ];
    texts.into_iter().map(String::into_bytes).chain([utf_16(log)]).collect()
}

/// Proves: unchanged-bytes
#[test]
fn a_pasted_log_is_the_log_and_comes_back_byte_for_byte() {
    let ips = String::from_utf8(log_of(&body())).unwrap();
    for log in [log(), ips] {
        let alone = report(log.as_bytes());
        for document in pasted(&log) {
            let shown = String::from_utf8_lossy(&document).into_owned();
            let limits = ReadLimits::default();
            let elements = readers().split_record(&document, &limits);
            let elements = elements.unwrap_or_else(|error| panic!("{error}: {shown}"));
            assert!(matches!(elements.as_slice(), [Element::Report(whole)] if *whole == document), "{shown}");
            let read = report(&document);
            assert_eq!((&read["crash"], &read["system"]), (&alone["crash"], &alone["system"]), "{shown}");
            let (_, written) = enriched(&document);
            assert_eq!(stripped(&written), document, "{shown}");
            assert_eq!(enriched(&written).1, written);
        }
    }
}

#[test]
fn answers_of_a_pasted_log_have_its_lines() {
    let document = format!("See:\n```\n{}```\n", log());
    let (_, written) = enriched(document.as_bytes());
    let answered: Value = serde_json::from_slice(&written).unwrap();
    let line = usize::try_from(answered["symbolication"]["answers"][6]["line"].as_u64().unwrap()).unwrap();
    assert!(document.lines().nth(line - 1).unwrap().contains("Cart.inlined()"));
    let ips = String::from_utf8(log_of(&body())).unwrap();
    let document = format!("```\n{ips}```\n");
    let (_, written) = enriched(document.as_bytes());
    let answered: Value = serde_json::from_slice(&written).unwrap();
    let line = usize::try_from(answered["symbolication"]["answers"][0]["line"].as_u64().unwrap()).unwrap();
    assert!(document.lines().nth(line - 1).unwrap().contains('}'), "the end of a frame");
}

#[test]
fn other_text_with_marks_is_no_log() {
    for text in [
        "> a quote\n> of a mail\n",
        "```\nlet a = 1\n```\n",
        "{noformat}\ntext\n{noformat}",
        "[code]x[/code]",
    ] {
        assert!(readers().find(text.as_bytes()).is_none(), "{text}");
    }
    let damaged = "```\nIncident Identifier: 1\n```\n";
    assert!(translate(damaged.as_bytes()).unwrap_err().to_string().contains("Send the whole file"));
}

/// Returns the log without its list of images.
fn without_images(log: &str) -> String {
    log.split_once("Binary Images:").unwrap().0.to_owned()
}

#[test]
fn a_log_without_images_has_those_of_its_lines() {
    let log = without_images(&log())
        .replace("0x0000000100002100 main + 4", "0x0000000100002100 0x100000000 + 8448")
        .replace("0x100002000 Cart.inlined() + 16 (Cart.swift:12)", "0x100002000 0x100000000 + 8192")
        .replace("0x100002000 Cart.add() + 40 (Cart.swift:40)", "0x100002000 0x100000000 + 8192");
    let read = report(log.as_bytes());
    let images: Vec<(&Value, &Value)> = read["binary_images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|image| (&image["name"], &image["image_addr"]))
        .collect();
    let (library, shop) = (json!("libobjc.A.dylib"), json!("Shop"));
    let (start, app) = (json!(0x1_8000_0000_u64), json!(0x1_0000_0000_u64));
    assert_eq!(images, [(&shop, &app), (&library, &start)]);
    let (result, _) = enriched(log.as_bytes());
    assert_eq!((result.frames.unknown_image, result.frames.invalid_address), (0, 1), "the one of ???");
    let frames = places(log.as_bytes(), 1);
    assert_eq!((frames[0].offset, frames[1].offset), (0x40, 8448));
}

#[test]
fn names_of_the_device_stay_and_are_marked_if_an_image_is_a_guess() {
    let log = without_images(&log());
    let (result, written) = enriched(log.as_bytes());
    assert_eq!((result.frames.unknown_image, result.frames.invalid_address), (0, 1), "the one of ???");
    let answered: Value = serde_json::from_slice(&written).unwrap();
    let answer = &answered["symbolication"]["answers"][2]["symbolication"];
    assert_eq!((&answer["status"], &answer["approximate"]), (&json!("device"), &json!(true)), "{answer}");
    // The header of JSON knows the app's own UUID.
    let header =
        json!({"app_name": "Shop", "bug_type": "109", "slice_uuid": "A1B2C3D4-0000-3111-8222-0123456789AB"});
    let log = format!("{header}\n{log}")
        .replace("0x0000000100002100 main + 4", "0x0000000100002100 0x100000000 + 8448");
    let read = report(log.as_bytes());
    let images = read["binary_images"].as_array().unwrap();
    let own = images.iter().find(|image| image["name"] == "Shop").unwrap();
    assert_eq!(own["uuid"], "A1B2C3D40000311182220123456789AB");
}

#[test]
fn a_list_of_images_that_is_cut_is_completed() {
    let log = log();
    let cut: String =
        log.lines().filter(|line| !line.contains("<a1b2c3d4")).map(|line| format!("{line}\n")).collect();
    let cut = cut.replace("0x0000000100002100 main + 4", "0x0000000100002100 0x100000000 + 8448");
    let read = report(cut.as_bytes());
    let frame = &read["crash"]["threads"][1]["backtrace"]["contents"][1];
    assert_eq!(frame["object_addr"], json!(0x1_0000_0000_u64), "{frame}");
    assert_eq!(read["binary_images"].as_array().unwrap().len(), 2);
}

#[test]
fn a_text_without_header_and_images_is_read_if_it_prints_load_addresses() {
    let text = "Thread 0 Crashed:\n0   Shop   0x0000000100002100 0x100000000 + 8448\n1   Shop   0x0000000100003100 main + 4\n";
    assert_eq!(places(text.as_bytes(), 0)[0].offset, 8448);
}

#[test]
fn the_range_of_all_addresses_holds_no_frame() {
    let line = "               0x0 - 0xffffffffffffffff ??? (*) <00000000-0000-0000-0000-000000000000> ???\n";
    let log = log().replace("\nEOF", &format!("{line}\nEOF"));
    let read = report(log.as_bytes());
    assert_eq!(read["binary_images"].as_array().unwrap().len(), 2);
    let mut body = body();
    body["usedImages"][2] = json!({"source": "P", "base": 0, "size": u64::MAX, "name": "???",
        "uuid": "00000000-0000-0000-0000-000000000000"});
    assert_eq!(report(&log_of(&body))["binary_images"].as_array().unwrap().len(), 2);
}

#[test]
fn the_highlighted_thread_of_old_systems_is_the_crashed_one() {
    let field = log()
        .replace("Triggered by Thread:  7", "Highlighted Thread:  3")
        .replace("Thread 7 Crashed:", "Thread 7:");
    let head = log()
        .replace("Triggered by Thread:  7\n", "")
        .replace("Thread 7 Crashed:", "Thread 7:")
        .replace("\nThread 3:", "\nThread 3 Highlighted:");
    for log in [field, head] {
        assert_eq!(report(log.as_bytes())["crash"]["threads"][0]["crashed"], true);
    }
}

#[test]
fn times_of_the_devices_own_settings_are_read() {
    for (written, expected) in [
        ("2026-03-02 10:11:11.9012 PM +0900", "2026-03-02T22:11:11.9012+09:00"),
        ("٢٠٢٦-٠٣-٠٢ ١٠:١١:١١.٩٠١٢ +0900", "2026-03-02T10:11:11.9012+09:00"),
        ("2569-03-02 8:11:11 AM +0900", "2026-03-02T08:11:11+09:00"),
    ] {
        let text = log().replace("2026-03-02 10:11:11.9012 +0900", written);
        assert_eq!(report(text.as_bytes())["report"]["timestamp"], expected, "{written}");
        let mut body = body();
        body["captureTime"] = json!(written);
        assert_eq!(report(&log_of(&body))["report"]["timestamp"], expected, "{written}");
        let mut payload = crate::metric_kit::payload();
        payload["timeStampEnd"] = json!(written);
        assert_eq!(report(payload.to_string().as_bytes())["report"]["timestamp"], expected, "{written}");
    }
}

#[test]
fn numbers_with_a_fraction_of_zero_are_those_without() {
    let expected = report(&log_of(&body()));
    let mut body = body();
    body["usedImages"][0]["size"] = json!(65_536.0);
    body["faultingThread"] = json!(1.0);
    body["threads"][1]["frames"][0] = json!({"imageIndex": 0.0, "imageOffset": 4096.0});
    assert_eq!(report(&log_of(&body)), expected);
}

#[test]
fn a_signal_has_its_name_alone_or_by_its_number() {
    for (signal, expected) in [
        (json!("SIGKILL - CODESIGNING"), "SIGKILL"),
        (json!("SIGKILL (Code Signature Invalid)"), "SIGKILL"),
        (json!("6"), "SIGABRT"),
        (json!(11), "SIGSEGV"),
    ] {
        let mut body = body();
        body["exception"]["signal"] = signal;
        assert_eq!(report(&log_of(&body))["crash"]["error"]["signal"]["name"], expected);
    }
}
