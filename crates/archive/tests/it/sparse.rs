//! Sparse members of tar archives, in each form that tars write.

use super::{checksum, gz, open, raw_tar, tar_of, thin};
use std::io::{Cursor, Read};
use unslide_archive::{ArchiveError, Binary, MemberSink, SkipReason, UnpackLimits, unpack_upload};

const REAL: &str = "App.dSYM/Contents/Resources/DWARF/App";

/// A file as a tar has it: its size, and offset and length of each part that is there.
struct Sparse {
    real: u64,
    parts: Vec<(u64, u64)>,
    bytes: Vec<u8>,
}

impl Sparse {
    /// So many parts with holes between them and behind them.
    fn of_parts(count: u64) -> Sparse {
        let parts: Vec<_> = (0..count).map(|n| (n * 2000, 512 + n % 3)).chain([(count * 2000, 0)]).collect();
        let mut bytes = thin(7);
        bytes.resize(usize::try_from(parts.iter().map(|(_, length)| length).sum::<u64>()).unwrap(), 9);
        Sparse { real: count * 2000, parts, bytes }
    }

    fn filled(&self) -> Vec<u8> {
        let mut file = vec![0; usize::try_from(self.real).unwrap()];
        let mut bytes = &self.bytes[..];
        for (offset, length) in &self.parts {
            let (offset, length) = (usize::try_from(*offset).unwrap(), usize::try_from(*length).unwrap());
            file[offset..offset + length].copy_from_slice(&bytes[..length]);
            bytes = &bytes[length..];
        }
        file
    }

    /// The archive's beginning with the file in each form: GNU's old one, pax 0.0, 0.1 and 1.0.
    fn forms(&self) -> [(&'static str, Vec<u8>); 4] {
        [("old", self.old()), ("0.0", self.pax_0_0()), ("0.1", self.pax_0_1()), ("1.0", self.pax_1_0())]
    }

    fn old(&self) -> Vec<u8> {
        let number = |n: u64| match n {
            n if n < 1 << 33 => format!("{n:011o}\0").into_bytes(),
            n => [&[0x80, 0, 0, 0][..], &n.to_be_bytes()].concat(),
        };
        let slots = |parts: &[(u64, u64)], room: usize| {
            let mut slots: Vec<u8> = parts
                .iter()
                .flat_map(|(offset, length)| [number(*offset), number(*length)].concat())
                .collect();
            slots.resize(room, 0);
            slots
        };
        let (first, rest) = self.parts.split_at(self.parts.len().min(4));
        let mut tar = raw_tar(REAL, b'S', &self.bytes);
        tar[257..265].copy_from_slice(b"ustar  \0");
        tar[386..482].copy_from_slice(&slots(first, 96));
        tar[482] = u8::from(!rest.is_empty());
        tar[483..495].copy_from_slice(&number(self.real));
        checksum(&mut tar);
        let blocks = rest.chunks(21).enumerate().flat_map(|(n, parts)| {
            let mut block = slots(parts, 512);
            block[504] = u8::from((n + 1) * 21 < rest.len());
            block
        });
        tar.splice(512..512, blocks.collect::<Vec<_>>());
        tar
    }

    fn pax_0_0(&self) -> Vec<u8> {
        let mut records = vec![
            ("GNU.sparse.size", self.real.to_string()),
            ("GNU.sparse.numblocks", self.parts.len().to_string()),
        ];
        for (offset, length) in &self.parts {
            records.push(("GNU.sparse.offset", offset.to_string()));
            records.push(("GNU.sparse.numbytes", length.to_string()));
        }
        pax(&records, REAL, &self.bytes)
    }

    fn pax_0_1(&self) -> Vec<u8> {
        let numbers: Vec<_> =
            self.parts.iter().map(|(offset, length)| format!("{offset},{length}")).collect();
        let records = [
            ("GNU.sparse.name", REAL.to_owned()),
            ("GNU.sparse.size", self.real.to_string()),
            ("GNU.sparse.numblocks", self.parts.len().to_string()),
            ("GNU.sparse.map", numbers.join(",")),
        ];
        pax(&records, "App.dSYM/GNUSparseFile.7/App", &self.bytes)
    }

    fn pax_1_0(&self) -> Vec<u8> {
        let numbers = self.parts.iter().map(|(offset, length)| format!("{offset}\n{length}\n"));
        let mut content = format!("{}\n{}", self.parts.len(), numbers.collect::<String>()).into_bytes();
        content.resize(content.len().next_multiple_of(512), 0);
        content.extend(&self.bytes);
        pax_1_0(self.real, &content)
    }
}

/// A member with content that begins with its map.
fn pax_1_0(real: u64, content: &[u8]) -> Vec<u8> {
    let records = [
        ("GNU.sparse.major", "1".to_owned()),
        ("GNU.sparse.minor", "0".to_owned()),
        ("GNU.sparse.name", REAL.to_owned()),
        ("GNU.sparse.realsize", real.to_string()),
    ];
    pax(&records, "App.dSYM/GNUSparseFile.7/App", content)
}

/// An entry with extended headers before it.
fn pax(records: &[(&str, String)], name: &str, bytes: &[u8]) -> Vec<u8> {
    let record = |(key, value): &(&str, String)| {
        let rest = format!(" {key}={value}\n");
        let length = |digits: usize| (rest.len() + digits).to_string();
        let digits = (1..).find(|digits| length(*digits).len() == *digits).unwrap();
        length(digits) + &rest
    };
    let records: String = records.iter().map(record).collect();
    [raw_tar("PaxHeaders.7/App", b'x', records.as_bytes()), raw_tar(name, b'0', bytes)].concat()
}

/// With another member behind it.
fn followed(mut tar: Vec<u8>) -> Vec<u8> {
    tar.extend(tar_of(&[("good", &thin(2))]));
    tar
}

pub fn seeds() -> Vec<Vec<u8>> {
    Sparse::of_parts(30).forms().into_iter().map(|(_, tar)| followed(tar)).collect()
}

#[test]
fn holes_are_filled_with_zeros_in_each_form() {
    for count in [0, 1, 3, 4, 5, 25, 26, 100] {
        let file = Sparse::of_parts(count);
        for (form, tar) in file.forms() {
            for upload in [gz(&followed(tar.clone())), followed(tar)] {
                let (members, contents) = open(&upload, &UnpackLimits::default()).unwrap();
                assert_eq!(contents.skipped, [], "{form}, {count} parts");
                let mut wanted = vec![("good".to_owned(), thin(2))];
                if count > 0 {
                    wanted.insert(0, (REAL.to_owned(), file.filled()));
                }
                assert!(members == wanted, "{form}, {count} parts");
            }
        }
    }
    // A file that begins with a hole is none of ours, and no harm.
    let file = Sparse { real: 5000, parts: vec![(600, 100)], bytes: vec![1; 100] };
    for (form, tar) in file.forms() {
        let (members, contents) = open(&followed(tar), &UnpackLimits::default()).unwrap();
        assert_eq!((members.len(), contents.skipped_count), (1, 0), "{form}");
    }
}

/// Why tars have a reader of our own: the crate takes the map for content, or leaves the holes out.
#[test]
fn the_tar_crate_fills_no_holes_of_the_forms_of_pax() {
    let file = Sparse::of_parts(3);
    for (form, tar) in file.forms().into_iter().filter(|(form, _)| *form != "old") {
        let tar = followed(tar);
        let mut archive = tar::Archive::new(&tar[..]);
        let filled = archive.entries().unwrap().flatten().any(|mut entry| {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).is_ok() && content == file.filled()
        });
        assert!(!filled, "{form}");
    }
}

