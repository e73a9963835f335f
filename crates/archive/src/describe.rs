//! Descriptions of files that give no symbols, by their first bytes, with advice on what to give instead.
//!
//! Sources of the signatures: the formats' own specifications; for Hermes, `BytecodeFileFormat.h` of
//! facebook/hermes; for Breakpad, `docs/symbol_files.md` of google/breakpad; for R8, "ProGuard mapping file" of
//! Android's documentation.

use unslide_report::foreign_format;

const DSYM_ADVICE: &str = "give the dSYM of the app, or its Mach-O file";
const MAP: &str = "give the source map that was written with it";
const REPACK: &str = "pack the files as zip or tar.gz";
const REPORT_ADVICE: &str = "symbols are a dSYM, a Mach-O file or a source map";

/// A format that is recognised by its first bytes.
struct Signature {
    start: &'static [u8],
    name: &'static str,
    instead: &'static str,
}

const fn signature(start: &'static [u8], name: &'static str, instead: &'static str) -> Signature {
    Signature { start, name, instead }
}

const SIGNATURES: [Signature; 37] = [
    signature(b"\x7fELF", "an ELF file of Linux or Android", DSYM_ADVICE),
    signature(b"MZ", "a Windows executable (PE)", DSYM_ADVICE),
    signature(b"Microsoft C/C++ MSF", "debug information of Windows (PDB)", DSYM_ADVICE),
    signature(b"Microsoft C/C++ program database", "debug information of Windows (PDB)", DSYM_ADVICE),
    signature(b"MODULE ", "a symbol file of Breakpad", "give the dSYM that it was made of"),
    signature(
        b"BCSymbolMap",
        "a symbol map of bitcode",
        "apply it to the dSYM with dsymutil --symbol-map, and give the dSYM",
    ),
    signature(b"bplist", "a property list", "give the dSYM or the archive that it lies in"),
    signature(b"BC\xc0\xde", "LLVM bitcode, which is not linked", DSYM_ADVICE),
    signature(b"\xde\xc0\x17\x0b", "LLVM bitcode, which is not linked", DSYM_ADVICE),
    signature(b"!<arch>\n", "a static library", "give the dSYM of the program that it was linked into"),
    signature(b"!<thin>\n", "a static library", "give the dSYM of the program that it was linked into"),
    signature(b"\0asm", "WebAssembly, which is not read", DSYM_ADVICE),
    signature(b"\xc6\x1f\xbc\x03\xc1\x03\x19\x1f", "Hermes bytecode", MAP),
    signature(b"\xe5\xd1\x0b\xfb", "a RAM bundle of React Native", MAP),
    signature(b"\xca\xfe\xba\xbe", "a Java class", DSYM_ADVICE),
    signature(b"dex\n", "a program of Android (DEX)", DSYM_ADVICE),
    signature(b"dyld_v", "a dyld shared cache", "give the libraries that were extracted from it"),
    signature(b"\xe2\x9c\xa8\x0e", "a Swift module", DSYM_ADVICE),
    signature(b"CPCH", "a precompiled header or a clang module", DSYM_ADVICE),
    signature(b"SQLite format 3", "an SQLite database", DSYM_ADVICE),
    signature(b"MDMP", "a minidump", REPORT_ADVICE),
    signature(b"plcrash", "a report of PLCrashReporter", REPORT_ADVICE),
    signature(b"PK\x05\x06", "an empty zip archive", DSYM_ADVICE),
    signature(b"PK\x07\x08", "a part of a split zip archive", REPACK),
    signature(b"\xfd7zXZ", "xz data, such as a tar.xz", REPACK),
    signature(b"BZh", "bzip2 data, such as a tar.bz2", REPACK),
    signature(b"\x04\x22\x4d\x18", "lz4 data", REPACK),
    signature(b"\x5d\0\0", "lzma data", REPACK),
    signature(b"LZIP", "lzip data", REPACK),
    signature(b"bvx", "lzfse data", REPACK),
    signature(b"\x1f\x9d", "data of compress", REPACK),
    signature(b"7z\xbc\xaf", "a 7z archive", REPACK),
    signature(b"Rar!", "a rar archive", REPACK),
    signature(b"xar!", "a xar archive, such as an installer package", REPACK),
    signature(b"AA01", "an Apple archive", REPACK),
    signature(b"AEA1", "an encrypted Apple archive", REPACK),
    signature(
        b"version https://git-lfs",
        "a pointer to a file in Git LFS",
        "fetch the file itself with git lfs pull",
    ),
];

