//! Archives that lie, break off or want to do harm.

use super::{Kept, checksum, gz, open, raw_tar, sparse, tar_of, thin, zip_of, zst};
use proptest::prelude::*;
use std::cell::Cell;
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use unslide_archive::{ArchiveError, SkipReason, ToFolder, UnpackLimits, unpack_upload};
use unslide_testkit::memory::peak;
use zip::write::SimpleFileOptions;

fn reasons(upload: &[u8]) -> Vec<SkipReason> {
    let (_, contents) = open(upload, &UnpackLimits::default()).unwrap();
    contents.skipped.into_iter().map(|skipped| skipped.reason).collect()
}

/// A Mach-O file that is mostly zeros.
fn blown_up(bytes: usize) -> Vec<u8> {
    let mut file = thin(0);
    file.resize(bytes, 0);
    file
}

#[test]
fn a_bomb_is_refused_before_it_unfolds() {
    let limits = UnpackLimits { free_bytes: 1 << 20, ..UnpackLimits::default() };
    let bomb = blown_up(64 << 20);
    for upload in [zip_of(&[("a", &bomb)]), gz(&tar_of(&[("a", &bomb)])), gz(&bomb), zst(&bomb)] {
        assert!(upload.len() < bomb.len() / 100);
        let error = open(&upload, &limits).unwrap_err();
        assert!(matches!(error, ArchiveError::Bomb { .. }), "{error}");
    }
    // Layer upon layer: each is small, together they are not.
    let layered = zip_of(&[("l", &zip_of(&[("l", &zip_of(&[("a", &bomb), ("b", &bomb)]))]))]);
    assert!(matches!(open(&layered, &limits).unwrap_err(), ArchiveError::Bomb { .. }));
    let limits = UnpackLimits { total_bytes: 1 << 20, ..UnpackLimits::default() };
    assert_eq!(open(&gz(&bomb), &limits).unwrap_err().reason(), "too_large");
    let limits = UnpackLimits { member_bytes: 1 << 20, ..UnpackLimits::default() };
    for upload in [zip_of(&[("a", &bomb)]), tar_of(&[("a", &bomb)]), gz(&bomb)] {
        assert_eq!(open(&upload, &limits).unwrap_err().reason(), "too_large");
    }
}

#[test]
fn files_with_paths_that_leave_the_archive_are_read_and_shown_with_paths_inside() {
    for (name, shown) in [
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a/../../b", "a/b"),
        ("C:\\windows\\x", "windows/x"),
        ("C:x", "C:x"),
        ("..\\x", "x"),
        ("a\\..\\..\\b", "a/b"),
        ("\\\\server\\share\\x", "server/share/x"),
        ("../..", "unnamed"),
        ("a\0b", "a\u{FFFD}b"),
    ] {
        let read = |archive: &[u8]| {
            let (members, contents) = open(archive, &UnpackLimits::default()).unwrap();
            assert_eq!(contents.skipped, [], "{name}");
            members
        };
        let member = |path: &str, byte| (path.to_owned(), thin(byte));
        assert_eq!(read(&raw_zip(name, &thin(1), |_| {})), [member(shown, 1)]);
        let nested = zip_of(&[("in.zip", &raw_zip(name, &thin(1), |_| {}))]);
        assert_eq!(read(&nested), [member(&format!("in.zip/{shown}"), 1)]);
        // A tar's names end at a NUL.
        if !name.contains('\0') {
            let mut tar = raw_tar(name, b'0', &thin(1));
            tar.extend(tar_of(&[("good", &thin(2))]));
            assert_eq!(read(&tar), [member(shown, 1), member("good", 2)]);
        }
    }
    let long = "x".repeat(2000);
    assert_eq!(reasons(&raw_zip(&long, &thin(1), |_| {})), [SkipReason::PathTooLong]);
    let (members, _) = open(&raw_zip("./a//b/./c..d", &thin(1), |_| {}), &UnpackLimits::default()).unwrap();
    assert_eq!(members[0].0, "a/b/c..d");
}

