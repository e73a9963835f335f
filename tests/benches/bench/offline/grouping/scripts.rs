//! Errors that script engines report with a stack of their own: the native function is the same for all of them.

use serde_json::json;
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::{Context, enrich};

/// The stack of an error in `function`, called by `caller`, with lines that change with the build.
type Stack = fn(function: &str, caller: &str, build: u32) -> Vec<String>;

const LANGUAGES: [(&str, Stack); 5] = [
    ("dart", |function, caller, build| {
        vec![
            format!("#0      List.[] (dart:core-patch/growable_array.dart:{}:36)", 260 + build),
            format!("#1      Cart.{function} (package:shop/cart.dart:{}:7)", 12 + build),
            format!("#2      {caller} (package:shop/main.dart:{}:1)", 3 + build),
        ]
    }),
    ("lua", |function, caller, build| {
        vec![
            "[C]: in function 'error'".to_owned(),
            format!("cart.lua:{}: in method '{function}'", 12 + build),
            format!("main.lua:{}: in function '{caller}'", 3 + build),
        ]
    }),
    ("c#", |function, caller, build| {
        vec![
            format!("at System.Array.Get (System.Int32 i) [0x000{build}2] in <a1b2c3d4e5f{build}>:0"),
            format!("at Shop.Cart.{function} () [0x0000{build}] in <a1b2c3d4e5f{build}>:0"),
            format!("at Shop.{caller} () [0x0000{build}] in <a1b2c3d4e5f{build}>:0"),
        ]
    }),
    ("python", |function, caller, build| {
        vec![
            format!("File \"/app/cart.py\", line {}, in {function}", 12 + build),
            format!("File \"/app/main.py\", line {}, in {caller}", 3 + build),
        ]
    }),
    ("script", |function, _, build| {
        vec![format!("Cart.script, line {}: in function {function}", 170 + build)]
    }),
];

/// The bugs: functions of scripts, with the same name in each language.
const FUNCTIONS: [&str; 6] = ["total", "sum", "refund", "restock", "parse_price", "checkout"];

/// Returns the reports of each bug in three builds, with their groups.
pub(super) fn group_reports() -> Vec<(&'static str, String)> {
    let mut reports = Vec::new();
    for (language, stack) in LANGUAGES {
        for function in FUNCTIONS {
            let bug: &'static str = format!("{language} {function}").leak();
            for build in 1..=3 {
                reports.push((bug, group(language, &stack(function, "main", build))));
            }
        }
    }
    reports
}

fn group(language: &str, lines: &[String]) -> String {
    let user = json!({"name": "ScriptError", "language": language, "backtrace": lines});
    let frames = [
        json!({"instruction_addr": 0x1_0000_4000_u64, "symbol_name": "report_script_error", "symbol_addr": 0x1_0000_3ff0_u64}),
    ];
    let report = json!({
        "binary_images": [{"image_addr": 0x1_0000_0000_u64, "image_size": 0x8000, "name": "/var/Shop.app/Shop", "uuid": "01".repeat(16)}],
        "crash": {"error": {"type": "user", "reason": "attempt to index a nil value", "user_reported": user},
                  "threads": [{"crashed": true, "backtrace": {"contents": frames}}]},
    });
    let text = report.to_string();
    let read = Report::read(text.as_bytes(), &ReadLimits::default()).expect("a report");
    let enriched = enrich(&read, &|_| None, &Context::default());
    format!("{:?}", enriched.grouping.expect("it says what happened").fingerprint)
}