/// Prefixes of JavaScript text.
const JAVASCRIPT_PREFIXES: [&str; 18] = [
    "var ",
    "let ",
    "const ",
    "function ",
    "function(",
    "(function",
    "!function",
    "(()",
    "\"use strict\"",
    "'use strict'",
    "import ",
    "export ",
    "__d(",
    "//",
    "/*",
    "this.",
    "globalThis",
    "(self",
];

/// Describes a file that gives no symbols by its first bytes: its format, and what to give instead.
#[must_use]
pub fn describe_format(head: &[u8]) -> String {
    if let Some(known) = recognise_format(head) {
        return known;
    }
    if std::str::from_utf8(head).is_ok_and(|text| !text.contains('\0')) {
        let json = if starts_as_json(text_of(head)) { "JSON that is no source map" } else { "text" };
        return format!("this is {json}; {REPORT_ADVICE}");
    }
    let shown: Vec<String> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("its format is not known (it begins with {}); {REPORT_ADVICE}", shown.join(" "))
}

/// Does the same as [`describe_format`]; `None` if the first bytes match no known format.
#[must_use]
pub fn recognise_format(head: &[u8]) -> Option<String> {
    if head.is_empty() {
        return Some("the file is empty".to_owned());
    }
    if let Some(known) = SIGNATURES.iter().find(|known| head.starts_with(known.start)) {
        return Some(format!("this is {}; {}", known.name, known.instead));
    }
    if foreign_format(head).is_some() {
        return Some(format!("this is a crash log of Apple (.ips or .crash); {REPORT_ADVICE}"));
    }
    let text = text_of(head);
    let (name, instead) = if starts_as_json(text) {
        (json_map(text)?, "give a source map of version 3")
    } else if text.starts_with("<?xml") || text.starts_with("<!DOCTYPE plist") || text.starts_with("<plist") {
        let is_list = text.contains("plist");
        (if is_list { "a property list" } else { "XML" }.to_owned(), "give the dSYM that it lies in")
    } else if starts_as_html(text) {
        ("a web page, perhaps of a failed download".to_owned(), "download the file again")
    } else if is_shrinker_mapping(text) {
        ("a mapping of ProGuard or R8, for Android".to_owned(), DSYM_ADVICE)
    } else if JAVASCRIPT_PREFIXES.iter().any(|start| text.starts_with(start)) {
        ("JavaScript, such as the bundle".to_owned(), MAP)
    } else {
        return None;
    };
    Some(format!("this is {name}; {instead}"))
}

/// Returns the text at the start of a file, without a byte order mark and white space. Its end may be cut
/// inside a character.
fn text_of(head: &[u8]) -> &str {
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => {
            head.get(..error.valid_up_to()).and_then(|valid| str::from_utf8(valid).ok()).unwrap_or("")
        }
    };
    valid.trim_start()
}

fn starts_as_json(text: &str) -> bool {
    text.starts_with(['{', '['])
}

