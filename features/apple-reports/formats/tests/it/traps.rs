//! Properties of logs that a reader can get wrong.

use crate::{APP, LIBRARY, body, frame, header, log_of, places, readers, report, translate};
use serde_json::{Value, json};
use unslide_report::{ReadError, ReadLimits};

fn contents(log: &[u8]) -> Vec<Value> {
    report(log)["crash"]["threads"][1]["backtrace"]["contents"].as_array().unwrap().clone()
}

fn with_frames(frames: &[Value]) -> Vec<u8> {
    let mut body = body();
    body["threads"][1]["frames"] = json!(frames);
    log_of(&body)
}

fn refusal(log: &str) -> String {
    translate(log.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_log_may_be_compact_have_a_byte_order_mark_and_carriage_returns() {
    let expected = report(&log_of(&body()));
    for log in [
        format!("{}\n{}", header(), body()),
        format!("\u{FEFF}{}\r\n{}\r\n", header(), body()),
        format!("{}\n{}\n\0\0", header(), body()),
        format!("{}\n{}\n\nModel: Mac14,2\nSystem Profile:\nBus: USB 3.1\n", header(), body()),
    ] {
        assert_eq!(report(log.as_bytes()), expected, "{log}");
    }
}

#[test]
fn a_header_merged_into_the_crash_is_read() {
    let mut merged = body();
    merged.as_object_mut().unwrap().extend(header().as_object().unwrap().clone());
    assert_eq!(report(merged.to_string().as_bytes())["crash"], report(&log_of(&body()))["crash"]);
}

#[test]
fn quotes_and_braces_in_a_header_end_no_text() {
    let mut odd = header();
    odd["app_name"] = json!("x{cte\"st");
    let log = format!("{odd}\n{}\n", body());
    assert_eq!(report(log.as_bytes())["system"]["CFBundleName"], "x{cte\"st");
}

#[test]
fn members_of_a_header_may_have_other_types_and_padding() {
    let mut odd = header();
    odd["bug_type"] = json!(309);
    odd["share_with_app_devs"] = json!(true);
    odd["adam_id"] = json!(7);
    odd["app_name"] = json!("Shop          ");
    let log = format!("{odd}\n{}\n", body());
    assert_eq!(report(log.as_bytes())["system"]["CFBundleName"], "Shop");
}

#[test]
fn a_log_without_a_crash_is_refused_with_its_type() {
    let header = |kind: &str| json!({"app_name": "Shop", "bug_type": kind}).to_string();
    let said = refusal(&header("309"));
    assert!(said.contains("send the whole file"), "{said}");
    for (kind, name) in [
        ("288", "stackshot"),
        ("210", "panic"),
        ("328", "hang"),
        ("145", "disk writes"),
        ("999", "another event"),
    ] {
        let said = refusal(&format!("{}\n{{\"a\":1}}\n", header(kind)));
        assert!(said.contains(kind) && said.contains(name), "{said}");
    }
    let said = refusal(&format!("{}\nIncident Identifier: 1\n", header("109")));
    assert!(said.contains("without a backtrace"), "{said}");
}

#[test]
fn the_content_decides_and_not_the_type() {
    let mut other = header();
    other["bug_type"] = json!("109");
    assert!(translate(format!("{other}\n{}\n", body()).as_bytes()).is_ok());
}

#[test]
fn a_second_report_behind_a_log_is_no_part_of_it() {
    let log = format!("{}\n{}\n{}\n", header(), body(), header());
    assert!(matches!(translate(log.as_bytes()), Err(ReadError::NotJson { .. })));
}

#[test]
fn a_log_of_memory_shortage_is_left_to_the_core() {
    let log = "{\"bug_type\":\"298\"}\n{\"memoryStatus\":{\"pageSize\":1},\"processes\":[]}";
    assert!(readers().find(log.as_bytes()).is_none());
}

#[test]
fn the_crashed_thread_is_a_position_or_else_the_triggered_one() {
    let crashed = |change: fn(&mut Value)| {
        let mut body = body();
        change(&mut body);
        let threads = report(&log_of(&body))["crash"]["threads"].as_array().unwrap().clone();
        threads.iter().position(|thread| thread["crashed"] == json!(true))
    };
    assert_eq!(crashed(|body| body["faultingThread"] = json!(0)), Some(0));
    assert_eq!(crashed(|body| body["faultingThread"] = json!(78)), Some(1), "it is no id");
    assert_eq!(crashed(|body| body["faultingThread"] = Value::Null), Some(1));
    assert_eq!(
        crashed(|body| {
            body["faultingThread"] = json!(-1);
            body["threads"][1]["triggered"] = json!(false);
        }),
        None
    );
}

#[test]
fn equal_frames_are_a_recursion_and_stay() {
    let named = json!({"imageIndex": 0, "imageOffset": 4096, "symbol": "again", "symbolLocation": 8});
    assert_eq!(contents(&with_frames(&vec![named; 500])).len(), 500);
    assert_eq!(contents(&with_frames(&vec![frame(0, 4096); 500])).len(), 500);
}

#[test]
fn inlined_calls_belong_to_one_frame() {
    let call = |symbol: &str, inline: Option<bool>| {
        let mut call = json!({"imageIndex": 0, "imageOffset": 4096, "symbol": symbol, "symbolLocation": 12});
        if let Some(inline) = inline {
            call["inline"] = json!(inline);
        }
        call
    };
    let flagged = [call("a", Some(true)), call("b", Some(true)), call("c", None), frame(1, 64)];
    let frames = contents(&with_frames(&flagged));
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[0]["symbol_name"], "c", "the device's name is that of the function itself");
    let without = [call("a", None), call("b", None), call("c", None), frame(1, 64)];
    assert_eq!(contents(&with_frames(&without)).len(), 2);
    let recursion: Vec<Value> = (0..3).flat_map(|_| [call("a", Some(true)), call("b", None)]).collect();
    assert_eq!(contents(&with_frames(&recursion)).len(), 3);
    let unflagged: Vec<Value> = (0..3).flat_map(|_| [call("a", None), call("b", None)]).collect();
    assert_eq!(contents(&with_frames(&unflagged)).len(), 3);
}

#[test]
fn an_offset_in_no_image_is_an_address() {
    let frames = contents(&with_frames(&[
        frame(2, 0xdead_beef),
        frame(99, 7),
        json!({"imageIndex": -1, "imageOffset": 7}),
        json!({"imageOffset": 9}),
        json!({}),
    ]));
    assert_eq!(frames[0]["instruction_addr"], json!(0xdead_beef_u64));
    assert!(frames[0]["object_addr"].is_null());
    assert!(frames[1]["instruction_addr"].is_null(), "an image that is not listed has no address");
    assert_eq!(frames.len(), 5);
}

#[test]
fn frame_0_of_a_thread_is_exact_and_that_of_an_exception_is_not() {
    let mut body = body();
    body["asi"] = json!({"CoreFoundation": ["uncaught exception 'A', reason: 'b'"]});
    body["lastExceptionBacktrace"] = json!([frame(1, 160), frame(0, 8192)]);
    let log = log_of(&body);
    let exact =
        |position: usize| places(&log, position).iter().map(|frame| frame.is_exact).collect::<Vec<_>>();
    assert_eq!(exact(0), [true], "another thread");
    assert_eq!(exact(1), [true, false, false], "the crashed thread of an exception, without registers");
    assert_eq!(exact(2), [false, false], "the exception");
    let exception = places(&log, 2);
    assert_eq!((exception[0].offset, exception[0].lookup), (160, 159));
}

#[test]
fn registers_of_another_moment_do_not_change_frame_0() {
    let mut body = body();
    let register = |value: u64| json!({"value": value});
    for counter in [APP + 4096, APP + 9000] {
        body["threads"][1]["threadState"] = json!({"flavor": "ARM_THREAD_STATE64", "x": [register(u64::MAX)], "pc": register(counter),
            "sp": register(16), "far": register(8), "esr": {"value": 1, "description": "fault"}});
        // New systems write a state for every thread.
        body["threads"][0]["threadState"] = body["threads"][1]["threadState"].clone();
        let log = log_of(&body);
        assert!(places(&log, 0)[0].is_exact && places(&log, 1)[0].is_exact);
        let registers = report(&log)["crash"]["threads"][1]["registers"].clone();
        assert_eq!(registers["basic"]["pc"], json!(APP + 4096));
        if counter == APP + 4096 {
            assert_eq!(
                (&registers["basic"]["x0"], &registers["exception"]["far"]),
                (&json!(u64::MAX), &json!(8))
            );
        }
        assert!(report(&log)["crash"]["threads"][0]["registers"].is_null());
    }
}

#[test]
fn names_of_a_printed_backtrace_are_looked_up_again() {
    let mut body = body();
    body["asi"] = json!({"CoreFoundation": ["uncaught exception 'A', reason: 'b'"]});
    body["asiBacktraces"] = json!([format!(
        "0   libobjc.A.dylib     {:#018x} throw + 176\n1   Shop with blanks   {:#018x} wrong.cold.1 + 0",
        LIBRARY + 160,
        APP + 8192
    )]);
    let log = log_of(&body);
    let contents = report(&log)["crash"]["last_exception_backtrace"]["contents"].clone();
    assert_eq!(contents, json!([{"instruction_addr": LIBRARY + 160}, {"instruction_addr": APP + 8192}]));
    assert_eq!(places(&log, 2)[1].lookup, 8191);
}

#[test]
fn an_async_frame_with_a_low_bit_is_looked_up_where_it_begins() {
    let log = with_frames(&[frame(0, 4096), frame(0, 8193)]);
    assert_eq!(places(&log, 1)[1].lookup, 8192);
}

#[test]
fn translated_code_has_the_cpu_of_its_images() {
    let mut body = body();
    body["translated"] = json!(true);
    body["usedImages"][0]["arch"] = json!("x86_64");
    let report = report(&log_of(&body));
    assert_eq!(report["system"]["proc_translated"], json!(true));
    assert_eq!(report["binary_images"][0]["cpu_type"], json!(0x0100_0007));
    assert_eq!(report["system"]["cpu_arch"], "arm64");
}

#[test]
fn bytes_that_are_no_utf_8_are_kept_in_names() {
    let log = String::from_utf8(log_of(&body())).unwrap().replace("libobjc.A.dylib", "lib\u{1}.dylib");
    let log: Vec<u8> = log.into_bytes().into_iter().map(|byte| if byte == 1 { 0xFF } else { byte }).collect();
    let json = translate(&log).unwrap().json;
    assert!(json.windows(5).any(|window| window == b"lib\xFF."), "the bytes of the log");
}

#[test]
fn limits_hold_for_threads_frames_images_and_depth() {
    let few = |change: fn(&mut ReadLimits)| {
        let mut limits = ReadLimits::default();
        change(&mut limits);
        readers().translate(&log_of(&body()), &limits).unwrap_err()
    };
    assert!(matches!(few(|limits| limits.max_bytes = 100), ReadError::TooLarge { .. }));
    assert!(matches!(few(|limits| limits.max_items = 3), ReadError::TooManyItems { .. }));
    assert!(matches!(few(|limits| limits.max_depth = 2), ReadError::TooDeep { .. }));
}
