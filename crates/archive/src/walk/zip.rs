//! Reads zip archives: the central directory entry by entry, stored and deflated members, zip64.
//!
//! Source of the format: PKWARE's APPNOTE.TXT 6.3.10, §4.3 (structures), §4.4 (fields), §4.5.3
//! (zip64). The directory is never held in memory, so its size costs nothing.

use super::{Walk, convert_decoder_error, entry_path};
use crate::{ArchiveError, SkipReason};
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::io::{self, Read, Seek, SeekFrom};

/// The end record is within the last 64 KiB (the longest comment) plus its own 22 bytes.
const END_REACH: u64 = 22 + 0xffff;
const END_SIGNATURE: &[u8] = b"PK\x05\x06";
const END64_LOCATOR: &[u8] = b"PK\x06\x07";
const END64_SIGNATURE: &[u8] = b"PK\x06\x06";
const CENTRAL_SIGNATURE: &[u8] = b"PK\x01\x02";
const LOCAL_SIGNATURE: &[u8] = b"PK\x03\x04";

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

struct Zip<'z, R> {
    source: &'z mut R,
    size: u64,
    /// Packed bytes that the remaining members may have.
    unread: u64,
    container: &'z str,
}

impl<R: Read + Seek> Zip<'_, R> {
    fn truncated_error(&self, what: &str, at: u64) -> ArchiveError {
        ArchiveError::Truncated { container: self.container.into(), what: what.into(), at }
    }

    fn corrupt_error(&self, what: impl Into<String>, at: u64) -> ArchiveError {
        ArchiveError::Corrupt { container: self.container.into(), what: what.into(), at }
    }

    /// Reads bytes at an offset. `what` names them if the file is too short.
    fn read_at(&mut self, at: u64, length: usize, what: &str) -> Result<Vec<u8>, ArchiveError> {
        let end = at.checked_add(length as u64).filter(|end| *end <= self.size);
        if end.is_none() {
            return Err(self.truncated_error(&format!("{what} lies past the end"), self.size));
        }
        self.source.seek(SeekFrom::Start(at)).map_err(ArchiveError::Disk)?;
        let mut bytes = vec![0; length];
        self.source.read_exact(&mut bytes).map_err(ArchiveError::Disk)?;
        Ok(bytes)
    }

    fn read_directory(&mut self) -> Result<Directory, ArchiveError> {
        let reach = END_REACH.min(self.size);
        let begin = self.size - reach;
        let tail = self.read_at(begin, usize::try_from(reach).unwrap_or(0), "the end record")?;
        let ends = |at: usize| at + 22 + usize::from(u16_at(&tail, at + 20));
        let records =
            || (0..tail.len().saturating_sub(21)).rev().filter(|at| tail[*at..].starts_with(END_SIGNATURE));
        // The record with a comment up to the file's end, or else the last one.
        let found = records().find(|at| ends(*at) == tail.len()).or_else(|| records().next());
        let Some(at) = found else {
            return Err(self.truncated_error("the directory at its end is missing; it ends", self.size));
        };
        let end = &tail[at..];
        let (disk, entries) = (u16_at(end, 4), u64::from(u16_at(end, 10)));
        let (size, offset) = (u64::from(u32_at(end, 12)), u64::from(u32_at(end, 16)));
        let end_at = begin + at as u64;
        if disk != 0 && disk != 0xffff {
            return Err(self.corrupt_error("it is one disk of several", end_at));
        }
        let wants_64 = entries == 0xffff || size == 0xffff_ffff || offset == 0xffff_ffff;
        if wants_64 && let Some(locator_at) = end_at.checked_sub(20) {
            let locator = self.read_at(locator_at, 20, "the zip64 locator")?;
            if locator.starts_with(END64_LOCATOR) {
                let record_at = u64_at(&locator, 8);
                let record = self.read_at(record_at, 56, "the zip64 end record")?;
                if !record.starts_with(END64_SIGNATURE) {
                    return Err(self.corrupt_error("there is no zip64 end record", record_at));
                }
                let (size, begin) = (u64_at(&record, 40), u64_at(&record, 48));
                let end = begin.saturating_add(size).min(end_at);
                return Ok(Directory { begin, end, entries: u64_at(&record, 32) });
            }
        }
        Ok(Directory { begin: offset, end: (offset + size).min(end_at), entries })
    }

    /// Returns whether the directory continues after the entries that its end record counts:
    /// macOS's Archive Utility writes no zip64 records, so its count of 65,536 entries is 0.
    fn goes_on(&mut self, at: u64, end: u64) -> Result<bool, ArchiveError> {
        let room = at.checked_add(46).is_some_and(|next| next <= end);
        Ok(room && self.read_at(at, CENTRAL_SIGNATURE.len(), "a directory entry")? == CENTRAL_SIGNATURE)
    }
}

