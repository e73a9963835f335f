//! The images of a log.

use super::document::LogMembers;
use super::error;
use crate::json::JsonBuilder;
use unslide_report::{JsonValue, ReadError, ReadLimits, Text};

/// More bytes than an image has.
const IMAGE_BYTES_LIMIT: u64 = 1 << 46;
/// The maximum size of a UUID as text, in bytes.
const UUID_BYTES_LIMIT: usize = 36;

#[derive(Clone, Copy, Debug, Default)]
pub struct UsedImage<'a> {
    pub base: u64,
    size: u64,
    /// The debug id as text.
    pub uuid: Option<Text<'a>>,
    path: Option<Text<'a>>,
    name: Option<Text<'a>>,
    arch: Option<Text<'a>>,
    /// True if `base` is a guess.
    is_approximate: bool,
    /// True for the item of frames that lie in no image: their offsets are addresses.
    pub is_absent: bool,
}

/// The images of a log, by their position.
#[derive(Debug, Default)]
pub struct UsedImages<'a>(Vec<UsedImage<'a>>);

impl<'a> UsedImages<'a> {
    /// Reads the list.
    ///
    /// # Errors
    /// Returns [`ReadError::TooManyItems`] if the log has too many images.
    pub fn read(body: &LogMembers<'a>, limits: &ReadLimits) -> Result<UsedImages<'a>, ReadError> {
        let Some(list) = body.get("usedImages") else { return Ok(UsedImages::default()) };
        let items = list.items();
        if items.len() > limits.max_items {
            return Err(ReadError::TooManyItems { offset: list.offset(), limit: limits.max_items });
        }
        Ok(UsedImages(items.into_iter().map(UsedImage::read).collect()))
    }

    /// Returns the image at a position.
    pub fn get(&self, index: u64) -> Option<&UsedImage<'a>> {
        self.0.get(usize::try_from(index).ok()?).filter(|image| !image.is_absent)
    }

    /// Returns true if the item at a position represents no image.
    pub fn is_absent(&self, index: u64) -> bool {
        usize::try_from(index).ok().and_then(|index| self.0.get(index)).is_some_and(|image| image.is_absent)
    }

    /// Writes the images, with the messages that they left about the crash.
    pub fn write(&self, body: &LogMembers<'a>, json: &mut JsonBuilder) {
        let mut messages = error::messages(body);
        json.array("binary_images", |json| {
            for image in self.0.iter().filter(|image| !image.is_absent) {
                json.item(|json| {
                    match image.is_approximate {
                        true => json.imprecise_number("image_addr", image.base),
                        false => json.number("image_addr", image.base),
                    }
                    json.number("image_size", image.size);
                    json.text("uuid", image.uuid);
                    json.text("name", image.path.or(image.name));
                    if let Some((cpu_type, cpu_subtype)) = image.arch.and_then(cpu) {
                        json.number("cpu_type", cpu_type);
                        json.number("cpu_subtype", cpu_subtype);
                    }
                    let name = image.name.map(|name| name.decode().into_owned());
                    if let Some(message) = name.and_then(|name| messages.remove(&name)) {
                        json.string("crash_info_message", &message);
                    }
                });
            }
        });
    }
}

impl<'a> UsedImage<'a> {
    fn read(item: JsonValue<'a>) -> UsedImage<'a> {
        let [base, size, uuid, path, name, arch, source, approximate] =
            item.find_members(["base", "size", "uuid", "path", "name", "arch", "source", "approximate"]);
        let text =
            |value: Option<JsonValue<'a>>| value.and_then(JsonValue::as_text).filter(|text| !text.is_empty());
        let base = base.and_then(JsonValue::as_unsigned);
        let size = size.and_then(JsonValue::as_unsigned).unwrap_or_default();
        let is_absolute = text(source).is_some_and(|source| source.is("A")) || size >= IMAGE_BYTES_LIMIT;
        UsedImage {
            base: base.unwrap_or_default(),
            size,
            // Each frame repeats it.
            uuid: text(uuid).filter(|uuid| uuid.raw().len() <= UUID_BYTES_LIMIT),
            path: text(path),
            name: text(name),
            arch: text(arch),
            is_approximate: approximate.and_then(JsonValue::as_boolean).unwrap_or(false),
            is_absent: is_absolute && base.unwrap_or_default() == 0 || !item.is_object(),
        }
    }
}

/// Returns the type and subtype in the Mach-O header of an architecture.
pub fn cpu(arch: Text<'_>) -> Option<(u64, u64)> {
    Some(match &*arch.decode() {
        "arm64" => (0x0100_000C, 0),
        "arm64e" => (0x0100_000C, 2),
        "arm64_32" => (0x0200_000C, 1),
        "armv7" => (12, 9),
        "armv7s" => (12, 11),
        "armv7k" => (12, 12),
        "x86_64" => (0x0100_0007, 3),
        "x86_64h" => (0x0100_0007, 8),
        "i386" => (7, 3),
        _ => return None,
    })
}
