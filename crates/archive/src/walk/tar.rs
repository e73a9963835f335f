//! Reads tar archives as a stream: ustar, GNU long names, pax paths and sparse files.
//!
//! Source of the format: POSIX.1-2017, `pax` (ustar and extended headers); GNU tar manual,
//! "Basic Tar Format" (long names, base-256 numbers) and "Storing Sparse Files".

use super::sparse::{Filled, Map, SparseRecords};
use super::{Walk, entry_path};
use crate::tar_header::{BLOCK_BYTES, is_header, parse_number};
use crate::{ArchiveError, SkipReason};
use std::io::{self, Read};

/// The largest pax header or long name in bytes; larger ones are hostile.
const LARGEST_EXTENSION: u64 = 1 << 20;

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|b| *b == 0).next().unwrap_or_default()
}

/// The stream, and the position in it.
struct Tar<'t> {
    source: &'t mut dyn Read,
    at: u64,
    container: &'t str,
}

impl Tar<'_> {
    fn truncated_error(&self, what: &str) -> ArchiveError {
        ArchiveError::Truncated { container: self.container.into(), what: what.into(), at: self.at }
    }

    fn corrupt_error(&self, what: &str) -> ArchiveError {
        ArchiveError::Corrupt { container: self.container.into(), what: what.into(), at: self.at }
    }

    /// Reads the next block, named `what` in errors; `None` at the end of the stream.
    fn read_block(&mut self, what: &str) -> Result<Option<[u8; BLOCK_BYTES]>, ArchiveError> {
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            let read = self
                .source
                .read(&mut block[filled..])
                .map_err(|e| ArchiveError::from_io(e, ArchiveError::Disk))?;
            if read == 0 {
                break;
            }
            filled += read;
            self.at += read as u64;
        }
        match filled {
            0 => Ok(None),
            BLOCK_BYTES => Ok(Some(block)),
            _ => Err(self.truncated_error(&format!("{what} ends"))),
        }
    }

    /// Reads a block that must exist.
    fn read_required_block(&mut self, what: &str) -> Result<[u8; BLOCK_BYTES], ArchiveError> {
        self.read_block(what)?.ok_or_else(|| self.truncated_error(&format!("{what} ends")))
    }

    /// Reads the map of a sparse file in GNU's old form: in the header and in the blocks after it,
    /// which the entry's size does not count.
    fn old_map(&mut self, header: &[u8; BLOCK_BYTES]) -> Result<Map, ArchiveError> {
        let mut map = Map::from_size(parse_number(&header[483..495]));
        map.read_slots(&header[386..482]);
        let mut more = header[482] != 0;
        while more {
            let block = self.read_required_block("a map of holes")?;
            map.read_slots(&block[..504]);
            more = block[504] != 0;
        }
        Ok(map)
    }

    fn skip_bytes(&mut self, bytes: u64, what: &str) -> Result<(), ArchiveError> {
        let skipped = io::copy(&mut (&mut *self.source).take(bytes), &mut io::sink())
            .map_err(|e| ArchiveError::from_io(e, ArchiveError::Disk))?;
        self.at += skipped;
        if skipped < bytes { Err(self.truncated_error(&format!("{what} ends"))) } else { Ok(()) }
    }

    /// Reads a long name or a pax header.
    fn read_extension(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > LARGEST_EXTENSION {
            return Err(self.corrupt_error("an extended header is too large"));
        }
        let mut bytes = Vec::new();
        (&mut *self.source)
            .take(size)
            .read_to_end(&mut bytes)
            .map_err(|e| ArchiveError::from_io(e, ArchiveError::Disk))?;
        self.at += bytes.len() as u64;
        if (bytes.len() as u64) < size {
            return Err(self.truncated_error("an extended header ends"));
        }
        self.skip_bytes(padding_bytes(size), "an extended header")?;
        Ok(bytes)
    }
}

