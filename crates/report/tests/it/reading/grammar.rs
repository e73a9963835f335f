//! The grammar of JSON, and which of its breaches are let through.

use crate::{read, reason, warnings};
use proptest::prelude::*;

#[test]
fn what_the_grammar_forbids_is_not_json() {
    for bad in [
        r#"{"a":1,}"#,
        r#"{,}"#,
        r#"{"a"}"#,
        r#"{"a" 1}"#,
        r#"{a:1}"#,
        r#"{'a':1}"#,
        r#"{"a":01}"#,
        r#"{"a":+1}"#,
        r#"{"a":.5}"#,
        r#"{"a":1.}"#,
        r#"{"a":1.e3}"#,
        r#"{"a":1e}"#,
        r#"{"a":1e+}"#,
        r#"{"a":--1}"#,
        r#"{"a":0x10}"#,
        r#"{"a":NaN}"#,
        r#"{"a":Infinity}"#,
        r#"{"a":True}"#,
        r#"{"a":nul}"#,
        r#"{"a":[1 2]}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":[,1]}"#,
        r#"{"a":[1}}"#,
        r#"{"a":{"b":1]}"#,
        r#"{"a":1]"#,
        r#"{"a":"\x"}"#,
        r#"{"a":"\u12g4"}"#,
        r#"{"a":1}}"#,
        r#"{"a":1}{}"#,
        r#"{"a":1} x"#,
        "{\"a\":\"\t\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\u{1}1}",
        "{\"a\u{0}\":1}",
        r#"{"a":1 /* no */}"#,
        r#"{"a":\u0031}"#,
        "\u{1}{}",
        "<html>",
        "{\"crash\":{\"error\":{]}}",
        "{\"binary_images\":[{}{}]}",
    ] {
        assert_eq!(reason(bad.as_bytes()), "not_json", "{bad}");
    }
}

#[test]
fn the_grammar_is_read_in_all_its_forms() {
    for good in [
        "{}",
        " { } ",
        "\r\n\t{\r\n\t}",
        r#"{"a":-0}"#,
        r#"{"a":-0.0e-0}"#,
        r#"{"a":1E+9}"#,
        r#"{"a":[[],{},[{}]]}"#,
        r#"{"":""}"#,
        r#"{"a":"\"\\\/\b\f\n\r\t\u00e4\uD83D\uDE00"}"#,
        r#"{"a":"ä😀"}"#,
        r#"{"a":true,"b":false,"c":null}"#,
        "{\"a\":\"\u{7f}\"}",
    ] {
        read(good.as_bytes());
    }
}

#[test]
fn other_values_are_no_report() {
    for other in ["[]", "[{}]", "1", "\"x\"", "true", "null", " [1, 2] "] {
        assert_eq!(reason(other.as_bytes()), "not_a_report", "{other}");
    }
    // No JSON at all goes first.
    assert_eq!(reason(b"[1,]"), "not_json");
    assert_eq!(reason(b"[1"), "truncated");
}

#[test]
fn an_error_says_where() {
    let error = unslide_report::Report::read(b"{\"a\": 01}", &unslide_report::ReadLimits::default());
    assert_eq!(error.unwrap_err().to_string(), "at byte 7: ',' or '}' expected");
}

#[test]
fn a_byte_order_mark_and_what_follows_the_end_are_noted() {
    assert_eq!(warnings(b"\xEF\xBB\xBF{}"), ["byte order mark before the report"]);
    for tail in ["\n", "  \r\n\t", "\0", "\n\0\0\0"] {
        assert_eq!(warnings(format!("{{}}{tail}").as_bytes()), ["white space or NULs after the report"]);
    }
    assert!(warnings(b" \n{}").is_empty());
    assert_eq!(reason(b"{}\0x"), "not_json");
    assert_eq!(reason(b"\0{}"), "not_json");
    assert_eq!(reason(b"\xEF\xBB\xBF\xEF\xBB\xBF{}"), "not_json");
}

