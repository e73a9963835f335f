//! `unslide symbols`: are the symbols there?

mod list;

use crate::features;
use crate::offline::records::FileRecords;
use crate::offline::records::input::InputRecord;
use crate::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use unslide_archive::{Binary, DETECTION_HEAD_BYTES, recognise_format};
use unslide_cli::input::{unpack_archive, unpack_input};
use unslide_cli::symbols::{MachOFile, find_files, mach_o};
use unslide_cli::{is_archive, quantity};
use unslide_model::DebugId;
use unslide_report::reader::ReportReaders;
use unslide_report::{ReadError, ReadLimits, Report};
use unslide_symbolicate::SymbolNeed;

/// The pause between two questions while waiting.
const STATUS_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The commands on symbols of the API.
#[derive(Subcommand)]
pub enum Command {
    /// List the symbols that were uploaded, the newest first
    List(Box<list::SymbolListArguments>),
    /// List the debug ids that reports wait for, the most wanted first
    Missing(list::MissingArguments),
    /// Say of each debug id whether its symbols are ready: exit code 0 if all are, 3 if one is missing
    /// or not ready yet, 1 if one is malformed, unsupported or too complex
    Check(CheckArguments),
    /// Delete all symbols of a debug id; on a terminal it asks first
    Delete(list::DeleteArguments),
}

/// Arguments of the command `unslide symbols check`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope symbols:write or symbols:read.

Examples:
  unslide symbols check --wait build/MyApp.xcarchive
  unslide symbols check --json report.json")]
pub struct CheckArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Debug ids, Mach-O files, archives, folders with dSYMs, or crash reports (the app images that their
    /// frames refer to)
    #[arg(required = true, value_name = "DEBUG_ID|PATH")]
    targets: Vec<String>,
    /// Wait until all are ready: the gate of a build pipeline
    #[arg(long)]
    wait: bool,
    /// How long to wait at most, such as 90s or 10min
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "10min",
        value_parser = quantity::seconds,
        requires = "wait"
    )]
    timeout: u32,
    /// Name the debug ids, and ask nothing
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Print nothing: the exit code says it
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
}

/// Runs a command on symbols.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Check(arguments) => check_symbols(&arguments),
        Command::List(arguments) => list::list_symbols(*arguments),
        Command::Missing(arguments) => list::list_missing(arguments),
        Command::Delete(arguments) => list::delete_symbols(&arguments),
    }
}

fn check_symbols(arguments: &CheckArguments) -> Outcome {
    let mut names = BTreeMap::new();
    for target in &arguments.targets {
        debug_ids(target, &mut names)?;
    }
    if names.is_empty() {
        return Err(CommandError::missing("there is no debug id in what was named").into());
    }
    if arguments.dry_run {
        show_statuses(
            arguments,
            names.into_iter().map(|(id, name)| (id, "not asked".to_owned(), name)).collect(),
        )?;
        return Ok(Exit::Ready);
    }
    let ids: Vec<DebugId> = names.keys().copied().collect();
    block_on(async {
        let client = Client::new(&arguments.server)?;
        let end = Instant::now() + Duration::from_secs(arguments.timeout.into());
        let checked = loop {
            let checked = client.check_symbols(&ids).await?;
            // Waiting does not repair malformed symbols, but another upload may come.
            let all_ready = checked.iter().all(|(_, status)| status == "ready");
            if all_ready || !arguments.wait {
                break checked;
            }
            if Instant::now() >= end {
                note!("gave up after {} s: not all symbols are ready", arguments.timeout);
                break checked;
            }
            tokio::time::sleep(STATUS_POLL_INTERVAL).await;
        };
        let exit = exit_code(checked.iter().map(|(_, status)| status.as_str()));
        let rows = checked.into_iter().map(|(id, status)| {
            let name = names.get(&id).cloned().unwrap_or_default();
            (id, status, name)
        });
        show_statuses(arguments, rows.collect())?;
        Ok(exit)
    })
}

/// Returns the exit code of a check with these answers. Problems that an upload or waiting would solve come
/// first.
fn exit_code<'s>(mut statuses: impl Iterator<Item = &'s str> + Clone) -> Exit {
    if statuses.clone().any(|status| matches!(status, "missing" | "building")) {
        return Exit::Missing;
    }
    if statuses.all(|status| status == "ready") { Exit::Ready } else { Exit::Failed }
}