/// Returns the bytes from an entry's end to the next block. `size` is any number that a header can
/// hold.
fn padding_bytes(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK_BYTES as u64
}

/// Returns the bytes of an entry, including the padding to the next block.
fn padded_size(size: u64) -> u64 {
    size.saturating_add(padding_bytes(size))
}

/// Fields of extended headers for the entry after them.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: SparseRecords,
}

impl Extended {
    /// Reads records of the form `<length> <key>=<value>\n`.
    fn read_pax(&mut self, mut records: &[u8]) {
        while let Some(space) = records.iter().position(|b| *b == b' ') {
            let length = std::str::from_utf8(&records[..space]).ok().and_then(|n| n.parse::<usize>().ok());
            let Some(length) = length.filter(|n| (space + 2..=records.len()).contains(n)) else { return };
            let record = &records[space + 1..length - 1];
            if let Some(path) = record.strip_prefix(b"path=") {
                self.path = Some(path.to_vec());
            } else if let Some(size) = record.strip_prefix(b"size=") {
                self.size = std::str::from_utf8(size).ok().and_then(|n| n.parse().ok());
            } else if let Some(sparse) = record.strip_prefix(b"GNU.sparse.") {
                self.sparse.read_record(sparse);
            }
            records = &records[length..];
        }
    }
}

pub(super) fn walk_entries(
    walk: &mut Walk<'_>,
    source: &mut dyn Read,
    container: &str,
    depth: usize,
) -> Result<(), ArchiveError> {
    let mut tar = Tar { source, at: 0, container };
    let mut extended = Extended::default();
    loop {
        let Some(header) = tar.read_block("a header")? else {
            // Some writers leave out the two blocks of zeros at the end.
            return Ok(());
        };
        if header.iter().all(|b| *b == 0) {
            return Ok(());
        }
        if !is_header(&header) {
            return Err(tar.corrupt_error("there is no header"));
        }
        walk.budget.charge_entry()?;
        let kind = header[156];
        let declared = parse_number(&header[124..136])
            .ok_or_else(|| tar.corrupt_error("an entry's size is no number"))?;
        match kind {
            b'L' => {
                let name = tar.read_extension(declared)?;
                extended.path = Some(until_nul(&name).to_vec());
                continue;
            }
            b'x' => {
                let records = tar.read_extension(declared)?;
                extended.read_pax(&records);
                continue;
            }
            b'g' | b'K' => {
                tar.read_extension(declared)?;
                continue;
            }
            _ => {}
        }
        walk_entry(walk, &mut tar, &header, std::mem::take(&mut extended), declared, depth)?;
    }
}

fn short_name(header: &[u8; BLOCK_BYTES]) -> Vec<u8> {
    let (name, prefix) = (until_nul(&header[..100]), until_nul(&header[345..500]));
    // GNU's own headers use the prefix field for other data.
    let posix = &header[257..263] == b"ustar\0";
    if posix && !prefix.is_empty() { [prefix, b"/", name].concat() } else { name.to_vec() }
}

