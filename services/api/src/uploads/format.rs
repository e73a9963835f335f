//! Format check of an upload by its first bytes, so that a wrong file is refused before the rest of it is
//! sent.

use crate::problem::{Kind, Problem};
use unslide_archive::{FileKind, describe_format, detect_file_kind};

/// Refuses a file that the builder cannot unpack. `head` is its first
/// [`DETECTION_HEAD_BYTES`](unslide_archive::DETECTION_HEAD_BYTES) bytes, or all of a shorter file.
///
/// # Errors
/// [`Kind::InvalidUpload`] for an empty file, [`Kind::UnsupportedFormat`] for another format.
pub fn check_format(head: &[u8]) -> Result<(), Problem> {
    if head.is_empty() {
        return Err(Problem::new(Kind::InvalidUpload, "the file is empty"));
    }
    match detect_file_kind(head) {
        FileKind::Zip if head.starts_with(EMPTY_ZIP) => {}
        FileKind::Zip | FileKind::Gzip | FileKind::Zstd | FileKind::Tar | FileKind::Binary(_) => {
            return Ok(());
        }
        FileKind::StaticLibrary | FileKind::BundleManifest | FileKind::Unsupported(_) | FileKind::Other => {}
    }
    let taken = "zip, tar, tar.gz, gz, tar.zst, zst, a dSYM bundle in one of them, a Mach-O file, thin or fat, or a source map";
    Err(Problem::new(Kind::UnsupportedFormat, format!("{}. An upload is {taken}", describe_format(head))))
}

/// The first bytes of a zip archive without members (APPNOTE 4.3.16).
const EMPTY_ZIP: &[u8] = b"PK\x05\x06";

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_archive::DETECTION_HEAD_BYTES;

    #[test]
    fn each_format_is_known_by_its_beginning() {
        let mut tar = vec![0; DETECTION_HEAD_BYTES];
        tar[257..262].copy_from_slice(b"ustar");
        let sum: u32 = tar.iter().map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
        tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let heads: [&[u8]; 11] = [
            b"PK\x03\x04rest",
            b"\x1f\x8b\x08",
            b"\x28\xb5\x2f\xfd",
            &tar,
            b"\xcf\xfa\xed\xfe....",
            b"\xce\xfa\xed\xfe....",
            b"\xfe\xed\xfa\xce....",
            b"\xfe\xed\xfa\xcf....",
            b"\xca\xfe\xba\xbe\x00\x00\x00\x02....",
            b"\xca\xfe\xba\xbf\x00\x00\x00\x01....",
            br#"{"version":3,"sources":["#,
        ];
        for head in heads {
            assert!(check_format(head).is_ok(), "{head:?}");
        }
    }

    #[test]
    fn what_is_refused_is_named() {
        assert_eq!(check_format(b"").unwrap_err().kind(), Kind::InvalidUpload);
        for (head, word) in [
            (&b"PK\x05\x06\0\0"[..], "empty"),
            (b"\x7fELF", "ELF"),
            (b"\xca\xfe\xba\xbe\x00\x00\x00\x3d", "Java"),
            (b"\xca\xfe\xba\xbe\x00\x00\x00\x00", "Java"),
            (b"{}", "JSON"),
            (b"MODULE mac arm64 0F1E 0 Shop\n", "dSYM"),
            (br#"{"version":"3","sources":[],"mappings":""}"#, "version as text"),
            (b"\x00", "not known"),
            (&[0; DETECTION_HEAD_BYTES], "not known"),
        ] {
            let problem = check_format(head).unwrap_err();
            assert_eq!(problem.kind(), Kind::UnsupportedFormat);
            assert!(problem.detail().unwrap().contains(word), "{:?}", problem.detail());
        }
    }
}
