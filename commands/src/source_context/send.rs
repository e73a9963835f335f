//! `unslide sources send`: sends the source files that dSYMs name.

use super::collect::{SourceBundleFile, SourceSelection, write_bundles};
use clap::Args;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use unslide_cli::symbols::{Found, find_files};
use unslide_cli::{
    ApiServer, BoxError, Client, CommandError, Console, Exit, Outcome, block_on, check_paths, inform,
    is_archive, note, starts_as_mach_o,
};

/// The path of bundles in the API.
pub const BUNDLES_PATH: &str = "/v1/source-bundles";

/// Arguments of `unslide sources send`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope symbols:write. The server stores source files if the tenant keeps them (see `unslide sources`). Files that
usually hold secrets, such as .env, are always left out.

Examples:
  unslide sources send --dry-run build/MyApp.xcarchive
  unslide sources send --exclude 'Generated/*' build/MyApp.xcarchive")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Folders that are searched for dSYMs to any depth (an Xcode archive, a build folder), or Mach-O files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The folder with the source files; without it the repository that contains the current folder
    #[arg(long, value_name = "DIR")]
    source_root: Option<PathBuf>,
    /// Leave out source files: a name, or a path below the source root, with * for any characters; may be given more than
    /// once
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// List the files, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document at the end, and no progress
    #[arg(long)]
    json: bool,
}

/// The bundles of all dSYMs, and what failed.
#[derive(Default)]
struct Report {
    bundles: Vec<Value>,
    failed: Vec<(PathBuf, String)>,
}

/// Sends the source files that dSYMs name.
pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.json {
        Console::get().be_quiet();
    }
    check_paths(arguments.paths.iter().map(PathBuf::as_path))?;
    let client = Client::new(&arguments.server)?;
    let selection = SourceSelection { root: find_root(arguments)?, exclude: arguments.exclude.clone() };
    let (found, failed) = find_files(&arguments.paths, false);
    let mut report = Report { failed, ..Report::default() };
    // The bundles last until all are sent.
    let copies = tempfile::tempdir()?;
    let mut bundles = Vec::new();
    for (number, file) in found.iter().enumerate() {
        match write_file_bundles(file, &selection, &copies.path().join(number.to_string())) {
            Ok(written) => bundles.extend(written),
            Err(error) => report.failed.push((file.shown.clone(), error.to_string())),
        }
    }
    let report = block_on(async {
        Ok::<_, BoxError>(send_bundles(&client, &bundles, arguments.dry_run, report).await)
    })?;
    report.print(arguments.json)
}

/// Returns the folder with the source files.
fn find_root(arguments: &Arguments) -> Result<PathBuf, BoxError> {
    if let Some(root) = &arguments.source_root {
        return Ok(root.clone());
    }
    let missing =
        "the current folder is in no repository: name the folder of the source files with --source-root";
    Ok(find_repository(&std::env::current_dir()?).ok_or_else(|| CommandError::usage(missing))?)
}

/// Returns the repository that contains a folder.
fn find_repository(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_path_buf)
}

/// Writes the bundles of a file into a new folder.
fn write_file_bundles(
    file: &Found,
    selection: &SourceSelection,
    folder: &Path,
) -> Result<Vec<SourceBundleFile>, BoxError> {
    let shown = file.shown.display();
    if !starts_as_mach_o(&file.path)? {
        if is_archive(&file.path)? {
            let reason = "those of dSYMs in archives are not searched: unpack it first";
            note!("{shown}: no source files are sent with it: {reason}");
        }
        return Ok(Vec::new());
    }
    fs::create_dir_all(folder)?;
    let written = write_bundles(&file.path, selection, folder)?;
    if let Some(reason) = written.absent {
        note!("{shown}: no source files are sent with it: {reason}");
    }
    Ok(written.files)
}

/// Sends bundles, or lists their files.
async fn send_bundles(
    client: &Client,
    bundles: &[SourceBundleFile],
    is_dry_run: bool,
    mut report: Report,
) -> Report {
    for bundle in bundles {
        let mut files = Vec::new();
        for source in &bundle.sources {
            if is_dry_run {
                inform!("{}: would be sent with {}", source.display(), bundle.debug_id);
            }
            files.push(source.display().to_string());
        }
        let mut entry = json!({ "debug_id": bundle.debug_id, "sources": files });
        if !is_dry_run {
            match send_bundle(client, bundle).await {
                Ok(answer) => {
                    match answer["detail"].as_str() {
                        Some(detail) => note!("{}: {detail}", bundle.debug_id),
                        None => inform!("{}: {} source files sent", bundle.debug_id, files.len()),
                    }
                    entry["stored"] = (answer["stored"] == true).into();
                }
                Err(error) => report
                    .failed
                    .push((PathBuf::from(format!("source files of {}", bundle.debug_id)), error.to_string())),
            }
        }
        report.bundles.push(entry);
    }
    report
}

async fn send_bundle(client: &Client, bundle: &SourceBundleFile) -> Result<Value, BoxError> {
    let bytes = fs::read(&bundle.path)?.into();
    Ok(client.send_bytes(BUNDLES_PATH, &bytes).await?)
}

impl Report {
    fn print(self, as_json: bool) -> Outcome {
        for (path, reason) in &self.failed {
            note!("{}: {reason}", path.display());
        }
        if as_json {
            let document = json!({ "source_bundles": self.bundles, "failed": self.failed.len() });
            Console::get().print_json(&document)?;
        }
        Ok(if self.failed.is_empty() { Exit::Ready } else { Exit::Failed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_contains_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("repo/src/a");
        fs::create_dir_all(&deep).unwrap();
        fs::write(folder.path().join("repo/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(find_repository(&deep), Some(folder.path().join("repo")));
    }
}
