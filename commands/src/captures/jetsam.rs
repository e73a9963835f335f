//! `unslide jetsam`: which processes the kernel killed for lack of memory, by a Jetsam event log, without any server.

use clap::{ArgMatches, FromArgMatches, Parser};
use serde_json::{Value, json};
use std::path::PathBuf;
use time::format_description::well_known::Rfc3339;
use unslide_cli::input::read_input;
use unslide_cli::{CommandError, Console, Exit, Outcome, Table, note, say};
use unslide_model::figures::round_mebibytes;
use unslide_report::ReadLimits;
use unslide_report::jetsam::{JetsamEvent, JetsamProcess};
use unslide_report::text::escape_line;

/// Processes that people are shown: those that were killed, and the largest.
const SHOWN_PROCESSES: usize = 20;

/// Say which processes the system killed for lack of memory, from a Jetsam event log, without any server
#[derive(Parser)]
#[command(
    name = "jetsam",
    after_help = "\
Examples:
  unslide jetsam JetsamEvent-2026-03-02-110000.ips
  unslide jetsam --json JetsamEvent-2026-03-02-110000.ips"
)]
pub struct Arguments {
    /// The log (bug type 298), also packed with gzip or zstd; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Reads the log, and shows it.
pub fn run(matches: &ArgMatches) -> Outcome {
    let arguments = &Arguments::from_arg_matches(matches)?;
    let path = &arguments.file;
    let limits = ReadLimits::default();
    let bytes = read_input(path, limits.max_bytes).map_err(|error| CommandError::cannot_read(path, error))?;
    let event = JetsamEvent::read(&bytes, &limits).map_err(|error| CommandError::cannot_read(path, error))?;
    if arguments.json {
        Console::get().print_json(&event_to_json(&event))?;
    } else {
        print_event(&event);
    }
    Ok(Exit::Ready)
}

fn time_of(event: &JetsamEvent) -> Option<String> {
    event.time.and_then(|time| time.format(&Rfc3339).ok())
}

/// Returns the event as JSON, in bytes.
fn event_to_json(event: &JetsamEvent) -> Value {
    let pages: serde_json::Map<String, Value> = event
        .pages
        .iter()
        .map(|(state, pages)| (state.clone(), json!(pages.saturating_mul(event.page_size))))
        .collect();
    let killed = event.killed_processes();
    json!({
        "incident": event.incident,
        "time": time_of(event),
        "device": event.product,
        "system": event.system,
        "page_size": event.page_size,
        "memory": pages,
        "compressor": event.compressor,
        "largest_process": event.largest_process,
        "killed": killed.into_iter().map(process_to_json).collect::<Vec<_>>(),
        "processes": event.processes.iter().map(process_to_json).collect::<Vec<_>>(),
        "left_out": event.left_out,
    })
}

fn process_to_json(process: &JetsamProcess) -> Value {
    json!({
        "name": process.name,
        "debug_id": process.debug_id.map(|id| id.to_string()),
        "pid": process.pid,
        "states": process.states,
        "footprint": process.footprint,
        "lifetime_max": process.lifetime_max,
        "priority": process.priority,
        "reason": process.reason,
        "foreground": process.is_foreground(),
        "out_of_memory": process.is_out_of_memory(),
    })
}

fn print_event(event: &JetsamEvent) {
    let texts = [
        ("incident", event.incident.clone()),
        ("time", time_of(event)),
        ("device", event.product.clone()),
        ("system", event.system.clone()),
        ("largest", event.largest_process.clone()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            say!("{name:<9} {}", escape_line(&text));
        }
    }
    for (state, pages) in &event.pages {
        say!("{:<9} {} MB", escape_line(state), round_mebibytes(pages.saturating_mul(event.page_size)));
    }
    let killed = event.killed_processes();
    if killed.is_empty() {
        note!("no process was killed");
    }
    let mut rest: Vec<_> = event.processes.iter().filter(|process| process.reason.is_none()).collect();
    rest.sort_by_key(|process| std::cmp::Reverse(process.footprint));
    let mut table = Table::new(&["MB", "HIGHEST", "PID", "PROCESS", "STATES", "KILLED"]);
    let room = SHOWN_PROCESSES.saturating_sub(killed.len());
    let shown = killed.len() + rest.len().min(room);
    for process in killed.into_iter().chain(rest.into_iter().take(room)) {
        table.add_row([
            round_mebibytes(process.footprint).to_string(),
            process.lifetime_max.map(|bytes| round_mebibytes(bytes).to_string()).unwrap_or_default(),
            process.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            process.name.clone(),
            process.states.join(" "),
            process.reason.clone().unwrap_or_default(),
        ]);
    }
    table.print();
    let more = event.processes.len() as u64 + event.left_out - shown as u64;
    if more > 0 {
        note!("{more} more processes were not killed or are smaller: --json has those that were read");
    }
}
