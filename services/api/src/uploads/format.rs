//! What an upload looks like from its first bytes, so that a wrong file is refused before the rest
//! of it has come over the network.

use crate::http::problem::{Kind, Problem};

/// Bytes that are enough to tell: a tar header is 512 bytes long.
pub const ENOUGH: usize = 512;

/// A file format that the builder takes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A zip archive, `PK\x03\x04` (APPNOTE 4.3.7).
    Zip,
    /// gzip data, of a tar archive or of one file (RFC 1952).
    Gzip,
    /// A tar archive, `ustar` at 257 (POSIX pax, and GNU's).
    Tar,
    /// A thin Mach-O file of either width and byte order (`mach-o/loader.h`).
    MachO,
    /// A fat Mach-O file (`mach-o/fat.h`).
    FatMachO,
}

impl Format {
    /// The format that `head`, the first [`ENOUGH`] bytes (fewer only at the file's end), begins.
    ///
    /// # Errors
    /// [`Kind::InvalidUpload`] for an empty file, [`Kind::UnsupportedFormat`] for another format.
    pub fn of(head: &[u8]) -> Result<Format, Problem> {
        if head.is_empty() {
            return Err(Problem::new(Kind::InvalidUpload, "the file is empty"));
        }
        let found = match head {
            [b'P', b'K', 3, 4, ..] => Some(Format::Zip),
            [0x1f, 0x8b, ..] => Some(Format::Gzip),
            [0xce | 0xcf, 0xfa, 0xed, 0xfe, ..] | [0xfe, 0xed, 0xfa, 0xce | 0xcf, ..] => Some(Format::MachO),
            // A Java class begins with the same four bytes; then comes its version, 45 or more, where
            // a fat file has its number of slices.
            [0xca, 0xfe, 0xba, 0xbe | 0xbf, 0, 0, 0, 1..=44, ..] => Some(Format::FatMachO),
            _ if head.get(257..262) == Some(b"ustar") => Some(Format::Tar),
            _ => None,
        };
        found.ok_or_else(|| {
            let taken = "zip, tar, tar.gz, gz, a dSYM bundle in one of them, or a Mach-O file, thin or fat";
            Problem::new(Kind::UnsupportedFormat, format!("{}; an upload is {taken}", describe(head)))
        })
    }
}

/// What a refused file seems to be.
fn describe(head: &[u8]) -> &'static str {
    match head {
        [b'P', b'K', 5, 6, ..] => "the zip archive is empty",
        [0x7f, b'E', b'L', b'F', ..] => "this is an ELF file",
        [b'M', b'Z', ..] => "this is a Windows executable",
        [b'B', b'Z', b'h', ..] => "this is bzip2 data",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "this is xz data",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "this is zstd data",
        [b'7', b'z', 0xbc, 0xaf, ..] => "this is a 7z archive",
        [0xca, 0xfe, 0xba, 0xbe, ..] => "this is a Java class",
        [b'<', ..] | [b'{', ..] => "this is text",
        _ => "the format is not known",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_known_by_its_beginning() {
        let mut tar = vec![b'a'; ENOUGH];
        tar[257..262].copy_from_slice(b"ustar");
        let cases: [(&[u8], Format); 9] = [
            (b"PK\x03\x04rest", Format::Zip),
            (b"\x1f\x8b\x08", Format::Gzip),
            (&tar, Format::Tar),
            (b"\xcf\xfa\xed\xfe....", Format::MachO),
            (b"\xce\xfa\xed\xfe....", Format::MachO),
            (b"\xfe\xed\xfa\xce....", Format::MachO),
            (b"\xfe\xed\xfa\xcf....", Format::MachO),
            (b"\xca\xfe\xba\xbe\x00\x00\x00\x02....", Format::FatMachO),
            (b"\xca\xfe\xba\xbf\x00\x00\x00\x01....", Format::FatMachO),
        ];
        for (head, format) in cases {
            assert_eq!(Format::of(head).unwrap(), format);
        }
    }

    #[test]
    fn what_is_refused_is_named() {
        assert_eq!(Format::of(b"").unwrap_err().kind(), Kind::InvalidUpload);
        for (head, word) in [
            (&b"PK\x05\x06\0\0"[..], "empty"),
            (b"\x7fELF", "ELF"),
            (b"\xca\xfe\xba\xbe\x00\x00\x00\x3d", "Java"),
            (b"\xca\xfe\xba\xbe\x00\x00\x00\x00", "Java"),
            (b"{}", "text"),
            (b"\x00", "not known"),
            (&[0; ENOUGH], "not known"),
        ] {
            let problem = Format::of(head).unwrap_err();
            assert_eq!(problem.kind(), Kind::UnsupportedFormat);
            assert!(problem.detail().unwrap().contains(word), "{:?}", problem.detail());
        }
    }
}
