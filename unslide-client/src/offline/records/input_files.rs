//! Files with reports: those that a command line names, and those in the folders and zip archives that it names.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use unslide_cli::{CommandError, check_paths, note};
use unslide_report::ReadLimits;
use unslide_report::reader::file_names::{
    is_ignored_folder, is_report_name, is_report_path, no_report_files,
};

/// The maximum number of entries of an archive, and of files below a folder.
const ENTRIES_LIMIT: usize = 100_000;
/// The maximum number of bytes that an archive unpacks to.
const UNPACKED_BYTES_LIMIT: u64 = 1 << 30;
/// The maximum depth of folders.
const FOLDER_DEPTH_LIMIT: usize = 16;
/// The maximum number of characters of a name that are kept.
const NAME_CHARS: usize = 100;
const ZIP: [u8; 4] = *b"PK\x03\x04";
/// The files of a command.
#[derive(Debug)]
pub struct InputFiles {
    /// The files, in the order of the command line; those of a folder or an archive in the order of their names.
    pub paths: Vec<PathBuf>,
    /// Deleted after the files in them.
    _unpacked: Vec<TempDir>,
}

impl InputFiles {
    /// Finds the files that a command line names, or standard input if it names none. A person at a terminal learns
    /// that standard input is read.
    ///
    /// # Errors
    /// Returns an error if a file does not exist or cannot be read, or if a folder or an archive has no reports or too many.
    pub fn find_named(named: &[PathBuf]) -> Result<InputFiles, CommandError> {
        check_paths(named.iter().map(PathBuf::as_path))?;
        let mut files = InputFiles { paths: Vec::new(), _unpacked: Vec::new() };
        for path in named {
            files.add_path(path).map_err(|error| CommandError::cannot_read(path, error))?;
        }
        if named.is_empty() {
            files.paths.push(PathBuf::from("-"));
        }
        if io::stdin().is_terminal() && files.paths.iter().any(|path| path.as_os_str() == "-") {
            note!("reading reports from standard input; Ctrl-D ends it");
        }
        Ok(files)
    }

    fn add_path(&mut self, path: &Path) -> io::Result<()> {
        let before = self.paths.len();
        if path.as_os_str() == "-" {
            self.paths.push(path.to_owned());
        } else if path.is_dir() {
            let mut left = ENTRIES_LIMIT;
            self.add_folder(path, FOLDER_DEPTH_LIMIT, &mut left)?;
        } else if is_zip(path)? {
            self.add_archive(path)?;
        } else {
            self.paths.push(path.to_owned());
        }
        if self.paths.len() == before {
            return Err(io::Error::new(io::ErrorKind::NotFound, no_report_files()));
        }
        Ok(())
    }

    fn add_folder(&mut self, folder: &Path, depth: usize, left: &mut usize) -> io::Result<()> {
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            *left = left
                .checked_sub(1)
                .ok_or_else(|| too_much(format!("it has more than {ENTRIES_LIMIT} files")))?;
            entries.push(entry?.path());
        }
        entries.sort();
        for entry in entries {
            let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            // Links could lead anywhere.
            if entry.is_symlink() || name.starts_with('.') {
                continue;
            }
            if !entry.is_dir() {
                self.paths.extend(is_report_name(&name).then_some(entry));
            } else if depth > 0 && !is_ignored_folder(&name) {
                self.add_folder(&entry, depth - 1, left)?;
            }
        }
        Ok(())
    }

    /// Unpacks the reports of an archive. No name in it becomes a path.
    fn add_archive(&mut self, path: &Path) -> io::Result<()> {
        let mut archive = zip::ZipArchive::new(File::open(path)?)?;
        if archive.len() > ENTRIES_LIMIT {
            return Err(too_much(format!("it has more than {ENTRIES_LIMIT} entries")));
        }
        let folder = tempfile::tempdir()?;
        let mut left = UNPACKED_BYTES_LIMIT;
        let mut wanted: Vec<(String, usize)> = Vec::new();
        for at in 0..archive.len() {
            let name = archive.name_for_index(at).and_then(Result::ok).unwrap_or_default().into_owned();
            if is_report_path(&name) {
                wanted.push((name, at));
            }
        }
        wanted.sort();
        // One more than a report may have shows that it is too long.
        let most = ReadLimits::default().max_bytes as u64 + 1;
        for (number, (name, at)) in wanted.into_iter().enumerate() {
            let mut entry = archive.by_index(at)?.take(most.min(left + 1));
            let unpacked = folder.path().join(format!("{number}-{}", plain_name(&name)));
            let copied = io::copy(&mut entry, &mut File::create(&unpacked)?)?;
            left = left.checked_sub(copied).ok_or_else(|| {
                too_much(format!("it unpacks to more than {} MiB", UNPACKED_BYTES_LIMIT >> 20))
            })?;
            self.paths.push(unpacked);
        }
        self._unpacked.push(folder);
        Ok(())
    }
}

fn too_much(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

fn is_zip(path: &Path) -> io::Result<bool> {
    let mut head = [0; ZIP.len()];
    // A pipe can be read only once.
    if !path.is_file() {
        return Ok(false);
    }
    Ok(File::open(path)?.read_exact(&mut head).is_ok() && head == ZIP)
}

/// Returns the last part of a path in an archive, with characters that every file system takes.
fn plain_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let kept =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+') { c } else { '_' };
    let skipped = name.chars().count().saturating_sub(NAME_CHARS);
    name.chars().skip(skipped).map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const FILES: [&str; 8] = [
        "a.xccrashpoint/Filters/F/Logs/2026.crash",
        "a.xccrashpoint/Filters/F/Logs/LocallySymbolicated/2026.crash",
        "a.xccrashpoint/DistributionInfo.json",
        "b.ips",
        "c.json.gz",
        "photo.png",
        ".hidden.json",
        "__MACOSX/._b.ips",
    ];
    const REPORTS: [&str; 3] = ["2026.crash", "b.ips", "c.json.gz"];

    fn names(files: &InputFiles) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        files.paths.iter().map(name).collect()
    }

    #[test]
    fn a_folder_has_each_raw_log_once() {
        let folder = tempfile::tempdir().unwrap();
        for file in FILES {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        let files = InputFiles::find_named(&[folder.path().to_owned(), PathBuf::from("-")]).unwrap();
        assert_eq!(names(&files)[..3], REPORTS);
        assert_eq!(files.paths[3], Path::new("-"));
        assert_eq!(InputFiles::find_named(&[]).unwrap().paths, [PathBuf::from("-")]);
    }

    #[test]
    fn an_archive_has_each_raw_log_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs");
        let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
        for file in FILES.into_iter().chain(["../../../outside.ips"]) {
            zip.start_file(file, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(file.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        let files = InputFiles::find_named(&[path]).unwrap();
        let plain: Vec<String> =
            names(&files).iter().map(|name| name.split_once('-').unwrap().1.to_owned()).collect();
        assert_eq!(
            plain,
            ["2026.crash", "b.ips", "c.json.gz"],
            "a path that leaves the archive is no file of it"
        );
        assert_eq!(std::fs::read(&files.paths[1]).unwrap(), b"b.ips");
        let parents: Vec<&Path> = files.paths.iter().map(|path| path.parent().unwrap()).collect();
        assert!(parents.windows(2).all(|pair| pair[0] == pair[1]), "all in one folder");
    }

    #[test]
    fn a_folder_without_reports_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("photo.png"), "").unwrap();
        assert!(InputFiles::find_named(&[folder.path().to_owned()]).is_err());
    }
}
