//! The checks of the fuzz targets, without a fuzzer: over their corpus, over what a fuzzer found, and over variations
//! of both that are the same in each run.

use std::collections::BTreeMap;
use std::panic::RefUnwindSafe;
use std::path::{Path, PathBuf};

// The program that writes the corpus is of another workspace. Here it is compiled with every change.
#[path = "../../../fuzz/src/seeds.rs"]
#[expect(dead_code, reason = "`fuzz/src/seeds.rs` is a program")]
mod seeds;
#[path = "../../../fuzz/src/lib.rs"]
mod swift;
mod variation;

macro_rules! checks {
    ($($name:ident = $path:literal),+ $(,)?) => {
        $(#[path = $path] mod $name;)+

        /// Every target, with the path of its checks.
        const TARGETS: &[(&str, &str)] = &[$((stringify!($name), $path)),+];

        mod readers {
            $(#[test] fn $name() { super::run(stringify!($name), super::$name::check); })+
        }
    };
}

checks! {
    archive = "../../../fuzz/checks/archive.rs",
    demangle = "../../../fuzz/checks/demangle.rs",
    dyld_cache = "../../../fuzz/checks/dyld_cache.rs",
    enrich = "../../../fuzz/checks/enrich.rs",
    key = "../../../fuzz/checks/key.rs",
    log = "../../../fuzz/checks/log.rs",
    malloc = "../../../fuzz/checks/captures/malloc.rs",
    memory_graph = "../../../fuzz/checks/captures/memory_graph.rs",
    message = "../../../fuzz/checks/message.rs",
    metrics = "../../../fuzz/checks/metrics.rs",
    object = "../../../fuzz/checks/object.rs",
    otlp = "../../../fuzz/checks/otlp.rs",
    profile = "../../../fuzz/checks/captures/profile.rs",
    report = "../../../fuzz/checks/report.rs",
    signature = "../../../fuzz/checks/signature.rs",
    splice = "../../../fuzz/checks/splice.rs",
    subject = "../../../fuzz/checks/subject.rs",
    symcache = "../../../fuzz/checks/symcache.rs",
}

/// Variations of the inputs of one target.
const VARIATIONS: u64 = 3_000;

fn folder(kind: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz").join(kind).join(target)
}

/// The files of a folder, by name, so that each run has the same order.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    found.map(|entry| (entry.path(), std::fs::read(entry.path()).expect("a file"))).collect()
}

/// Runs a check over all inputs of a target. An input that fails it is kept where those of the fuzzer are, which the
/// next run begins with.
fn run(target: &str, check: impl Fn(&[u8]) + RefUnwindSafe) {
    swift::without_swift();
    let passes = |input: &[u8]| std::panic::catch_unwind(|| check(input)).is_ok();
    let inputs = files(&folder("corpus", target));
    assert!(!inputs.is_empty(), "fuzz/corpus/{target} is empty");
    for (path, input) in inputs.iter().chain(&files(&folder("artifacts", target))) {
        assert!(passes(input), "{} fails", path.display());
    }
    let inputs: Vec<&[u8]> = inputs.values().map(Vec::as_slice).collect();
    for number in 0..VARIATIONS {
        let input = variation::of(&inputs, number);
        if !passes(&input) {
            let path = folder("artifacts", target).join(format!("variation-{number}"));
            std::fs::create_dir_all(folder("artifacts", target)).expect("a folder");
            std::fs::write(&path, &input).expect("a file");
            panic!("{} fails", path.display());
        }
    }
}

/// The fuzzer's workspace is not compiled here: it takes minutes and has nothing but these lines around each check.
#[test]
fn every_fuzz_target_calls_its_checks_and_does_nothing_else() {
    let targets = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets"));
    let names: Vec<_> = targets.keys().filter_map(|path| path.file_stem()?.to_str()).collect();
    assert_eq!(names, TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for ((name, checks), target) in TARGETS.iter().zip(targets.values()) {
        let checks = checks.strip_prefix("../../../fuzz/").expect("a check of the fuzzer");
        let text = String::from_utf8_lossy(target).replace("init: unslide_fuzz::without_swift(), ", "");
        let expected = format!(
            "#![no_main]\n\n#[path = \"../{checks}\"]\nmod check;\n\n\
             libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));\n"
        );
        assert_eq!(text, expected, "fuzz/fuzz_targets/{name}.rs");
    }
}
