//! `unslide explain`: why a frame has the answer that it has.

use crate::offline::packed::read_unpacked;
use crate::offline::symbolicate::{BuildArguments, Library};
use crate::online::groups::rules::read_rules;
use crate::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use unslide_report::{ReadLimits, Report, foreign_format};

/// Arguments of `unslide explain`.
#[derive(Args)]
#[command(after_help = "\
For a report at the API the key needs the scope reports:read.

Examples:
  unslide explain 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10
  unslide explain --thread 4 --frame 2 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10
  unslide explain --symbols MyApp.xcarchive report.json")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// The id of a report at the API, or a file with a report
    report: String,
    /// For a report in a file: a dSYM, a Mach-O file, an archive or a folder of them; may be given more than
    /// once
    #[arg(long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    #[command(flatten)]
    build: BuildArguments,
    /// For a report in a file: grouping rules to explain its group with
    #[arg(long, value_name = "FILE")]
    grouping_rules: Option<PathBuf>,
    /// The thread with this index; without it the one that crashed
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    thread: Option<i64>,
    /// One frame of it, from 0, with every step to its answer
    #[arg(long, value_name = "NUMBER")]
    frame: Option<u64>,
    /// Print the whole explanation as JSON
    #[arg(long)]
    json: bool,
}

/// Explains a report's frames.
pub fn run(arguments: &Arguments) -> Outcome {
    let path = Path::new(&arguments.report);
    let explanation = if path.exists() {
        of_file(path, arguments)?
    } else if arguments.report.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        if !arguments.symbols.is_empty() {
            return Err(CommandError::usage("--symbols is for a report in a file").into());
        }
        if arguments.grouping_rules.is_some() {
            return Err(CommandError::usage("--grouping-rules is for a report in a file").into());
        }
        of_api(&arguments.server, &arguments.report)?
    } else {
        return Err(CommandError::neither_file_nor("the id of a report", &arguments.report).into());
    };
    if arguments.json {
        Console::get().json(&explanation)?;
        return Ok(Exit::Ready);
    }
    say!("report {}", explanation["report_id"].as_str().unwrap_or_default());
    show_group(&explanation["grouping"]);
    let mut shown = arguments.thread.is_none() && show_javascript(&explanation, arguments.frame);
    // A report about an error of JavaScript may have no native frames.
    let chosen = if shown && explanation["backtraces"].as_array().is_none_or(Vec::is_empty) {
        Vec::new()
    } else {
        backtraces(&explanation, arguments.thread)?
    };
    for backtrace in chosen {
        shown |= show(&explanation, backtrace, arguments.frame);
    }
    if !shown {
        let frame = arguments.frame.unwrap_or_default();
        return Err(CommandError::missing(format!("there is no frame {frame}")).into());
    }
    if explanation["truncated"] == true {
        note!("the explanation is cut short: the report has too many frames");
    }
    Ok(Exit::Ready)
}

fn of_api(server: &ApiServer, id: &str) -> Result<Value, BoxError> {
    let client = Client::new(server)?;
    boot::block_on(async { Ok(client.get(&format!("/v1/reports/{id}/explain")).await?) })
}

fn of_file(path: &Path, arguments: &Arguments) -> Result<Value, BoxError> {
    let rules = read_rules(arguments.grouping_rules.as_deref())?;
    let limits = ReadLimits::default();
    let bytes = read_unpacked(File::open(path)?, limits.max_bytes)?;
    let report = Report::accept(&bytes, &limits).map_err(|error| {
        let why = foreign_format(&bytes).map_or_else(|| error.to_string(), |format| format.to_string());
        format!("{} is not one report: {why}", path.display())
    })?;
    let library = Library::open(&arguments.symbols, arguments.build)?;
    let symbols = library.for_report(&unslide_symbolicate::needs(&report));
    let explanation = unslide_symbolicate::explain(&report, &|id| symbols.get(id), &rules);
    Ok(serde_json::to_value(explanation)?)
}