/// Shows each debug id with its status and name.
fn show_statuses(arguments: &CheckArguments, rows: Vec<(DebugId, String, String)>) -> Result<(), BoxError> {
    if arguments.json {
        let ready = rows.iter().all(|(_, status, _)| status == "ready");
        let items: Vec<_> = rows
            .iter()
            .map(|(id, status, name)| json!({ "debug_id": id, "status": status, "name": name }))
            .collect();
        Console::get().print_json(&json!({ "ready": ready, "items": items }))?;
    } else if !arguments.quiet {
        let mut table = Table::new(&["DEBUG ID", "STATUS", "NAME"]);
        for (id, status, name) in rows {
            table.add_row([id.to_string(), status, name]);
        }
        table.print();
    }
    Ok(())
}

/// Adds the debug ids that a target names, each with a name for people.
fn debug_ids(target: &str, names: &mut BTreeMap<DebugId, String>) -> Result<(), BoxError> {
    if let Ok(id) = target.parse::<DebugId>() {
        names.entry(id).or_default();
        return Ok(());
    }
    let path = PathBuf::from(target);
    if !path.exists() {
        return Err(CommandError::neither_file_nor("a debug id", target).into());
    }
    if !path.is_dir() {
        return add_file(&path, names);
    }
    // The files that an upload of this folder would send.
    let (found, failed) = find_files(&[path], false);
    if let Some((path, reason)) = failed.into_iter().next() {
        return Err(format!("{}: {reason}", path.display()).into());
    }
    found.iter().try_for_each(|file| add_file(&file.path, names))
}

fn add_file(path: &Path, names: &mut BTreeMap<DebugId, String>) -> Result<(), BoxError> {
    if let Some(file) = mach_o(path)? {
        return add_slices(path, file, names);
    }
    // A file packed with gzip may be a report as well.
    if is_archive(path)?
        && let Ok(archive) = unpack_archive(path)
        && !archive.members.is_empty()
    {
        for member in &archive.members {
            let Some(file) = mach_o(&member.file)? else { continue };
            // Apps ship source maps of their packages, which are of no bundle: an upload skips them too.
            if member.binary != Binary::SourceMap || !file.slices.is_empty() {
                add_slices(Path::new(&member.path), file, names)?;
            }
        }
        return Ok(());
    }
    add_report(path, names)
}

fn add_slices(path: &Path, file: MachOFile, names: &mut BTreeMap<DebugId, String>) -> Result<(), BoxError> {
    if file.slices.is_empty() {
        return Err(format!("{} has no debug id that can be read", path.display()).into());
    }
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    names.extend(file.slices.into_iter().map(|(id, _)| (id, name.clone())));
    Ok(())
}

