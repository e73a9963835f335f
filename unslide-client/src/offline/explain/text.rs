//! Explanations as text.

use crate::lookups::describe_lookup;
use serde_json::Value;
use std::fmt::{self, Write as _};
use unslide_report::format_value;
use unslide_report::text::escape_for_terminal;

/// Remarks from explaining a report.
#[derive(Default)]
pub struct Noticed {
    pub notes: Vec<String>,
    /// True if the report lacks the requested thread or frame.
    pub is_missing: bool,
}

/// Lines that a terminal can show.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn write_line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a string has no error.
        let _ = writeln!(self.0, "{}", escape_for_terminal(&line.to_string()));
    }
}

/// Returns the explanation as text: of one thread and one frame if these are given, else of the crash.
pub fn explanation_text(explanation: &Value, thread: Option<i64>, frame: Option<u64>) -> (String, Noticed) {
    let mut out = Lines::default();
    let id = member_text(explanation, "report_id");
    out.write_line(format_args!("report {id}"));
    show_findings(&mut out, &explanation["findings"]);
    show_group(&mut out, &explanation["grouping"]);
    let missing = show_frames(&mut out, explanation, thread, frame).err();
    let is_missing = missing.is_some();
    let mut notes: Vec<String> =
        missing.map(|what| format!("report {id} has no {what}")).into_iter().collect();
    if explanation["truncated"] == true {
        notes.push(format!("the explanation of report {id} is cut short: the report has too many frames"));
    }
    (out.0, Noticed { notes, is_missing })
}

/// Shows the frames that were asked for.
///
/// # Errors
/// Returns the name of the missing thing if the report has no such frames.
fn show_frames(
    out: &mut Lines,
    explanation: &Value,
    thread: Option<i64>,
    frame: Option<u64>,
) -> Result<(), String> {
    let mut shown = thread.is_none() && show_javascript(out, explanation, frame);
    // A report about an error of JavaScript may have no native frames.
    let chosen = if shown && explanation["backtraces"].as_array().is_none_or(Vec::is_empty) {
        Vec::new()
    } else {
        choose_backtraces(explanation, thread)?
    };
    for backtrace in chosen {
        shown |= show_backtrace(out, explanation, backtrace, frame);
    }
    if shown {
        Ok(())
    } else {
        Err(frame.map_or_else(|| "frames".to_owned(), |frame| format!("frame {frame}")))
    }
}

/// Shows the sentence of each finding of an analysis, and the variables of the innermost frame.
fn show_findings(out: &mut Lines, findings: &Value) {
    for finding in findings.as_array().into_iter().flatten() {
        if let Some(variables) = finding["value"].as_array() {
            variables.iter().for_each(|variable| show_variable(out, variable));
            continue;
        }
        let (member, value) = (member_text(finding, "member"), &finding["value"]);
        out.write_line(format_args!("{member}  {}", member_text(value, "sentence")));
        for statement in value["abstained"].as_array().into_iter().flatten() {
            out.write_line(format_args!("{member}  {}", member_text(statement, "text")));
        }
    }
}

fn show_variable(out: &mut Lines, variable: &Value) {
    let value = match (variable["bytes"].as_str(), variable["unavailable"].as_str()) {
        (Some(bytes), _) => format_value(member_text(variable, "encoding"), bytes),
        (None, reason) => format!("no value: {}", reason.unwrap_or("unknown").replace('_', " ")),
    };
    let [function, name, type_name] = ["function", "name", "type"].map(|key| member_text(variable, key));
    out.write_line(format_args!("variable  {function}: {name} ({type_name}) = {value}"));
}

fn show_group(out: &mut Lines, grouping: &Value) {
    if grouping.is_null() {
        return;
    }
    let provisional = if grouping["provisional"] == true { ", provisional" } else { "" };
    out.write_line(format_args!("group  {}{provisional}", member_text(grouping, "title")));
    if let Some(rules) = grouping["rules"].as_str() {
        out.write_line(format_args!("rules  {rules}"));
    }
}

/// Shows the frames of an error of JavaScript, or one of them. Returns true if there are any.
fn show_javascript(out: &mut Lines, explanation: &Value, only: Option<u64>) -> bool {
    let frames = explanation["javascript"].as_array().map(Vec::as_slice).unwrap_or_default();
    let chosen: Vec<&Value> =
        frames.iter().filter(|frame| only.is_none_or(|index| frame["index"] == index)).collect();
    if !chosen.is_empty() {
        out.write_line(format_args!("JavaScript"));
    }
    for frame in &chosen {
        let function = frame["function"].as_str().unwrap_or("(anonymous)");
        let place = match frame["file"].as_str() {
            Some(file) => format!(" in {file}:{}", frame["line"]),
            None => frame["bundle"].as_str().map_or_else(String::new, |bundle| format!(" in {bundle}")),
        };
        out.write_line(format_args!(
            "{:>3}  {function}{place} [{}]",
            frame["index"],
            member_text(frame, "status")
        ));
        out.write_line(format_args!("       {}", member_text(frame, "reason")));
    }
    !chosen.is_empty()
}

