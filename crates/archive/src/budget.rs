//! Budget of unpacking, charged as bytes leave a decompressor.

use super::{ArchiveError, UnpackLimits};
use std::cell::Cell;
use std::io::{self, Read};

pub(super) struct Budget<'a> {
    pub(super) limits: &'a UnpackLimits,
    upload_bytes: u64,
    entries: Cell<u64>,
    unpacked: Cell<u64>,
    members: Cell<usize>,
}

impl<'a> Budget<'a> {
    pub(super) fn new(limits: &'a UnpackLimits, upload_bytes: u64) -> Budget<'a> {
        Budget { limits, upload_bytes, entries: Cell::new(0), unpacked: Cell::new(0), members: Cell::new(0) }
    }

    pub(super) fn entry_count(&self) -> u64 {
        self.entries.get()
    }

    pub(super) fn unpacked_bytes(&self) -> u64 {
        self.unpacked.get()
    }

    pub(super) fn charge_entry(&self) -> Result<(), ArchiveError> {
        self.entries.set(self.entries.get() + 1);
        let limit = self.limits.entries;
        if self.entries.get() > limit { Err(ArchiveError::TooManyEntries(limit)) } else { Ok(()) }
    }

    pub(super) fn charge_member(&self) -> Result<(), ArchiveError> {
        self.members.set(self.members.get() + 1);
        let limit = self.limits.members;
        if self.members.get() > limit { Err(ArchiveError::TooManyMembers(limit)) } else { Ok(()) }
    }

    /// Charges unpacked bytes, before they are used.
    pub(super) fn charge_bytes(&self, path: &str, bytes: u64) -> Result<(), ArchiveError> {
        let unpacked = self.unpacked.get().saturating_add(bytes);
        self.unpacked.set(unpacked);
        let limits = self.limits;
        if unpacked > limits.total_bytes {
            return Err(ArchiveError::TooLarge { path: path.into(), limit: limits.total_bytes });
        }
        let explained = self.upload_bytes.saturating_mul(limits.ratio).saturating_add(limits.free_bytes);
        if unpacked > explained {
            return Err(ArchiveError::Bomb { path: path.into(), ratio: limits.ratio });
        }
        Ok(())
    }

    /// Wraps a decompressor and charges its output.
    pub(super) fn wrap_decompressor<R>(&'a self, path: &'a str, source: R) -> Unpacking<'a, R> {
        Unpacking { budget: self, path, source, read: 0 }
    }
}

pub(super) struct Unpacking<'a, R> {
    budget: &'a Budget<'a>,
    path: &'a str,
    source: R,
    read: u64,
}

impl<R: Read> Read for Unpacking<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.read += read as u64;
        let limit = self.budget.limits.member_bytes;
        if self.read > limit {
            return Err(ArchiveError::TooLarge { path: self.path.into(), limit }.into_io());
        }
        self.budget.charge_bytes(self.path, read as u64).map_err(ArchiveError::into_io)?;
        Ok(read)
    }
}
