//! Source files beside dSYMs: bundles of those that the symbols name.

use super::Report;
use super::find::Found;
use crate::features::list_source_bundlers;
use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use unslide_cli::{
    BoxError, Client, CommandError, SourceBundleFile, SourceBundler, SourceSelection, inform, is_archive,
    note, starts_as_mach_o,
};

/// Which source files are sent.
#[derive(Args)]
pub struct SourceArguments {
    /// Also send the source files that the symbols name and that lie in the source root. The server stores them if the
    /// tenant keeps source files (see `unslide sources`). With --dry-run they are listed
    #[arg(long)]
    include_sources: bool,
    /// The folder with the source files; without it the repository that contains the current folder
    #[arg(long, value_name = "DIR", requires = "include_sources")]
    source_root: Option<PathBuf>,
    /// Leave out source files: a name, or a path below the source root, with * for any characters. Files that usually hold
    /// secrets, such as .env, are always left out; may be given more than once
    #[arg(long, value_name = "GLOB", requires = "include_sources")]
    exclude: Vec<String>,
}

impl SourceArguments {
    /// Writes the bundles of the source files that Mach-O files name.
    pub fn write_bundles(
        &self,
        folder: &Path,
        found: &[Found],
        failed: &mut Vec<(PathBuf, String)>,
    ) -> Result<Vec<SourceBundleFile>, BoxError> {
        if !self.include_sources {
            return Ok(Vec::new());
        }
        let root = match &self.source_root {
            Some(root) => root.clone(),
            None => find_repository(&std::env::current_dir()?).ok_or_else(|| {
                CommandError::usage("the current folder is in no repository: name the folder of the source files with --source-root")
            })?,
        };
        let selection = SourceSelection { root, exclude: self.exclude.clone() };
        let bundlers = list_source_bundlers();
        let mut bundles: Vec<SourceBundleFile> = Vec::new();
        for (number, (file, bundler)) in
            found.iter().flat_map(|file| bundlers.clone().map(move |b| (file, b))).enumerate()
        {
            if !starts_as_mach_o(&file.path)? {
                if is_archive(&file.path)? {
                    let reason = "those of dSYMs in archives are not searched: unpack it first";
                    note!("{}: no source files are sent with it: {reason}", file.shown.display());
                }
                continue;
            }
            let folder = folder.join(format!("sources-{number}"));
            fs::create_dir_all(&folder)?;
            match (bundler.write_bundles)(&file.path, &selection, &folder) {
                Ok(written) => {
                    if let Some(reason) = written.absent {
                        note!("{}: no source files are sent with it: {reason}", file.shown.display());
                    }
                    bundles.extend(written.files);
                }
                Err(error) => failed.push((file.shown.clone(), error.to_string())),
            }
        }
        Ok(bundles)
    }
}

/// Returns the repository that contains a folder.
fn find_repository(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_path_buf)
}

/// Sends bundles, or lists their files.
pub async fn send_bundles(
    client: &Client,
    bundles: &[SourceBundleFile],
    is_dry_run: bool,
    report: &mut Report,
) {
    let paths = list_source_bundlers().next().map(|SourceBundler { path, .. }| path);
    let Some(path) = paths else { return };
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
            match send_bundle(client, path, bundle).await {
                Ok(answer) => {
                    let stored = answer["stored"] == true;
                    match answer["detail"].as_str() {
                        Some(detail) => note!("{}: {detail}", bundle.debug_id),
                        None => inform!("{}: {} source files sent", bundle.debug_id, files.len()),
                    }
                    entry["stored"] = stored.into();
                }
                Err(error) => report
                    .failed
                    .push((PathBuf::from(format!("source files of {}", bundle.debug_id)), error.to_string())),
            }
        }
        report.sources.push(entry);
    }
}

async fn send_bundle(client: &Client, path: &str, bundle: &SourceBundleFile) -> Result<Value, BoxError> {
    let bytes = Bytes::from(fs::read(&bundle.path)?);
    Ok(client.send_bytes(path, &bytes).await?)
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
