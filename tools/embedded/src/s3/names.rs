//! The files of keys.
//!
//! The object `a/b` is the file `a/b` in the folder of its bucket. A backslash begins everything else, so that
//! names with escapes of URLs stay as they are:
//!
//! * `\5C` is a backslash of the key, `\00` a zero byte, and `\2E` a dot in a name that is `.` or `..`.
//! * `\-` is a name without letters: the key `a/` is the file `a/\-`.
//! * `\` in the folder `a` is the object `a`, if `a/b` exists beside it.
//! * A folder that ends with `\+` has the first bytes of names that are too long for the disk.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The most bytes of a name on disk. File systems take 255.
const NAME_BYTES_LIMIT: usize = 240;
/// The file of an object in the folder of its key.
pub(super) const OWN_FILE: &str = "\\";
const EMPTY_NAME: &str = "\\-";
const CONTINUED: &str = "\\+";

/// The meaning of a name on disk.
#[derive(Debug, PartialEq)]
pub(super) enum DiskName {
    /// The object of the folder itself.
    Own,
    /// The first bytes of longer names.
    Continued(String),
    Whole(String),
}

/// Returns the path of the object's file.
pub(super) fn object_path(bucket: &Path, key: &str) -> PathBuf {
    let mut path = bucket.to_path_buf();
    for name in key.split('/') {
        push_name(&mut path, name);
    }
    path
}

/// Returns the folder with the keys that begin with the prefix up to its last slash.
pub(super) fn prefix_folder(bucket: &Path, prefix: &str) -> PathBuf {
    prefix.rsplit_once('/').map_or_else(|| bucket.to_path_buf(), |(names, _)| object_path(bucket, names))
}

fn push_name(path: &mut PathBuf, name: &str) {
    let mut part = String::new();
    for letter in name.chars() {
        let mut buffer = [0; 4];
        let escaped = match letter {
            '\\' => "\\5C",
            '\0' => "\\00",
            other => other.encode_utf8(&mut buffer),
        };
        if part.len() + escaped.len() > NAME_BYTES_LIMIT {
            path.push(part + CONTINUED);
            part = String::new();
        }
        part.push_str(escaped);
    }
    match part.as_str() {
        "" => path.push(EMPTY_NAME),
        "." | ".." => path.push(part.replace('.', "\\2E")),
        _ => path.push(part),
    }
}

/// Returns the meaning of a name on disk, or None if no key has it.
pub(super) fn read_name(name: &OsStr) -> Option<DiskName> {
    let decode = |text: &str| text.replace("\\2E", ".").replace("\\00", "\0").replace("\\5C", "\\");
    let name = name.to_str()?;
    match name {
        OWN_FILE => Some(DiskName::Own),
        EMPTY_NAME => Some(DiskName::Whole(String::new())),
        _ => match name.strip_suffix(CONTINUED) {
            Some(first) => Some(DiskName::Continued(decode(first))),
            None => Some(DiskName::Whole(decode(name))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the key of a path again.
    fn read_key(bucket: &Path, path: &Path) -> String {
        let mut key = String::new();
        for name in path.strip_prefix(bucket).unwrap() {
            match read_name(name).unwrap() {
                DiskName::Continued(first) => key.push_str(&first),
                DiskName::Whole(name) => key = key + &name + "/",
                DiskName::Own => panic!("no key is the file of a folder"),
            }
        }
        key.pop();
        key
    }

    #[test]
    fn a_key_is_a_path_below_the_bucket_that_can_be_read_again() {
        let bucket = Path::new("/data/bucket");
        let (long, dots) = ("\u{e4}\\".repeat(200), ".".repeat(241));
        for key in [
            "a",
            "a/b",
            "../a",
            "..",
            ".",
            "/",
            "//",
            "/etc/passwd",
            "a/../../b",
            "a/",
            "a//b",
            "%",
            "%2E",
            "%+",
            "%-",
            "a b+\u{e4}",
            "\0",
            "a\n",
            ".hidden",
            "day=1/app=%20",
            "\\",
            "\\+/a\\-",
            "\\5C2E",
            &long,
            &dots,
        ] {
            let path = object_path(bucket, key);
            assert!(path.starts_with(bucket) && path != bucket, "{key}: {}", path.display());
            for name in path.strip_prefix(bucket).unwrap().components() {
                assert!(matches!(name, std::path::Component::Normal(name) if name.len() <= 255), "{key}");
            }
            assert_eq!(read_key(bucket, &path), key);
        }
        assert_eq!(object_path(bucket, "t/acme/a.dSYM"), bucket.join("t/acme/a.dSYM"));
        assert_eq!(object_path(bucket, "app=a%2Fb"), bucket.join("app=a%2Fb"));
        assert_eq!(prefix_folder(bucket, "t/acme/a"), bucket.join("t/acme"));
        assert_eq!(prefix_folder(bucket, "t/acme/"), bucket.join("t/acme"));
        assert_eq!(prefix_folder(bucket, "../a"), Path::new("/data/bucket/\\2E\\2E"));
        assert_eq!(prefix_folder(bucket, "t"), bucket);
    }
}
