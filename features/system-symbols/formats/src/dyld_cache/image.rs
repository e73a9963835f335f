//! The load commands of one library in a cache. Its tables lie in the file that maps its `__LINKEDIT`, and the
//! offsets of its load commands are offsets in that file.

use super::error::{DyldCacheError, malformed_error};
use super::header::FileBytes;
use super::{CacheImage, DyldCache, MAX_IMAGE_NAMES};
use object::LittleEndian;
use object::macho::{
    DyldInfoCommand, LC_DYLD_EXPORTS_TRIE, LC_DYLD_INFO, LC_DYLD_INFO_ONLY, LC_FUNCTION_STARTS, LC_SYMTAB,
    LC_UUID, LinkeditDataCommand, MachHeader32, MachHeader64, S_ATTR_PURE_INSTRUCTIONS,
    S_ATTR_SOME_INSTRUCTIONS, SymtabCommand,
};
use object::read::macho::{MachHeader, Section, Segment};
use std::ops::Range;
use unslide_model::CpuType;

const LITTLE: LittleEndian = LittleEndian;
/// The most bytes of one library's load commands.
const MAX_COMMAND_BYTES: u32 = 64 << 10;

/// A range of the file with `__LINKEDIT`.
#[derive(Clone, Copy, Default)]
struct TableRange {
    offset: u64,
    size: u64,
}

/// The tables of one library.
pub(super) struct ImageTables<'a> {
    pub(super) cpu: CpuType,
    pub(super) text: Range<u64>,
    /// Addresses of machine code, in the order of the load commands.
    pub(super) code: Vec<Range<u64>>,
    pub(super) symbols: &'a [u8],
    pub(super) symbol_names: &'a [u8],
    pub(super) function_starts: &'a [u8],
    pub(super) exports: &'a [u8],
}

/// Places of the tables, as the load commands name them.
#[derive(Default)]
struct Commands {
    text: Option<Range<u64>>,
    linkedit: Option<u64>,
    has_this_id: bool,
    code: Vec<Range<u64>>,
    symbols: TableRange,
    symbol_names: TableRange,
    function_starts: TableRange,
    exports: TableRange,
}

pub(super) fn read_tables<'a>(
    cache: &'a DyldCache,
    image: &CacheImage,
) -> Result<ImageTables<'a>, DyldCacheError> {
    let bytes = cache.bytes_at(image.address).ok_or(malformed_error("its header lies in no file"))?;
    if cache.is_32_bit {
        read_header::<MachHeader32<LittleEndian>>(cache, image, bytes)
    } else {
        read_header::<MachHeader64<LittleEndian>>(cache, image, bytes)
    }
}

fn read_header<'a, M: MachHeader<Endian = LittleEndian>>(
    cache: &'a DyldCache,
    image: &CacheImage,
    bytes: &'a [u8],
) -> Result<ImageTables<'a>, DyldCacheError> {
    let header = M::parse(bytes, 0).map_err(|_| malformed_error("it has no Mach-O header"))?;
    if !header.is_supported() || header.is_type_64() == cache.is_32_bit {
        return Err(malformed_error("its Mach-O header is of another kind than the cache"));
    }
    if header.sizeofcmds(LITTLE) > MAX_COMMAND_BYTES {
        return Err(DyldCacheError::TooLarge("its load commands have more than 64 KiB"));
    }
    let commands = read_commands::<M>(header, image, bytes).ok_or(malformed_error("its load commands"))?;
    if !commands.has_this_id {
        return Err(malformed_error("its UUID is not the one in the cache's table"));
    }
    let text = commands.text.ok_or(malformed_error("it has no __TEXT"))?;
    if text.start != image.address || text.end - text.start != u64::from(image.text_size) {
        return Err(malformed_error("its __TEXT is not the one in the cache's table"));
    }
    let linkedit = match commands.linkedit {
        Some(address) => cache.file_at(address).ok_or(malformed_error("its __LINKEDIT lies in no file"))?,
        None => FileBytes(&[]),
    };
    let table = |range: TableRange| {
        let bytes =
            if range.size == 0 { Some(&[][..]) } else { linkedit.read_range(range.offset, range.size) };
        bytes.ok_or(malformed_error("one of its tables leaves its file"))
    };
    Ok(ImageTables {
        cpu: CpuType::new(header.cputype(LITTLE).0, header.cpusubtype(LITTLE).0),
        text,
        code: commands.code,
        symbols: table(commands.symbols)?,
        symbol_names: table(commands.symbol_names)?,
        function_starts: table(commands.function_starts)?,
        exports: table(commands.exports)?,
    })
}

/// Reads the load commands; `None` if one of them is too short.
fn read_commands<M: MachHeader<Endian = LittleEndian>>(
    header: &M,
    image: &CacheImage,
    bytes: &[u8],
) -> Option<Commands> {
    let mut found = Commands::default();
    let nlist: u64 = if header.is_type_64() { 16 } else { 12 };
    let range = |offset: u32, size: u64| TableRange { offset: offset.into(), size };
    let mut commands = header.load_commands(LITTLE, bytes, 0).ok()?;
    while let Some(command) = commands.next().ok()? {
        match command.cmd() {
            LC_UUID => found.has_this_id = command.uuid().ok()??.uuid == image.debug_id.0,
            LC_SYMTAB => {
                let table: &SymtabCommand<LittleEndian> = command.data().ok()?;
                let count = u64::from(table.nsyms.get(LITTLE));
                if count > MAX_IMAGE_NAMES {
                    return None;
                }
                found.symbols = range(table.symoff.get(LITTLE), count * nlist);
                found.symbol_names = range(table.stroff.get(LITTLE), table.strsize.get(LITTLE).into());
            }
            LC_FUNCTION_STARTS => {
                let starts: &LinkeditDataCommand<LittleEndian> = command.data().ok()?;
                found.function_starts = range(starts.dataoff.get(LITTLE), starts.datasize.get(LITTLE).into());
            }
            LC_DYLD_EXPORTS_TRIE => {
                let trie: &LinkeditDataCommand<LittleEndian> = command.data().ok()?;
                found.exports = range(trie.dataoff.get(LITTLE), trie.datasize.get(LITTLE).into());
            }
            LC_DYLD_INFO | LC_DYLD_INFO_ONLY => {
                let info: &DyldInfoCommand<LittleEndian> = command.data().ok()?;
                found.exports = range(info.export_off.get(LITTLE), info.export_size.get(LITTLE).into());
            }
            _ => {
                if let Some((segment, sections)) = M::Segment::from_command(command).ok()? {
                    read_segment(segment, sections, &mut found)?;
                }
            }
        }
    }
    Some(found)
}

fn read_segment<S: Segment<Endian = LittleEndian>>(
    segment: &S,
    sections: &[u8],
    found: &mut Commands,
) -> Option<()> {
    let start: u64 = segment.vmaddr(LITTLE).into();
    match segment.name() {
        b"__TEXT" => found.text = Some(start..start.checked_add(segment.vmsize(LITTLE).into())?),
        b"__LINKEDIT" => found.linkedit = Some(start),
        _ => {}
    }
    for section in segment.sections(LITTLE, sections).ok()? {
        let is_code = section.flags(LITTLE).0 & (S_ATTR_PURE_INSTRUCTIONS | S_ATTR_SOME_INSTRUCTIONS).0 != 0;
        let address: u64 = section.addr(LITTLE).into();
        if is_code {
            found.code.push(address..address.checked_add(section.size(LITTLE).into())?);
        }
    }
    Some(())
}
