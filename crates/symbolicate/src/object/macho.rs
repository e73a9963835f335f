//! The parts of a Mach-O file that symbolication needs. No field of the file is trusted: each offset and count
//! is checked against the available bytes.

use super::ObjectKind;
use super::error::{ObjectError, malformed_error};
use super::steps::Steps;
use object::LittleEndian;
use object::macho::{
    DyldInfoCommand, EncryptionInfoCommand32, FAT_MAGIC, FAT_MAGIC_64, FatArch32, FatArch64,
    LC_DYLD_EXPORTS_TRIE, LC_DYLD_INFO, LC_DYLD_INFO_ONLY, LC_ENCRYPTION_INFO, LC_ENCRYPTION_INFO_64,
    LC_FUNCTION_STARTS, LC_SYMTAB, LC_UUID, LinkeditDataCommand, MH_CIGAM, MH_CIGAM_64, MH_MAGIC,
    MH_MAGIC_64, MachHeader32, MachHeader64, N_EXT, N_OSO, S_ATTR_PURE_INSTRUCTIONS,
    S_ATTR_SOME_INSTRUCTIONS, SymtabCommand,
};
use object::read::ReadRef;
use object::read::macho::{FatArch, MachHeader, MachOFatFile, Nlist, Section, Segment};
use std::ops::Range;
use unslide_model::{CpuFamily, CpuType, DebugId};

/// A Java class file begins with the same bytes as a fat file. Its next four bytes are a version of 45 or
/// more.
const JAVA_VERSION: u32 = 45;

/// The most slices of a fat file.
const MAX_SLICES: u32 = 64;

const LITTLE: LittleEndian = LittleEndian;

fn too_short(_: object::Error) -> ObjectError {
    malformed_error("a load command is too short")
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
pub(super) struct MachSymbol<'a> {
    /// Without the leading underscore of C names.
    pub(super) name: &'a [u8],
    pub(super) address: u64,
    pub(super) is_external: bool,
    /// True for an assembler-local label: it begins with an `L` and no underscore.
    pub(super) is_private: bool,
}

/// A section of debug information that is compressed in the file.
#[derive(Debug)]
pub(super) struct UnpackedSection {
    /// Its name in the uncompressed form, without the leading underscores.
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
}

/// One slice.
pub(super) struct MachFile<'a> {
    bytes: &'a [u8],
    pub(super) cpu: CpuType,
    pub(super) kind: ObjectKind,
    pub(super) debug_id: Option<DebugId>,
    pub(super) text: Option<Range<u64>>,
    pub(super) sections: Vec<MachSection<'a>>,
    /// Their names extend to the end of the table of names.
    symbols: Vec<MachSymbol<'a>>,
    function_starts: Option<&'a LinkeditDataCommand<LittleEndian>>,
    exports: &'a [u8],
    unpacked: &'a [UnpackedSection],
    /// True if the symbol table names object files that have the debug information.
    pub(super) has_debug_map: bool,
    /// True if a range of the file is encrypted.
    pub(super) is_encrypted: bool,
}

/// Returns a section's name as a file stores it: cut to sixteen bytes, as in `__debug_str_offs`.
pub(super) fn name_of_section(name: &str) -> &[u8] {
    name.as_bytes().get(..16).unwrap_or(name.as_bytes())
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|b| *b == 0).next().unwrap_or_default()
}

fn read_magic(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|magic| u32::from_be_bytes(*magic))
}

