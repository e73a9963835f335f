//! Sparse files in tar archives: some of a file's bytes are stored, the others are zeros.
//!
//! Source of the format: GNU tar manual, "Storing Sparse Files" (GNU's old form, pax 0.0, 0.1
//! and 1.0).

use crate::budget::Budget;
use crate::magic::DETECTION_HEAD_BYTES;
use crate::tar_header::{BLOCK_BYTES, parse_number};
use crate::{ArchiveError, SkipReason};
use std::io::{self, Read};
use std::ops::Range;

/// The most fragments of one file; each uses memory while the file is read.
const MOST_FRAGMENTS: usize = 1 << 16;

fn parse_decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The stored parts of a file, collected while the map is read. An error is kept until the end,
/// because the whole map has to be read in any case.
#[derive(Default)]
pub(super) struct Map {
    fragments: Vec<Range<u64>>,
    /// The bytes of all fragments.
    stored: u64,
    /// End of the last fragment.
    end: u64,
    real: Option<u64>,
    /// True if the map is in lines at the start of the content.
    in_content: bool,
    wrong: Option<&'static str>,
}

impl Map {
    /// Returns an empty map of a file with `real` bytes, including holes.
    pub(super) fn from_size(real: Option<u64>) -> Map {
        Map { real, ..Map::default() }
    }

    fn record_problem(&mut self, what: &'static str) {
        self.wrong.get_or_insert(what);
    }

    /// Adds the next fragment: its offset in the file, and its length in bytes.
    fn push(&mut self, offset: Option<u64>, length: Option<u64>) {
        let (Some(offset), Some(length)) = (offset, length) else {
            return self.record_problem("is not made of numbers");
        };
        let Some(end) = offset.checked_add(length) else {
            return self.record_problem("goes past the file's end");
        };
        if offset < self.end {
            return self.record_problem("is not in ascending order");
        }
        self.end = end;
        // An empty fragment at the end means that the file ends with a hole.
        if length == 0 {
            return;
        }
        if self.fragments.len() == MOST_FRAGMENTS {
            return self.record_problem("has too many parts");
        }
        self.stored += length;
        self.fragments.push(offset..end);
    }

    /// Reads GNU's old form: an offset and a length in 24 bytes.
    pub(super) fn read_slots(&mut self, slots: &[u8]) {
        for slot in slots.chunks_exact(24) {
            let (offset, length) = slot.split_at(12);
            if length[0] == 0 {
                return;
            }
            self.push(parse_number(offset), parse_number(length));
        }
    }