#[test]
fn strings_that_are_no_text_are_noted() {
    assert_eq!(warnings(b"{\"a\":\"\xff long enough for a whole word\"}"), ["invalid UTF-8 in a string"]);
    assert_eq!(warnings(b"{\"a\":\"0123456\xc3\"}"), ["invalid UTF-8 in a string"]);
    assert_eq!(warnings(b"{\"k\xe9\":1, \"a\":\"\xff\"}"), ["invalid UTF-8 in a string (2 times)"]);
    for lone in [r"\ud800", r"\udc00", r"\uD83Dx", r"\uD83D\u0041", r"\uDE00\uD83D"] {
        let noted = warnings(format!("{{\"a\":\"{lone}\"}}").as_bytes());
        assert_eq!(noted.len(), 1, "{lone}");
        assert!(noted[0].starts_with("lone surrogate in a string"), "{lone}");
    }
    assert!(warnings(r#"{"a":"\uD83D\uDE00 ä"}"#.as_bytes()).is_empty());
    // Outside of strings there is no such tolerance.
    assert_eq!(reason(b"{\"a\":\xff}"), "not_json");
}

#[test]
fn numbers_beyond_a_double_are_noted() {
    assert_eq!(warnings(br#"{"a":1e999,"b":-1e999}"#), ["number out of range (2 times)"]);
    let long = format!("{{\"a\":{}}}", "9".repeat(400));
    assert_eq!(warnings(long.as_bytes()), ["number out of range"]);
    assert!(warnings(br#"{"a":1e308,"b":1e-999,"c":123456789012345678901234567890}"#).is_empty());
}

#[test]
fn a_decoded_text_has_no_escapes_and_no_broken_bytes() {
    let text = |name: &str| {
        let bytes = format!(r#"{{"binary_images":[{{"name":"{name}"}}]}}"#);
        read(bytes.as_bytes()).parts[0].images[0].name.map(|name| name.decode().into_owned())
    };
    let check = |raw: &str, decoded: &str| assert_eq!(text(raw).as_deref(), Some(decoded), "{raw}");
    check("", "");
    check(r"a\u00e4\/\\\u0022\n", "aä/\\\"\n");
    check(r"\b\f\r\t", "\u{8}\u{c}\r\t");
    check(r"\uD83D\uDE00!", "😀!");
    check(r"\uD800\uDC00\uDBFF\uDFFF", "\u{10000}\u{10ffff}");
    check(r"\uD83D!", "\u{fffd}!");
    check(r"\uDE00\uD83D\uDE00", "\u{fffd}😀");
    check(r"\uD83D\u0041", "\u{fffd}A");
    let broken = [br#"{"binary_images":[{"name":"a"#.as_slice(), b"\xffb\\n", br#""}]}"#].concat();
    let name = read(&broken).parts[0].images[0].name.map(|name| name.decode().into_owned());
    assert_eq!(name.as_deref(), Some("a\u{fffd}b\n"));
}

#[test]
fn a_key_may_be_escaped() {
    let bytes = br#"{"repor\u0074":{"\u0069d":"EC55B54F-1963-41AB-A65F-E0F98EF29DFB"}}"#;
    assert_eq!(read(bytes).id.to_string(), "ec55b54f-1963-41ab-a65f-e0f98ef29dfb");
}

fn tolerated(bytes: &[u8]) -> bool {
    read(bytes).warnings.iter().any(|warning| {
        use unslide_report::WarningKind as Kind;
        matches!(
            warning.kind,
            Kind::ByteOrderMark
                | Kind::TrailingBytes
                | Kind::InvalidUtf8
                | Kind::LoneSurrogate
                | Kind::NumberOverflow
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Another parser agrees on what JSON is, the tolerances apart.
    #[test]
    fn a_second_parser_agrees(seed: u64, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 0..4)) {
        let mut bytes = unslide_testkit::reports::random(seed).bytes();
        for (at, byte, kind) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, b"{}[],:\"\\ 0-e.tn\n\0"[usize::from(byte) % 17]),
            }
        }
        let other = serde_json::from_slice::<serde_json::Value>(&bytes);
        match reason(&bytes) {
            "none" => prop_assert!(other.is_ok_and(|v| v.is_object()) || tolerated(&bytes)),
            "not_a_report" => prop_assert!(other.is_ok_and(|v| !v.is_object())),
            _ => prop_assert!(other.is_err()),
        }
    }
}
