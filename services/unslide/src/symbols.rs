//! `unslide symbols`: are the symbols there?

mod backfill;

use crate::boot;
use crate::client::{Client, Server};
use crate::failure::{BoxError, Outcome};
use crate::upload::{find, mach_o};
use clap::{Args, Subcommand};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::DebugId;
use unslide_report::{Element, ReadLimits, Report, split};

/// The pause between two questions while waiting.
const PAUSE: Duration = Duration::from_secs(1);

/// The commands on symbols.
#[derive(Subcommand)]
pub enum Command {
    /// Say of each debug id whether its symbols are ready; exit code 0 only when all are
    Check(CheckArguments),
    /// Have symcaches built anew whose format is older than what this release writes; reaches the
    /// database itself
    Backfill(backfill::Arguments),
}

/// Arguments of `unslide symbols check`.
#[derive(Args)]
pub struct CheckArguments {
    #[command(flatten)]
    server: Server,
    /// Debug ids, Mach-O files, folders with dSYMs, or crash reports (the app images that their frames
    /// refer to)
    #[arg(required = true, value_name = "DEBUG_ID|PATH")]
    targets: Vec<String>,
    /// Wait until all are ready: the gate of a build pipeline
    #[arg(long)]
    wait: bool,
    /// Seconds to wait at most
    #[arg(long, default_value_t = 600, requires = "wait")]
    timeout: u64,
}

/// Runs a command on symbols.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Check(arguments) => check(&arguments),
        Command::Backfill(arguments) => backfill::run(&arguments),
    }
}

fn check(arguments: &CheckArguments) -> Outcome {
    let mut names = BTreeMap::new();
    for target in &arguments.targets {
        debug_ids(target, &mut names)?;
    }
    if names.is_empty() {
        return Err("there is no debug id in what was named".into());
    }
    let ids: Vec<DebugId> = names.keys().copied().collect();
    boot::block_on(async {
        let client = Client::new(&arguments.server)?;
        let end = Instant::now() + Duration::from_secs(arguments.timeout);
        let checked = loop {
            let checked = client.check(&ids).await?;
            // What is malformed does not heal by waiting, but another upload may come.
            let all_ready = checked.iter().all(|(_, status)| status == "ready");
            if all_ready || !arguments.wait || Instant::now() >= end {
                break checked;
            }
            tokio::time::sleep(PAUSE).await;
        };
        for (id, status) in &checked {
            let name = names.get(id).map_or("", String::as_str);
            println!("{}", format!("{id}  {status:<11}  {name}").trim_end());
        }
        let ready = checked.iter().all(|(_, status)| status == "ready");
        Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Adds the debug ids that a target names, each with a name for people.
fn debug_ids(target: &str, names: &mut BTreeMap<DebugId, String>) -> Result<(), BoxError> {
    if let Ok(id) = target.parse::<DebugId>() {
        names.entry(id).or_default();
        return Ok(());
    }
    let path = PathBuf::from(target);
    if !path.exists() {
        return Err(format!("{target} is neither a debug id nor a file").into());
    }
    if !path.is_dir() {
        return add_file(&path, names);
    }
    // What an upload of this folder would send.
    let (found, failed) = find(&[path], false);
    if let Some((path, reason)) = failed.into_iter().next() {
        return Err(format!("{}: {reason}", path.display()).into());
    }
    found.iter().try_for_each(|file| add_file(&file.path, names))
}

fn add_file(path: &Path, names: &mut BTreeMap<DebugId, String>) -> Result<(), BoxError> {
    let file_name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    if let Some(file) = mach_o(path)? {
        if file.slices.is_empty() {
            return Err(format!("{} has no debug id that can be read", path.display()).into());
        }
        names.extend(file.slices.into_iter().map(|(id, _)| (id, file_name.clone())));
        return Ok(());
    }
    let bytes = std::fs::read(path)?;
    let limits = ReadLimits::default();
    let no_report = |error| format!("{} is neither a Mach-O file nor a report: {error}", path.display());
    for element in split(&bytes, &limits).map_err(no_report)? {
        let Element::Report(bytes) = element else { continue };
        let report = Report::read(bytes, &limits).map_err(no_report)?;
        for need in unslide_symbolicate::needs(&report) {
            if !need.system {
                names.insert(need.debug_id, need.name);
            }
        }
    }
    Ok(())
}
