//! `--variables` and `--binary` of `unslide symbolicate` and `unslide explain`.

use crate::offline::symbolicate::{report, run, written};
use serde_json::{Value, json};
use unslide_testkit::fixtures;

/// The offset of an instruction of `level_three`, which is inlined into three other functions. Its parameter is in `x0`.
const INLINED: u64 = 0x4034;
/// The offset of an instruction of the same calls, after which `x0` has another value.
const OVERWRITTEN: u64 = 0x4044;

/// The offset of the instruction of `leaf_crash` that writes to its parameter, which is in `x0`.
const WRITE: u64 = 0x4004;

/// A crash at an offset of the app, with `x0`.
fn report_at(offset: u64, x0: u64) -> Value {
    let mut report = report();
    let pc = 4_294_967_296_u64 + offset;
    let thread = &mut report["crash"]["threads"][0];
    thread["backtrace"]["contents"][0]["instruction_addr"] = pc.into();
    thread["registers"] = json!({"basic": {"pc": pc, "x0": x0, "sp": 4096, "fp": 4096}});
    report
}

#[test]
fn variables_have_their_values_if_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let dsym = fixtures::dsym("app").to_str().unwrap().to_owned();
    let at = |offset, x0| written(&folder, "report.json", report_at(offset, x0).to_string().as_bytes());
    let null = at(INLINED, 0);
    let (code, text, error) =
        run(&["symbolicate", "--symbols", &dsym, "--variables", "--format", "text", &null]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("\nVariables of frame 0:\nlevel_three: p (int *) = null\n"), "{text}");
    let (code, text, _) = run(&["explain", "--symbols", &dsym, "--variables", &null]);
    assert_eq!(code, Some(0));
    assert!(
        text.contains("\nvariable  level_three: p (int *) = null\nvariable  level_two: p (int *) = null\n"),
        "{text}"
    );
    for command in ["symbolicate", "explain"] {
        let (_, without, _) = run(&[command, "--symbols", &dsym, &null]);
        assert!(!without.contains("variable"), "{without}");
    }
    let (_, json, _) = run(&["symbolicate", "--symbols", &dsym, "--variables", &at(OVERWRITTEN, 7)]);
    let enriched: Value = serde_json::from_str(&json).unwrap();
    let variables = enriched["symbolication"]["variables"].as_array().unwrap();
    let reasons: Vec<&str> = variables.iter().map(|own| own["unavailable"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["optimised_out", "optimised_out", "optimised_out", "entry_value"], "{json}");
}

#[test]
fn a_fault_names_its_subject_and_the_binary_adds_the_instruction() {
    let folder = tempfile::tempdir().unwrap();
    let dsym = fixtures::dsym("app").to_str().unwrap().to_owned();
    let binary = fixtures::binary("app").to_str().unwrap().to_owned();
    let mut crash = report_at(WRITE, 0);
    crash["crash"]["threads"][0]["registers"]["exception"] = json!({"esr": 0x9200_0046_u64, "far": 0});
    crash["crash"]["error"] = json!({"type": "mach", "mach": {"exception": 1}});
    let crash = written(&folder, "report.json", crash.to_string().as_bytes());
    let sentence = "`p` (int *) is null; the crash writes `*p`.";
    let (code, text, error) = run(&["symbolicate", "--symbols", &dsym, "--format", "text", &crash]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains(&format!("Analysis: {sentence}")), "{text}");
    let (_, text, _) =
        run(&["symbolicate", "--symbols", &dsym, "--binary", &binary, "--format", "text", &crash]);
    assert!(text.contains(sentence) && text.contains("code 080000b9, relative address 0x4004"), "{text}");
    for options in [&["--symbols", &dsym][..], &["--symbols", &dsym, "--binary", &binary]] {
        let (_, text, error) = run(&[&["explain"], options, &[&crash]].concat());
        assert!(text.contains(sentence), "{text} {error}");
    }
    let (_, text, error) = run(&["explain", &crash]);
    assert!(text.contains("Upload the dSYM of "), "without symbols it says what to do: {text} {error}");
}

#[test]
fn variables_are_for_reports_in_files() {
    let (code, _, error) = run(&["explain", "--variables", "5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--variables is for reports in files"), "{error}");
    let (code, _, error) = run(&["explain", "--binary", "/", "5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--binary is for reports in files"), "{error}");
}