impl<'a> MachFile<'a> {
    /// Reads the header and the load commands.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<MachFile<'a>, ObjectError> {
        match read_magic(bytes) {
            Some(MH_CIGAM_64) => MachFile::read_load_commands::<MachHeader64<LittleEndian>>(bytes),
            Some(MH_CIGAM) => MachFile::read_load_commands::<MachHeader32<LittleEndian>>(bytes),
            Some(MH_MAGIC | MH_MAGIC_64) => Err(ObjectError::Unsupported("big-endian Mach-O".into())),
            _ => Err(ObjectError::NotAnObject),
        }
    }

    fn read_load_commands<M: MachHeader<Endian = LittleEndian>>(
        bytes: &'a [u8],
    ) -> Result<MachFile<'a>, ObjectError> {
        let header = M::parse(bytes, 0).map_err(|_| malformed_error("the file ends in the Mach-O header"))?;
        let mut file = MachFile {
            bytes,
            cpu: CpuType::new(header.cputype(LITTLE).0, header.cpusubtype(LITTLE).0),
            kind: ObjectKind::from_file_type(header.filetype(LITTLE).0),
            debug_id: None,
            text: None,
            sections: Vec::new(),
            symbols: Vec::new(),
            function_starts: None,
            exports: &[],
            unpacked: &[],
            has_debug_map: false,
            is_encrypted: false,
        };
        let commands = header.load_commands(LITTLE, bytes, 0);
        let mut commands = commands.map_err(|_| malformed_error("the load commands end outside the file"))?;
        let mut has_symbol_table = false;
        let outside = |_| malformed_error("a load command ends outside the load commands");
        while let Some(command) = commands.next().map_err(outside)? {
            match command.cmd() {
                LC_UUID => {
                    let id = command.uuid().map_err(too_short)?.map(|command| DebugId(command.uuid));
                    file.debug_id = id.filter(|id| id.0 != [0; 16]);
                }
                // Each table would be read completely.
                LC_SYMTAB if has_symbol_table => return Err(malformed_error("it has two symbol tables")),
                LC_SYMTAB => {
                    has_symbol_table = true;
                    file.read_symbols::<M>(command.data().map_err(too_short)?)?;
                }
                LC_FUNCTION_STARTS => {
                    let starts: &LinkeditDataCommand<_> = command.data().map_err(too_short)?;
                    let outside = |_| malformed_error("the function starts end outside the file");
                    starts.data(LITTLE, bytes).map_err(outside)?;
                    file.function_starts = Some(starts);
                }
                LC_ENCRYPTION_INFO | LC_ENCRYPTION_INFO_64 => {
                    // The longer command begins with the same fields.
                    let info: &EncryptionInfoCommand32<LittleEndian> = command.data().map_err(too_short)?;
                    file.is_encrypted |= info.cryptid.get(LITTLE) != 0;
                }
                LC_DYLD_EXPORTS_TRIE => {
                    let trie: &LinkeditDataCommand<LittleEndian> = command.data().map_err(too_short)?;
                    file.exports = file.read_trie(trie.dataoff.get(LITTLE), trie.datasize.get(LITTLE))?;
                }
                LC_DYLD_INFO | LC_DYLD_INFO_ONLY => {
                    let info: &DyldInfoCommand<LittleEndian> = command.data().map_err(too_short)?;
                    file.exports =
                        file.read_trie(info.export_off.get(LITTLE), info.export_size.get(LITTLE))?;
                }
                _ => {
                    if let Some((segment, sections)) = M::Segment::from_command(command).map_err(too_short)? {
                        file.read_segment(segment, sections)?;
                    }
                }
            }
        }
        Ok(file)
    }

    fn read_trie(&self, offset: u32, size: u32) -> Result<&'a [u8], ObjectError> {
        let trie = self.bytes.read_bytes_at(offset.into(), size.into());
        trie.map_err(|()| malformed_error("the export trie ends outside the file"))
    }

    fn read_symbols<M: MachHeader<Endian = LittleEndian>>(
        &mut self,
        command: &SymtabCommand<LittleEndian>,
    ) -> Result<(), ObjectError> {
        let (offset, count) = (command.symoff.get(LITTLE), command.nsyms.get(LITTLE));
        let table = self.bytes.read_slice_at::<M::Nlist>(offset.into(), count as usize);
        let table = table.map_err(|()| malformed_error("the symbol table ends outside the file"))?;
        let (offset, size) = (command.stroff.get(LITTLE), command.strsize.get(LITTLE));
        let names = self.bytes.read_bytes_at(offset.into(), size.into());
        let names = names.map_err(|()| malformed_error("the symbol names end outside the file"))?;
        self.has_debug_map = table.iter().any(|symbol| symbol.n_type().stab() == Some(N_OSO));
        let defined = table.iter().filter(|symbol| symbol.is_definition()).filter_map(|symbol| {
            Some(MachSymbol {
                name: names.get(symbol.n_strx(LITTLE) as usize..)?,
                address: symbol.n_value(LITTLE).into(),
                is_external: symbol.n_type().contains(N_EXT),
                is_private: false,
            })
        });
        self.symbols = defined.collect();
        Ok(())
    }

    fn read_segment<S: Segment<Endian = LittleEndian>>(
        &mut self,
        segment: &'a S,
        sections: &'a [u8],
    ) -> Result<(), ObjectError> {
        if segment.name() == b"__TEXT" && self.text.is_none() {
            let start: u64 = segment.vmaddr(LITTLE).into();
            let end = start.checked_add(segment.vmsize(LITTLE).into());
            self.text = Some(start..end.ok_or_else(|| malformed_error("__TEXT ends past the last address"))?);
        }
        // Other segments of a dSYM keep the sizes that they have in the linked file.
        if segment.name() == b"__DWARF" && segment.data(LITTLE, self.bytes).is_err() {
            return Err(malformed_error("the file ends before its debug information does"));
        }
        for section in segment.sections(LITTLE, sections).map_err(too_short)? {
            let address: u64 = section.addr(LITTLE).into();
            self.sections.push(MachSection {
                segment: section.segment_name(),
                name: section.name(),
                addresses: address..address.saturating_add(section.size(LITTLE).into()),
                offset: section.offset(LITTLE),
                is_code: section.flags(LITTLE).0 & (S_ATTR_PURE_INSTRUCTIONS | S_ATTR_SOME_INSTRUCTIONS).0
                    != 0,
            });
        }
        Ok(())
    }

    /// Adds the unpacked sections of debug information.
    pub(super) fn with_unpacked<'u>(self, unpacked: &'u [UnpackedSection]) -> MachFile<'u>
    where
        'a: 'u,
    {
        MachFile { unpacked, ..self }
    }

    /// Returns the sections of debug information.
    pub(super) fn debug_sections(&self) -> impl Iterator<Item = &MachSection<'a>> {
        self.sections.iter().filter(|section| section.segment == b"__DWARF")
    }

    /// Returns the contents of a section of debug information, unpacked; empty if the file has none.
    pub(super) fn debug_section(&self, name: &str) -> Result<&'a [u8], ObjectError> {
        let mut sections = self.debug_sections();
        match sections.find(|section| section.name == name_of_section(name)) {
            Some(section) => self.section_bytes(section),
            None => {
                let plain = name.trim_start_matches('_');
                let unpacked = self.unpacked.iter().find(|section| section.name == plain);
                Ok(unpacked.map_or(&[], |section| &section.bytes))
            }
        }
    }

    /// Returns the contents of a section of debug information as stored in the file.
    pub(super) fn section_bytes(&self, section: &MachSection<'_>) -> Result<&'a [u8], ObjectError> {
        let size = section.addresses.end - section.addresses.start;
        let bytes = self.bytes.read_bytes_at(section.offset.into(), size);
        bytes.map_err(|()| malformed_error("a section of debug information ends outside the file"))
    }

    pub(super) fn has_exports(&self) -> bool {
        !self.exports.is_empty()
    }

    /// Returns the symbols that are defined in sections, in the order of the table, with names cut to this
    /// many bytes.
    pub(super) fn defined_symbols(&self, name_bytes: usize) -> impl Iterator<Item = MachSymbol<'a>> + '_ {
        self.symbols.iter().map(move |symbol| {
            let name = until_nul(symbol.name.get(..name_bytes).unwrap_or(symbol.name));
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
            let is_private = name.first() == Some(&b'L') && name.iter().all(is_word);
            MachSymbol { name: name.strip_prefix(b"_").unwrap_or(name), is_private, ..*symbol }
        })
    }

    /// Returns the starts of functions, ascending, up to the first invalid entry.
    pub(super) fn function_starts(&self) -> Vec<u64> {
        let text = self.text.as_ref().map_or(0, |text| text.start);
        let thumb = if self.cpu.family() == CpuFamily::Arm { 1 } else { 0 };
        let starts =
            self.function_starts.and_then(|starts| starts.function_starts(LITTLE, self.bytes, text).ok());
        starts.into_iter().flatten().map_while(Result::ok).map(|start| start & !thumb).collect()
    }

    /// Returns the exported symbols: name without the leading underscore, and address.
    pub(super) fn read_exports(&self, steps: &Steps) -> Result<Vec<(Vec<u8>, u64)>, ObjectError> {
        super::exports::walk_trie(self.exports, self.text.as_ref().map_or(0, |t| t.start), steps)
    }
}

