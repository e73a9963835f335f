//! Modules of React Native's RAM bundles and segments of bundles: parts of a bundle that engines name as files.

use super::JavaScriptFrame;

/// A part of a bundle. `123.js` is module 123 of the bundle itself, `seg-3.js` is its segment 3, and `seg-3_5.js` is
/// module 5 of that segment. The bundle's source map covers all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleModule {
    /// The segment; 0 is the bundle itself.
    pub segment: u32,
    /// The module's number; `None` for a whole segment.
    pub module: Option<u32>,
}

impl BundleModule {
    /// Parses a file name that React Native gives to a module.
    fn from_file_name(name: &str) -> Option<BundleModule> {
        let name = name.strip_suffix(".js")?;
        let Some(segment) = name.strip_prefix("seg-") else {
            return Some(BundleModule { segment: 0, module: Some(parse_number(name)?) });
        };
        let (segment, module) = match segment.split_once('_') {
            Some((segment, module)) => (segment, Some(parse_number(module)?)),
            None => (segment, None),
        };
        Some(BundleModule { segment: parse_number(segment)?, module })
    }
}

fn parse_number(digits: &str) -> Option<u32> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Sets the modules of the frames, and returns the bundle that contains them. Web bundlers also name files `123.js`:
/// those are separate bundles.
pub(super) fn find_bundle(frames: &mut [JavaScriptFrame], is_react_native: bool, default: &str) -> String {
    let of_metro = |name: &&str| [".jsbundle", ".bundle"].iter().any(|suffix| name.ends_with(suffix));
    let bundle = frames.iter().filter_map(|frame| frame.bundle.as_deref()).find(of_metro).map(str::to_owned);
    if is_react_native || bundle.is_some() {
        for frame in frames {
            frame.module = frame.bundle.as_deref().and_then(BundleModule::from_file_name);
        }
    }
    bundle.unwrap_or_else(|| default.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_modules_and_segments_are_read() {
        let of = |name| BundleModule::from_file_name(name).map(|part| (part.segment, part.module));
        assert_eq!(of("123.js"), Some((0, Some(123))));
        assert_eq!(of("seg-3.js"), Some((3, None)));
        assert_eq!(of("seg-3_5.js"), Some((3, Some(5))));
        for name in
            ["main.jsbundle", "1.2.js", ".js", "seg-.js", "seg-1_.js", "+1.js", "99999999999.js", "1.mjs"]
        {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
