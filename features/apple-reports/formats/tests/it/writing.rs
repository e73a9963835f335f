//! Answers in the document's own form.

use crate::{body, enriched, frame, header, log_of, report, stripped};
use serde_json::{Value, json};

fn parse(log: &[u8]) -> Value {
    let end = log.iter().position(|byte| *byte == b'\n').unwrap();
    let mut texts = serde_json::Deserializer::from_slice(&log[end..]).into_iter::<Value>();
    texts.next().unwrap().unwrap()
}

/// Proves: unchanged-bytes
#[test]
fn answers_are_the_last_members_of_frames_and_of_the_crash() {
    let log = log_of(&body());
    let (result, written) = enriched(&log);
    assert_eq!(result.frames.total, 4);
    let answered = parse(&written);
    assert_eq!(answered["symbolication"]["version"], 1);
    for thread in answered["threads"].as_array().unwrap() {
        for frame in thread["frames"].as_array().unwrap() {
            assert_eq!(frame["symbolication"]["status"], "missing", "{frame}");
        }
    }
    assert!(written.starts_with(header().to_string().as_bytes()), "the header is not touched");
    assert_eq!(stripped(&written), log);
}

#[test]
fn text_behind_the_crash_and_odd_white_space_stay() {
    let crash = body().to_string().replace("{\"imageIndex\"", "{ \n\"imageIndex\"");
    let log = format!("\u{FEFF}{}\r\n  {crash}\r\n\nSystem Profile:\nBus: USB\n", header());
    let (_, written) = enriched(log.as_bytes());
    assert_eq!(stripped(&written), log.as_bytes());
}

#[test]
fn an_enriched_log_is_read_as_the_log_and_answered_again() {
    let log = log_of(&body());
    let (_, written) = enriched(&log);
    let (mut first, mut again) = (report(&log), report(&written));
    assert_eq!(again["symbolication"]["version"], 1);
    for report in [&mut first, &mut again] {
        report.as_object_mut().unwrap().remove("symbolication");
        for thread in report["crash"]["threads"].as_array_mut().unwrap() {
            for frame in thread["backtrace"]["contents"].as_array_mut().unwrap() {
                frame.as_object_mut().unwrap().remove("symbolication");
            }
        }
    }
    assert_eq!(first, again);
    assert_eq!(enriched(&written).1, written);
}

#[test]
fn a_member_with_our_key_from_another_program_stays() {
    let mut other = body();
    other["threads"][0]["frames"][0]["symbolication"] = json!({"by": "another"});
    other["symbolication"] = json!({"by": "another"});
    let log = log_of(&other);
    let (_, written) = enriched(&log);
    assert_eq!(stripped(&written), log);
    assert!(String::from_utf8(written).unwrap().contains("another"));
}

#[test]
fn the_innermost_of_inlined_calls_takes_the_answer() {
    let mut inlined = body();
    let call = |inline: bool| json!({"imageIndex": 0, "imageOffset": 4096, "inline": inline, "symbol": "a"});
    inlined["threads"][1]["frames"] = json!([call(true), call(false), {}, frame(1, 64)]);
    let log = log_of(&inlined);
    let (result, written) = enriched(&log);
    assert_eq!(result.frames.total, 4);
    let frames = parse(&written)["threads"][1]["frames"].clone();
    assert!(frames[0]["symbolication"].is_object() && frames[1]["symbolication"].is_null());
    assert_eq!(frames[2]["symbolication"]["status"], "invalid_address");
    assert_eq!(stripped(&written), log);
}

#[test]
fn answers_of_a_printed_backtrace_are_in_no_frame() {
    let mut printed = body();
    printed["asiBacktraces"] = json!(["0   Shop   0x0000000100002000 main + 0"]);
    let log = log_of(&printed);
    let (result, written) = enriched(&log);
    assert_eq!(result.frames.total, 5);
    assert_eq!(stripped(&written), log);
}