/// A zip with this many entries, all with one member that unpacks this many blocks of nothing.
fn zip_of_nothing(entries: usize, blocks: usize) -> Vec<u8> {
    let packed = [[0, 0, 0, 0xff, 0xff].repeat(blocks), vec![1, 0, 0, 0xff, 0xff]].concat();
    let size = (packed.len() as u32).to_le_bytes();
    let sizes = [[0; 4], size, [0; 4]].concat();
    let local = [&b"PK\x03\x04"[..], &[20, 0, 0, 0, 8, 0, 0, 0, 0, 0], &sizes, &[1, 0, 0, 0], b"a"].concat();
    let entry =
        [&b"PK\x01\x02"[..], &[20, 0, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0], &sizes, &[1], &[0; 17], b"a"].concat();
    let directory = entry.repeat(entries);
    let at = (local.len() + packed.len()) as u32;
    let count = (entries as u16).to_le_bytes();
    let counts = [[0; 2], [0; 2], count, count].concat();
    let place = [(directory.len() as u32).to_le_bytes(), at.to_le_bytes()].concat();
    [&local[..], &packed, &directory, b"PK\x05\x06", &counts, &place, &[0, 0]].concat()
}

/// Counts the bytes that are read.
struct Counted<'b>(Cursor<&'b [u8]>, &'b Cell<u64>);

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.set(self.1.get() + read as u64);
        Ok(read)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

/// Proves: bounded-input
#[test]
fn entries_over_each_other_are_refused_before_each_is_read() {
    let read = |entries, blocks| {
        let upload = zip_of_nothing(entries, blocks);
        let bytes = Cell::new(0);
        let source = Counted(Cursor::new(&upload), &bytes);
        let unpacked = unpack_upload(source, "a.zip", &UnpackLimits::default(), &mut Kept::default());
        (unpacked.map(|contents| contents.entries), bytes.get(), upload.len() as u64)
    };
    let (unpacked, ..) = read(1, 10_000);
    assert_eq!(unpacked.unwrap(), 1);
    for n in [1_000, 2_000] {
        let (unpacked, bytes, size) = read(n, 20 * n);
        println!("| zip entries over each other | {n} | {bytes} of {size} bytes |");
        let error = unpacked.unwrap_err();
        assert!(error.to_string().contains("its entries lie over each other"), "{error}");
        assert!(bytes <= 4 * size, "{bytes} of {size}");
    }
}

/// Proves: bounded-input
#[test]
fn nothing_is_written_to_a_path_that_an_archive_names() {
    let around = tempfile::tempdir().unwrap();
    let work = around.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let absolute = around.path().join("absolute");
    let names = ["../escaped", absolute.to_str().unwrap(), "sub/../../escaped", "plain"];
    for name in names {
        for archive in [raw_zip(name, &thin(1), |_| {}), raw_tar(name, b'0', &thin(1))] {
            let mut sink = ToFolder::new(&work);
            unpack_upload(Cursor::new(archive), "", &UnpackLimits::default(), &mut sink).unwrap();
            let members = sink.into_members();
            assert!(members.len() == 1 && members[0].file.starts_with(&work), "{name}");
            let is_own =
                |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("member-");
            assert!(std::fs::read_dir(&work).unwrap().flatten().all(is_own), "{name}");
        }
        assert_eq!(std::fs::read_dir(around.path()).unwrap().count(), 1, "{name}");
    }
}