/// Returns the backtraces of a thread, or of the crash.
///
/// # Errors
/// Returns the part that the report lacks.
fn choose_backtraces(explanation: &Value, thread: Option<i64>) -> Result<Vec<&Value>, String> {
    let all = || explanation["backtraces"].as_array().into_iter().flatten();
    let chosen: Vec<&Value> = match thread {
        Some(index) => all().filter(|backtrace| backtrace["thread"] == index).collect(),
        None => all().filter(|backtrace| backtrace["crashed"] == true).collect(),
    };
    match (chosen.is_empty(), thread) {
        (false, _) => Ok(chosen),
        (true, Some(index)) => Err(format!("thread {index}")),
        (true, None) => all().next().map(|first| vec![first]).ok_or_else(|| "frames".to_owned()),
    }
}

/// Shows the frames of a backtrace, or one of them. Returns true if there are any.
fn show_backtrace(out: &mut Lines, explanation: &Value, backtrace: &Value, only: Option<u64>) -> bool {
    let frames = backtrace["frames"].as_array().map(Vec::as_slice).unwrap_or_default();
    let chosen: Vec<&Value> =
        frames.iter().filter(|frame| only.is_none_or(|index| frame["index"] == index)).collect();
    if chosen.is_empty() {
        return false;
    }
    let thread = backtrace["thread"].as_i64().map_or_else(String::new, |index| format!(" {index}"));
    let crashed = if backtrace["crashed"] == true { ", crashed" } else { "" };
    out.write_line(format_args!("{}{thread}{crashed}", member_text(backtrace, "origin")));
    for frame in chosen {
        let image =
            frame["image"].as_u64().and_then(|at| explanation["images"].get(usize::try_from(at).ok()?));
        show_frame(out, frame, image, only.is_some());
        show_lookups(out, &explanation["lookups"], image);
    }
    true
}

fn show_frame(out: &mut Lines, frame: &Value, image: Option<&Value>, in_full: bool) {
    let path = image.map(|image| member_text(image, "path")).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let guess = if frame["approximate"] == true { ", a guess" } else { "" };
    out.write_line(format_args!(
        "{:>4}  {:18}  {name}: {}{guess}",
        frame["index"].to_string(),
        member_text(frame, "lookup_address"),
        member_text(frame, "status")
    ));
    for call in frame["calls"].as_array().into_iter().flatten() {
        out.write_line(format_args!("      {}", call.as_str().unwrap_or_default()));
    }
    out.write_line(format_args!("      because {}", member_text(frame, "reason")));
    for function in frame["grouping"].as_array().into_iter().flatten() {
        let counts = if function["counted"] == true { "counts" } else { "does not count" };
        let name = function["function"].as_str().map_or_else(String::new, |name| format!("{name} "));
        let rule = function["rule"].as_str().map_or_else(String::new, |rule| format!(" ({rule})"));
        out.write_line(format_args!(
            "      group: {name}{counts}: {}{rule}",
            member_text(function, "reason")
        ));
    }
    if !in_full {
        return;
    }
    let mut step = |what: &str, value: &Value| match value {
        Value::Null => {}
        Value::String(text) => out.write_line(format_args!("      {what:23} {text}")),
        other => out.write_line(format_args!("      {what:23} {other}")),
    };
    let members = [
        ("address in the report", "instruction_addr"),
        ("address", "cleaned"),
        ("one lower", "adjusted"),
        ("rule", "rule_name"),
        ("image found by", "image_by"),
        ("slide", "slide"),
        ("from the image's start", "lookup_relative"),
        ("in the file", "lookup_file_address"),
        ("answered by", "source"),
    ];
    for (what, member) in members {
        step(what, &frame[member]);
    }
    let Some(image) = image else { return };
    for (what, member) in
        [("image", "path"), ("UUID", "debug_id"), ("architecture", "arch"), ("loaded at", "load_address")]
    {
        step(what, &image[member]);
    }
    step("symbols", &image["status"]);
    step("quality", &image["symcache"]["quality"]);
    step("object", &image["symcache"]["object"]);
}

/// Shows where else the symbols of a frame's image were looked for.
fn show_lookups(out: &mut Lines, lookups: &Value, image: Option<&Value>) {
    let Some(debug_id) = image.map(|image| &image["debug_id"]).filter(|id| id.is_string()) else { return };
    for lookup in lookups.as_array().into_iter().flatten().filter(|lookup| lookup["debug_id"] == *debug_id) {
        out.write_line(format_args!("      symbols: {}", describe_lookup(lookup)));
    }
}

fn member_text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or_default()
}