/// Position of the central directory, and the number of entries in its end record.
struct Directory {
    begin: u64,
    end: u64,
    entries: u64,
}

/// One entry of the central directory.
struct Entry {
    name: Vec<u8>,
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    unpacked: u64,
    local: u64,
    /// The file mode if the archive was made on Unix, else 0.
    mode: u32,
}

impl Entry {
    fn read_entry<R: Read + Seek>(zip: &mut Zip<'_, R>, at: u64) -> Result<(Entry, u64), ArchiveError> {
        let fixed = zip.read_at(at, 46, "a directory entry")?;
        if !fixed.starts_with(CENTRAL_SIGNATURE) {
            return Err(zip.corrupt_error("there is no directory entry", at));
        }
        let [name, extra, comment] = [28, 30, 32].map(|field| usize::from(u16_at(&fixed, field)));
        let mut text = zip.read_at(at + 46, name + extra, "a directory entry's name")?;
        let extra = text.split_off(name);
        let mut entry = Entry {
            name: text,
            flags: u16_at(&fixed, 8),
            method: u16_at(&fixed, 10),
            crc: u32_at(&fixed, 16),
            packed: u64::from(u32_at(&fixed, 20)),
            unpacked: u64::from(u32_at(&fixed, 24)),
            local: u64::from(u32_at(&fixed, 42)),
            mode: if fixed[5] == 3 || fixed[5] == 19 { u32_at(&fixed, 38) >> 16 } else { 0 },
        };
        entry.apply_zip64_sizes(&extra);
        Ok((entry, at + (46 + name + extra.len() + comment) as u64))
    }

