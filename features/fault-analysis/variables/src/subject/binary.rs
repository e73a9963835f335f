//! The instructions of an image: from a slice of its binary, and in the form that is stored.
//!
//! Version 1 of the form: `UNSLTEXT`, a byte with the version, the address of the first instruction relative to the image (64
//! bits, little-endian), then the instructions.

use object::Endianness;
use object::macho::{CPU_TYPE_ARM64, CPU_TYPE_X86_64, MH_DSYM, MachHeader64};
use object::read::macho::{LoadCommandVariant, MachHeader, Section, Segment};

const TEXT_MAGIC: &[u8; 8] = b"UNSLTEXT";
const TEXT_VERSION: u8 = 1;
/// The most load commands of an image.
const COMMANDS_LIMIT: usize = 10_000;
/// The most bytes of instructions. The largest apps have about half of it.
const TEXT_BYTES_LIMIT: usize = 256 << 20;

/// The reason for which a slice has no instructions, though it has the place for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BinaryError {
    #[error(
        "the binary is encrypted, as the App Store delivers it: give the one of the archive (.xcarchive)"
    )]
    Encrypted,
    #[error("the binary has {0} bytes of instructions, more than {TEXT_BYTES_LIMIT}")]
    TooLarge(usize),
    #[error("the binary is damaged")]
    Damaged,
}

/// The reason for which bytes are no stored instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the instructions are of another version, or none")]
pub struct TextError;

/// The instructions of an image.
#[derive(Clone, Copy)]
pub struct ImageText<'b> {
    /// The address of the first byte, relative to the image.
    pub start: u64,
    pub bytes: &'b [u8],
}

impl std::fmt::Debug for ImageText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageText").field("start", &self.start).field("bytes", &self.bytes.len()).finish()
    }
}

impl<'b> ImageText<'b> {
    /// Reads the instructions of a Mach-O slice of arm64 or x86_64. Returns `None` for a file without instructions, as a dSYM is.
    ///
    /// # Errors
    /// The binary is encrypted, too large or damaged.
    pub fn read_slice(slice: &'b [u8]) -> Result<Option<ImageText<'b>>, BinaryError> {
        let Ok(header) = MachHeader64::<Endianness>::parse(slice, 0) else { return Ok(None) };
        let Ok(endian) = header.endian() else { return Ok(None) };
        let is_known = matches!(header.cputype(endian), CPU_TYPE_ARM64 | CPU_TYPE_X86_64);
        // A dSYM has the headers of the sections without their bytes: their offsets lead to something else.
        if !is_known || header.filetype(endian) == MH_DSYM {
            return Ok(None);
        }
        let mut commands = header.load_commands(endian, slice, 0).map_err(|_| BinaryError::Damaged)?;
        let (mut is_encrypted, mut text) = (false, None);
        for _ in 0..COMMANDS_LIMIT {
            let Some(command) = commands.next().map_err(|_| BinaryError::Damaged)? else { break };
            match command.variant().map_err(|_| BinaryError::Damaged)? {
                LoadCommandVariant::EncryptionInfo64(info) => is_encrypted |= info.cryptid.get(endian) != 0,
                LoadCommandVariant::Segment64(segment, sections) if segment.name() == b"__TEXT" => {
                    let sections = segment.sections(endian, sections).map_err(|_| BinaryError::Damaged)?;
                    let section = sections.iter().find(|section| section.name() == b"__text");
                    let base = segment.vmaddr(endian);
                    // A file that has symbols only has the section's header, and no bytes in the segment.
                    let section = section.filter(|_| segment.filesize(endian) > 0);
                    text = section.map(|section| (section.addr(endian).checked_sub(base), section));
                }
                _ => {}
            }
        }
        let Some((start, section)) = text else { return Ok(None) };
        if is_encrypted {
            return Err(BinaryError::Encrypted);
        }
        let offset = u64::from(section.offset(endian));
        let bytes = section.data(endian, slice, offset).map_err(|_| BinaryError::Damaged)?;
        let start = start.ok_or(BinaryError::Damaged)?;
        match bytes.len() {
            0 => Ok(None),
            length if length > TEXT_BYTES_LIMIT => Err(BinaryError::TooLarge(length)),
            _ => Ok(Some(ImageText { start, bytes })),
        }
    }

    /// Returns the instructions in the form that is stored.
    #[must_use]
    pub fn to_stored(&self) -> Vec<u8> {
        [&TEXT_MAGIC[..], &[TEXT_VERSION], &self.start.to_le_bytes(), self.bytes].concat()
    }

    /// Reads the form that is stored.
    ///
    /// # Errors
    /// The bytes are of another version, or cut off.
    pub fn parse(stored: &'b [u8]) -> Result<ImageText<'b>, TextError> {
        let rest = stored.strip_prefix(TEXT_MAGIC).and_then(|rest| rest.strip_prefix(&[TEXT_VERSION]));
        let (start, bytes) = rest.and_then(|rest| rest.split_first_chunk()).ok_or(TextError)?;
        Ok(ImageText { start: u64::from_le_bytes(*start), bytes })
    }

    /// Returns bytes by their address relative to the image.
    pub(crate) fn read_range(&self, start: u64, size: u64) -> Option<&'b [u8]> {
        let begin = usize::try_from(start.checked_sub(self.start)?).ok()?;
        let end = begin.checked_add(usize::try_from(size).ok()?)?;
        self.bytes.get(begin..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_instructions_keep_their_bytes() {
        let text = ImageText { start: 0x4000, bytes: &[1, 2, 3, 4] };
        let stored = text.to_stored();
        // A change of these bytes needs another version.
        assert_eq!(stored, b"UNSLTEXT\x01\x00\x40\0\0\0\0\0\0\x01\x02\x03\x04");
        let read = ImageText::parse(&stored).unwrap();
        assert_eq!((read.start, read.bytes), (text.start, text.bytes));
        for length in 0..17 {
            assert!(ImageText::parse(&stored[..length]).is_err(), "{length}");
        }
    }

    /// Proves: bounded-input
    #[test]
    fn files_that_are_no_binaries_have_no_instructions() {
        for file in [&b""[..], b"\xcf\xfa\xed\xfe", b"no object", &[0xca; 64]] {
            assert!(ImageText::read_slice(file).unwrap_or(None).is_none());
        }
    }
}
