//! How large the tables are that gimli reads as a whole, and what they take in memory: an entry of five
//! bytes or one becomes more than a hundred.

use super::macho::uleb;
use super::units::Slice;
use gimli::DwForm;

/// A table that is read as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) memory: usize,
}

/// The abbreviation table that begins here.
pub(super) fn abbreviations(table: &[u8]) -> Size {
    // Twice each, as lists grow; and a table that two units share is kept once more.
    const ENTRY: usize = 4 * size_of::<gimli::Abbreviation>();
    const ATTRIBUTE: usize = 4 * size_of::<gimli::AttributeSpecification>();
    let mut rest = table;
    let mut memory = 0;
    'table: while let Some(code) = uleb(&mut rest) {
        if code == 0 || uleb(&mut rest).is_none() || rest.is_empty() {
            break;
        }
        memory += ENTRY;
        rest = &rest[1..];
        loop {
            let (Some(name), Some(form)) = (uleb(&mut rest), uleb(&mut rest)) else { break 'table };
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                let _ = uleb(&mut rest);
            }
            if name == 0 && form == 0 {
                break;
            }
            memory += ATTRIBUTE;
        }
    }
    Size { bytes: (table.len() - rest.len()) as u64, memory }
}

/// The header of a line table, behind the field that gives its length.
#[derive(Clone, Copy)]
pub(super) struct LineHeader<'t> {
    version: u64,
    /// Bytes of an offset into another section.
    offset: usize,
    bytes: &'t [u8],
}

impl<'t> LineHeader<'t> {
    /// The header that begins here, or as much of it as there is.
    pub(super) fn of(table: &'t [u8]) -> LineHeader<'t> {
        let (at, offset) = if word(table, 0, 4) == Some(0xFFFF_FFFF) { (12, 8) } else { (4, 4) };
        let version = word(table, at, 2).unwrap_or(0);
        let at = if version >= 5 { at + 4 } else { at + 2 };
        let length = word(table, at, offset).unwrap_or(0);
        let rest = table.get(at + offset..).unwrap_or_default();
        let bytes = usize::try_from(length).ok().and_then(|length| rest.get(..length)).unwrap_or(rest);
        LineHeader { version, offset, bytes }
    }

    /// Its bytes.
    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// What its directories and files take in memory.
    pub(super) fn memory(&self) -> usize {
        // Twice each, as lists grow, and once more for the program that is run.
        const DIRECTORY: usize = 3 * size_of::<gimli::AttributeValue<Slice<'static>>>();
        const FILE: usize = 3 * size_of::<gimli::FileEntry<Slice<'static>>>();
        let (mut directories, mut files) = (0, 0);
        // What is cut off or unknown ends the count, as it ends the reading.
        let _ = if self.version >= 5 {
            self.count_5(&mut directories, &mut files)
        } else {
            self.count_4(&mut directories, &mut files)
        };
        directories * DIRECTORY + files * FILE
    }

    /// What follows the lengths of the standard opcodes. Before them lie the smallest instruction, from
    /// version 4 on the most operations in one, the default of `is_stmt`, the base and range of lines,
    /// and the first special opcode.
    fn tables(&self) -> Option<&'t [u8]> {
        let at = if self.version >= 4 { 5 } else { 4 };
        let opcodes = usize::from(*self.bytes.get(at)?).saturating_sub(1);
        self.bytes.get(at + 1 + opcodes..)
    }

    /// Texts that end with a zero; behind those of files there are three numbers.
    fn count_4(&self, directories: &mut usize, files: &mut usize) -> Option<()> {
        let mut rest = self.tables()?;
        while !text(&mut rest)?.is_empty() {
            *directories += 1;
        }
        while !text(&mut rest)?.is_empty() {
            *files += 1;
            for _ in 0..3 {
                uleb(&mut rest)?;
            }
        }
        Some(())
    }

    /// The forms of an entry's fields, the number of entries, the entries.
    fn count_5(&self, directories: &mut usize, files: &mut usize) -> Option<()> {
        let mut rest = self.tables()?;
        for entries in [directories, files] {
            let (&formats, tail) = rest.split_first()?;
            rest = tail;
            let mut forms = Vec::with_capacity(usize::from(formats));
            for _ in 0..formats {
                uleb(&mut rest)?;
                forms.push(DwForm(u16::try_from(uleb(&mut rest)?).ok()?));
            }
            for _ in 0..uleb(&mut rest)? {
                for form in &forms {
                    self.pass(&mut rest, *form)?;
                }
                *entries += 1;
                // Fields that take no bytes are none that gimli reads.
                if forms.is_empty() {
                    break;
                }
            }
        }
        Some(())
    }

    /// Passes a field.
    fn pass(&self, rest: &mut &[u8], form: DwForm) -> Option<()> {
        let bytes = match form {
            gimli::DW_FORM_data1 | gimli::DW_FORM_flag | gimli::DW_FORM_strx1 => 1,
            gimli::DW_FORM_data2 | gimli::DW_FORM_strx2 => 2,
            gimli::DW_FORM_strx3 => 3,
            gimli::DW_FORM_data4 | gimli::DW_FORM_strx4 => 4,
            gimli::DW_FORM_data8 => 8,
            gimli::DW_FORM_data16 => 16,
            gimli::DW_FORM_udata | gimli::DW_FORM_sdata | gimli::DW_FORM_strx => {
                rest.iter().position(|byte| byte & 0x80 == 0)? + 1
            }
            gimli::DW_FORM_string => rest.iter().position(|byte| *byte == 0)? + 1,
            gimli::DW_FORM_block => usize::try_from(uleb(rest)?).ok()?,
            gimli::DW_FORM_block1 => 1 + usize::from(*rest.first()?),
            gimli::DW_FORM_block2 => 2 + usize::try_from(word(rest, 0, 2)?).ok()?,
            gimli::DW_FORM_block4 => 4 + usize::try_from(word(rest, 0, 4)?).ok()?,
            // Offsets into other sections.
            _ => self.offset,
        };
        *rest = rest.get(bytes..)?;
        Some(())
    }
}

fn word(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0_u64, |n, byte| n << 8 | u64::from(*byte)))
}

/// Passes a text and the zero at its end.
fn text<'t>(rest: &mut &'t [u8]) -> Option<&'t [u8]> {
    let (text, tail) = rest.split_at(rest.iter().position(|byte| *byte == 0)?);
    *rest = &tail[1..];
    Some(text)
}
