//! `unslide upload`: finds dSYMs, or an operating system's libraries, sends what the server lacks, and waits
//! until they are built. `docs/operations.md` describes a second run.

mod commit;
mod parts;
mod screen;
mod send;
mod source_maps;

use crate::features::FEATURES;
use clap::Args;
use commit::CommitArguments;
use futures::StreamExt;
use screen::Screen;
use send::{FileDetails, Mode, SendError, Sent};
use serde_json::{Value, json};
use source_maps::SourceMapArguments;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use unslide_cli::symbols::{Found, find_files};
use unslide_cli::{
    ApiServer, BoxError, Client, ClientError, CommandError, Console, CoreCommand, Exit, Outcome, SkippedFile,
    SourceCommit, UploadedBuilds, block_on, check_paths, inform, note,
};
use unslide_model::{DebugId, format_causes};

/// Arguments of `unslide upload`: the files, their kind and the server.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope symbols:write, with --system the scope operator.

Examples:
  unslide upload build/MyApp.xcarchive
  unslide upload --dry-run build/
  unslide upload --quiet --json dSYMs.zip > uploaded.json
  unslide upload --commit 3f2a9c1d --repository https://github.com/example/shop build/MyApp.xcarchive
  unslide upload --system \"iOS DeviceSupport/18.1\"
  unslide upload --source-map main.jsbundle.map --app com.example.shop --platform ios --app-version 1.2 --build 45")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Folders that are searched for dSYMs to any depth (an Xcode archive, a build folder), or files:
    /// Mach-O files, zip, tar.gz. Links to dSYMs and in dSYMs are followed
    #[arg(required_unless_present = "source_map", value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    source_maps: SourceMapArguments,
    #[command(flatten)]
    commit: CommitArguments,
    /// In folders, take Mach-O files outside of dSYMs as well
    #[arg(long)]
    binaries: bool,
    /// Upload symbols of an operating system, for all tenants: a DeviceSupport folder, the libraries
    /// extracted from a dyld shared cache, or a folder of libraries. Needs an operator's key
    #[arg(long)]
    system: bool,
    /// Files that are sent at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// Do not wait until the server has built what was sent
    #[arg(long)]
    no_wait: bool,
    /// List the files that the server lacks, and send nothing. The exit code is 0 even if some are lacking, and 1 if a
    /// file cannot be read
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document at the end, and no progress
    #[arg(long)]
    json: bool,
    /// Print no progress; what failed is still named on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Returns a path as text; JSON knows no other.
fn path_text(path: &Path) -> String {
    path.display().to_string()
}

/// The SHA-256 of no bytes, of which there is no upload.
const NO_BYTES: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The outcome of all files.
#[derive(Default)]
struct Report {
    new: usize,
    known: usize,
    lacking: usize,
    failed: Vec<(PathBuf, String)>,
    /// The parts of ready files that could not be read.
    warnings: Vec<(PathBuf, String)>,
    /// One JSON value a file.
    files: Vec<Value>,
    /// The debug ids of the files that the server has.
    debug_ids: BTreeSet<DebugId>,
    /// Files that were sent, and of which no debug id is known.
    unnamed: usize,
    /// The error that ended the run early.
    ended: Option<ClientError>,
}

/// Uploads files, and prints the outcome of each.
pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.quiet || arguments.json {
        Console::get().be_quiet();
    }
    check_paths(arguments.paths.iter().chain(&arguments.source_maps.source_map).map(PathBuf::as_path))?;
    let client = Client::new(&arguments.server)?;
    let client = if arguments.system { client.for_system_symbols() } else { client };
    let commit = if arguments.system { None } else { arguments.commit.find_commit()? };
    let (mut found, mut failed) = find_files(&arguments.paths, arguments.binaries || arguments.system);
    // The copies last until all is sent.
    let copies = tempfile::tempdir()?;
    arguments.source_maps.add_source_maps(copies.path(), &mut found, &mut failed)?;
    if found.is_empty() && failed.is_empty() {
        return Err(CommandError::missing(nothing_found(arguments)).into());
    }
    let report = block_on(async {
        let report = send_all(arguments, &client, found, failed).await;
        if let Some(commit) = commit.as_ref().filter(|_| !arguments.dry_run) {
            report.keep_commit(&client, commit, arguments.no_wait).await;
        }
        Ok::<_, BoxError>(report)
    })?;
    report.print_report(arguments)
}

/// Returns true for a file without bytes: as empty input of any command, it is a mistake of the command line.
fn is_empty_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.len() == 0)
}

/// Says that there is nothing to send in the folders that were named.
fn nothing_found(arguments: &Arguments) -> String {
    let folders: Vec<String> = arguments.paths.iter().map(|path| path_text(path)).collect();
    let folders = folders.join(", ");
    match arguments.system || arguments.binaries {
        true => format!("no Mach-O file was found in {folders}"),
        false => {
            format!(
                "no dSYM was found in {folders}; with --binaries, Mach-O files outside of dSYMs count as well"
            )
        }
    }
}