fn show_group(grouping: &Value) {
    if grouping.is_null() {
        return;
    }
    let provisional = if grouping["provisional"] == true { ", provisional" } else { "" };
    say!("group  {}{provisional}", text(grouping, "title"));
    if let Some(rules) = grouping["rules"].as_str() {
        say!("rules  {rules}");
    }
}

/// Shows the frames of an error of JavaScript, or one of them; true where there were some.
fn show_javascript(explanation: &Value, only: Option<u64>) -> bool {
    let frames = explanation["javascript"].as_array().map(Vec::as_slice).unwrap_or_default();
    let chosen: Vec<&Value> =
        frames.iter().filter(|frame| only.is_none_or(|index| frame["index"] == index)).collect();
    if !chosen.is_empty() {
        say!("JavaScript");
    }
    for frame in &chosen {
        let function = frame["function"].as_str().unwrap_or("(anonymous)");
        let place = match frame["file"].as_str() {
            Some(file) => format!(" in {file}:{}", frame["line"]),
            None => frame["bundle"].as_str().map_or_else(String::new, |bundle| format!(" in {bundle}")),
        };
        say!("{:>3}  {function}{place} [{}]", frame["index"], text(frame, "status"));
        say!("       {}", text(frame, "reason"));
    }
    !chosen.is_empty()
}

/// The backtraces of a thread, or of the crash.
fn backtraces(explanation: &Value, thread: Option<i64>) -> Result<Vec<&Value>, CommandError> {
    let all = || explanation["backtraces"].as_array().into_iter().flatten();
    let chosen: Vec<&Value> = match thread {
        Some(index) => all().filter(|backtrace| backtrace["thread"] == index).collect(),
        None => all().filter(|backtrace| backtrace["crashed"] == true).collect(),
    };
    match (chosen.is_empty(), thread) {
        (false, _) => Ok(chosen),
        (true, Some(index)) => Err(CommandError::missing(format!("the report has no thread {index}"))),
        (true, None) => match all().next() {
            Some(first) => Ok(vec![first]),
            None => Err(CommandError::missing("the report has no frames")),
        },
    }
}

/// Shows the frames of a backtrace, or one of them; true where there were some.
fn show(explanation: &Value, backtrace: &Value, only: Option<u64>) -> bool {
    let frames = backtrace["frames"].as_array().map(Vec::as_slice).unwrap_or_default();
    let chosen: Vec<&Value> =
        frames.iter().filter(|frame| only.is_none_or(|index| frame["index"] == index)).collect();
    if chosen.is_empty() {
        return false;
    }
    let thread = backtrace["thread"].as_i64().map_or_else(String::new, |index| format!(" {index}"));
    let crashed = if backtrace["crashed"] == true { ", crashed" } else { "" };
    say!("{}{thread}{crashed}", text(backtrace, "origin"));
    for frame in chosen {
        let image =
            frame["image"].as_u64().and_then(|at| explanation["images"].get(usize::try_from(at).ok()?));
        show_frame(frame, image, only.is_some());
    }
    true
}

fn show_frame(frame: &Value, image: Option<&Value>, in_full: bool) {
    let path = image.map(|image| text(image, "path")).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let guess = if frame["approximate"] == true { ", a guess" } else { "" };
    say!(
        "{:>4}  {:18}  {name}: {}{guess}",
        frame["index"].to_string(),
        text(frame, "lookup_address"),
        text(frame, "status")
    );
    for call in frame["calls"].as_array().into_iter().flatten() {
        say!("      {}", call.as_str().unwrap_or_default());
    }
    say!("      because {}", text(frame, "reason"));
    for function in frame["grouping"].as_array().into_iter().flatten() {
        let counts = if function["counted"] == true { "counts" } else { "does not count" };
        let name = function["function"].as_str().map_or_else(String::new, |name| format!("{name} "));
        let rule = function["rule"].as_str().map_or_else(String::new, |rule| format!(" ({rule})"));
        say!("      group: {name}{counts}: {}{rule}", text(function, "reason"));
    }
    if !in_full {
        return;
    }
    let step = |what: &str, value: &Value| match value {
        Value::Null => {}
        Value::String(text) => say!("      {what:23} {text}"),
        other => say!("      {what:23} {other}"),
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

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or_default()
}
