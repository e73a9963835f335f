//! Debug information that is compressed, that is not read, or that is not there: what a build says of it.
//! Proves: bounded-input

use super::hostile::{build, names};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;
use unslide_model::Quality;
use unslide_symbolicate::object::{self, BuiltSymCache, ObjectError};
use unslide_testkit::fixtures;
use unslide_testkit::macho::{CODE, File, unit};

/// The load command of a segment and its sections.
const SEGMENT_64: u32 = 0x19;

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut out = [&b"ZLIB"[..], &(bytes.len() as u64).to_be_bytes()].concat();
    let mut encoder = ZlibEncoder::new(&mut out, Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap();
    out
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// The dSYM with its sections of debug information compressed, as Go's linker does it: each that gets smaller.
fn compressed_dsym(name: &str) -> Vec<u8> {
    let mut file = std::fs::read(fixtures::dsym(name)).unwrap();
    let mut command = 32;
    let mut compressed = 0;
    for _ in 0..word(&file, 16) {
        let size = word(&file, command + 4);
        let is_segment = word(&file, command) == SEGMENT_64 as usize;
        let sections = if is_segment { word(&file, command + 64) } else { 0 };
        for section in (0..sections).map(|n| command + 72 + 80 * n) {
            if !file[section..].starts_with(b"__debug_") {
                continue;
            }
            let (length, offset) = (word(&file, section + 40), word(&file, section + 48));
            let packed = compress(&file[offset..offset + length]);
            if packed.len() >= length {
                continue;
            }
            let place = u32::try_from(file.len()).unwrap();
            file.extend(&packed);
            let name = [&b"__z"[..], &file[section + 2..section + 15]].concat();
            file[section..section + 16].copy_from_slice(&name);
            file[section + 40..section + 48].copy_from_slice(&(packed.len() as u64).to_le_bytes());
            file[section + 48..section + 52].copy_from_slice(&place.to_le_bytes());
            compressed += 1;
        }
        command += size;
    }
    assert!(compressed > 3, "{name}: {compressed}");
    file
}

/// Proves: right-names
#[test]
fn compressed_debug_information_gives_the_same_symcache() {
    // DWARF 4 and 5, and one whose names lie in other units.
    for name in ["app", "kit-arm64", "whole"] {
        let plain = std::fs::read(fixtures::dsym(name)).unwrap();
        let packed = compressed_dsym(name);
        let facts = |bytes: &[u8]| object::list_objects(bytes).unwrap()[0].object.clone().unwrap();
        assert_eq!(facts(&packed).quality(), facts(&plain).quality(), "{name}");
        let (plain, packed) =
            (object::build_symcache(&plain).unwrap(), object::build_symcache(&packed).unwrap());
        assert_eq!(packed.quality, Quality::DwarfSymtab, "{name}");
        assert!(packed.symcache == plain.symcache && packed.warnings.is_empty(), "{name}");
    }
}

/// A file with a function `f` in its debug information, and `g` in its symbol table.
fn file() -> File<'static> {
    let mut nodes = vec![1, 0x11, 1, 0, 0];
    nodes.extend([2, 0x2E, 0, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0, 0]);
    let function = [&[1, 2][..], b"f\0", &CODE.to_le_bytes(), &8_u32.to_le_bytes(), &[0]].concat();
    File {
        dwarf: vec![("__debug_info", unit(&function)), ("__debug_abbrev", nodes)],
        symbols: vec![("_g", CODE + 16)],
        ..File::default()
    }
}

