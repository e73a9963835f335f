//! Makes a Mach-O file of names: a library with sections of code that have no bytes, a symbol table and function
//! starts.

use super::write::write_number;
use super::{ImageNames, NamedStart, StartName};
use object::macho::{
    LC_FUNCTION_STARTS, LC_SEGMENT_64, LC_SYMTAB, LC_UUID, MH_DYLIB, MH_MAGIC_64, S_ATTR_PURE_INSTRUCTIONS,
};
use std::ops::Range;

const HEADER_SIZE: usize = 32;
const SEGMENT_SIZE: usize = 72;
const SECTION_SIZE: usize = 80;
const UUID_SIZE: usize = 24;
const SYMTAB_SIZE: usize = 24;
const LINKEDIT_DATA_SIZE: usize = 16;
const NLIST_SIZE: usize = 16;
/// `N_SECT`: the symbol lies in a section.
const IN_SECTION: u8 = 0x0E;
/// `N_EXT`: other images may refer to the symbol.
const IS_EXTERNAL: u8 = 0x01;
/// Access to code: read and execute.
const READ_EXECUTE: u32 = 5;
/// The shared name of symbols without their own. The pool begins with the empty name.
const WITHHELD_NAME: &[u8] = b"<redacted>";

/// A file that is written in order.
struct Out(Vec<u8>);

impl Out {
    fn write_words(&mut self, words: &[u32]) {
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn write_longs(&mut self, longs: &[u64]) {
        self.0.extend(longs.iter().flat_map(|long| long.to_le_bytes()));
    }

    /// Writes a name of a segment or a section.
    fn write_short_name(&mut self, name: &str) {
        let mut field = [0; 16];
        field.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        self.0.extend_from_slice(&field);
    }
}

/// Returns a Mach-O file with these names.
pub(in crate::object) fn to_mach_o(names: &ImageNames<'_>) -> Vec<u8> {
    let starts = function_starts(&names.starts);
    let symbols = names.starts.iter().filter(|start| start.name != StartName::Unnamed).count();
    let segment = SEGMENT_SIZE + SECTION_SIZE * names.code.len();
    let commands = segment + UUID_SIZE + SYMTAB_SIZE + LINKEDIT_DATA_SIZE;
    let table = HEADER_SIZE + commands + starts.len();
    let pool = table + NLIST_SIZE * symbols;
    let named = names.starts.iter().filter_map(|start| start.name.as_bytes());
    let pool_size = 2 + WITHHELD_NAME.len() + named.map(|name| name.len() + 1).sum::<usize>();
    let mut out = Out(Vec::with_capacity(pool + pool_size));
    // All sizes are below 4 GiB: a body is, and a start takes at most 16 bytes more.
    let word = |size: usize| size as u32;
    let cpu = names.cpu;
    out.write_words(&[MH_MAGIC_64, cpu.cpu_type, cpu.cpu_subtype, MH_DYLIB.0, 4, word(commands), 0, 0]);
    write_segment(&names.text, &names.code, word(segment), &mut out);
    out.write_words(&[LC_UUID.0, word(UUID_SIZE)]);
    out.0.extend_from_slice(&names.debug_id.0);
    let (count, size) = (word(symbols), word(pool_size));
    out.write_words(&[LC_SYMTAB.0, word(SYMTAB_SIZE), word(table), count, word(pool), size]);
    let starts_offset = word(HEADER_SIZE + commands);
    out.write_words(&[LC_FUNCTION_STARTS.0, word(LINKEDIT_DATA_SIZE), starts_offset, word(starts.len())]);
    out.0.extend_from_slice(&starts);
    write_symbols(names, &mut out);
    out.0
}

fn write_segment(text: &Range<u64>, code: &[Range<u32>], size: u32, out: &mut Out) {
    out.write_words(&[LC_SEGMENT_64.0, size]);
    out.write_short_name("__TEXT");
    out.write_longs(&[text.start, text.end - text.start, 0, 0]);
    out.write_words(&[READ_EXECUTE, READ_EXECUTE, code.len() as u32, 0]);
    for section in code {
        out.write_short_name("__text");
        out.write_short_name("__TEXT");
        out.write_longs(&[text.start + u64::from(section.start), u64::from(section.end - section.start)]);
        out.write_words(&[0, 2, 0, 0, S_ATTR_PURE_INSTRUCTIONS.0, 0, 0, 0]);
    }
}

/// Writes the symbol table and the names behind it.
fn write_symbols(names: &ImageNames<'_>, out: &mut Out) {
    let mut next_name = 2 + WITHHELD_NAME.len();
    let (mut section, mut sections) = (1_u8, names.code.iter().peekable());
    for start in &names.starts {
        while sections.next_if(|code| code.end <= start.offset).is_some() {
            section = section.saturating_add(1);
        }
        let kind = match start.name {
            StartName::Unnamed => continue,
            StartName::External(_) => IN_SECTION | IS_EXTERNAL,
            StartName::Local(_) | StartName::Withheld => IN_SECTION,
        };
        let name = match start.name.as_bytes() {
            Some(name) => {
                let at = next_name;
                next_name += name.len() + 1;
                at
            }
            None => 1,
        };
        out.write_words(&[name as u32]);
        out.0.extend_from_slice(&[kind, section, 0, 0]);
        out.write_longs(&[names.text.start + u64::from(start.offset)]);
    }
    let named = names.starts.iter().filter_map(|start| start.name.as_bytes());
    for name in [&b""[..], WITHHELD_NAME].into_iter().chain(named) {
        out.0.extend_from_slice(name);
        out.0.push(0);
    }
}

/// Returns the payload of `LC_FUNCTION_STARTS`: distances, up to a zero.
fn function_starts(starts: &[NamedStart<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last = 0;
    for start in starts.iter().filter(|start| start.is_function_start && start.offset > 0) {
        if start.offset > last {
            write_number(u64::from(start.offset - last), &mut out);
            last = start.offset;
        }
    }
    if !out.is_empty() {
        out.push(0);
    }
    // The symbol table behind it is aligned.
    out.resize(out.len().next_multiple_of(8), 0);
    out
}
