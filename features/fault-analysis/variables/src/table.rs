//! The table of variables: its format, and what it knows of one address.
//!
//! Version 3: `UNSLVARS`, the version, the processor, then the pool of texts, the places of the types, the types, the units, the
//! index of functions and the functions, each after its length. The index has 12 bytes for each range of a function, sorted: its
//! start relative to the image, its size, and where the function's record begins, 32 bits each, little-endian. A type's place
//! has 32 bits, a unit one byte. All other numbers are LEB128.
//!
//! A function's record has the offset of the function's entry in `.debug_info`. A variable has the distance of its entry from the
//! one of the variable before it in the same scope, or from the function's.
//!
//! Version 1 had neither the parts of types nor the units. Version 2 had no offsets of entries.

use crate::codec::{TableError, TableReader, TableWriter};
use crate::registers::RegisterSet;
use crate::type_kind::VariableTypeKind;
use crate::type_parts::{TypeFacts, TypeForm, TypeId};
use crate::units::UnitFacts;

pub const MAGIC: &[u8; 8] = b"UNSLVARS";
pub const TABLE_VERSION: u64 = 3;
const INDEX_ROW_BYTES: usize = 12;
/// The most calls that are in each other at one address, and blocks in them.
const SCOPE_DEPTH_LIMIT: usize = 64;
/// The most variables of one address.
const VARIABLES_LIMIT: usize = 256;

/// What a variable is in its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    Parameter,
    Local,
    Static,
}

impl VariableKind {
    pub(crate) fn code(self) -> u64 {
        match self {
            VariableKind::Parameter => 0,
            VariableKind::Local => 1,
            VariableKind::Static => 2,
        }
    }

    fn from_code(code: u64) -> VariableKind {
        match code {
            0 => VariableKind::Parameter,
            1 => VariableKind::Local,
            _ => VariableKind::Static,
        }
    }
}

/// Where a variable lies, at some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariablePlace<'t> {
    /// An expression of DWARF gives the place or the value.
    Expression(&'t [u8]),
    /// The value is part of the debug information.
    Constant(&'t [u8]),
    /// It lies in the image's data, which no report has.
    Data,
}

/// A type, as far as values need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableType<'t> {
    pub name: &'t str,
    /// Its size in bytes; 0 if it is not known.
    pub size: u64,
    pub kind: VariableTypeKind,
}

/// A variable that exists at an address.
#[derive(Clone, Debug)]
pub struct VariableAt<'t> {
    /// The depth of its call, 0 the outermost.
    pub depth: usize,
    pub function: &'t str,
    pub name: &'t str,
    pub kind: VariableKind,
    pub type_id: TypeId,
    /// The offset of its entry in `.debug_info`.
    pub die: u64,
    pub variable_type: VariableType<'t>,
    /// `None` if it has no place at the address.
    pub place: Option<VariablePlace<'t>>,
}

/// The function of an address, for the evaluation of its variables.
#[derive(Clone, Debug)]
pub struct FunctionAt<'t> {
    pub registers: RegisterSet,
    /// The range of the function that contains the address: its start relative to the image, and its size.
    pub range: (u64, u64),
    pub unit: UnitFacts,
    pub dwarf_version: u16,
    pub frame_base: &'t [u8],
    /// True before the function has set its frame up.
    pub is_in_prologue: bool,
    pub variables: Vec<VariableAt<'t>>,
    /// The number of calls in each other.
    pub calls: usize,
}

/// A table of the variables of one image.
#[derive(Clone, Copy, Debug)]
pub struct VariableTable<'t> {
    registers: RegisterSet,
    texts: &'t [u8],
    type_places: &'t [u8],
    types: &'t [u8],
    units: &'t [u8],
    index: &'t [u8],
    functions: &'t [u8],
}

