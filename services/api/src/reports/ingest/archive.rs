//! Zip archives of reports, such as Xcode's `.xccrashpoint` and the downloads of TestFlight and App Store Connect.

use super::{NOT_A_REPORT, ReadBudget, TOO_LARGE};
use crate::problem::{Kind, Problem};
use crate::requests::body::unpack_entry;
use bytes::Bytes;
use std::io::Cursor;
use unslide_report::reader::file_names::{is_report_path, no_report_files};
use zip::ZipArchive;

/// The first bytes of an entry in the list at the end of an archive.
const LISTED_ENTRY: &[u8] = b"PK\x01\x02";
/// The most entries of an archive, of any kind.
const MAX_ENTRIES: usize = 1_000;
/// How many times larger an entry may be unpacked, on top of [`FREE_BYTES`].
const MAX_RATIO: u64 = 200;
/// Bytes that an entry may unpack to at any ratio.
const FREE_BYTES: u64 = 1 << 20;
/// The most characters of an entry's path that are shown.
const SHOWN_CHARS: usize = 100;

/// A file of an archive that may hold reports.
pub struct ArchivedFile {
    /// The end of its path, for errors.
    pub name: String,
    position: usize,
}

/// Outcome of one file of an archive, while its other files are read.
pub enum FileOutcome {
    /// The unpacked bytes of the file.
    Unpacked(Bytes),
    /// A stable word for why it is refused, and the exact error for people.
    Refused { reason: &'static str, detail: String },
}

/// A zip archive of reports that is in memory.
pub struct ReportArchive {
    zip: ZipArchive<Cursor<Bytes>>,
    /// The files that may hold reports, in the order of their paths.
    pub files: Vec<ArchivedFile>,
}

impl ReportArchive {
    /// Reads the list of files.
    ///
    /// # Errors
    /// [`Kind::TooLarge`] for too many entries, [`Kind::InvalidBody`] if the list cannot be read, and
    /// [`Kind::InvalidReport`] if no file may hold a report.
    pub fn open(bytes: &Bytes) -> Result<ReportArchive, Problem> {
        // Counted before the list is read, because it says itself how long it is.
        if memchr::memmem::find_iter(bytes, LISTED_ENTRY).take(MAX_ENTRIES + 1).count() > MAX_ENTRIES {
            let detail = format!("the archive has more than {MAX_ENTRIES} entries; send several archives");
            return Err(Problem::new(Kind::TooLarge, detail));
        }
        let damaged = |error| Problem::new(Kind::InvalidBody, format!("damaged zip archive: {error}"));
        let zip = ZipArchive::new(Cursor::new(bytes.clone())).map_err(damaged)?;
        let mut paths: Vec<(String, usize)> = Vec::new();
        for position in 0..zip.len().min(MAX_ENTRIES) {
            let path = zip.name_for_index(position).and_then(Result::ok).unwrap_or_default().into_owned();
            if is_report_path(&path) {
                paths.push((path, position));
            }
        }
        if paths.is_empty() {
            let detail = format!("this is a zip archive, and {}", no_report_files());
            return Err(Problem::new(Kind::InvalidReport, detail));
        }
        paths.sort();
        let files =
            paths.into_iter().map(|(path, position)| ArchivedFile { name: shown_name(&path), position });
        Ok(ReportArchive { zip, files: files.collect() })
    }

    /// Unpacks a file to at most `left` bytes.
    ///
    /// # Errors
    /// [`Kind::TooLarge`] past `left`, and errors if no bytes or units are left.
    pub fn unpack_file(
        &mut self,
        file: &ArchivedFile,
        left: u64,
        budget: &mut ReadBudget,
    ) -> Result<FileOutcome, Problem> {
        let refused = |detail: String| FileOutcome::Refused { reason: NOT_A_REPORT, detail };
        let mut entry = match self.zip.by_index(file.position) {
            Ok(entry) => entry,
            Err(error) => return Ok(refused(format!("it cannot be unpacked: {error}"))),
        };
        let by_ratio = entry.compressed_size().saturating_mul(MAX_RATIO).saturating_add(FREE_BYTES);
        let ReadBudget { reserved, charge } = budget;
        match unpack_entry(&mut entry, left.min(by_ratio), reserved, charge) {
            Ok(bytes) => Ok(FileOutcome::Unpacked(bytes.into())),
            Err(problem) if problem.kind() == Kind::TooLarge && by_ratio < left => {
                let detail = format!("it unpacks to more than {MAX_RATIO} times its size");
                Ok(FileOutcome::Refused { reason: TOO_LARGE, detail })
            }
            Err(problem) if problem.kind() == Kind::InvalidBody => {
                Ok(refused(problem.detail().unwrap_or_default().to_string()))
            }
            Err(problem) => Err(problem),
        }
    }
}

/// Returns the end of a path with printable characters only.
fn shown_name(path: &str) -> String {
    let skipped = path.chars().count().saturating_sub(SHOWN_CHARS);
    path.chars().skip(skipped).map(|c| if c.is_control() { '?' } else { c }).collect()
}