    /// Reads pax 1.0: the number of fragments, then offset and length of each, one number per line.
    /// `next` returns a block of the content, or `None` at its end.
    pub(super) fn read_lines(
        &mut self,
        mut next: impl FnMut() -> Result<Option<[u8; BLOCK_BYTES]>, ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let (mut wanted, mut offset, mut value) = (None, None, None::<u64>);
        while self.in_content && self.wrong.is_none() && wanted != Some(0) {
            let Some(block) = next()? else {
                self.record_problem("goes past the content's end");
                return Ok(());
            };
            for byte in block {
                match (byte, value) {
                    (b'0'..=b'9', _) => {
                        let digit = u64::from(byte - b'0');
                        value = value.unwrap_or(0).checked_mul(10).and_then(|n| n.checked_add(digit));
                        if value.is_none() {
                            self.record_problem("has a number that is too large");
                        }
                    }
                    (b'\n', Some(number)) => {
                        value = None;
                        match (wanted, offset) {
                            (None, _) => wanted = Some(number),
                            (_, None) => offset = Some(number),
                            (Some(left), _) => {
                                self.push(offset.take(), Some(number));
                                wanted = Some(left - 1);
                            }
                        }
                    }
                    _ => self.record_problem("is not made of numbers"),
                }
                if wanted == Some(0) || self.wrong.is_some() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the fragments of a file with `stored` bytes in the archive, and its size including
    /// holes.
    pub(super) fn into_fragments(mut self, stored: u64) -> Result<(Vec<Range<u64>>, u64), SkipReason> {
        match self.real {
            None => self.record_problem("comes without the file's size"),
            Some(real) if self.end > real => self.record_problem("goes past the file's end"),
            _ if self.stored != stored => self.record_problem("does not fit the bytes in the archive"),
            _ => {}
        }
        match (self.wrong, self.real) {
            (None, Some(real)) => Ok((self.fragments, real)),
            (wrong, _) => Err(SkipReason::Holes(wrong.unwrap_or_default())),
        }
    }
}

/// The pax headers of a sparse file.
#[derive(Default)]
pub(super) struct SparseRecords {
    name: Option<Vec<u8>>,
    map: Option<Map>,
    /// Pax 0.0: an offset that precedes its length.
    offset: Option<u64>,
}

impl SparseRecords {
    /// Reads one record, without its prefix `GNU.sparse.`.
    pub(super) fn read_record(&mut self, record: &[u8]) {
        let Some(equals) = record.iter().position(|b| *b == b'=') else { return };
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        if key == b"name" {
            self.name = Some(value.to_vec());
            return;
        }
        let map = self.map.get_or_insert_default();
        match key {
            b"size" | b"realsize" => map.real = parse_decimal(value),
            b"major" => match value {
                b"0" => {}
                b"1" => map.in_content = true,
                _ => map.record_problem("is of an unknown version"),
            },
            b"minor" if value != b"0" && value != b"1" => map.record_problem("is of an unknown version"),
            b"offset" => self.offset = parse_decimal(value),
            b"numbytes" => map.push(self.offset.take(), parse_decimal(value)),
            b"map" if !value.is_empty() => {
                let mut numbers = value.split(|b| *b == b',').map(parse_decimal);
                while let Some(offset) = numbers.next() {
                    map.push(offset, numbers.next().flatten());
                }
            }
            _ => {}
        }
    }

    /// Takes the file's own path.
    pub(super) fn take_name(&mut self) -> Option<Vec<u8>> {
        self.name.take()
    }

    /// Returns the map, if the file is sparse.
    pub(super) fn into_map(self) -> Option<Map> {
        self.map
    }
}

/// A sparse file, with zeros in its holes.
pub(super) struct Filled<'a, R> {
    source: R,
    fragments: Vec<Range<u64>>,
    /// The first fragment that does not end before `at`.
    next: usize,
    at: u64,
    real: u64,
    counted: u64,
    path: &'a str,
    budget: &'a Budget<'a>,
}

impl<'a, R> Filled<'a, R> {
    /// Returns the file at `path`. `source` has the bytes of its fragments.
    pub(super) fn new(
        source: R,
        fragments: Vec<Range<u64>>,
        real: u64,
        path: &'a str,
        budget: &'a Budget<'a>,
    ) -> Filled<'a, R> {
        Filled { source, fragments, next: 0, at: 0, real, counted: 0, path, budget }
    }
}

impl<R: Read> Read for Filled<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A hole takes no space in the archive, so the whole file is charged before it is written.
        // A file that is only peeked at is charged for the peeked bytes.
        let until = if self.at < DETECTION_HEAD_BYTES as u64 {
            self.real.min(DETECTION_HEAD_BYTES as u64)
        } else {
            self.real
        };
        if until > self.counted {
            self.budget.charge_bytes(self.path, until - self.counted).map_err(ArchiveError::into_io)?;
            self.counted = until;
        }
        while self.fragments.get(self.next).is_some_and(|fragment| fragment.end <= self.at) {
            self.next += 1;
        }
        let fragment = self.fragments.get(self.next);
        let hole_until = fragment.map_or(until, |fragment| fragment.start.min(until));
        let hole = hole_until > self.at;
        let end = if hole { hole_until } else { fragment.map_or(until, |fragment| fragment.end.min(until)) };
        let most = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..most).filter(|buffer| !buffer.is_empty()) else { return Ok(0) };
        let read = if hole {
            buffer.fill(0);
            most
        } else {
            self.source.read(buffer)?
        };
        self.at += read as u64;
        Ok(read)
    }
}