impl<'t> VariableTable<'t> {
    /// Reads the head of a table.
    ///
    /// # Errors
    /// The bytes are no table of a version that is known, or it is cut off.
    pub fn parse(bytes: &'t [u8]) -> Result<VariableTable<'t>, TableError> {
        let mut reader = TableReader { rest: bytes.strip_prefix(MAGIC).ok_or(TableError::Version)? };
        if reader.read_number()? != TABLE_VERSION {
            return Err(TableError::Version);
        }
        Ok(VariableTable {
            registers: RegisterSet::from_code(reader.read_number()?).ok_or(TableError::Version)?,
            texts: reader.read_bytes()?,
            type_places: reader.read_bytes()?,
            types: reader.read_bytes()?,
            units: reader.read_bytes()?,
            index: reader.read_bytes()?,
            functions: reader.read_bytes()?,
        })
    }

    /// Returns the registers of the table's processor.
    #[must_use]
    pub fn registers(&self) -> RegisterSet {
        self.registers
    }

    /// Returns a type with its parts.
    ///
    /// # Errors
    /// The table is damaged.
    pub fn describe_type(&self, id: TypeId) -> Result<TypeFacts<'t>, TableError> {
        let mut reader = self.type_reader(id)?;
        let VariableType { name, size, kind } = self.read_type_head(&mut reader)?;
        let form = TypeForm::read(&mut reader, &|offset| self.text(offset))?;
        Ok(TypeFacts { name, size, kind, form })
    }

    pub(crate) fn find_function(&self, address: u64) -> Result<Option<FunctionAt<'t>>, TableError> {
        let (rows, _) = self.index.as_chunks::<INDEX_ROW_BYTES>();
        let number = |row: &[u8; INDEX_ROW_BYTES], at: usize| {
            let bytes = row.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
            u64::from(u32::from_le_bytes(bytes))
        };
        let behind = rows.partition_point(|row| number(row, 0) <= address);
        let Some(row) = behind.checked_sub(1).and_then(|at| rows.get(at)) else { return Ok(None) };
        if address - number(row, 0) >= number(row, 4) {
            return Ok(None);
        }
        let begin = usize::try_from(number(row, 8)).map_err(|_| TableError::Number)?;
        let mut reader = TableReader { rest: self.functions.get(begin..).ok_or(TableError::Cut)? };
        let dwarf_version = u16::try_from(reader.read_number()?).map_err(|_| TableError::Number)?;
        let prologue_end = reader.read_number()?;
        let unit = usize::try_from(reader.read_number()?).map_err(|_| TableError::Number)?;
        let mut function = FunctionAt {
            registers: self.registers,
            range: (number(row, 0), number(row, 4)),
            unit: UnitFacts::from_byte(*self.units.get(unit).ok_or(TableError::Cut)?),
            dwarf_version,
            frame_base: reader.read_bytes()?,
            is_in_prologue: address < prologue_end,
            variables: Vec::new(),
            calls: 0,
        };
        let function_die = reader.read_number()?;
        let root =
            ScopePosition { address, is_inside: true, depth: 0, nesting: 0, function: "", function_die };
        self.read_scope(&mut reader, root, &mut function)?;
        Ok(Some(function))
    }

    /// Reads a scope and those in it. Keeps the variables of those that contain the address.
    fn read_scope(
        &self,
        reader: &mut TableReader<'t>,
        outer: ScopePosition<'t>,
        found: &mut FunctionAt<'t>,
    ) -> Result<(), TableError> {
        if outer.nesting >= SCOPE_DEPTH_LIMIT {
            return Err(TableError::Number);
        }
        let mut here = ScopePosition { nesting: outer.nesting + 1, ..outer };
        let name = reader.read_number()?;
        let ranges = reader.read_count()?;
        let mut contains = ranges == 0;
        for _ in 0..ranges {
            let (start, size) = (reader.read_number()?, reader.read_number()?);
            contains |= here.address.checked_sub(start).is_some_and(|distance| distance < size);
        }
        here.is_inside &= contains;
        // A block has no name, a call has that of its function.
        if name > 0 && here.is_inside {
            here.function = self.text(name - 1)?;
            here.depth = found.calls;
            found.calls += 1;
        }
        let mut die = here.function_die;
        for _ in 0..reader.read_count()? {
            die = die.checked_add(reader.read_number()?).ok_or(TableError::Number)?;
            let variable = self.read_variable(reader, &here, die)?;
            if here.is_inside && found.variables.len() < VARIABLES_LIMIT {
                found.variables.push(variable);
            }
        }
        for _ in 0..reader.read_count()? {
            self.read_scope(reader, here, found)?;
        }
        Ok(())
    }

    fn read_variable(
        &self,
        reader: &mut TableReader<'t>,
        scope: &ScopePosition<'t>,
        die: u64,
    ) -> Result<VariableAt<'t>, TableError> {
        let name = self.text(reader.read_number()?)?;
        let type_id = TypeId(reader.read_number()?);
        let variable_type = self.read_type_head(&mut self.type_reader(type_id)?)?;
        let kind = VariableKind::from_code(reader.read_number()?);
        let mut place = None;
        for _ in 0..reader.read_count()? {
            let (start, size) = (reader.read_number()?, reader.read_number()?);
            let tag = reader.read_number()?;
            let bytes = reader.read_bytes()?;
            let is_everywhere = size == 0;
            let covers = scope.address.checked_sub(start).is_some_and(|distance| distance < size);
            if place.is_none() && (is_everywhere || covers) {
                place = Some(match tag {
                    0 => VariablePlace::Expression(bytes),
                    1 => VariablePlace::Constant(bytes),
                    _ => VariablePlace::Data,
                });
            }
        }
        let ScopePosition { depth, function, .. } = *scope;
        Ok(VariableAt { depth, function, name, kind, type_id, die, variable_type, place })
    }

    fn text(&self, offset: u64) -> Result<&'t str, TableError> {
        let offset = usize::try_from(offset).map_err(|_| TableError::Number)?;
        TableReader { rest: self.texts.get(offset..).ok_or(TableError::Cut)? }.read_text()
    }

    fn type_reader(&self, id: TypeId) -> Result<TableReader<'t>, TableError> {
        let (places, _) = self.type_places.as_chunks::<4>();
        let id = usize::try_from(id.0).map_err(|_| TableError::Number)?;
        let place = u32::from_le_bytes(*places.get(id).ok_or(TableError::Cut)?);
        let place = usize::try_from(place).map_err(|_| TableError::Number)?;
        Ok(TableReader { rest: self.types.get(place..).ok_or(TableError::Cut)? })
    }

    fn read_type_head(&self, reader: &mut TableReader<'t>) -> Result<VariableType<'t>, TableError> {
        let name = self.text(reader.read_number()?)?;
        let size = reader.read_number()?;
        Ok(VariableType { name, size, kind: VariableTypeKind::from_code(reader.read_number()?) })
    }
}

