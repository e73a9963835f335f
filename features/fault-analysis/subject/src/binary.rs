//! The instructions of an image, from its Mach-O file.

use object::Endianness;
use object::macho::{CPU_TYPE_ARM64, CPU_TYPE_X86_64, MachHeader64};
use object::read::macho::{
    FatArch, LoadCommandVariant, MachHeader, MachOFatFile32, MachOFatFile64, Section, Segment,
};

/// The most load commands of an image.
const COMMANDS_LIMIT: usize = 10_000;
/// The most images in one file.
const IMAGES_LIMIT: usize = 64;

/// The reason for which a file has no instructions of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BinaryError {
    #[error("the file is no Mach-O file of 64 bits")]
    NoBinary,
    #[error("the file has no image with this UUID: give the binary of the build that crashed")]
    OtherImage,
    #[error(
        "the binary is encrypted, as the App Store delivers it: give the one of the archive (.xcarchive)"
    )]
    Encrypted,
    #[error("the binary has no instructions, as a dSYM has none: give the app's binary")]
    NoText,
    #[error("the binary is damaged")]
    Damaged,
}

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
    /// Returns bytes by their address relative to the image.
    pub(crate) fn read_range(&self, start: u64, size: u64) -> Option<&'b [u8]> {
        let begin = usize::try_from(start.checked_sub(self.start)?).ok()?;
        let end = begin.checked_add(usize::try_from(size).ok()?)?;
        self.bytes.get(begin..end)
    }
}

/// Returns the instructions of the image with a UUID, from a Mach-O file or a universal file.
///
/// # Errors
/// The file is no such file, or its image has another UUID, is encrypted, or has no instructions.
pub fn read_image_text<'b>(file: &'b [u8], uuid: &[u8; 16]) -> Result<ImageText<'b>, BinaryError> {
    let mut last = BinaryError::OtherImage;
    for image in list_images(file)? {
        match read_text_section(image, uuid) {
            Err(BinaryError::OtherImage | BinaryError::NoBinary) => {}
            Err(error) => last = error,
            Ok(text) => return Ok(text),
        }
    }
    Err(last)
}

/// Returns the bytes of the image with a UUID, from a Mach-O file or a universal file.
pub(crate) fn find_image<'b>(file: &'b [u8], uuid: &[u8; 16]) -> Result<&'b [u8], BinaryError> {
    let has_uuid = |image: &&[u8]| {
        let header = MachHeader64::<Endianness>::parse(*image, 0).ok();
        let found = header.and_then(|header| header.uuid(header.endian().ok()?, *image, 0).ok()?);
        found.as_ref() == Some(uuid)
    };
    list_images(file)?.into_iter().find(has_uuid).ok_or(BinaryError::OtherImage)
}

/// Returns true if a Mach-O file or a universal file has the image with a UUID.
#[must_use]
pub fn has_image(file: &[u8], uuid: &[u8; 16]) -> bool {
    find_image(file, uuid).is_ok()
}

fn list_images(file: &[u8]) -> Result<Vec<&[u8]>, BinaryError> {
    if let Ok(fat) = MachOFatFile32::parse(file) {
        let images = fat.arches().iter().take(IMAGES_LIMIT);
        return Ok(images.filter_map(|image| image.data(file).ok()).collect());
    }
    if let Ok(fat) = MachOFatFile64::parse(file) {
        let images = fat.arches().iter().take(IMAGES_LIMIT);
        return Ok(images.filter_map(|image| image.data(file).ok()).collect());
    }
    match MachHeader64::<Endianness>::parse(file, 0) {
        Ok(_) => Ok(vec![file]),
        Err(_) => Err(BinaryError::NoBinary),
    }
}

fn read_text_section<'b>(image: &'b [u8], uuid: &[u8; 16]) -> Result<ImageText<'b>, BinaryError> {
    let header = MachHeader64::<Endianness>::parse(image, 0).map_err(|_| BinaryError::NoBinary)?;
    let endian = header.endian().map_err(|_| BinaryError::NoBinary)?;
    if !matches!(header.cputype(endian), CPU_TYPE_ARM64 | CPU_TYPE_X86_64) {
        return Err(BinaryError::OtherImage);
    }
    let mut commands = header.load_commands(endian, image, 0).map_err(|_| BinaryError::Damaged)?;
    let (mut found_uuid, mut is_encrypted, mut text) = (None, false, None);
    for _ in 0..COMMANDS_LIMIT {
        let Some(command) = commands.next().map_err(|_| BinaryError::Damaged)? else { break };
        match command.variant().map_err(|_| BinaryError::Damaged)? {
            LoadCommandVariant::Uuid(command) => found_uuid = Some(command.uuid),
            LoadCommandVariant::EncryptionInfo64(info) => is_encrypted |= info.cryptid.get(endian) != 0,
            LoadCommandVariant::Segment64(segment, sections) if segment.name() == b"__TEXT" => {
                let sections = segment.sections(endian, sections).map_err(|_| BinaryError::Damaged)?;
                let section = sections.iter().find(|section| section.name() == b"__text");
                let base = segment.vmaddr(endian);
                // A dSYM has the section's header, and no bytes in the segment.
                let section = section.filter(|_| segment.filesize(endian) > 0);
                text = section.map(|section| (section.addr(endian).checked_sub(base), section));
            }
            _ => {}
        }
    }
    if found_uuid.as_ref() != Some(uuid) {
        return Err(BinaryError::OtherImage);
    }
    if is_encrypted {
        return Err(BinaryError::Encrypted);
    }
    let (start, section) = text.ok_or(BinaryError::NoText)?;
    let offset = u64::from(section.offset(endian));
    let bytes = section.data(endian, image, offset).map_err(|_| BinaryError::Damaged)?;
    if bytes.is_empty() {
        return Err(BinaryError::NoText);
    }
    Ok(ImageText { start: start.ok_or(BinaryError::Damaged)?, bytes })
}
