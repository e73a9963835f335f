//! The seed corpus of the fuzz targets, for tests that need no fuzzer.

use std::path::Path;

/// Runs `check` over each file of a fuzz target's corpus, and over what the fuzzer found and left in
/// `fuzz/artifacts`.
///
/// # Panics
/// Where `check` does, after naming the file, or where the corpus is missing.
pub fn replay(target: &str, check: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let files = |folder: &str| {
        let read = std::fs::read_dir(fuzz.join(folder).join(target));
        read.into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let seeds = files("corpus");
    assert!(!seeds.is_empty(), "fuzz/corpus/{target} is empty");
    for path in seeds.into_iter().chain(files("artifacts")) {
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let done = std::panic::catch_unwind(|| check(&bytes));
        assert!(done.is_ok(), "{} fails", path.display());
    }
}