/// Where the reader is in the scopes of a function.
#[derive(Clone, Copy)]
struct ScopePosition<'t> {
    address: u64,
    /// True if every scope so far contains the address.
    is_inside: bool,
    depth: usize,
    /// The number of scopes around it.
    nesting: usize,
    function: &'t str,
    /// The offset of the outermost function's entry in `.debug_info`.
    function_die: u64,
}

/// The parts of a table that is written.
#[derive(Debug, Default)]
pub struct TableParts {
    pub texts: TableWriter,
    /// Each type as it is written.
    pub types: Vec<TableWriter>,
    pub units: Vec<UnitFacts>,
    /// Start, size and the beginning of the record of each range of a function.
    pub index: Vec<[u32; 3]>,
    pub functions: TableWriter,
}

impl TableParts {
    /// Writes the whole table.
    pub fn into_bytes(mut self, registers: RegisterSet) -> Vec<u8> {
        self.index.sort_unstable();
        // Of two functions that begin at one address, the larger one has both their lines.
        self.index.reverse();
        self.index.dedup_by_key(|row| row[0]);
        self.index.reverse();
        let mut out = TableWriter { bytes: MAGIC.to_vec() };
        out.write_number(TABLE_VERSION);
        out.write_number(registers.code());
        out.write_bytes(&self.texts.bytes);
        let mut types = TableWriter::default();
        let mut type_places = Vec::new();
        for written in &self.types {
            // The bounds of a table are far below 4 GiB.
            let place = u32::try_from(types.bytes.len()).unwrap_or(u32::MAX);
            type_places.extend_from_slice(&place.to_le_bytes());
            types.bytes.extend_from_slice(&written.bytes);
        }
        out.write_bytes(&type_places);
        out.write_bytes(&types.bytes);
        let units: Vec<u8> = self.units.iter().map(|unit| unit.to_byte()).collect();
        out.write_bytes(&units);
        let index: Vec<u8> = self.index.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
        out.write_bytes(&index);
        out.write_bytes(&self.functions.bytes);
        out.bytes
    }
}