/// Adds the app images that the frames of a report refer to.
fn add_report(path: &Path, names: &mut BTreeMap<DebugId, String>) -> Result<(), BoxError> {
    let mut head = Vec::new();
    unpack_input(File::open(path)?)?.take(DETECTION_HEAD_BYTES as u64).read_to_end(&mut head)?;
    let no_report = |problem: String| match recognise_format(&head) {
        Some(known) => format!("{}: {known}", path.display()),
        None => {
            format!(
                "{} is neither a Mach-O file, an archive of them, nor a report: {problem}",
                path.display()
            )
        }
    };
    let readers = features::read_report_readers();
    let (mut problems, mut reports) = (Vec::new(), 0_usize);
    for record in FileRecords::new(&[path.to_owned()], &readers) {
        let (_, record) = record?;
        match list_needs(record, &readers) {
            Ok(Some(needs)) => {
                reports += 1;
                names.extend(needs.into_iter().map(|need| (need.debug_id, need.name)));
            }
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    match problems.is_empty() || reports > 0 {
        // The images of the others are known.
        true => problems.iter().for_each(|problem| note!("{}: {problem}; left out", path.display())),
        false => return Err(no_report(problems.swap_remove(0)).into()),
    }
    Ok(())
}

/// Returns the app images that the frames of a report refer to. Returns None for bytes between reports.
fn list_needs(record: InputRecord, readers: &ReportReaders) -> Result<Option<Vec<SymbolNeed>>, String> {
    let (line, bytes) = match record {
        InputRecord::Report { line, bytes, .. } | InputRecord::Element { line, bytes, .. } => (line, bytes),
        InputRecord::TooLong { line, .. } => {
            return Err(format!("line {line}: it is longer than a report may be"));
        }
        InputRecord::NoReport { problem, .. } => return Err(problem),
        InputRecord::Filler(_) | InputRecord::Between(_) => return Ok(None),
    };
    let limits = ReadLimits::default();
    let read = || -> Result<Vec<SymbolNeed>, ReadError> {
        let document = readers.open(&bytes, &limits)?;
        let report = Report::read_event(document.json(), &limits)?;
        let needs = unslide_symbolicate::list_needs(&report).into_iter();
        Ok(needs.filter(|need| !need.system).collect())
    };
    read().map(Some).map_err(|error| match line {
        1 => error.to_string(),
        _ => format!("line {line}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_can_be_uploaded_can_be_checked() {
        let folder = tempfile::tempdir().unwrap();
        let mut wanted = BTreeMap::new();
        debug_ids(unslide_testkit::fixtures::dsym("app").to_str().unwrap(), &mut wanted).unwrap();
        let packed = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            let mut file =
                flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
            file.write_all(bytes).unwrap();
            file.finish().unwrap();
            let mut found = BTreeMap::new();
            debug_ids(path.to_str().unwrap(), &mut found).map(|()| found)
        };
        let dsym = std::fs::read(unslide_testkit::fixtures::dsym("app")).unwrap();
        let found = packed("dsym.gz", &dsym).unwrap();
        assert!(!found.is_empty() && found.keys().eq(wanted.keys()), "{found:?}");
        let build = folder.path().join("build");
        std::fs::create_dir(&build).unwrap();
        std::fs::write(build.join("app"), &dsym).unwrap();
        std::fs::write(build.join("index.js.map"), r#"{"version":3,"sources":[],"mappings":""}"#).unwrap();
        let archive = folder.path().join("build.tar.gz");
        let mut tar = std::process::Command::new("tar");
        unslide_testkit::fixtures::run(tar.arg("-czf").arg(&archive).arg("-C").arg(&build).arg("."));
        let mut found = BTreeMap::new();
        debug_ids(archive.to_str().unwrap(), &mut found).unwrap();
        assert!(found.keys().eq(wanted.keys()), "source maps of packages are skipped: {found:?}");
        let crash = packed("crash.json.gz", include_bytes!("../../../tools/dev/demo/crash.json")).unwrap();
        assert!(!crash.is_empty());
        assert!(packed("text.gz", b"no report").is_err());
        // Lines beside a report that cannot be read are left out, and other data is one error.
        let lines = [&b"{\"bad\":\n"[..], &crash_line(), b"\n{}\n"].concat();
        assert_eq!(packed("lines.gz", &lines).unwrap(), crash);
        let error = packed("other.gz", b"{\"a\":1}\n{\"b\":2}\n").unwrap_err().to_string();
        assert!(error.contains("nor a report: ") && error.contains("1 more could not be read"), "{error}");
        let elf = folder.path().join("Shop.so");
        std::fs::write(&elf, b"\x7fELF\x02\x01").unwrap();
        let error = debug_ids(elf.to_str().unwrap(), &mut BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains("an ELF file") && error.contains("dSYM"), "{error}");
    }

    /// The crash of the demo in one line.
    fn crash_line() -> Vec<u8> {
        let crash: Value =
            serde_json::from_slice(include_bytes!("../../../tools/dev/demo/crash.json")).unwrap();
        serde_json::to_vec(&crash).unwrap()
    }

    #[test]
    fn what_is_missing_counts_before_what_is_broken() {
        let of = |statuses: &[&'static str]| exit_code(statuses.iter().copied());
        assert_eq!(of(&["ready", "ready"]), Exit::Ready);
        assert_eq!(of(&["ready", "malformed"]), Exit::Failed);
        assert_eq!(of(&["unsupported", "missing"]), Exit::Missing);
        assert_eq!(of(&["ready", "building"]), Exit::Missing);
    }
}
