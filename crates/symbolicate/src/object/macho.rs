//! The parts of a Mach-O file that symbolication needs (`<mach-o/loader.h>`, `<mach-o/fat.h>`).
//! Nothing in the file is believed: each offset and count is checked against the bytes that there are.

use super::{ObjectError, ObjectKind};
use std::ops::Range;
use unslide_model::{CpuFamily, CpuType, DebugId};

const MAGIC_32: u32 = 0xFEED_FACE;
const MAGIC_64: u32 = 0xFEED_FACF;
const FAT_32: u32 = 0xCAFE_BABE;
const FAT_64: u32 = 0xCAFE_BABF;
/// A Java class file begins with the same bytes as a fat file; its next four are a version of 45 or more.
const JAVA_VERSION: u32 = 45;

/// Slices of a fat file.
const MAX_SLICES: u32 = 64;

const LC_SEGMENT: u32 = 0x1;
const LC_SYMTAB: u32 = 0x2;
const LC_SEGMENT_64: u32 = 0x19;
const LC_UUID: u32 = 0x1B;
const LC_DYLD_INFO: u32 = 0x22;
const LC_DYLD_INFO_ONLY: u32 = 0x8000_0022;
const LC_FUNCTION_STARTS: u32 = 0x26;
const LC_DYLD_EXPORTS_TRIE: u32 = 0x8000_0033;

/// `S_ATTR_PURE_INSTRUCTIONS | S_ATTR_SOME_INSTRUCTIONS`.
const CODE_FLAGS: u32 = 0x8000_0400;

pub(super) fn malformed(reason: &'static str) -> ObjectError {
    ObjectError::Malformed(reason.into())
}

/// A reader over the slice in the file's byte order.
#[derive(Clone, Copy)]
struct Data<'a>(&'a [u8]);

impl<'a> Data<'a> {
    fn get(self, at: u64, len: u64) -> Option<&'a [u8]> {
        let at = usize::try_from(at).ok()?;
        self.0.get(at..at.checked_add(usize::try_from(len).ok()?)?)
    }
    fn u32(self, at: u64) -> Option<u32> {
        self.get(at, 4)?.try_into().ok().map(u32::from_le_bytes)
    }
    fn u64(self, at: u64) -> Option<u64> {
        self.get(at, 8)?.try_into().ok().map(u64::from_le_bytes)
    }
    fn word(self, at: u64, is_64: bool) -> Option<u64> {
        if is_64 { self.u64(at) } else { self.u32(at).map(u64::from) }
    }
}

/// A section of a segment.
#[derive(Clone, Debug)]
pub(super) struct MachSection<'a> {
    pub(super) segment: &'a [u8],
    pub(super) name: &'a [u8],
    pub(super) addresses: Range<u64>,
    pub(super) offset: u32,
    pub(super) is_code: bool,
}

/// A symbol of the symbol table that lies in a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol<'a> {
    /// Without the leading underscore of C names.
    pub(super) name: &'a [u8],
    pub(super) address: u64,
    pub(super) is_external: bool,
}

/// One slice.
pub(super) struct MachO<'a> {
    data: Data<'a>,
    pub(super) is_64: bool,
    pub(super) cpu: CpuType,
    pub(super) kind: ObjectKind,
    pub(super) debug_id: Option<DebugId>,
    pub(super) text: Option<Range<u64>>,
    pub(super) sections: Vec<MachSection<'a>>,
    /// The table and the names.
    symbols: Option<(&'a [u8], &'a [u8])>,
    function_starts: &'a [u8],
    exports: &'a [u8],
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|b| *b == 0).next().unwrap_or_default()
}

