//! Prints reports for the demo.

use crate::dev::Installation;
use serde_json::Value;
use std::fmt::Write;

fn frames(report: &Value) -> impl Iterator<Item = &Value> {
    let threads = report["crash"]["threads"].as_array().into_iter().flatten();
    let crashed = threads.filter(|thread| thread["crashed"] == true).take(1);
    crashed.flat_map(|thread| thread["backtrace"]["contents"].as_array().into_iter().flatten())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

/// Returns the crashed thread's frames before symbolication: image and address.
pub fn raw(report: &Value) -> String {
    let mut page = String::new();
    for (number, frame) in frames(report).enumerate() {
        let address = frame["instruction_addr"].as_u64().unwrap_or(0);
        let offset = address.wrapping_sub(frame["object_addr"].as_u64().unwrap_or(0));
        let image = text(frame, "object_name");
        // Writing to a string cannot fail.
        let _ = writeln!(page, "  {number:<2} {image:<20} {address:#018x}  + {offset}");
    }
    page
}

/// Returns the crashed thread's frames after symbolication: each inlined call on a line of its own.
pub fn enriched(report: &Value) -> String {
    let mut page = String::new();
    for (number, frame) in frames(report).enumerate() {
        let found = &frame["symbolication"];
        let calls = found["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        if calls.is_empty() {
            let why = text(found, "status").replace('_', " ");
            let _ = writeln!(page, "  {number:<2} {:<20} (symbols {why})", text(frame, "object_name"));
        }
        for (depth, call) in calls.iter().enumerate() {
            let label = if depth == 0 {
                format!("{number:<2} {:<20}", text(frame, "object_name"))
            } else {
                format!("{:<23}", "")
            };
            let inlined = if call["inlined"] == true { " [inlined]" } else { "" };
            let _ = writeln!(page, "  {label} {}{inlined}", text(call, "function"));
            if let (Some(file), Some(line)) = (call["file"].as_str(), call["line"].as_u64()) {
                let _ = writeln!(page, "  {:<23}     {file}:{line}", "");
            }
        }
    }
    page
}

/// Describes the outcome of the report without symbols.
pub fn waiting(report: &Value) -> String {
    let status = text(&report["symbolication"], "status");
    format!(
        "The other report is of build {}, without its dSYM: it is published all the same ({status}),\n\
         and will be again as revision 2 as soon as its dSYM comes.\n",
        text(&report["system"], "CFBundleVersion")
    )
}

pub fn queries(facts: &Installation, id: &str) -> String {
    let Installation { api_url, api_key, kafka_bootstrap, .. } = facts;
    format!(
        "
Queries to try while it serves (`unslide demo --keep`):

  export UNSLIDE_URL={api_url} UNSLIDE_API_KEY={api_key}
  curl -sH \"authorization: Bearer $UNSLIDE_API_KEY\" \"$UNSLIDE_URL/v1/reports?app=com.example.cafe&version=2.4.0\"
  curl -sH \"authorization: Bearer $UNSLIDE_API_KEY\" -H 'accept: text/plain' $UNSLIDE_URL/v1/reports/{id}
  curl -sH \"authorization: Bearer $UNSLIDE_API_KEY\" $UNSLIDE_URL/v1/reports/{id}/explain
  curl -sH \"authorization: Bearer $UNSLIDE_API_KEY\" $UNSLIDE_URL/v1/apps/com.example.cafe/versions
  curl -sH \"authorization: Bearer $UNSLIDE_API_KEY\" $UNSLIDE_URL/v1/missing-symbols
  open {api_url}/console   with the key above; {api_url}/docs has the API. Kafka is at {kafka_bootstrap}"
    )
}
