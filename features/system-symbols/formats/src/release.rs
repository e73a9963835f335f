//! Versions and builds of an operating system, as the names of folders tell them.

use std::fmt;
use std::path::Path;

/// A release of an operating system. The build is not in a cache: it comes from a folder's name or an option.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// The version, such as `26.2`.
    pub version: Option<String>,
    /// The build, such as `23B87`.
    pub build: Option<String>,
}

impl Release {
    /// Reads the innermost folder name of a path that has a version and a build, such as
    /// `iPhone17,1 26.2 (23B87)` or `26.2 (23B87)`, or a build in front, such as `23B87__iPhone17,1`.
    pub fn from_path(path: &Path) -> Release {
        let names = path.components().rev().filter_map(|part| part.as_os_str().to_str());
        names.filter_map(read_name).next().unwrap_or_default()
    }

    /// Returns the release with these values in place of its own.
    pub fn with_options(self, version: Option<&String>, build: Option<&String>) -> Release {
        Release { version: version.cloned().or(self.version), build: build.cloned().or(self.build) }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.version, &self.build) {
            (Some(version), Some(build)) => write!(f, "{version} ({build})"),
            (Some(version), None) => f.write_str(version),
            (None, Some(build)) => write!(f, "({build})"),
            (None, None) => f.write_str("of an unknown build"),
        }
    }
}

fn read_name(name: &str) -> Option<Release> {
    let Some((before, rest)) = name.split_once('(') else {
        let (build, _) = name.split_once("__")?;
        return is_build(build).then(|| Release { version: None, build: Some(build.to_owned()) });
    };
    let (build, _) = rest.split_once(')')?;
    let version = before.split_whitespace().last().filter(|word| is_version(word));
    is_build(build).then(|| Release { version: version.map(str::to_owned), build: Some(build.to_owned()) })
}

/// Returns true for a build number: digits, a capital letter, digits, and perhaps a small letter.
pub fn is_build(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let Some(rest) = rest.strip_prefix(|c: char| c.is_ascii_uppercase()) else { return false };
    let end = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < text.len() - 1
        && end.len() < rest.len()
        && (end.is_empty() || (end.len() == 1 && end.bytes().all(|byte| byte.is_ascii_lowercase())))
        && text.len() <= 16
}

fn is_version(text: &str) -> bool {
    text.split('.')
        .all(|part| !part.is_empty() && part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_every_tool_tell_their_release() {
        for (path, shown) in [
            ("/x/iOS DeviceSupport/17.5.1 (21F90)/Symbols/usr/lib", "17.5.1 (21F90)"),
            ("/x/iOS DeviceSupport/iPhone17,1 26.2 (23B87)/Symbols", "26.2 (23B87)"),
            ("/x/iOS DeviceSupport/26.2 (23B87)/arm64e/Symbols", "26.2 (23B87)"),
            ("/x/16.4 (20E5239b) arm64e/Symbols", "16.4 (20E5239b)"),
            ("./23B87__iPhone17,1", "(23B87)"),
            ("/x/System/Library/dyld", "of an unknown build"),
            ("/x/Copy (2)/a", "of an unknown build"),
        ] {
            assert_eq!(Release::from_path(Path::new(path)).to_string(), shown, "{path}");
        }
    }

    #[test]
    fn an_option_replaces_what_a_folder_tells() {
        let release = Release::from_path(Path::new("/x/26.2 (23B87)"));
        let release = release.with_options(None, Some(&"23B90".to_owned()));
        assert_eq!(release.to_string(), "26.2 (23B90)");
        for wrong in ["", "23", "B87", "23B", "23b87", "23B87bb", "23B87)"] {
            assert!(!is_build(wrong), "{wrong}");
        }
    }
}
