//! Makes the table of variables from the debug information of an image.

mod describe;
mod forms;
mod functions;
mod scopes;

use crate::registers::{ADDRESS_BYTES, RegisterSet};
use crate::table::TableParts;
use describe::TypeNames;
use forms::PendingType;
use gimli::{Dwarf, EndianSlice, LittleEndian};
use scopes::UnitScopes;
use std::collections::HashMap;

pub(crate) type DwarfBytes<'d> = EndianSlice<'d, LittleEndian>;

/// The bounds of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// The most bytes of the table.
    pub table_bytes: usize,
    /// The most entries of debug information that are read.
    pub entries: u64,
}

/// The reason for which there is no table.
#[derive(Debug, thiserror::Error)]
pub enum TableBuildError {
    #[error("the table of variables is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the debug information has more than {limit} entries")]
    TooManyEntries { limit: u64 },
    #[error("the debug information is damaged")]
    Dwarf(#[from] gimli::Error),
}

/// Makes the table of the functions of an image. `image_address` is the address of `__TEXT` in the file: the table's
/// addresses are relative to it. A unit that is damaged is left out from the place of the damage on.
///
/// # Errors
/// The table or the debug information exceeds the limits, or the list of units is damaged.
pub fn build_table<'d>(
    dwarf: &Dwarf<DwarfBytes<'d>>,
    registers: RegisterSet,
    image_address: u64,
    limits: &TableLimits,
) -> Result<Vec<u8>, TableBuildError> {
    let mut builder = TableBuilder {
        dwarf,
        image_address,
        limits,
        entries: 0,
        parts: TableParts::default(),
        texts: HashMap::new(),
        types: HashMap::new(),
        described: HashMap::new(),
        scopes: UnitScopes::default(),
        has_templates: false,
        pending: Vec::new(),
        type_bytes: 0,
    };
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        if header.encoding().address_size != ADDRESS_BYTES {
            continue;
        }
        let Ok(unit) = dwarf.unit(header) else { continue };
        builder.described.clear();
        builder.scopes = UnitScopes::default();
        let added = builder.add_unit(&unit);
        // The parts of the types are read even if the unit is damaged further on.
        for result in [added, builder.write_pending_types(&unit)] {
            match result {
                Err(TableBuildError::Dwarf(_)) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(builder.parts.into_bytes(registers))
}

pub(crate) struct TableBuilder<'b, 'd> {
    pub dwarf: &'b Dwarf<DwarfBytes<'d>>,
    pub image_address: u64,
    pub limits: &'b TableLimits,
    pub entries: u64,
    pub parts: TableParts,
    /// The places of texts in the pool.
    texts: HashMap<Vec<u8>, u64>,
    /// The numbers of types, by all that the table has of them.
    types: HashMap<Vec<u64>, u64>,
    /// The types of the unit, by the places of their entries.
    described: HashMap<usize, u64>,
    /// The scopes of the types of the unit.
    scopes: UnitScopes,
    /// True if the unit's language has templates.
    pub has_templates: bool,
    /// The types of the unit that have no parts yet.
    pending: Vec<PendingType>,
    type_bytes: usize,
}

impl<'d> TableBuilder<'_, 'd> {
    /// Returns what the names of the unit's types are made from.
    pub fn names(&self) -> TypeNames<'_, 'd> {
        TypeNames::new(self.dwarf, &self.scopes, self.has_templates)
    }

    /// Counts an entry of debug information.
    pub fn count_entry(&mut self) -> Result<(), TableBuildError> {
        self.entries += 1;
        let parts = &self.parts;
        let bytes = parts.texts.bytes.len() + self.type_bytes + parts.functions.bytes.len();
        if self.entries > self.limits.entries {
            Err(TableBuildError::TooManyEntries { limit: self.limits.entries })
        } else if bytes > self.limits.table_bytes {
            Err(TableBuildError::TooLarge { limit: self.limits.table_bytes })
        } else {
            Ok(())
        }
    }

    /// Returns the place of a text in the pool, and adds it if it is new.
    pub fn intern_text(&mut self, text: &str) -> u64 {
        if let Some(known) = self.texts.get(text.as_bytes()) {
            return *known;
        }
        let place = self.parts.texts.bytes.len() as u64;
        self.parts.texts.write_bytes(text.as_bytes());
        self.texts.insert(text.as_bytes().to_vec(), place);
        place
    }
}
