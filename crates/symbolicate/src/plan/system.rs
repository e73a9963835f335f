//! Which images without a path belong to the operating system, and the file names of images.

use std::borrow::Cow;
use unslide_report::{ReportPart, Text};

/// Where images of the dyld shared cache lie on 64-bit ARM.
const SHARED_CACHE: std::ops::Range<u64> = 0x1_8000_0000..0x8_0000_0000;

/// True for an image of the operating system without a path: by its file name, or else by where it was loaded.
#[must_use]
pub fn lies_in_shared_cache(name: &str, start: u64) -> bool {
    name == "dyld" || name.starts_with("libsystem_") || SHARED_CACHE.contains(&start)
}

/// The same of an image in no list. Profiles and diagnostics have none; of a crash report without its list nothing is
/// guessed.
pub(crate) fn is_system_without_path(name: Option<Text<'_>>, start: u64, part: &ReportPart<'_>) -> bool {
    let sampled = part.is_profile() || part.is_metric_kit();
    sampled && lies_in_shared_cache(&name.map(Text::decode).unwrap_or_default(), start)
}

/// The file name at the end of an image's path, ready to be put between quotes, with whatever
/// escapes the report has. A path without a folder is its own file name.
pub(crate) fn file_name(path: Text<'_>) -> &[u8] {
    let raw = path.raw();
    let start = raw.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
    &raw[start..]
}

/// True where a frame's `object_name` is the file name of the image at `path`; `file` is what
/// [`file_name`] says of the path.
pub(crate) fn names_image(object_name: Text<'_>, file: &[u8], path: Text<'_>) -> bool {
    if object_name.raw() == file {
        return true;
    }
    if !object_name.raw().contains(&b'\\') && !path.raw().contains(&b'\\') {
        return false;
    }
    // The same name may be escaped in two ways.
    let path: Cow<'_, str> = path.decode();
    object_name.decode() == path.rsplit('/').next().unwrap_or_default()
}
