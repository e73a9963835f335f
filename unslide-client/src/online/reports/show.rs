//! `unslide reports show`: one report.

use crate::online::stored_report::read_json_texts;
use crate::prelude::*;
use clap::ValueEnum;
use std::time::Duration;
use unslide_cli::listing::{filter_given, with_query};
use unslide_cli::{ClientError, parse_entry_id, quantity};

/// The longest time that the API waits in one request.
const API_WAIT_MAX: Duration = Duration::from_secs(10);

/// Arguments of the command `unslide reports show`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unslide reports show 2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59
  unslide reports show --format markdown 2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59 | gh issue create --title Crash --body-file -
  unslide reports show --json 2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59 > enriched.json")]
pub struct ShowReportArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The id of the report, or the address of its page
    #[arg(value_parser = parse_entry_id)]
    id: String,
    /// Which one, from 0, if several reports with different bytes have the id
    #[arg(long, value_name = "NUMBER")]
    variant: Option<u32>,
    /// Wait for a report that is not stored yet, at most this long, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = quantity::seconds)]
    wait: Option<u32>,
    /// text: a log in Apple's form; json: the report with its symbolication, byte for byte unless a terminal shows it;
    /// markdown: for an issue
    #[arg(long, value_enum, default_value_t)]
    format: ShowFormat,
    /// Name the evidence of each sentence of Markdown in square brackets
    #[arg(long, requires = "format")]
    evidence: bool,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// The form in which an entry is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ShowFormat {
    #[default]
    Text,
    Json,
    Markdown,
}

impl ShowFormat {
    fn media_type(self) -> &'static str {
        match self {
            ShowFormat::Text => "text/plain",
            ShowFormat::Json => "application/json",
            ShowFormat::Markdown => "text/markdown",
        }
    }
}

/// Prints a report in the requested form.
pub fn run(arguments: &ShowReportArguments) -> Outcome {
    let format = if arguments.json { ShowFormat::Json } else { arguments.format };
    let accept = format.media_type();
    let query = [
        ("variant", arguments.variant.map(|variant| variant.to_string())),
        ("evidence", arguments.evidence.then(|| true.to_string())),
    ];
    let path = with_query(&format!("/v1/reports/{}", arguments.id), &filter_given(query))?;
    let wait = Duration::from_secs(arguments.wait.unwrap_or(0).into());
    let report = block_on(async {
        Ok(wait_for_report(&Client::new(&arguments.server)?, &path, accept, wait).await?)
    })?;
    let Some(report) = report else {
        let text = format!("there is no report {}: `unslide reports` lists them", arguments.id);
        return Err(CommandError::missing(text).into());
    };
    let console = Console::get();
    if format != ShowFormat::Json {
        console.say_lines(String::from_utf8_lossy(&report).trim_end());
    } else {
        // On a terminal, each text is indented and coloured if all are JSON.
        match console.terminal_columns().and_then(|_| read_json_texts(&report)) {
            Some(texts) => texts.iter().try_for_each(|text| console.print_json(text))?,
            None => console.write_bytes(&report),
        }
    }
    Ok(Exit::Ready)
}

/// Reads a report in a media type, and waits for it. Returns None if it is not stored by then.
///
/// # Errors
/// Returns an error if the API does not answer.
pub async fn wait_for_report(
    client: &Client,
    path: &str,
    accept: &str,
    wait: Duration,
) -> Result<Option<Vec<u8>>, ClientError> {
    let mut left = wait;
    loop {
        let part = left.min(API_WAIT_MAX);
        let report = client.wait_for_bytes(path, accept, part).await?;
        left -= part;
        if report.is_some() || left.is_zero() {
            return Ok(report);
        }
    }
}