#[test]
fn a_map_that_is_wrong_costs_only_its_member() {
    let order = "is not in ascending order";
    let past = "goes past the file's end";
    let fit = "does not fit the bytes in the archive";
    for (parts, bytes, reason) in [
        (vec![(0, 600), (599, 500)], 1100, order),
        (vec![(2000, 600), (0, 500)], 1100, order),
        (vec![(0, 600), (0, 600)], 1200, order),
        (vec![(0, 600), (4000, 1001)], 1601, past),
        (vec![(5001, 0)], 0, past),
        (vec![(u64::MAX, 1)], 1, past),
        (vec![(0, 600), (1000, 600)], 1100, fit),
        (vec![(0, 600), (1000, 600)], 1300, fit),
        (vec![], 700, fit),
    ] {
        let file = Sparse { real: 5000, parts, bytes: [thin(1), thin(1)].concat()[..bytes].to_vec() };
        for (form, tar) in file.forms() {
            skipped(form, tar, reason);
        }
    }
    let parts = 70_000;
    let file = Sparse {
        real: 2 * parts,
        parts: (0..parts).map(|n| (2 * n, 1)).collect(),
        bytes: vec![7; usize::try_from(parts).unwrap()],
    };
    for (form, tar) in file.forms().into_iter().filter(|(form, _)| *form != "0.0") {
        skipped(form, tar, "has too many parts");
    }
}

