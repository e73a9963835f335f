//! `unslide atos` with the flags and the forms of Apple's tool.

use crate::commands::unslide;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use unslide_testkit::fixtures;

/// Runs a command line in the folder of the fixtures. Returns the exit code, standard output and standard error.
fn atos(line: &str, input: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unslide"));
    command.arg("atos").args(line.split(' ')).current_dir(fixtures::folder());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut addresses = child.stdin.take().unwrap();
    // The answers are read at the same time: neither side waits for the other.
    let done = std::thread::scope(|scope| {
        scope.spawn(move || addresses.write_all(input.as_bytes()).unwrap());
        child.wait_with_output().unwrap()
    });
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

fn assert_answers(line: &str, input: &str, expected: &str) {
    let (code, output, error) = atos(line, input);
    assert_eq!((code, output.as_str()), (Some(0), expected), "{line}: {error}");
}

const INLINED: &str = "level_three (in app) (inline.c:20)\nlevel_two (in app) (inline.c:27)\n\
                       level_one (in app) (inline.c:33)\ndo_work (in app) (inline.c:38)\n\n";

#[test]
fn a_load_address_a_slide_and_offsets_lead_to_the_same_names() {
    for (line, expected) in [
        ("-o app.dSYM -arch arm64 -l 0x100000000 0x100004004", "leaf_crash (in app) (inline.c:16)\n"),
        (
            "-o app.dSYM/Contents/Resources/DWARF/app -arch arm64 -l 0x104c80000 0x104c84004 0x104c8407c",
            "leaf_crash (in app) (inline.c:16)\npublic_entry (in app) (inline.c:46)\n",
        ),
        ("-o app.dSYM -arch arm64 -l 104c80000 0x104c84034", "do_work (in app) (inline.c:38)\n"),
        (
            "-o app.dSYM -arch arm64 -offset 0x4004 0x4194",
            "leaf_crash (in app) (inline.c:16)\ngeo::Square::area(int) const (in app) (shapes.cpp:29)\n",
        ),
        (
            "-o app.dSYM -arch arm64 -s 0x4c80000 0x104c8420c",
            "-[Counter add:times:] (in app) (counter.m:17)\n",
        ),
        ("-o app.dSYM -arch arm64 0x100004004", "leaf_crash (in app) (inline.c:16)\n"),
        (
            "-o app.dSYM -arch arm64 -fullPath -l 0x104c80000 0x104c8410c",
            "shapes_entry (in app) (/fixture/src/shapes.cpp:44)\n",
        ),
    ] {
        assert_answers(line, "", expected);
    }
}

#[test]
fn inlined_functions_are_listed_innermost_first() {
    assert_answers("-o app.dSYM -arch arm64 -i -l 0x104c80000 0x104c84034", "", INLINED);
    let both = format!("{INLINED}leaf_crash (in app) (inline.c:16)\n\n");
    assert_answers("-o app.dSYM -arch arm64 -i -l 0x104c80000 0x104c84034 0x104c84004", "", &both);
    assert_answers(
        "-o app.dSYM -arch arm64 -i -l 0x104c80000 0x104c84230",
        "",
        "__23-[Counter(Extra) reset]_block_invoke (in app) (counter.m:29)\n\
         -[Counter(Extra) reset] (in app) (counter.m:31)\n\n",
    );
    let joined = format!("{}\n", INLINED.trim_end().replace('\n', ";"));
    assert_answers("-o app.dSYM -arch arm64 -i -d ; -l 0x104c80000 0x104c84034", "", &joined);
}

#[test]
fn a_slice_a_symbol_table_and_code_without_lines_are_answered() {
    for (line, expected) in [
        ("-o kit.dSYM -arch x86_64 -l 0x10a000000 0x10a000692", "do_work (in kit) (inline.c:38)\n"),
        ("-o kit.dSYM -arch arm64 -l 0x10a000000 0x10a004004", "leaf_crash (in kit) (inline.c:16)\n"),
        (
            "-o app-symtab -arch arm64 -l 0x100000000 0x100004010 0x10000420e",
            "do_work (in app-symtab) + 4\n-[Counter add:times:] (in app-symtab) + 2\n",
        ),
        ("-o app.dSYM -arch arm64 -l 0x104c80000 0x104c84278", "without_debug_info (in app) + 4\n"),
        // The program has its dSYM beside it.
        ("-o app -arch arm64 -l 0x104c80000 0x104c84004", "leaf_crash (in app) (inline.c:16)\n"),
        ("-o kit.dSYM -o app.dSYM -arch arm64 0x100004004", "leaf_crash (in app) (inline.c:16)\n"),
    ] {
        assert_answers(line, "", expected);
    }
}

#[test]
fn an_address_outside_of_the_image_is_answered_as_it_was_typed() {
    let expected = "leaf_crash (in app) (inline.c:16)\n0x1\n0x205000000\nmain\n";
    assert_answers("-o app.dSYM -arch arm64 -l 0x104c80000 0x104c84004 0x1 0x205000000 main", "", expected);
    assert_answers("-o app.dSYM -arch arm64 -l 0x104c80000 0x104c80010", "", "0x0000000104c80010 (in app)\n");
}

#[test]
fn addresses_come_from_files_and_pipes() {
    let lines = "geo::(anonymous namespace)::secret(geo::Point const&) (in app) (shapes.cpp:8)\nmain (in app) (main.c:3)\n";
    let addresses = "0x104c841d4\n0x104c84244\n";
    assert_answers("-o app.dSYM -arch arm64 -l 0x104c80000", addresses, lines);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("addresses.txt");
    std::fs::write(&file, "0x104c841d4   0x104c84244").unwrap();
    let line = format!("-o app.dSYM -arch arm64 -l 0x104c80000 -f {}", file.display());
    assert_answers(&line, "", lines);
    let many = "0x104c84004\n".repeat(50_000);
    let (code, output, _) = atos("-o app.dSYM -arch arm64 -l 0x104c80000", &many);
    assert_eq!((code, output.lines().count()), (Some(0), 50_000));
}

#[test]
fn a_script_gets_each_answer_before_it_writes_the_next_address() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unslide"));
    command.args(["atos", "-o", "app.dSYM", "-arch", "arm64", "-l", "0x104c80000"]);
    command.current_dir(fixtures::folder()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        writeln!(input, "0x104c84004").unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), "leaf_crash (in app) (inline.c:16)");
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_wrong_request_is_refused_with_a_reason() {
    for (line, problem) in [
        (
            "-o app.dSYM -arch i386 0x1",
            "atos cannot load symbols for the file app.dSYM for architecture i386.",
        ),
        ("-o app.dSYM -arch i386 0x1", "it is for arm64; choose with -arch"),
        ("-o nothing.dSYM -arch arm64 0x1", "No such file"),
        ("-arch arm64 0x1", "no processes or executables specified"),
        ("-p 12 0x1", "-p cannot be done here"),
    ] {
        let (code, output, error) = atos(line, "");
        assert_eq!((code, output.as_str()), (Some(1), ""), "{line}");
        assert!(error.contains(problem), "{line}: {error}");
    }
    let help = unslide(&["atos", "-o", "x", "-h"], &[]);
    assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("-inlineFrames"));
}
