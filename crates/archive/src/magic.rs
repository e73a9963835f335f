//! Detects the kind of a file by its first bytes.

use super::tar_header::is_header;

/// A kind of file that contains an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// One architecture.
    Thin,
    /// A container of several.
    Fat,
    /// The source map of a JavaScript bundle.
    SourceMap,
    /// The names of an image of an operating system.
    Names,
}

/// The kind of an uploaded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A Mach-O file, a source map or a names file.
    Binary(Binary),
    /// A zip archive.
    Zip,
    /// gzip data, of a tar archive or of one file.
    Gzip,
    /// zstd data, of a tar archive or of one file.
    Zstd,
    /// A tar archive.
    Tar,
    /// A static library, which has no debug id.
    StaticLibrary,
    /// The list of the JavaScript bundles and source maps in an archive.
    BundleManifest,
    /// An archive in a format that is not supported.
    Unsupported(&'static str),
    /// Anything else.
    Other,
}

/// Bytes that [`detect_file_kind`] needs: one tar header.
pub const DETECTION_HEAD_BYTES: usize = 512;

/// The first bytes of a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";
/// The first bytes of an archive with source files: these, a version of four bytes, and a zip archive. Offsets in the zip
/// archive count from here.
const SOURCE_BUNDLE: &[u8] = b"SYSB";

/// The member of a manifest that names the files of an archive with source files.
const BUNDLE_FILES: &[u8] = br#""files":{"files/"#;

/// A fat file has few architectures. A Java class file has the same magic, with its version (45 or more) in the
/// same place.
const MOST_ARCHITECTURES: u32 = 44;

/// Detects the kind of a file by its first [`DETECTION_HEAD_BYTES`] bytes, or by all bytes of a shorter file.
#[must_use]
pub fn detect_file_kind(head: &[u8]) -> FileKind {
    let word = |at: usize| head.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    match word(0) {
        Some(0xfeed_face | 0xfeed_facf | 0xcefa_edfe | 0xcffa_edfe) => return FileKind::Binary(Binary::Thin),
        Some(0xcafe_babe | 0xcafe_babf) if word(4).is_some_and(|n| (1..=MOST_ARCHITECTURES).contains(&n)) => {
            return FileKind::Binary(Binary::Fat);
        }
        _ => {}
    }
    let signatures: [(&[u8], FileKind); 14] = [
        (b"UNSLNAME", FileKind::Binary(Binary::Names)),
        (ZIP, FileKind::Zip),
        (b"PK\x05\x06", FileKind::Zip),
        (b"\x1f\x8b\x08", FileKind::Gzip),
        (b"!<arch>\n", FileKind::StaticLibrary),
        (b"\xfd7zXZ\0", FileKind::Unsupported("xz")),
        (b"BZh", FileKind::Unsupported("bzip2")),
        (b"\x28\xb5\x2f\xfd", FileKind::Zstd),
        (b"7z\xbc\xaf\x27\x1c", FileKind::Unsupported("7z")),
        (b"Rar!\x1a\x07", FileKind::Unsupported("rar")),
        (b"xar!", FileKind::Unsupported("xar")),
        (b"AA01", FileKind::Unsupported("Apple")),
        (b"AEA1", FileKind::Unsupported("encrypted Apple")),
        (b"PK\x07\x08", FileKind::Unsupported("spanned zip")),
    ];
    if let Some((_, kind)) = signatures.iter().find(|(magic, _)| head.starts_with(magic)) {
        return *kind;
    }
    if head.starts_with(SOURCE_BUNDLE) && head.get(8..).is_some_and(|rest| rest.starts_with(ZIP)) {
        return FileKind::Zip;
    }
    if head.starts_with(b"{") && head.windows(BUNDLE_FILES.len()).any(|part| part == BUNDLE_FILES) {
        return FileKind::BundleManifest;
    }
    if is_source_map(head) {
        return FileKind::Binary(Binary::SourceMap);
    }
    if is_header(head) { FileKind::Tar } else { FileKind::Other }
}

/// True for JSON that begins like a source map: with `"version": 3` and one of a map's other members, or with
/// the debug id that `unslide upload` puts first.
fn is_source_map(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    let head = match head.strip_prefix(b")]}") {
        Some(rest) => rest.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default().trim_ascii_start(),
        None => head,
    };
    let Some(inside) = head.strip_prefix(b"{") else { return false };
    let behind = |key: &[u8]| {
        let at = inside.windows(key.len()).position(|window| window == key)?;
        inside.get(at + key.len()..)
    };
    let is_3 = behind(b"\"version\"").is_some_and(|rest| {
        let rest = rest.trim_ascii_start().strip_prefix(b":").unwrap_or_default().trim_ascii_start();
        rest.first() == Some(&b'3')
            && rest.get(1).is_none_or(|after| !after.is_ascii_digit() && *after != b'.')
    });
    let keys: [&[u8]; 7] = [
        b"\"mappings\"",
        b"\"sources\"",
        b"\"sourceRoot\"",
        b"\"sections\"",
        b"\"names\"",
        b"\"debugId\"",
        b"\"file\"",
    ];
    inside.trim_ascii_start().starts_with(b"\"x_unslide_debug_id\"")
        || (is_3 && keys.into_iter().any(|key| behind(key).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide() {
        let fat = |n: u32| [0xcafe_babe_u32.to_be_bytes(), n.to_be_bytes()].concat();
        assert_eq!(detect_file_kind(&fat(2)), FileKind::Binary(Binary::Fat));
        assert_eq!(detect_file_kind(&fat(61)), FileKind::Other, "a Java class file");
        assert_eq!(detect_file_kind(&fat(0)), FileKind::Other);
        assert_eq!(detect_file_kind(&0xfeed_facf_u32.to_le_bytes()), FileKind::Binary(Binary::Thin));
        assert_eq!(detect_file_kind(b"PK\x03\x04"), FileKind::Zip);
        assert_eq!(detect_file_kind(b"\x1f\x8b\x08\x00"), FileKind::Gzip);
        assert_eq!(detect_file_kind(b"UNSLNAME\x01"), FileKind::Binary(Binary::Names));
        assert_eq!(detect_file_kind(b"BZh9"), FileKind::Unsupported("bzip2"));
        assert_eq!(detect_file_kind(b"SYSB\x02\0\0\0PK\x03\x04"), FileKind::Zip);
        assert_eq!(detect_file_kind(b"SYSB\x02\0\0\0"), FileKind::Other);
        assert_eq!(detect_file_kind(br#"{"files":{"files/_/_/a.js":{}"#), FileKind::BundleManifest);
        assert_eq!(
            detect_file_kind(br#"{"dist":"7","files":{"files/_/_/a.js":{}"#),
            FileKind::BundleManifest
        );
        let map = FileKind::Binary(Binary::SourceMap);
        assert_eq!(detect_file_kind(br#"{ "version" : 3, "sources": ["#), map);
        assert_eq!(detect_file_kind(b")]}'\n{\"sections\":[],\"version\":3}"), map);
        assert_eq!(detect_file_kind(br#"{"x_unslide_debug_id":"","#), map);
        for other in
            [r#"{"version":30,"sources":[]}"#, r#"{"version":"3","file":""}"#, r#"{"report":{"version":3}}"#]
        {
            assert_eq!(detect_file_kind(other.as_bytes()), FileKind::Other, "{other}");
        }
        assert_eq!(detect_file_kind(b""), FileKind::Other);
        assert_eq!(detect_file_kind(&[0; 512]), FileKind::Other, "zeros are no tar header");
    }
}
