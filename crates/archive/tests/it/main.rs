//! Archives as build pipelines make them; hostile ones and sparse members are beside this file.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

mod hostile;
mod sparse;

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{Cursor, Read, Write};
use unslide_archive::{
    ArchiveError, Binary, Contents, MemberSink, SkipReason, ToFolder, UnpackLimits, unpack_upload,
};
use zip::write::SimpleFileOptions;

/// Keeps members in memory.
#[derive(Default)]
pub struct Kept(pub Vec<(String, Binary, Vec<u8>)>);

impl MemberSink for Kept {
    fn receive_member(
        &mut self,
        path: &str,
        binary: Binary,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|e| match e.downcast::<ArchiveError>() {
            Ok(error) => error,
            Err(error) => ArchiveError::Disk(error),
        })?;
        self.0.push((path.into(), binary, bytes));
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

/// Members by path, and the rest.
type Opened = (Vec<(String, Vec<u8>)>, Contents);

pub fn open(bytes: &[u8], limits: &UnpackLimits) -> Result<Opened, ArchiveError> {
    let mut kept = Kept::default();
    let contents = unpack_upload(Cursor::new(bytes), "upload", limits, &mut kept)?;
    Ok((kept.0.into_iter().map(|(path, _, bytes)| (path, bytes)).collect(), contents))
}

/// Something that begins like a thin Mach-O file.
pub fn thin(n: u8) -> Vec<u8> {
    let mut bytes = 0xfeed_facf_u32.to_le_bytes().to_vec();
    bytes.extend((0..3000_u32).map(|i| (i as u8).wrapping_mul(n)));
    bytes
}

pub fn fat() -> Vec<u8> {
    let mut bytes = 0xcafe_babe_u32.to_be_bytes().to_vec();
    bytes.extend(2_u32.to_be_bytes());
    bytes.extend([0; 5000]);
    bytes
}

pub fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub fn tar_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, *bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

pub fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

pub fn zst(bytes: &[u8]) -> Vec<u8> {
    let mut zst = zstd::Encoder::new(Vec::new(), 3).unwrap();
    zst.include_checksum(true).unwrap();
    zst.write_all(bytes).unwrap();
    zst.finish().unwrap()
}

#[test]
fn zstd_is_a_layer_as_gzip_is() {
    let tar = tar_of(&[("Shop.app.dSYM/Contents/Resources/DWARF/Shop", &thin(1))]);
    for packed in [zst(&tar), gz(&zst(&tar)), zip_of(&[("all.tar.zst", &zst(&tar))])] {
        let (members, _) = open(&packed, &UnpackLimits::default()).unwrap();
        assert_eq!(members.len(), 1, "{members:?}");
        assert_eq!(members[0].1, thin(1));
    }
    assert_eq!(open(&zst(&thin(2)), &UnpackLimits::default()).unwrap().0, [("upload".to_owned(), thin(2))]);
    let cut = zst(&thin(2));
    assert_eq!(open(&cut[..cut.len() - 5], &UnpackLimits::default()).unwrap_err().reason(), "truncated");
    let mut wrong = zst(&thin(2));
    wrong[20..40].fill(0xff);
    assert_eq!(open(&wrong, &UnpackLimits::default()).unwrap_err().reason(), "corrupt");
}

/// One tar entry with any name and kind, without the end of an archive.
pub fn raw_tar(name: &str, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut tar = vec![0; 512];
    tar[..name.len()].copy_from_slice(name.as_bytes());
    tar[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
    tar[156] = kind;
    tar[257..263].copy_from_slice(b"ustar\0");
    checksum(&mut tar);
    tar.extend(bytes);
    tar.resize(tar.len().next_multiple_of(512), 0);
    tar
}

pub fn checksum(tar: &mut [u8]) {
    tar[148..156].fill(b' ');
    let sum: u32 = tar[..512].iter().map(|b| u32::from(*b)).sum();
    tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

const DSYM: &str = "App.dSYM/Contents/Resources/DWARF/App";

fn bundle() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("App.dSYM/Contents/Info.plist", b"<plist/>".to_vec()),
        (DSYM, thin(3)),
        ("Products/Applications/App.app/App", fat()),
        ("__MACOSX/App.dSYM/._App", vec![0, 5, 22, 7]),
        ("App.app/Main.class", [0xcafe_babe_u32.to_be_bytes(), 61_u32.to_be_bytes()].concat()),
    ]
}

#[test]
fn each_kind_of_archive_gives_the_same_members() {
    let entries = bundle();
    let entries: Vec<_> = entries.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
    let (zip, tar) = (zip_of(&entries), tar_of(&entries));
    let wanted = vec![(DSYM.to_owned(), thin(3)), ("Products/Applications/App.app/App".to_owned(), fat())];
    for (what, archive) in [("zip", zip), ("tar.gz", gz(&tar)), ("tar.gz.gz", gz(&gz(&tar))), ("tar", tar)] {
        let (members, contents) = open(&archive, &UnpackLimits::default()).unwrap();
        assert_eq!(contents.skipped, [], "{what}");
        assert!(contents.entries >= 5, "{what}");
        if what == "tar.gz.gz" {
            assert_eq!(members.len(), 2);
        } else {
            assert_eq!(members, wanted, "{what}");
        }
    }
}

#[test]
fn archives_within_archives() {
    let inner = zip_of(&[(DSYM, &thin(1))]);
    let tar = gz(&tar_of(&[("deep/inner.bin", &inner), ("B.dSYM/x", &thin(2))]));
    let outer = zip_of(&[("all/symbols", &tar), ("C", &gz(&thin(4)))]);
    let (members, _) = open(&outer, &UnpackLimits::default()).unwrap();
    let paths: Vec<_> = members.iter().map(|(path, _)| path.as_str()).collect();
    let first = format!("all/symbols/deep/inner.bin/{DSYM}");
    assert_eq!(paths, [first.as_str(), "all/symbols/B.dSYM/x", "C"]);
    assert_eq!(members[2].1, thin(4));
}

#[test]
fn bare_files() {
    for (bytes, packed) in [(thin(1), false), (fat(), false), (thin(1), true)] {
        let upload = if packed { gz(&bytes) } else { bytes.clone() };
        let (members, _) = open(&upload, &UnpackLimits::default()).unwrap();
        assert_eq!(members, [("upload".to_owned(), bytes)]);
    }
}

#[test]
fn members_go_to_temporary_files_that_go_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = ToFolder::new(folder.path());
    let upload = zip_of(&[("a", &thin(1)), ("b", &fat())]);
    unpack_upload(Cursor::new(&upload), "upload", &UnpackLimits::default(), &mut sink).unwrap();
    let members = sink.into_members();
    assert_eq!(members.iter().map(|m| m.binary).collect::<Vec<_>>(), [Binary::Thin, Binary::Fat]);
    assert_eq!(std::fs::read(&members[0].file).unwrap(), thin(1));
    assert_eq!(members[0].size, thin(1).len() as u64);
    drop(members);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn long_names_and_large_members_of_each_writer() {
    let long = format!("{}/App", "d".repeat(180));
    let (members, _) = open(&tar_of(&[(&long, &thin(1))]), &UnpackLimits::default()).unwrap();
    assert_eq!(members[0].0, long, "a GNU long name");
    let mut tar = tar::Builder::new(Vec::new());
    let records = [("path", long.as_bytes())];
    tar.append_pax_extensions(records).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(thin(1).len() as u64);
    header.set_path("short").unwrap();
    header.set_cksum();
    tar.append(&header, &thin(1)[..]).unwrap();
    let (members, _) = open(&tar.into_inner().unwrap(), &UnpackLimits::default()).unwrap();
    assert_eq!(members[0].0, long, "a pax path");
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("a", SimpleFileOptions::default().large_file(true)).unwrap();
    zip.write_all(&thin(1)).unwrap();
    let (members, _) = open(&zip.finish().unwrap().into_inner(), &UnpackLimits::default()).unwrap();
    assert_eq!(members[0].1, thin(1), "zip64 fields");
}

#[test]
fn formats_without_support_are_named() {
    let upload = |bytes: &[u8]| open(bytes, &UnpackLimits::default()).unwrap_err();
    assert_eq!(upload(b"\xfd7zXZ\0rest").reason(), "unsupported");
    assert_eq!(upload(b"").reason(), "empty");
    let error = upload(b"%PDF-1.7");
    assert_eq!(error.reason(), "unrecognised");
    assert!(error.to_string().contains("this is text"), "{error}");
    assert!(upload(b"\x7fELF\x02").to_string().contains("this is an ELF file"));
    assert!(upload(&gz(b"MODULE mac arm64 0F1E 0 Shop\n")).to_string().contains("Breakpad"));
    let nested = zip_of(&[("a.xz", b"\xfd7zXZ\0rest"), ("lib.a", b"!<arch>\nx"), ("b", &thin(1))]);
    let (members, contents) = open(&nested, &UnpackLimits::default()).unwrap();
    assert_eq!(members.len(), 1);
    let reasons: Vec<_> = contents.skipped.into_iter().map(|s| s.reason).collect();
    assert_eq!(reasons, [SkipReason::Format("xz"), SkipReason::StaticLibrary]);
}

#[test]
fn what_may_hide_symbols_is_named_before_what_does_not() {
    let mut tar = tar::Builder::new(Vec::new());
    for n in 0..2 * Contents::SKIPPED_SHOWN {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, format!("link{n}"), "App").unwrap();
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(10);
    tar.append_data(&mut header, "dSYMs.tar.xz", &b"\xfd7zXZ\0rest"[..]).unwrap();
    let (_, contents) = open(&tar.into_inner().unwrap(), &UnpackLimits::default()).unwrap();
    assert_eq!(contents.skipped_count, 2 * Contents::SKIPPED_SHOWN as u64 + 1);
    assert_eq!(contents.skipped.len(), Contents::SKIPPED_SHOWN);
    let mut links = contents.skipped;
    assert_eq!(links.pop().unwrap().reason.as_str(), "format");
    assert!(links.into_iter().all(|link| link.reason.as_str() == "link"));
}