async fn send_all(
    arguments: &Arguments,
    client: &Client,
    found: Vec<Found>,
    failed: Vec<(PathBuf, String)>,
) -> Report {
    let screen = Screen::new(found.len(), arguments.quiet || arguments.json);
    let mode = Mode { wait: !arguments.no_wait, dry_run: arguments.dry_run };
    let mut report = Report::default();
    for (path, reason) in failed {
        report.record_failure(&path, reason, &[]);
    }
    // Before gigabytes are read: does the API answer, and does it take the key?
    if !found.is_empty()
        && let Err(SendError::All(error)) = client.find_upload(NO_BYTES).await.map_err(SendError::from)
    {
        report.ended = Some(error);
        return report;
    }
    let sent = futures::stream::iter(found).map(|found| {
        let screen = &screen;
        async move {
            let bar = screen.add_bar(&found);
            let mut details = FileDetails::default();
            let result = send::send_file(client, &found, &bar, mode, &mut details).await;
            screen.finish_file(&found, &bar, &result, &details.skipped);
            (found, result, details)
        }
    });
    let mut sent = sent.buffer_unordered(usize::from(arguments.jobs));
    while let Some((found, result, details)) = sent.next().await {
        match result {
            Ok(sent) => report.record_sent(&found.shown, &sent, details),
            Err(SendError::File(reason)) => report.record_failure(&found.shown, reason, &details.skipped),
            Err(SendError::All(error)) => {
                // The other files would fail in the same way, each after its own time for trying.
                report.ended = Some(error);
                break;
            }
        }
    }
    screen.finish_all();
    report
}

impl Report {
    fn record_sent(&mut self, path: &Path, sent: &Sent, details: FileDetails) {
        let FileDetails { skipped, debug_ids } = details;
        self.unnamed += usize::from(debug_ids.is_empty());
        self.debug_ids.extend(debug_ids);
        let (count, word, objects) = match sent {
            Sent::Known(objects) => (&mut self.known, "known", &objects[..]),
            Sent::New(objects) => (&mut self.new, "uploaded", &objects[..]),
            Sent::Lacking => (&mut self.lacking, "would_upload", &[][..]),
        };
        *count += 1;
        self.warnings.extend(send::list_warnings(objects).map(|warning| (path.to_path_buf(), warning)));
        self.files
            .push(json!({ "path": path_text(path), "status": word, "objects": objects, "skipped": skipped }));
    }

    /// Gives the commit of the builds to the features. A failure is named, and the symbols stay uploaded.
    async fn keep_commit(&self, client: &Client, commit: &SourceCommit, is_without_wait: bool) {
        if self.unnamed > 0 && is_without_wait {
            note!(
                "the commit is not kept for archives: only without --no-wait the server names their builds"
            );
        }
        let debug_ids: Vec<DebugId> = self.debug_ids.iter().copied().collect();
        if debug_ids.is_empty() {
            return;
        }
        let builds = UploadedBuilds { debug_ids: &debug_ids, commit };
        for add_line in FEATURES.iter().filter_map(|feature| feature.add_line) {
            match add_line(client, CoreCommand::Upload(builds)).await {
                Ok(Some(line)) => inform!("{line}"),
                Ok(None) => {}
                Err(error) => note!("the commit is not kept: {}", format_causes(&*error)),
            }
        }
    }

    fn record_failure(&mut self, path: &Path, reason: String, skipped: &[SkippedFile]) {
        self.files.push(
            json!({ "path": path_text(path), "status": "failed", "reason": reason, "skipped": skipped }),
        );
        self.failed.push((path.to_path_buf(), reason));
    }

    fn print_report(self, arguments: &Arguments) -> Outcome {
        let Report { new, known, lacking, failed, warnings, files, ended, .. } = self;
        // Libraries of a system are stripped.
        let warnings = warnings.iter().filter(|_| !arguments.system);
        for (path, reason) in failed.iter().chain(warnings) {
            note!("{}: {reason}", path.display());
        }
        if arguments.json {
            let document = json!({
                "uploaded": new, "known": known, "would_upload": lacking, "failed": failed.len(),
                "files": files, "ended_by": ended.as_ref().map(ToString::to_string),
            });
            Console::get().print_json(&document)?;
        } else if arguments.dry_run {
            inform!("{lacking} would be uploaded, {known} known before, {} failed", failed.len());
        } else {
            inform!("{new} uploaded, {known} known before, {} failed", failed.len());
        }
        let is_all_empty = || failed.iter().all(|(path, _)| is_empty_file(path));
        match ended {
            Some(error) => Err(error.into()),
            None if failed.is_empty() => Ok(Exit::Ready),
            None if new + known + lacking == 0 && is_all_empty() => Ok(Exit::Usage),
            None => Ok(Exit::Failed),
        }
    }
}