fn starts_as_html(text: &str) -> bool {
    let start: String = text.chars().take(14).collect::<String>().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// Describes the problem of JSON that has a member of a source map but cannot be read as one; `None` for other
/// JSON.
fn json_map(text: &str) -> Option<String> {
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    if has("crash") || has("binary_images") {
        return None;
    }
    if !["mappings", "sources", "sections", "sourcesContent", "sourceRoot"].into_iter().any(has) {
        return None;
    }
    let Some((_, version)) = text.split_once("\"version\"") else {
        return Some("JSON like a source map, without a version".to_owned());
    };
    let version = version.trim_start().strip_prefix(':').unwrap_or_default().trim_start();
    if let Some(quoted) = version.strip_prefix('"') {
        let version: String = quoted.chars().take_while(|c| *c != '"').take(8).collect();
        return Some(format!("a source map with its version as text (\"{version}\" is not the number 3)"));
    }
    let version: String = version.chars().take_while(char::is_ascii_alphanumeric).take(8).collect();
    Some(format!("a source map of version {version}"))
}

/// True for a mapping of ProGuard or R8: comments, then `a.b.Class -> c.d:`.
fn is_shrinker_mapping(text: &str) -> bool {
    if text.starts_with("# compiler: R8") || text.starts_with("# pg_map") {
        return true;
    }
    let first = text.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty());
    first.is_some_and(|line| {
        let parts = line.trim_end().strip_suffix(':').and_then(|line| line.split_once(" -> "));
        parts.is_some_and(|(from, to)| !from.contains(' ') && !to.contains(' ') && !to.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DETECTION_HEAD_BYTES, FileKind, detect_file_kind};

    #[test]
    fn a_wrong_file_is_named_with_what_to_give_instead() {
        let ips = br#"{"app_name":"Shop","bug_type":"309","incident_id":"1"}"#;
        for (head, name, instead) in [
            (&b""[..], "the file is empty", ""),
            (b"\x7fELF\x02\x01", "an ELF file", "dSYM"),
            (b"MZ\x90\0", "a Windows executable", "dSYM"),
            (b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0", "PDB", "dSYM"),
            (b"MODULE mac arm64 0F1E 0 Shop\n", "Breakpad", "dSYM"),
            (b"BCSymbolMap Version: 2.0\n", "bitcode", "--symbol-map"),
            (b"bplist00\xd1", "a property list", "dSYM"),
            (b"<?xml version=\"1.0\"?>\n<!DOCTYPE plist PUBLIC", "a property list", "dSYM"),
            (b"BC\xc0\xde\x35", "LLVM bitcode", "dSYM"),
            (b"!<arch>\n#1/20", "a static library", "linked into"),
            (b"\0asm\x01\0\0\0", "WebAssembly", "dSYM"),
            (b"\xc6\x1f\xbc\x03\xc1\x03\x19\x1f\x60", "Hermes bytecode", "source map"),
            (b"\xe5\xd1\x0b\xfb\x01", "a RAM bundle", "source map"),
            (b"\xca\xfe\xba\xbe\0\0\0\x3d", "a Java class", "dSYM"),
            (b"\xfd7zXZ\0\0", "xz data", "zip or tar.gz"),
            (b"BZh91AY", "bzip2 data", "zip or tar.gz"),
            (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "zip or tar.gz"),
            (b"Rar!\x1a\x07\x01", "a rar archive", "zip or tar.gz"),
            (br#"{"version":"3","sources":[],"mappings":""}"#, "version as text", "version 3"),
            (br#"{"sources":[],"version" : 2,"mappings":""}"#, "of version 2", "version 3"),
            (br#"{"mappings":"AAAA"}"#, "without a version", "version 3"),
            (b"var __BUNDLE_START_TIME__=this.nativePerformanceNow", "JavaScript", "source map"),
            (b"\xEF\xBB\xBF  (function(){", "JavaScript", "source map"),
            (b"# compiler: R8\n# compiler_version: 8.5\n", "ProGuard or R8", "dSYM"),
            (b"com.example.Cart -> a.b:\n    int total -> a\n", "ProGuard or R8", "dSYM"),
            (ips, "a crash log of Apple", "dSYM"),
            (b"Incident Identifier: 5A9E\nHardware Model: x\n", "a crash log of Apple", "dSYM"),
            (b"<!DOCTYPE html>\n<html>", "a web page", "download"),
            (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS", "git lfs pull"),
            (br#"{"report":{"version":"3"},"crash":{}}"#, "JSON that is no source map", "dSYM"),
            (b"MIT License\n", "this is text", "dSYM"),
            (b"\x01\x02\x03\xff", "is not known (it begins with 01 02 03 ff)", "dSYM"),
        ] {
            let text = describe_format(head);
            assert!(text.contains(name) && text.contains(instead), "{text}: {name}, {instead}");
            assert!(
                !matches!(detect_file_kind(head), FileKind::Binary(_) | FileKind::Gzip | FileKind::Tar),
                "{name}"
            );
        }
        assert!(describe_format(&[0; DETECTION_HEAD_BYTES]).contains("not known"));
    }

    #[test]
    fn text_that_is_cut_in_a_letter_is_still_text() {
        let head = "// Übersicht".as_bytes();
        assert!(describe_format(&head[..4]).contains("JavaScript"), "{}", describe_format(&head[..4]));
    }
}