#[test]
fn a_map_that_can_not_be_read_costs_only_its_member() {
    let text = "is not made of numbers";
    let cut = "goes past the content's end";
    let block = |text: &str| format!("{text:\0<512}");
    for (content, reason) in [
        (block("1\n0\nx\n"), text),
        (block("\n"), text),
        (block("2\n0\n5\n"), text),
        (block("1\n0\n99999999999999999999\n"), "has a number that is too large"),
        ("1\n0\n5\nbytes".to_owned(), cut),
        (block("1\n") + "2", text),
        ("1".repeat(19) + "\n" + &"0\n".repeat(246), cut),
        (String::new(), cut),
    ] {
        skipped(&content, pax_1_0(5000, content.as_bytes()), reason);
    }
    let record = |key: &'static str, value: &str| (key, value.to_owned());
    for (records, reason) in [
        (vec![record("GNU.sparse.map", "0,5")], "comes without the file's size"),
        (vec![record("GNU.sparse.size", "9"), record("GNU.sparse.map", "0,3,5")], text),
        (vec![record("GNU.sparse.size", "9"), record("GNU.sparse.map", "0,-5")], text),
        (vec![record("GNU.sparse.size", "9"), record("GNU.sparse.numbytes", "5")], text),
        (
            vec![record("GNU.sparse.major", "2"), record("GNU.sparse.realsize", "9")],
            "is of an unknown version",
        ),
    ] {
        skipped(&format!("{records:?}"), pax(&records, REAL, b"bytes"), reason);
    }
    let mut tar = Sparse::of_parts(3).old();
    tar[386..398].copy_from_slice(b"not a number");
    checksum(&mut tar);
    skipped("old", tar, text);
}

/// The file is skipped under its own name, and the next one is read.
fn skipped(what: &str, tar: Vec<u8>, reason: &'static str) {
    let (members, contents) = open(&followed(tar), &UnpackLimits::default()).unwrap();
    assert_eq!(members, [("good".to_owned(), thin(2))], "{what}");
    let skipped: Vec<_> = contents.skipped.into_iter().map(|s| (s.path, s.reason)).collect();
    assert_eq!(skipped, [(REAL.to_owned(), SkipReason::Holes(reason))], "{what}");
}

#[test]
fn an_upload_cut_within_a_map_is_truncated() {
    let [(_, old), .., (_, new)] = Sparse::of_parts(100).forms();
    for (tar, cut) in [(&old, 512), (&old, 1024), (&old, 1100), (&new, 1536), (&new, 2048), (&new, 2100)] {
        let error = open(&tar[..cut], &UnpackLimits::default()).unwrap_err();
        assert_eq!(error.reason(), "truncated", "{error}");
        assert!(error.to_string().ends_with(&format!("at byte {cut}")), "{error}");
    }
}

/// Counts what it is given.
struct Written(u64);

impl MemberSink for Written {
    fn receive_member(&mut self, _: &str, _: Binary, content: &mut dyn Read) -> Result<(), ArchiveError> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => self.0 += read as u64,
                Err(error) => {
                    return Err(match error.downcast::<ArchiveError>() {
                        Ok(error) => error,
                        Err(error) => ArchiveError::Disk(error),
                    });
                }
            }
        }
    }

    fn len(&self) -> usize {
        0
    }

    fn truncate(&mut self, _: usize) {}
}

#[test]
fn holes_count_before_they_are_written() {
    let (default, small) = (UnpackLimits::default(), 1 << 20);
    let mebibytes_64 = || Sparse { real: 64 << 20, parts: vec![(0, 600)], bytes: thin(1)[..600].to_vec() };
    for (limits, reason) in [
        (UnpackLimits { member_bytes: small, ..default.clone() }, "too_large"),
        (UnpackLimits { total_bytes: small, ..default.clone() }, "too_large"),
        (UnpackLimits { free_bytes: small, ..default.clone() }, "bomb"),
    ] {
        for (form, tar) in mebibytes_64().forms() {
            let mut written = Written(0);
            let error =
                unpack_upload(Cursor::new(followed(tar)), "upload", &limits, &mut written).unwrap_err();
            assert_eq!(error.reason(), reason, "{form}: {error}");
            assert!(error.to_string().starts_with(REAL), "{form}: {error}");
            assert!(written.0 <= 512, "{form}: {} bytes", written.0);
        }
    }
    for (form, tar) in mebibytes_64().forms() {
        let mut written = Written(0);
        let contents = unpack_upload(Cursor::new(&tar), "upload", &default, &mut written).unwrap();
        assert_eq!((written.0, contents.unpacked_bytes), (64 << 20, 64 << 20), "{form}");
    }
    // Of a file that is only looked at, no more counts than that.
    let other = Sparse { bytes: vec![1; 600], ..mebibytes_64() };
    for (form, tar) in other.forms() {
        let limits = UnpackLimits { free_bytes: small, ..default.clone() };
        let (members, contents) = open(&followed(tar), &limits).unwrap();
        assert_eq!((members.len(), contents.unpacked_bytes), (1, 512), "{form}");
    }
    // A size near the end of numbers.
    let endless = Sparse { real: u64::MAX, ..mebibytes_64() };
    for (form, tar) in endless.forms() {
        let limits = UnpackLimits { member_bytes: u64::MAX, ..default.clone() };
        let error = open(&followed(tar), &limits).unwrap_err();
        assert_eq!(error.reason(), "too_large", "{form}: {error}");
    }
}