    /// Takes sizes that do not fit 32 bits from the zip64 field.
    fn apply_zip64_sizes(&mut self, mut extra: &[u8]) {
        while extra.len() >= 4 {
            let (id, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
            let Some(field) = extra.get(4..4 + length) else { return };
            if id == 1 {
                let mut values = field.chunks_exact(8).map(|value| u64_at(value, 0));
                for size in [&mut self.unpacked, &mut self.packed, &mut self.local] {
                    if *size == 0xffff_ffff {
                        *size = values.next().unwrap_or(*size);
                    }
                }
                return;
            }
            extra = &extra[4 + length..];
        }
    }

    fn skip_reason(&self) -> Option<SkipReason> {
        match self.mode & 0o170_000 {
            0o120_000 => return Some(SkipReason::Link),
            0 | 0o100_000 | 0o040_000 => {}
            _ => return Some(SkipReason::Special),
        }
        // Bit 0: encrypted; 6: strong encryption; 13: header values masked.
        if self.flags & 0x2041 != 0 {
            return Some(SkipReason::Encrypted);
        }
        (!matches!(self.method, 0 | 8)).then_some(SkipReason::Method(self.method))
    }
}

pub(super) fn walk_entries<R: Read + Seek>(
    walk: &mut Walk<'_>,
    source: &mut R,
    container: &str,
    depth: usize,
) -> Result<(), ArchiveError> {
    let size = source.seek(SeekFrom::End(0)).map_err(ArchiveError::Disk)?;
    let mut zip = Zip { source, size, unread: size, container };
    let Directory { begin: mut at, end, entries } = zip.read_directory()?;
    let mut seen = 0;
    while seen < entries || zip.goes_on(at, end)? {
        seen += 1;
        walk.budget.charge_entry()?;
        let (entry, next) = Entry::read_entry(&mut zip, at)?;
        at = next;
        if entry.name.ends_with(b"/") {
            continue;
        }
        match entry_path(container, &entry.name, walk.budget.limits) {
            Err(reason) => walk.record_skipped(&String::from_utf8_lossy(&entry.name), reason),
            Ok(path) => match entry.skip_reason() {
                Some(reason) => walk.record_skipped(&path, reason),
                None => walk_member(walk, &mut zip, &entry, &path, depth)?,
            },
        }
    }
    Ok(())
}

fn walk_member<R: Read + Seek>(
    walk: &mut Walk<'_>,
    zip: &mut Zip<'_, R>,
    entry: &Entry,
    path: &str,
    depth: usize,
) -> Result<(), ArchiveError> {
    let local = zip.read_at(entry.local, 30, "an entry")?;
    if !local.starts_with(LOCAL_SIGNATURE) {
        return Err(
            zip.corrupt_error(format!("the directory's position of {path} has no entry"), entry.local)
        );
    }
    let data = entry.local + 30 + u64::from(u16_at(&local, 26)) + u64::from(u16_at(&local, 28));
    if data.checked_add(entry.packed).is_none_or(|end| end > zip.size) {
        return Err(zip.truncated_error(&format!("{path} lies past the end"), zip.size));
    }
    // A stream may use none of its bytes: without this check, overlapping members would read them
    // once each.
    let unread = zip.unread.checked_sub(entry.packed);
    zip.unread = unread.ok_or_else(|| zip.corrupt_error("its entries lie over each other", entry.local))?;
    if entry.unpacked > walk.budget.limits.member_bytes {
        let limit = walk.budget.limits.member_bytes;
        return Err(ArchiveError::TooLarge { path: path.into(), limit });
    }
    zip.source.seek(SeekFrom::Start(data)).map_err(ArchiveError::Disk)?;
    let container = zip.container;
    let packed = (&mut *zip.source).take(entry.packed);
    let decoder: Box<dyn Read + '_> =
        if entry.method == 8 { Box::new(DeflateDecoder::new(packed)) } else { Box::new(packed) };
    let budget = walk.budget;
    let checked = Checked { source: decoder, crc: Crc::new(), read: 0, entry, container, path, at: data };
    let mut unpacked = budget.wrap_decompressor(path, checked);
    let before = walk.member_count();
    walk.walk_content(&mut unpacked, path, container, depth)?;
    if walk.member_count() > before {
        // A kept member is verified: its size and checksum match.
        io::copy(&mut unpacked, &mut io::sink()).map_err(|e| ArchiveError::from_io(e, ArchiveError::Disk))?;
    }
    Ok(())
}

/// A member's bytes, compared with the size and checksum in the directory.
struct Checked<'a, R> {
    source: R,
    crc: Crc,
    read: u64,
    entry: &'a Entry,
    container: &'a str,
    path: &'a str,
    at: u64,
}

impl<R: Read> Read for Checked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let corrupt = |what: String| {
            ArchiveError::Corrupt { container: self.container.into(), what, at: self.at }.into_io()
        };
        let read = self.source.read(buffer).map_err(|error| {
            ArchiveError::from_io(error, |e| convert_decoder_error(e, self.container, self.path, self.at))
                .into_io()
        })?;
        self.crc.update(&buffer[..read]);
        self.read += read as u64;
        let said = self.entry.unpacked;
        if self.read > said {
            return Err(corrupt(format!(
                "{} has more than the {said} bytes that the directory says",
                self.path
            )));
        }
        if read == 0 && !buffer.is_empty() {
            if self.read < said {
                return Err(corrupt(format!("{} has {} bytes of {said}", self.path, self.read)));
            }
            if self.crc.sum() != self.entry.crc {
                return Err(corrupt(format!("the checksum of {} is wrong", self.path)));
            }
        }
        Ok(read)
    }
}
