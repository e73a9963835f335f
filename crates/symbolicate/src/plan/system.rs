//! Which images without a path belong to the operating system, and file names of images.

use std::borrow::Cow;
use unslide_report::{ReportPart, Text, is_framework_name, is_system_file_name, is_system_path};

/// The address range of the dyld shared cache on 64-bit ARM.
const SHARED_CACHE: std::ops::Range<u64> = 0x1_8000_0000..0x8_0000_0000;
/// The address range of the dyld shared cache on x86-64.
const SHARED_CACHE_X86_64: std::ops::Range<u64> = 0x7FF8_0000_0000..0x8000_0000_0000;
/// Load addresses of an app's images on 64-bit systems. Other addresses outside of the cache are of 32-bit processes, or
/// were made up because the report has none.
const APP_IMAGES: std::ops::Range<u64> = 0x1_0000_0000..0x1_8000_0000;

/// True for an operating-system image without a path, recognised by its file name or else its load address. If the address
/// says nothing, the name of a framework counts.
#[must_use]
pub fn lies_in_shared_cache(name: &str, start: u64) -> bool {
    is_system_file_name(name)
        || SHARED_CACHE.contains(&start)
        || SHARED_CACHE_X86_64.contains(&start)
        || !APP_IMAGES.contains(&start) && is_framework_name(name)
}

/// The same check for an image in no list. Only profiles and diagnostics have such images. In a crash report
/// without an image list, nothing is guessed.
pub(crate) fn is_system_without_path(name: Option<Text<'_>>, start: u64, part: &ReportPart<'_>) -> bool {
    let sampled = part.is_profile() || part.is_metric_kit();
    sampled && lies_in_shared_cache(&name.map(Text::decode).unwrap_or_default(), start)
}

/// True for an operating-system image in a list. Lists of MetricKit and of cut texts have file names instead of paths.
pub(crate) fn is_system_image(name: Option<Text<'_>>, start: u64) -> bool {
    let Some(name) = name.map(Text::decode).filter(|name| !name.is_empty()) else { return false };
    if name.contains('/') { is_system_path(&name) } else { lies_in_shared_cache(&name, start) }
}

/// Returns the file name at the end of an image's path, with the report's own escapes, ready to be put between
/// quotes. A path without a folder is its own file name.
pub(crate) fn file_name(path: Text<'_>) -> &[u8] {
    let raw = path.raw();
    let start = raw.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
    &raw[start..]
}

/// True if a frame's `object_name` is the file name of the image at `path`. `file` is the result of
/// [`file_name`] for the path.
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
