//! Limits the work of reading one object, so that a small file cannot keep a builder busy.
//!
//! Parts of an object may refer to each other: many units to one line table, many functions to one list of
//! ranges. Readers count the data that they visit. A step takes about ten nanoseconds.

use super::ObjectError;
use std::cell::Cell;

/// Steps that an object of any size may use.
const FREE_STEPS: u64 = 1 << 20;
/// Steps per byte of an unpacked object. Compilers and linkers produce files that take less than a quarter of
/// one.
const STEPS_PER_BYTE: u64 = 4;
/// Bytes of a name or a table that are read in one step.
const BYTES_PER_STEP: usize = 32;
/// Attributes of an entry that are read in one step.
const ATTRIBUTES_PER_STEP: usize = 8;

/// A part of an object, named in error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectPart {
    Units,
    Abbreviations,
    Functions,
    Ranges,
    Lines,
    InlinedCalls,
    Symbols,
    Exports,
}

impl ObjectPart {
    fn as_str(self) -> &'static str {
        match self {
            ObjectPart::Units => "units of debug information",
            ObjectPart::Abbreviations => "tables of abbreviations",
            ObjectPart::Functions => "functions",
            ObjectPart::Ranges => "lists of address ranges",
            ObjectPart::Lines => "line tables",
            ObjectPart::InlinedCalls => "inlined calls",
            ObjectPart::Symbols => "symbols",
            ObjectPart::Exports => "exports",
        }
    }
}

/// Counts the steps that reading one object takes.
#[derive(Debug)]
pub(crate) struct Steps {
    bytes: u64,
    limit: u64,
    taken: Cell<u64>,
}

impl Steps {
    /// Returns a count for an object of this unpacked size.
    pub(super) fn for_object(bytes: u64) -> Steps {
        Steps { bytes, limit: max_steps(bytes), taken: Cell::new(0) }
    }

    /// Returns a count without a limit.
    #[cfg(test)]
    pub(crate) fn unlimited() -> Steps {
        Steps { bytes: 0, limit: u64::MAX, taken: Cell::new(0) }
    }

    /// Adds the bytes that were unpacked of the object.
    pub(super) fn add_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.limit = self.limit.max(max_steps(self.bytes));
    }

    /// Counts steps.
    ///
    /// # Errors
    /// Returns [`ObjectError::TooComplex`] if the object exceeds its limit.
    pub(super) fn take_steps(&self, part: ObjectPart, steps: usize) -> Result<(), ObjectError> {
        let taken = self.taken.get().saturating_add(steps as u64);
        self.taken.set(taken);
        if taken <= self.limit { Ok(()) } else { Err(self.too_many(part)) }
    }

    /// Counts the steps of reading a text or a table.
    pub(super) fn take_bytes(&self, part: ObjectPart, bytes: usize) -> Result<(), ObjectError> {
        self.take_steps(part, 1 + bytes / BYTES_PER_STEP)
    }

    /// Counts the steps of an entry with this many attributes. An attribute may take no bytes.
    pub(super) fn take_entry(&self, part: ObjectPart, attributes: usize) -> Result<(), ObjectError> {
        self.take_steps(part, 1 + attributes / ATTRIBUTES_PER_STEP)
    }

    /// Returns the steps so far.
    pub(super) fn taken_steps(&self) -> u64 {
        self.taken.get()
    }

    #[cold]
    fn too_many(&self, part: ObjectPart) -> ObjectError {
        let (part, limit, bytes) = (part.as_str(), self.limit, self.bytes);
        let reason = format!(
            "its {part} take more than {limit} steps to read, the most for {bytes} bytes; upload the file as the \
             linker or dsymutil wrote it"
        );
        ObjectError::TooComplex(reason.into())
    }
}

/// The most steps that an object of this size may take to read.
#[must_use]
pub fn max_steps(bytes: u64) -> u64 {
    bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(FREE_STEPS)
}
