//! The records of several files, one after the other.

use crate::offline::records::elements::split_elements;
use crate::offline::records::input::{Input, InputRecord, InputRecords};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::slice::Iter;
use std::vec::IntoIter;
use unslide_cli::input::unpack_input;
use unslide_report::reader::ReportReaders;

/// The source of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordSource {
    /// The number of the file, from 0.
    pub file: usize,
    /// True if the file is one record.
    pub is_whole: bool,
}

/// The records of files; each file is opened when the one before was read.
pub struct FileRecords<'f> {
    readers: &'f ReportReaders,
    files: Iter<'f, PathBuf>,
    several: bool,
    opened: usize,
    input: Option<(&'f Path, Input<Box<dyn Read + Send>>)>,
    source: RecordSource,
    /// Records that were read and not given out.
    ahead: IntoIter<InputRecord>,
    ends_line: bool,
}

impl<'f> FileRecords<'f> {
    /// Reads the records of `files`; `-` is standard input. A file of a reader's format is one record.
    pub fn new(files: &'f [PathBuf], readers: &'f ReportReaders) -> FileRecords<'f> {
        FileRecords {
            readers,
            files: files.iter(),
            several: files.len() > 1,
            opened: 0,
            input: None,
            source: RecordSource::default(),
            ahead: Vec::new().into_iter(),
            ends_line: true,
        }
    }

    /// Reads more input if the buffer is empty. Returns false at the end of the last file.
    fn read_next(&mut self) -> io::Result<bool> {
        let Some((path, input)) = &mut self.input else { return self.open_next() };
        match input.next() {
            Some(record) => {
                let record = record.map_err(|error| name_error(path, &error))?;
                self.ends_line = record.ends_line();
                self.ahead = split_elements(record, self.readers).into_iter();
            }
            None => {
                self.input = None;
                // The reports of two files are two lines at least.
                if self.several && !self.ends_line {
                    self.ahead = vec![InputRecord::Filler(b"\n".to_vec())].into_iter();
                }
            }
        }
        Ok(true)
    }

    fn open_next(&mut self) -> io::Result<bool> {
        let Some(path) = self.files.next() else { return Ok(false) };
        let opened = match path.as_os_str() == "-" {
            true => unpack_input(io::stdin()),
            false => File::open(path).and_then(unpack_input),
        };
        let input = opened
            .and_then(|source| Input::open(source, self.readers))
            .map_err(|error| name_error(path, &error))?;
        let is_whole = !matches!(input.records, InputRecords::Lines { .. });
        self.source = RecordSource { file: self.opened, is_whole };
        self.opened += 1;
        self.ends_line = true;
        self.input = Some((path.as_path(), input));
        Ok(true)
    }
}

fn name_error(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Iterator for FileRecords<'_> {
    type Item = io::Result<(RecordSource, InputRecord)>;

    fn next(&mut self) -> Option<io::Result<(RecordSource, InputRecord)>> {
        loop {
            if let Some(record) = self.ahead.next() {
                return Some(Ok((self.source, record)));
            }
            match self.read_next() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reports_of_several_files_come_one_after_the_other_on_lines_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["{\n}", "R\n{}\n", "[{},R]"].iter().enumerate().map(|(number, text)| {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, text.replace('R', "{\"crash\":{\"threads\":[]}}")).unwrap();
            path
        });
        let files: Vec<PathBuf> = files.collect();
        let records: Vec<_> =
            FileRecords::new(&files, &ReportReaders::default()).collect::<io::Result<_>>().unwrap();
        let reports = records.iter().filter_map(|(source, record)| match record {
            InputRecord::Report { line, .. } | InputRecord::Element { line, .. } => {
                Some((source.file, source.is_whole, *line))
            }
            _ => None,
        });
        let expected = [(0, true, 1), (1, false, 1), (1, false, 2), (2, false, 1), (2, false, 1)];
        assert_eq!(reports.collect::<Vec<_>>(), expected);
        let (_, between) = &records[1];
        assert_eq!(*between, InputRecord::Filler(b"\n".to_vec()));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let files = [PathBuf::from("no/such/file")];
        let error = FileRecords::new(&files, &ReportReaders::default()).next().unwrap().unwrap_err();
        assert!(error.to_string().contains("no/such/file"), "{error}");
    }
}