#[test]
fn links_and_devices_are_not_followed() {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("link", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    assert_eq!(reasons(&zip.finish().unwrap().into_inner()), [SkipReason::Link]);
    for (kind, reason) in [
        (b'1', SkipReason::Link),
        (b'2', SkipReason::Link),
        (b'3', SkipReason::Special),
        (b'6', SkipReason::Special),
        (b'M', SkipReason::Kind('M')),
    ] {
        let mut tar = raw_tar("link", kind, b"");
        tar.extend(tar_of(&[("good", &thin(2))]));
        let (members, contents) = open(&tar, &UnpackLimits::default()).unwrap();
        assert_eq!((contents.skipped[0].reason.clone(), members.len()), (reason, 1));
    }
}

#[test]
fn an_upload_cut_anywhere_is_refused_with_what_and_where() {
    let member = thin(7);
    let tar = tar_of(&[("a/b", &member), ("c", &member)]);
    let zip = zip_of(&[("a/b", &member), ("c", &member)]);
    for cut in [zip.len() / 2, zip.len() - 1, 40] {
        let error = open(&zip[..cut], &UnpackLimits::default()).unwrap_err();
        assert_eq!(error.reason(), "truncated", "{error}");
        assert!(error.to_string().starts_with("the upload is cut off"), "{error}");
        assert!(error.to_string().ends_with(&format!("at byte {cut}")), "{error}");
    }
    for cut in [600, 512 + member.len() / 2, tar.len() / 2 + 100] {
        let error = open(&tar[..cut], &UnpackLimits::default()).unwrap_err();
        assert_eq!(error.reason(), "truncated", "{error}");
        assert!(error.to_string().ends_with(&format!("at byte {cut}")), "{error}");
    }
    let packed = gz(&tar);
    for cut in [packed.len() / 2, packed.len() - 4, 15] {
        let error = open(&packed[..cut], &UnpackLimits::default()).unwrap_err();
        assert_eq!(error.reason(), "truncated", "cut at {cut}: {error}");
    }
}

#[test]
fn a_broken_archive_among_others_costs_only_itself() {
    let inner = zip_of(&[("x", &thin(1)), ("y", &thin(2))]);
    let mut damaged = zip_of(&[("x", &thin(1)), ("y", &thin(2))]);
    // The second member's first bytes: the first is found before the damage is.
    let at = damaged.windows(4).rposition(|w| w == b"PK\x03\x04").unwrap();
    damaged[at] = 0;
    let mut wrong = zst(&thin(3));
    wrong[20..40].fill(0xff);
    let cut = zst(&tar_of(&[("z", &thin(3))]));
    for broken in
        [&inner[..inner.len() - 5], &damaged, &gz(&tar_of(&[("z", &thin(3))]))[..300], &cut[..100], &wrong]
    {
        for upload in
            [zip_of(&[("in", broken), ("good", &thin(9))]), tar_of(&[("in", broken), ("good", &thin(9))])]
        {
            let (members, contents) = open(&upload, &UnpackLimits::default()).unwrap();
            assert_eq!(members, [("good".to_owned(), thin(9))]);
            assert!(matches!(contents.skipped[0].reason, SkipReason::Broken(_)), "{contents:?}");
            assert_eq!(contents.skipped[0].path, "in");
        }
    }
}

#[test]
fn nesting_is_bounded() {
    let mut zip = zip_of(&[("a", &thin(1))]);
    let mut tar = gz(&tar_of(&[("a", &thin(1))]));
    for _ in 0..30 {
        zip = zip_of(&[("n", &zip)]);
        tar = gz(&tar);
    }
    assert_eq!(reasons(&zip), [SkipReason::TooDeep]);
    assert_eq!(reasons(&tar), [SkipReason::TooDeep]);
}

#[test]
fn what_is_no_symbols_takes_no_memory_however_long_its_name_and_deep_its_place() {
    let large = vec![7; 32 << 20];
    let nested = zip_of(&[("n", &zip_of(&[("n", &gz(&tar_of(&[("large", &large)])))]))]);
    let long = "d/".repeat(300);
    let names: Vec<String> = (0..5_000).map(|n| format!("{long}{n}")).collect();
    let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"no symbols"[..])).collect();
    for upload in [nested, gz(&tar_of(&entries)), zip_of(&entries)] {
        let (opened, most) = peak(|| open(&upload, &UnpackLimits::default()).unwrap());
        assert!(opened.0.is_empty() && most < 8 << 20, "{most} bytes of memory for {}", upload.len());
    }
    // The path of an archive counts in the paths of what it holds.
    let inner = zip_of(&[(&format!("{long}a"), &thin(1))]);
    assert_eq!(reasons(&zip_of(&[(&format!("{long}b"), &inner)])), [SkipReason::PathTooLong]);
}

