//! `unslide flame` with files of every kind.

use super::symbolicate::{debug_id, run, written};
use unslide_testkit::fixtures;

/// The load address of the app.
const LOAD: u64 = 0x1_04a0_0000;

/// The text of `sample` with a frame of the app at its start, of which only the address is known.
fn sample(count: u64) -> String {
    let id = debug_id(&fixtures::dsym("app"));
    let bytes = std::fs::read(fixtures::dsym("app")).unwrap();
    let built = unslide_symbolicate::object::build_symcache(&bytes).unwrap();
    let symcache = unslide_symbolicate::symcache::SymCache::parse(built.symcache).unwrap();
    let is_main = |symbol: &str| symbol.trim_start_matches('_') == "main";
    let found = symcache.ranges().find(|(_, answer)| {
        answer.is_some_and(|answer| answer.symbol.is_some_and(|symbol| is_main(&symbol.decode())))
    });
    let main = LOAD + found.unwrap().0.0;
    format!(
        "Analysis of sampling Shop (pid 1) every 1 millisecond\n\nCall graph:\n    10 Thread_1\n    + {count} start  \
         (in dyld) + 2236  [0x18a0c50e0]\n    +   {count} ???  (in Shop)  load address {LOAD:#x} + 0x1  [{main:#x}]\n\n\
         Binary Images:\n  {LOAD:#x} - {:#x} +shop (1) <{id}> /Applications/Shop.app/Shop\n",
        LOAD + 0x10_0000
    )
}

#[test]
fn a_sample_is_drawn_with_symbols_and_says_what_lacks_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "hang.txt", sample(10).as_bytes());
    let symbols = fixtures::dsym("app");
    let (code, svg, error) = run(&["flame", "--symbols", symbols.to_str().unwrap(), &file]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(svg.starts_with("<svg ") && svg.contains("aria-label=\"hang.txt\""), "{svg}");
    assert!(svg.contains("<title>main (Shop, app) ") && svg.contains("main.c:"), "{svg}");
    let out = folder.path().join("out.svg");
    let (code, output, error) = run(&["flame", "-o", out.to_str().unwrap(), &file]);
    assert_eq!((code, output.as_str()), (Some(0), ""));
    let id = debug_id(&symbols);
    assert!(error.contains(&format!("Shop {id}: 1 frame (missing)")), "{error}");
    assert!(std::fs::read_to_string(out).unwrap().contains("<title>Shop + "));
}

#[test]
fn folded_stacks_and_the_heaviest_path_are_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "stacks.folded", b"main;draw;copy 3\nmain;load 1\n");
    let (code, folded, _) = run(&["flame", "--format", "folded", &file]);
    assert_eq!((code, folded.as_str()), (Some(0), "main;draw;copy 3\nmain;load 1\n"));
    let (_, path, _) = run(&["flame", "--format", "path", &file]);
    let expected = "heaviest path, of 4 samples:\n         4  main\n         3  draw\n         3  copy\n";
    assert_eq!(path, expected);
}

#[test]
fn two_profiles_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let before = written(&folder, "before", b"main;a 6\nmain;b 4\n");
    let after = written(&folder, "after", b"main;a 9\nmain;b 1\n");
    let (code, svg, error) = run(&["flame", "--diff", &after, &before]);
    assert_eq!(code, Some(0), "{error}");
    assert!(svg.contains("6 before, 9 after: +30.0 percentage points"), "{svg}");
    assert_eq!(run(&["flame", "--diff", &after, "--format", "path", &before]).0, Some(2));
}

#[test]
fn what_is_no_profile_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "notes.txt", b"nothing to see\n");
    let (code, output, error) = run(&["flame", &file]);
    assert_eq!((code, output.as_str()), (Some(1), ""));
    assert!(error.contains("notes.txt") && error.contains("not a profile"), "{error}");
    let (code, _, error) = run(&["flame", "no/such/file"]);
    assert!(code == Some(2) && error.contains("no/such/file"), "{error}");
}

#[test]
fn a_pasted_backtrace_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "0   CoreFoundation  0x00007fff23e3cf0e __exceptionPreprocess + 350\n\
                 1   libobjc.A.dylib  0x00007fff50ba89b2 objc_exception_throw + 48\n";
    for text in [lines.to_owned(), format!("Backtrace of Thread 771:\n{lines}")] {
        let file = written(&folder, "backtrace.txt", text.as_bytes());
        let (code, output, error) = run(&["flame", &file]);
        assert_eq!((code, output.as_str()), (Some(1), ""), "{error}");
        assert!(error.contains("a backtrace, not a profile") && error.contains("symbolicate"), "{error}");
    }
}
