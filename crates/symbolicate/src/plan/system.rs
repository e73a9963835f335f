//! Which images belong to the operating system, by their paths.
//!
//! Paths are the device's words: they decide what is shown first and asked for first, never whom
//! to trust.

use std::borrow::Cow;
use unslide_report::{ReportPart, Text};

/// True for a path of the operating system: under /System, /usr/lib or /Library/Apple, in the root
/// of a simulator's runtime, in a debugger's DeviceSupport folder, or in a Cryptex.
#[must_use]
pub fn is_system_path(path: &str) -> bool {
    const ROOTS: [&str; 3] = ["/System/", "/usr/lib/", "/Library/Apple/"];
    const FOLDERS: [&str; 5] =
        ["/RuntimeRoot/", ".simruntime/", "Simulator.sdk/", "DeviceSupport/", "/Cryptexes/"];
    path.starts_with('/')
        && (ROOTS.iter().any(|root| path.starts_with(root)) || FOLDERS.iter().any(|f| path.contains(f)))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_images_are_told_by_their_paths() {
        for path in [
            "/System/Library/Frameworks/UIKit.framework/UIKit",
            "/usr/lib/system/libsystem_kernel.dylib",
            "/Library/Apple/System/Library/CoreServices/a",
            "/Volumes/iOS_21A342/Library/Developer/CoreSimulator/Profiles/Runtimes/iOS 17.0.simruntime/Contents/Resources/usr/lib/libobjc.A.dylib",
            "/Library/Developer/CoreSimulator/RuntimeRoot/usr/lib/libobjc.A.dylib",
            "/Applications/Xcode.app/Contents/Developer/Platforms/iPhoneSimulator.platform/Developer/SDKs/iPhoneSimulator.sdk/System/a",
            "/Users/me/Library/Developer/Xcode/iOS DeviceSupport/17.0/Symbols/usr/lib/dyld",
            "/private/preboot/Cryptexes/OS/System/Library/Frameworks/WebKit.framework/WebKit",
        ] {
            assert!(is_system_path(path), "{path}");
        }
        for path in [
            "/private/var/containers/Bundle/Application/0F1E/Shop.app/Shop",
            "/usr/libexec/thing",
            "/usr/local/lib/libz.dylib",
            "/Systems/a",
            "System/a",
            "Shop",
            "",
        ] {
            assert!(!is_system_path(path), "{path}");
        }
    }
}