fn walk_entry(
    walk: &mut Walk<'_>,
    tar: &mut Tar<'_>,
    header: &[u8; BLOCK_BYTES],
    extended: Extended,
    declared: u64,
    depth: usize,
) -> Result<(), ArchiveError> {
    let Extended { path, size, mut sparse } = extended;
    let size = size.unwrap_or(declared);
    // The path field of a sparse file names a folder that never existed.
    let name = sparse.take_name().or(path).unwrap_or_else(|| short_name(header));
    let shown = String::from_utf8_lossy(&name).into_owned();
    // Links, devices and folders have no content, even if their size field says otherwise.
    let (reason, map) = match header[156] {
        b'5' => return Ok(()),
        b'1' | b'2' => (Some(SkipReason::Link), None),
        b'3' | b'4' | b'6' => (Some(SkipReason::Special), None),
        b'0' | 0 | b'7' => (None, sparse.into_map()),
        b'S' => (None, Some(tar.old_map(header)?)),
        other => {
            walk.record_skipped(&shown, SkipReason::Kind(char::from(other)));
            return tar.skip_bytes(padded_size(size), &shown);
        }
    };
    if let Some(reason) = reason {
        walk.record_skipped(&shown, reason);
        return Ok(());
    }
    let limit = walk.budget.limits.member_bytes;
    if size > limit {
        return Err(ArchiveError::TooLarge { path: shown, limit });
    }
    let path = match entry_path(tar.container, &name, walk.budget.limits) {
        Ok(path) => path,
        Err(reason) => {
            walk.record_skipped(&shown, reason);
            return tar.skip_bytes(padded_size(size), &shown);
        }
    };
    let container = tar.container;
    let Some(mut map) = map else {
        let mut content = Content { left: size, read: 0, tar, path: &path };
        walk.walk_content(&mut content, &path, container, depth)?;
        return content.pass_over(padding_bytes(size));
    };
    let mut left = size;
    map.read_lines(|| {
        let Some(rest) = left.checked_sub(BLOCK_BYTES as u64) else { return Ok(None) };
        left = rest;
        tar.read_required_block(&path).map(Some)
    })?;
    let mut content = Content { left, read: 0, tar, path: &path };
    match map.into_fragments(left) {
        Err(reason) => walk.record_skipped(&path, reason),
        Ok((_, real)) if real > limit => return Err(ArchiveError::TooLarge { path, limit }),
        Ok((fragments, real)) => {
            let mut filled = Filled::new(&mut content, fragments, real, &path, walk.budget);
            walk.walk_content(&mut filled, &path, container, depth)?;
        }
    }
    content.pass_over(padding_bytes(size))
}

/// The bytes of one entry. If the stream ends inside the entry, the archive is broken.
struct Content<'a, 't> {
    left: u64,
    read: u64,
    tar: &'a mut Tar<'t>,
    path: &'a str,
}

impl Content<'_, '_> {
    /// Skips to the entry's end and over its padding.
    fn pass_over(self, padding: u64) -> Result<(), ArchiveError> {
        self.tar.at += self.read;
        self.tar.skip_bytes(self.left.saturating_add(padding), self.path)
    }
}

impl Read for Content<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let read = self.tar.source.read(&mut buffer[..most])?;
        if read == 0 {
            let what = format!("{} ends", self.path);
            let at = self.tar.at + self.read;
            let container = self.tar.container.into();
            return Err(ArchiveError::Truncated { container, what, at }.into_io());
        }
        self.left -= read as u64;
        self.read += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_base_256() {
        assert_eq!(parse_number(b"0000644\0"), Some(0o644));
        assert_eq!(parse_number(b"        "), Some(0));
        assert_eq!(parse_number(&[0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]), Some(1 << 32));
        assert_eq!(parse_number(b"9"), None);
        assert_eq!(parse_number(&[0xff; 12]), None, "a negative number");
    }

    #[test]
    fn entries_of_any_size_end_at_a_block() {
        let padding = [0, 1, 511, 512, 513, u64::MAX - 511, u64::MAX - 510, u64::MAX].map(padding_bytes);
        assert_eq!(padding, [0, 511, 1, 0, 511, 0, 511, 1]);
        assert_eq!([1, 512, u64::MAX].map(padded_size), [512, 512, u64::MAX]);
    }

    #[test]
    fn pax_records_give_path_and_size() {
        let mut extended = Extended::default();
        extended.read_pax(b"13 path=a/bc\n11 size=77\n30 mtime=1");
        assert_eq!((extended.path.as_deref(), extended.size), (Some(&b"a/bc"[..]), Some(77)));
        for bad in [&b"0 path=x\n"[..], b"99999999999999999999 a=b\n", b" ", b"3 \n", b"x path=y\n"] {
            Extended::default().read_pax(bad);
        }
    }
}