impl<'a> MachO<'a> {
    /// Reads the header and the load commands.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<MachO<'a>, ObjectError> {
        let data = Data(bytes);
        let is_64 = match data.u32(0) {
            Some(MAGIC_64) => true,
            Some(MAGIC_32) => false,
            Some(magic) if matches!(magic.swap_bytes(), MAGIC_32 | MAGIC_64) => {
                return Err(ObjectError::Unsupported("big-endian Mach-O".into()));
            }
            _ => return Err(ObjectError::NotAnObject),
        };
        let field = |at| data.u32(at).ok_or_else(|| malformed("the file ends in the Mach-O header"));
        let (count, size) = (field(16)?, u64::from(field(20)?));
        let mut file = MachO {
            data,
            is_64,
            cpu: CpuType::new(field(4)?, field(8)?),
            kind: ObjectKind::from_file_type(field(12)?),
            debug_id: None,
            text: None,
            sections: Vec::new(),
            symbols: None,
            function_starts: &[],
            exports: &[],
        };
        let mut at = if is_64 { 32 } else { 28 };
        let end = at + size;
        if end > bytes.len() as u64 {
            return Err(malformed("the load commands end outside the file"));
        }
        for _ in 0..count {
            let outside = || malformed("a load command ends outside the load commands");
            let command = data.u32(at).ok_or_else(outside)?;
            let length = u64::from(data.u32(at + 4).ok_or_else(outside)?);
            if length < 8 || at + length > end {
                return Err(outside());
            }
            let body = data.get(at, length).ok_or_else(outside)?;
            file.command(command, Data(body))?;
            at += length;
        }
        Ok(file)
    }

    /// The bytes that a `linkedit_data_command` or a pair in another command points to.
    fn linked(&self, body: Data<'a>, at: u64, what: &'static str) -> Result<&'a [u8], ObjectError> {
        let (Some(offset), Some(size)) = (body.u32(at), body.u32(at + 4)) else {
            return Err(malformed("a load command is too short"));
        };
        self.data.get(u64::from(offset), u64::from(size)).ok_or_else(|| malformed(what))
    }

    fn command(&mut self, command: u32, body: Data<'a>) -> Result<(), ObjectError> {
        let short = || malformed("a load command is too short");
        match command {
            LC_UUID => {
                let id: [u8; 16] = body.get(8, 16).and_then(|b| b.try_into().ok()).ok_or_else(short)?;
                self.debug_id = Some(DebugId(id)).filter(|id| id.0 != [0; 16]);
            }
            LC_SEGMENT | LC_SEGMENT_64 => {
                self.segment(body, command == LC_SEGMENT_64).ok_or_else(short)??;
            }
            LC_SYMTAB => {
                let count = u64::from(body.u32(12).ok_or_else(short)?);
                let size = count * if self.is_64 { 16 } else { 12 };
                let at = u64::from(body.u32(8).ok_or_else(short)?);
                let table = self
                    .data
                    .get(at, size)
                    .ok_or_else(|| malformed("the symbol table ends outside the file"))?;
                let names = self.linked(body, 16, "the symbol names end outside the file")?;
                self.symbols = Some((table, names));
            }
            LC_FUNCTION_STARTS => {
                self.function_starts = self.linked(body, 8, "the function starts end outside the file")?;
            }
            LC_DYLD_EXPORTS_TRIE => {
                self.exports = self.linked(body, 8, "the export trie ends outside the file")?;
            }
            LC_DYLD_INFO | LC_DYLD_INFO_ONLY => {
                self.exports = self.linked(body, 40, "the export trie ends outside the file")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// `None` where the command is too short for what it says that it has.
    fn segment(&mut self, body: Data<'a>, is_64: bool) -> Option<Result<(), ObjectError>> {
        let segment = until_nul(body.get(8, 16)?);
        let (vm_address, vm_size) = (body.word(24, is_64)?, body.word(if is_64 { 32 } else { 28 }, is_64)?);
        if segment == b"__TEXT" && self.text.is_none() {
            match vm_address.checked_add(vm_size) {
                Some(end) => self.text = Some(vm_address..end),
                None => return Some(Err(malformed("__TEXT ends past the last address"))),
            }
        }
        let (file_offset, file_size) = if is_64 {
            (body.u64(40)?, body.u64(48)?)
        } else {
            (body.word(32, false)?, body.word(36, false)?)
        };
        // Other segments of a dSYM keep the sizes that they have in the linked file.
        if segment == b"__DWARF" && self.data.get(file_offset, file_size).is_none() {
            return Some(Err(malformed("the file ends before its debug information does")));
        }
        let count = body.u32(if is_64 { 64 } else { 48 })?;
        let (mut at, step) = if is_64 { (72, 80) } else { (56, 68) };
        for _ in 0..count {
            let section = Data(body.get(at, step)?);
            let address = section.word(32, is_64)?;
            let size = section.word(if is_64 { 40 } else { 36 }, is_64)?;
            let (offset, flags) = if is_64 { (48, 64) } else { (40, 56) };
            self.sections.push(MachSection {
                segment: until_nul(section.get(16, 16)?),
                name: until_nul(section.get(0, 16)?),
                addresses: address..address.saturating_add(size),
                offset: section.u32(offset)?,
                is_code: section.u32(flags)? & CODE_FLAGS != 0,
            });
            at += step;
        }
        Some(Ok(()))
    }

    /// The contents of a section of debug information; empty where the file has none.
    pub(super) fn debug_section(&self, name: &str) -> Result<&'a [u8], ObjectError> {
        // A name of sixteen bytes has no room for more: `__debug_str_offs`.
        let wanted = name.as_bytes().get(..16).unwrap_or(name.as_bytes());
        let Some(section) = self.sections.iter().find(|s| s.segment == b"__DWARF" && s.name == wanted) else {
            return Ok(&[]);
        };
        let size = section.addresses.end - section.addresses.start;
        self.data
            .get(u64::from(section.offset), size)
            .ok_or_else(|| malformed("a section of debug information ends outside the file"))
    }

    pub(super) fn has_exports(&self) -> bool {
        !self.exports.is_empty()
    }

    /// The symbols that are defined in sections, in the order of the table, with at most this many
    /// bytes of their names.
    pub(super) fn symbols(&self, name_bytes: usize) -> impl Iterator<Item = Symbol<'a>> + '_ {
        let (table, names) = self.symbols.unwrap_or_default();
        let step = if self.is_64 { 16 } else { 12 };
        let is_64 = self.is_64;
        table.chunks_exact(step).filter_map(move |entry| {
            let entry = Data(entry);
            // struct nlist_64 { u32 n_strx; u8 n_type; u8 n_sect; u16 n_desc; u64 n_value; }
            let kind = *entry.0.get(4)?;
            let (is_stab, is_defined, is_external) =
                (kind & 0xE0 != 0, kind & 0x0E == 0x0E, kind & 0x01 != 0);
            if is_stab || !is_defined {
                return None;
            }
            let name = names.get(entry.u32(0)? as usize..)?;
            let name = until_nul(name.get(..name_bytes).unwrap_or(name));
            let name = name.strip_prefix(b"_").unwrap_or(name);
            Some(Symbol { name, address: entry.word(8, is_64)?, is_external })
        })
    }

    /// The starts of functions, ascending, as far as the list makes sense.
    pub(super) fn function_starts(&self) -> Vec<u64> {
        let mut address = self.text.as_ref().map_or(0, |t| t.start);
        let thumb = if self.cpu.family() == CpuFamily::Arm { 1 } else { 0 };
        let mut starts = Vec::new();
        let mut rest = self.function_starts;
        while let Some(delta) = uleb(&mut rest).filter(|delta| *delta != 0) {
            let Some(next) = address.checked_add(delta) else { break };
            address = next;
            starts.push(address & !thumb);
        }
        starts
    }

    /// The exported symbols: name without the leading underscore, and address.
    pub(super) fn exports(&self) -> Result<Vec<(Vec<u8>, u64)>, ObjectError> {
        super::exports::walk(self.exports, self.text.as_ref().map_or(0, |t| t.start))
    }
}

/// Reads a LEB128 number; `None` at the end or where it does not fit 64 bits.
pub(super) fn uleb(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7F);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The byte ranges of a file's slices: the file itself, or the members of a fat file.
pub(super) fn slices(bytes: &[u8]) -> Result<Vec<Range<usize>>, ObjectError> {
    let be = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let (Some(magic @ (FAT_32 | FAT_64)), Some(count)) = (be(0), be(4)) else {
        return match be(0).map(u32::swap_bytes) {
            Some(MAGIC_32 | MAGIC_64) => Ok(vec![Range { start: 0, end: bytes.len() }]),
            Some(magic) if matches!(magic.swap_bytes(), MAGIC_32 | MAGIC_64) => {
                Err(ObjectError::Unsupported("big-endian Mach-O".into()))
            }
            _ if bytes.starts_with(b"!<arch>\n") => {
                Err(ObjectError::Unsupported("static library; upload the dSYM of the linked image".into()))
            }
            _ => Err(ObjectError::NotAnObject),
        };
    };
    if magic == FAT_32 && count >= JAVA_VERSION {
        return Err(ObjectError::NotAnObject);
    }
    if count > MAX_SLICES {
        return Err(ObjectError::TooLarge("too many architectures in a fat file".into()));
    }
    let outside = || malformed("an architecture of the fat file ends outside the file");
    let step = if magic == FAT_64 { 32 } else { 20 };
    let ranges: Vec<Range<usize>> = (0..count as usize)
        .map(|i| {
            let at = 8 + i * step;
            let word = |at| be(at).map(u64::from).ok_or_else(outside);
            let (offset, size) = if magic == FAT_64 {
                (word(at + 8)? << 32 | word(at + 12)?, word(at + 16)? << 32 | word(at + 20)?)
            } else {
                (word(at + 8)?, word(at + 12)?)
            };
            let end =
                offset.checked_add(size).filter(|end| *end <= bytes.len() as u64).ok_or_else(outside)?;
            let index = |n: u64| usize::try_from(n).map_err(|_| outside());
            Ok(index(offset)?..index(end)?)
        })
        .collect::<Result<_, ObjectError>>()?;
    // Each is read as a whole, so that one stretch for all of them would be read many times.
    let mut sorted: Vec<&Range<usize>> = ranges.iter().collect();
    sorted.sort_by_key(|range| (range.start, range.end));
    if sorted.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Err(malformed("the architectures of the fat file lie over each other"));
    }
    Ok(ranges)
}