#[test]
fn a_hundred_thousand_entries_pass_and_too_many_do_not() {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for n in 0..100_000 {
        zip.start_file(format!("f{n}"), stored).unwrap();
    }
    zip.start_file("App", stored).unwrap();
    zip.write_all(&thin(1)).unwrap();
    let zip = zip.finish().unwrap().into_inner();
    let (opened, most) = peak(|| open(&zip, &UnpackLimits::default()).unwrap());
    let (members, contents) = opened;
    assert_eq!((members.len(), contents.entries), (1, 100_001));
    assert!(most < 2 << 20, "{most} bytes of memory for {}", zip.len());
    let limits = UnpackLimits { entries: 100_000, ..UnpackLimits::default() };
    assert!(matches!(open(&zip, &limits).unwrap_err(), ArchiveError::TooManyEntries(100_000)));
    let limits = UnpackLimits { members: 1, ..UnpackLimits::default() };
    let two = tar_of(&[("a", &thin(1)), ("b", &thin(2))]);
    assert!(matches!(open(&two, &limits).unwrap_err(), ArchiveError::TooManyMembers(1)));
}

/// A zip as macOS's Archive Utility makes it: no zip64 records, and a count of 16 bits that wraps.
fn wrapped_zip(entries: u32) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for n in 1..entries {
        zip.start_file(format!("f{n}"), stored).unwrap();
    }
    zip.start_file("App", stored).unwrap();
    zip.write_all(&thin(1)).unwrap();
    let mut zip = zip.finish().unwrap().into_inner();
    let record = zip.windows(4).rposition(|w| w == b"PK\x06\x06").unwrap();
    let directory = [&zip[record + 40..record + 44], &zip[record + 48..record + 52]].concat();
    let end = zip.windows(4).rposition(|w| w == b"PK\x05\x06").unwrap();
    zip[end + 8..end + 10].copy_from_slice(&entries.to_le_bytes()[..2]);
    zip[end + 10..end + 12].copy_from_slice(&entries.to_le_bytes()[..2]);
    zip[end + 12..end + 20].copy_from_slice(&directory);
    zip.drain(record..end);
    zip
}

#[test]
fn a_count_that_wraps_hides_no_entries() {
    for entries in [65_536, 65_600] {
        let (members, contents) = open(&wrapped_zip(entries), &UnpackLimits::default()).unwrap();
        assert_eq!((members, contents.entries), (vec![("App".to_owned(), thin(1))], entries.into()));
    }
    let mut zip = wrapped_zip(65_600);
    let limits = UnpackLimits { entries: 65_599, ..UnpackLimits::default() };
    assert!(matches!(open(&zip, &limits).unwrap_err(), ArchiveError::TooManyEntries(65_599)));
    // What lies behind the directory's end, by its size, is none of it.
    let at = zip.len() - 22 + 12;
    let size = u32::from_le_bytes(zip[at..at + 4].try_into().unwrap());
    zip[at..at + 4].copy_from_slice(&(size - 40).to_le_bytes());
    let (members, contents) = open(&zip, &UnpackLimits::default()).unwrap();
    assert_eq!((members.len(), contents.entries), (0, 65_599));
}

/// Why zips have a reader of our own.
#[test]
fn the_zip_crate_does_not_list_every_entry_where_the_count_wraps() {
    let listed = zip::ZipArchive::new(Cursor::new(wrapped_zip(65_600))).map_or(0, |zip| zip.len());
    assert!(listed < 65_600, "{listed}");
}

