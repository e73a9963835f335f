//! `unslide send`: sends reports from files to the API, and prints their outcomes.

use crate::online::reports::show::wait_for_report;
use crate::online::stored_report::read_symbolication;
use crate::prelude::*;
use bytes::Bytes;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use unslide_cli::listing::item_text;
use unslide_cli::{check_paths, quantity};

/// The most bytes of a file. The API takes 32 MiB unless its operator has set another limit.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Missing symbols that are named of one report.
const MAX_SHOWN_IMAGES: usize = 10;

/// Arguments of the command `unslide send`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope reports:write, and with --wait also reports:read. A report that is sent twice is stored once.
Reports that are refused are named; the others are sent all the same, and the command ends with 1.

Examples:
  unslide send report.json
  unslide send --wait MyApp.ips
  unslide send reports/*.json.gz
  unslide send < reports.ndjson")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// A report, an array of reports, reports one a line, or a crash log of Apple's (.ips), also packed with gzip or zstd; or
    /// a zip archive of such files, such as an .xccrashpoint. Standard input if none or `-` is given
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Wait until the reports are stored, and print the outcome of each
    #[arg(long)]
    wait: bool,
    /// How long to wait for all of them, such as 90s
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = quantity::seconds, requires = "wait")]
    timeout: u32,
    /// Print JSON: a list of the reports
    #[arg(long)]
    json: bool,
}

/// The answer of the API.
#[derive(Deserialize)]
struct SentReports {
    reports: Vec<SentReport>,
    #[serde(default)]
    refused: Vec<RefusedReport>,
}

/// A report that was refused while others were accepted.
#[derive(Deserialize)]
struct RefusedReport {
    index: usize,
    detail: String,
}

#[derive(Deserialize)]
struct SentReport {
    /// None for a rendered log, which is kept but cannot be symbolicated.
    id: Option<String>,
}

/// A report that the API has, with its outcome.
struct ReportOutcome {
    file: String,
    id: Option<String>,
    /// The member `symbolication` of the stored report.
    symbolication: Option<Value>,
}

impl ReportOutcome {
    fn to_json(&self) -> Value {
        let stored = self.symbolication.as_ref().map(|found| {
            json!({ "status": found["status"], "frames": found["frames"], "missing": found["missing"],
                    "title": found["grouping"]["title"] })
        });
        json!({ "file": self.file, "id": self.id, "stored": stored })
    }
}

/// Sends the files one after the other.
pub fn run(arguments: &Arguments) -> Outcome {
    check_paths(arguments.files.iter().map(PathBuf::as_path))?;
    let files = match arguments.files.as_slice() {
        [] => vec![PathBuf::from("-")],
        files => files.to_vec(),
    };
    block_on(async {
        let client = Client::new(&arguments.server)?;
        let (mut outcomes, mut refused) = (Vec::new(), 0_usize);
        for file in &files {
            let bytes = read_file(file).map_err(|error| CommandError::cannot_read(file, error))?;
            if bytes.trim_ascii().is_empty() {
                let text = format!("there is no report in {}: it is empty", file_name(file));
                return Err(CommandError::usage(text).into());
            }
            if is_symbol_file(&bytes) {
                let text = format!("{0} is a dSYM and no report: unslide upload {0}", file_name(file));
                return Err(CommandError::usage(text).into());
            }
            let sent: SentReports = client
                .send_bytes("/v1/reports", &bytes)
                .await
                .map_err(|error| CommandError::caused(format!("{} was not taken", file_name(file)), error))?;
            for RefusedReport { index, detail } in sent.refused {
                refused += 1;
                note!("report {index} of {} was refused: {detail}", file_name(file));
            }
            for SentReport { id } in sent.reports {
                if !arguments.json && !arguments.wait {
                    say!("{}", id.as_deref().unwrap_or("a log without an id"));
                }
                outcomes.push(ReportOutcome { file: file_name(file), id, symbolication: None });
            }
        }
        let end = Instant::now() + Duration::from_secs(arguments.timeout.into());
        if arguments.wait {
            for outcome in &mut outcomes {
                outcome.symbolication = wait_for_outcome(&client, outcome.id.as_deref(), end).await?;
            }
        }
        if arguments.json {
            Console::get().print_json(&outcomes.iter().map(ReportOutcome::to_json).collect::<Vec<_>>())?;
        } else if arguments.wait {
            show_outcomes(&outcomes, arguments.timeout);
        }
        let is_stored = outcomes.iter().all(|outcome| outcome.symbolication.is_some());
        Ok(match (refused, arguments.wait && !is_stored) {
            (1.., _) => Exit::Failed,
            (0, true) => Exit::Missing,
            (0, false) => Exit::Ready,
        })
    })
}

/// Returns true for Mach-O files and for zip archives of dSYMs, which name their files uncompressed.
fn is_symbol_file(bytes: &[u8]) -> bool {
    let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    let magic = bytes.first_chunk::<4>().map(|magic| u32::from_be_bytes(*magic));
    let is_mach_o =
        matches!(magic, Some(0xfeed_face | 0xfeed_facf | 0xcefa_edfe | 0xcffa_edfe | 0xcafe_babe));
    is_mach_o || (bytes.starts_with(b"PK\x03\x04") && has(b".dSYM/Contents/"))
}

fn file_name(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

fn read_file(path: &Path) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            note!("reading a report from standard input; Ctrl-D ends it");
        }
        io::stdin().lock().take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it has more than 256 MiB: send its reports in several files",
        ));
    }
    Ok(bytes.into())
}

/// Waits until a report is stored, and returns how it was symbolicated. Returns None if it is not stored by the end.
async fn wait_for_outcome(
    client: &Client,
    id: Option<&str>,
    end: Instant,
) -> Result<Option<Value>, BoxError> {
    let Some(id) = id else { return Ok(None) };
    let left = end.saturating_duration_since(Instant::now());
    let found = wait_for_report(client, &format!("/v1/reports/{id}"), "application/json", left).await?;
    let Some(bytes) = found else { return Ok(None) };
    Ok(Some(read_symbolication(&bytes)?))
}

fn show_outcomes(outcomes: &[ReportOutcome], timeout: u32) {
    let mut table = Table::new(&["ID", "STATUS", "FRAMES", "TITLE"]);
    for outcome in outcomes {
        let id = outcome.id.clone().unwrap_or_else(|| "a log without an id".to_owned());
        let Some(found) = &outcome.symbolication else {
            table.add_row([id, "not stored yet".to_owned(), String::new(), String::new()]);
            continue;
        };
        let frames = format!("{} of {}", found["frames"]["symbolicated"], found["frames"]["total"]);
        table.add_row([id, item_text(found, "status"), frames, item_text(&found["grouping"], "title")]);
    }
    table.print();
    for outcome in outcomes {
        outcome.symbolication.iter().for_each(note_missing);
    }
    if outcomes.iter().any(|outcome| outcome.symbolication.is_none()) {
        note!(
            "gave up after {timeout} s: what is not stored may wait in Kafka, or be a dead letter; \
             `unslide dead-letter list --from 1h` lists these"
        );
    }
}

/// Names the images of the app that lack symbols.
fn note_missing(symbolication: &Value) {
    let images = symbolication["images"].as_array().into_iter().flatten();
    let is_missing = |image: &&Value| image["system"] != true && image["status"] == "missing";
    for image in images.filter(is_missing).take(MAX_SHOWN_IMAGES) {
        let id = item_text(image, "debug_id");
        note!(
            "the dSYM of {} {id} is missing: `unslide upload` takes the .xcarchive of this build; the report heals by itself then",
            item_text(image, "name")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsym_is_no_report() {
        assert!(
            is_symbol_file(b"PK\x03\x04....Cafe.dSYM/Contents/Info.plist")
                && is_symbol_file(b"\xcf\xfa\xed\xfe....")
        );
        assert!(!is_symbol_file(b"PK\x03\x04....report.json") && !is_symbol_file(b"{}"));
    }

    #[test]
    fn a_stored_report_is_described_by_its_symbolication() {
        let symbolication = json!({ "status": "partial", "frames": { "total": 3, "symbolicated": 1 },
            "missing": ["7"], "grouping": { "title": "Crash in pay" } });
        let stored = ReportOutcome {
            file: "a".to_owned(),
            id: Some("1".to_owned()),
            symbolication: Some(symbolication),
        };
        assert_eq!(
            stored.to_json(),
            json!({ "file": "a", "id": "1", "stored": { "status": "partial", "title": "Crash in pay",
                    "missing": ["7"], "frames": { "total": 3, "symbolicated": 1 } } })
        );
        let waiting = ReportOutcome { symbolication: None, ..stored };
        assert_eq!(waiting.to_json()["stored"], Value::Null);
    }
}