/// The same with other bytes as its functions.
fn with_info(name: &'static str, info: Vec<u8>) -> File<'static> {
    let mut file = file();
    file.dwarf[0] = (name, info);
    file
}

fn info() -> Vec<u8> {
    file().dwarf.remove(0).1
}

#[test]
fn compressed_sections_that_lie_are_refused() {
    let packed = compress(&info());
    assert_eq!(names(&build(&with_info("__zdebug_info", packed.clone())).unwrap(), 0), ["f"]);
    let declared = |bytes: u64| [&b"ZLIB"[..], &bytes.to_be_bytes(), &packed[12..]].concat();
    let mut damaged = packed.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (bytes, reason) in [
        (packed[..7].to_vec(), "ends within its header"),
        (packed[..packed.len() - 6].to_vec(), "is cut off or damaged"),
        (packed[..packed.len() - 1].to_vec(), "is cut off or damaged"),
        (damaged, "is cut off or damaged"),
        (declared(info().len() as u64 - 1), "has more bytes than it declares"),
        (declared(info().len() as u64 + 1), "has fewer bytes than it declares"),
        (declared(u64::MAX), "declares more bytes than its stream can hold"),
        (declared(1 << 40), "declares more bytes than its stream can hold"),
    ] {
        let error = build(&with_info("__zdebug_info", bytes)).unwrap_err();
        let is_malformed = matches!(&error, ObjectError::Malformed(_));
        assert!(is_malformed && error.to_string().contains(reason), "{error}: {reason}");
    }
}

#[test]
fn a_bomb_is_refused_before_it_unfolds() {
    let mut file = file();
    file.dwarf.push(("__zdebug_str", compress(&vec![0; 64 << 20])));
    let bytes = file.bytes();
    assert!(bytes.len() < 100_000);
    let (refused, peak) = unslide_testkit::memory::peak(|| object::build_within(&bytes, 16 << 20).err());
    assert_eq!(refused, Some(ObjectError::NeedsMemory(64 << 20)));
    assert!(peak < 1 << 20, "{peak}");
    assert!(object::build_within(&bytes, 65 << 20).is_ok());
    // All sections together count.
    file.dwarf.push(("__zdebug_line_str", compress(&vec![0; 64 << 20])));
    assert_eq!(
        object::build_within(&file.bytes(), 65 << 20).unwrap_err(),
        ObjectError::NeedsMemory(128 << 20)
    );
    // What is not read is not unpacked.
    let unread = with_info("__debug_info", info());
    let unread = File {
        dwarf: [unread.dwarf, vec![("__zdebug_loc", compress(&vec![0; 64 << 20]))]].concat(),
        ..unread
    };
    assert!(object::build_within(&unread.bytes(), 16 << 20).is_ok());
}

/// What a build says of a file without lines; it has `g` all the same.
fn warnings(file: &File, quality: Quality) -> Vec<String> {
    let built = build(file).unwrap();
    assert_eq!((built.quality, names(&built, 16)), (quality, vec!["g".to_owned()]), "{:?}", built.warnings);
    built.warnings
}

fn one_warning(file: &File, quality: Quality) -> String {
    let mut found = warnings(file, quality);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn debug_information_that_is_not_read_is_said_and_does_not_count() {
    let lines = File { dwarf: vec![("__debug_line", vec![0; 8])], ..file() };
    let mut version = info();
    version[4] = 6;
    let version = with_info("__debug_info", version);
    let unknown = with_info("__zdebug_info", b"zstd what is this".to_vec());
    for (file, reason) in [
        (&unknown, "is compressed in a way that is not read"),
        (&version, "is of DWARF 6, which is not read"),
        (&lines, "its line tables are not read"),
        (&File { dwarf: Vec::new(), ..self::file() }, "a dSYM without debug information"),
        (&with_info("__debug_info", unit(&[1, 0])), "describes no code"),
    ] {
        let warning = one_warning(file, Quality::Exports);
        assert!(warning.contains(reason), "{warning}: {reason}");
    }
    // The lines alone.
    let mut line = self::file();
    line.dwarf.push(("__zdebug_line", b"zstd what is this".to_vec()));
    let warning = one_warning(&line, Quality::DwarfSymtab);
    assert_eq!(warning, "its section __zdebug_line is compressed in a way that is not read");
    // Without a symbol there is nothing.
    for file in [unknown, version] {
        let error = build(&File { symbols: Vec::new(), ..file }).unwrap_err();
        assert!(matches!(error, ObjectError::Unsupported(_)), "{error}");
    }
}

#[test]
fn units_of_split_dwarf_are_said_and_give_no_functions() {
    // A unit with a name of a .dwo file, of DWARF 4 (GNU), low pc and size.
    let nodes = vec![1, 0x11, 0, 0xB0, 0x42, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0, 0];
    let place = [&CODE.to_le_bytes()[..], &8_u32.to_le_bytes()].concat();
    let split = unit(&[&[1][..], b"Shop.dwo\0", &place].concat());
    let file =
        |info, nodes| File { dwarf: vec![("__debug_info", info), ("__debug_abbrev", nodes)], ..file() };
    let warning = one_warning(&file(split, nodes), Quality::Exports);
    assert!(warning.contains("1 of its 1 units lie in .dwo files"), "{warning}");
    // A clang module has no code: it is none.
    let nodes = vec![1, 0x11, 0, 0xB0, 0x42, 0x08, 0, 0, 0];
    let module = unit(&[&[1][..], b"Module.pcm\0"].concat());
    let warning = one_warning(&file(module, nodes), Quality::Exports);
    assert!(warning.contains("describes no code"), "{warning}");
}

fn built(name: &str) -> BuiltSymCache {
    let bytes = std::fs::read(fixtures::binary(name)).unwrap();
    let facts = object::list_objects(&bytes).unwrap()[0].object.clone().unwrap();
    let built = object::build_symcache(&bytes).unwrap();
    assert_eq!(facts.quality(), built.quality, "{name}");
    built
}

#[test]
fn a_partly_stripped_binary_is_called_that() {
    for name in ["kit-exports", "kit-external", "app-stripped"] {
        let built = built(name);
        assert!(built.quality <= Quality::Exports, "{name}: {:?}", built.quality);
        assert!(built.warnings.iter().any(|warning| warning.starts_with("it is stripped")), "{name}");
    }
    // With its local symbols it names each function.
    for name in ["kit-locals", "app-symtab"] {
        let built = built(name);
        assert_eq!((built.quality, built.warnings), (Quality::Symtab, Vec::new()), "{name}");
    }
    let built = built("app");
    assert_eq!(built.quality, Quality::Symtab);
    assert!(built.warnings[0].contains("lies in object files; dsymutil"), "{:?}", built.warnings);
}

/// All functions of a small library may be callable by others: then nothing was stripped.
#[test]
fn a_symbol_table_that_names_each_function_start_is_whole() {
    let program = |starts: &[u8]| {
        let file = File {
            symbols: vec![("_f", CODE), ("_g", CODE + 16)],
            function_starts: starts.to_vec(),
            kind: Some(6),
            ..File::default()
        };
        build(&file).unwrap().quality
    };
    // Distances as ULEB128 from `__TEXT`: 0x100, 16, 16.
    assert_eq!(program(&[0x80, 2, 16, 0]), Quality::Symtab);
    assert_eq!(program(&[0x80, 2, 16, 16, 0]), Quality::Exports);
    assert_eq!(program(&[]), Quality::Exports);
}