/// The first bytes of an indexed RAM bundle.
const RAM_BUNDLE: [u8; 4] = 0xFB0B_D1E5_u32.to_le_bytes();

/// Returns the byte ranges of a file's slices: the file itself, or the members of a fat file.
pub(super) fn find_slices(bytes: &[u8]) -> Result<Vec<Range<usize>>, ObjectError> {
    match read_magic(bytes) {
        Some(FAT_MAGIC) => read_fat_slices::<FatArch32>(bytes),
        Some(FAT_MAGIC_64) => read_fat_slices::<FatArch64>(bytes),
        Some(MH_CIGAM | MH_CIGAM_64) => Ok(vec![Range { start: 0, end: bytes.len() }]),
        Some(MH_MAGIC | MH_MAGIC_64) => Err(ObjectError::Unsupported("big-endian Mach-O".into())),
        _ if bytes.starts_with(b"!<arch>\n") => {
            Err(ObjectError::Unsupported("static library; upload the dSYM of the linked image".into()))
        }
        _ if bytes.starts_with(&RAM_BUNDLE) => {
            Err(ObjectError::Unsupported("RAM bundle of React Native; upload its source map".into()))
        }
        _ => Err(ObjectError::NotAnObject),
    }
}

fn read_fat_slices<F: FatArch>(bytes: &[u8]) -> Result<Vec<Range<usize>>, ObjectError> {
    match bytes.get(4..).and_then(read_magic) {
        None => return Err(ObjectError::NotAnObject),
        Some(JAVA_VERSION..) if F::MAGIC == FAT_MAGIC => return Err(ObjectError::NotAnObject),
        Some(count) if count > MAX_SLICES => {
            return Err(ObjectError::TooLarge("too many architectures in a fat file".into()));
        }
        Some(_) => {}
    }
    let outside = |_| malformed_error("an architecture of the fat file ends outside the file");
    let file = MachOFatFile::<F>::parse(bytes).map_err(outside)?;
    let range = |arch: &F| {
        let slice = arch.data(bytes).map_err(outside)?;
        // An empty slice may claim any position.
        let start = usize::try_from(arch.offset().into()).unwrap_or(usize::MAX).min(bytes.len());
        Ok(start..start + slice.len())
    };
    let ranges = file.arches().iter().map(range).collect::<Result<Vec<_>, ObjectError>>()?;
    // Each slice is read completely, so overlapping slices would be read many times.
    let mut sorted: Vec<&Range<usize>> = ranges.iter().collect();
    sorted.sort_by_key(|range| (range.start, range.end));
    if sorted.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Err(malformed_error("the architectures of the fat file lie over each other"));
    }
    Ok(ranges)
}