#[test]
fn sizes_that_lie_and_checksums_that_do_not_match() {
    for (field, value) in [(24, 100_u32), (24, 1 << 20), (16, 7)] {
        let zip =
            raw_zip("a", &thin(1), |central| central[field..field + 4].copy_from_slice(&value.to_le_bytes()));
        let error = open(&zip, &UnpackLimits::default()).unwrap_err();
        assert_eq!(error.reason(), "corrupt", "{error}");
        assert!(error.to_string().contains('a'), "{error}");
    }
    // A packed size past the end, an entry that is not where it should be.
    let zip = raw_zip("a", &thin(1), |central| central[20..24].copy_from_slice(&u32::MAX.to_le_bytes()[..4]));
    assert_eq!(open(&zip, &UnpackLimits::default()).unwrap_err().reason(), "truncated");
    let zip = raw_zip("a", &thin(1), |central| central[42..46].copy_from_slice(&5_u32.to_le_bytes()));
    assert_eq!(open(&zip, &UnpackLimits::default()).unwrap_err().reason(), "corrupt");
    // A tar entry that says it is longer than the archive; a size that is no number.
    let mut tar = tar_of(&[("a", &thin(1))]);
    tar[124..136].copy_from_slice(b"00077777777\0");
    checksum(&mut tar);
    assert_eq!(open(&tar, &UnpackLimits::default()).unwrap_err().reason(), "truncated");
    tar[124..136].copy_from_slice(b"not a number");
    checksum(&mut tar);
    assert_eq!(open(&tar, &UnpackLimits::default()).unwrap_err().reason(), "corrupt");
}

#[test]
fn an_entry_of_nearly_any_size_is_cut_off_and_no_sum_of_it_overflows() {
    let limits = UnpackLimits { member_bytes: u64::MAX, ..UnpackLimits::default() };
    for size in [u64::MAX, u64::MAX - 510, u64::MAX - 511, u64::MAX - 512] {
        for (kind, name) in [(b'M', "a"), (b'0', "a"), (b'0', "a\\..\\..\\b")] {
            let mut header = tar::Header::new_gnu();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(tar::EntryType::new(kind));
            header.set_size(size);
            header.set_cksum();
            let upload = [&header.as_bytes()[..], &[0; 700]].concat();
            let error = open(&upload, &limits).unwrap_err();
            assert!(matches!(error, ArchiveError::Truncated { .. }), "{error}: {size} {name}");
        }
    }
}

#[test]
fn encrypted_and_unsupported_members_are_skipped_with_their_reason() {
    let encrypted = raw_zip("a", &thin(1), |central| central[8] |= 1);
    assert_eq!(reasons(&encrypted), [SkipReason::Encrypted]);
    let lzma = raw_zip("a", &thin(1), |central| central[10] = 14);
    assert_eq!(reasons(&lzma), [SkipReason::Method(14)]);
}

/// A zip of one stored member. `change` changes its directory entry.
fn raw_zip(name: &str, bytes: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let placeholder = "x".repeat(name.len());
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file(placeholder.as_str(), stored).unwrap();
    zip.write_all(bytes).unwrap();
    let mut zip = zip.finish().unwrap().into_inner();
    zip[30..30 + name.len()].copy_from_slice(name.as_bytes());
    let central = zip.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    zip[central + 46..central + 46 + name.len()].copy_from_slice(name.as_bytes());
    change(&mut zip[central..]);
    zip
}

fn seeds() -> Vec<Vec<u8>> {
    let tar = tar_of(&[("a/b", &thin(1)), ("c", &gz(&thin(2)))]);
    let mut seeds = sparse::seeds();
    seeds.extend([zip_of(&[("a", &thin(1)), ("b.zip", &zip_of(&[("c", &thin(2))]))]), gz(&tar), tar]);
    seeds
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn damaged_archives_give_an_answer(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut seeds = seeds();
        let mut upload = seeds.swap_remove(which.index(seeds.len()));
        for (at, byte) in damage {
            let at = at.index(upload.len());
            upload[at] = byte;
        }
        let limits = UnpackLimits { free_bytes: 1 << 20, ..UnpackLimits::default() };
        for upload in [&upload[..], &upload[..cut.index(upload.len())]] {
            let mut kept = Kept::default();
            unpack_upload(Cursor::new(upload), "upload", &limits, &mut kept).ok();
        }
    }

    #[test]
    fn any_bytes_give_an_answer(mut bytes in prop::collection::vec(any::<u8>(), 0..4000), magic in 0..4_usize) {
        let magic: &[u8] = [&b"PK\x03\x04"[..], b"\x1f\x8b\x08", b"", b"PK\x05\x06"][magic];
        bytes.splice(0..0, magic.iter().copied());
        unpack_upload(Cursor::new(&bytes), "upload", &UnpackLimits::default(), &mut Kept::default()).ok();
    }
}
