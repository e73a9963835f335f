//! How often the function that was edited is named, and how often another one: 30 edits at three levels of optimisation, and pairs
//! of builds of the same source.

use crate::builds::{Build, Compiler, FILES, Sources, read_sources};
use crate::edits::{EDITS, Edit};
use unslide_changes_compare::{BuildComparison, BuildOutcome, ChangeState, FunctionChange};
use unslide_symbolicate::symcache::SymCache;

const LEVELS: [&str; 3] = ["-O0", "-O2", "-Oz"];
/// Functions that a comparison lists here.
const LISTED: usize = 1_000;

fn apply(edit: &Edit) -> Sources {
    let mut sources = read_sources();
    let at = FILES.iter().position(|(file, _)| *file == edit.file).unwrap();
    assert_eq!(sources[at].matches(edit.from).count(), 1, "{edit:?}");
    sources[at] = sources[at].replace(edit.from, edit.to);
    sources
}

/// The functions that a comparison names as edited.
fn named(before: &SymCache, after: &SymCache) -> Vec<FunctionChange> {
    let comparison = BuildComparison::from_symcaches(before, after).unwrap();
    if comparison.outcome() != BuildOutcome::Compared {
        return Vec::new();
    }
    let mut changes = comparison.list_changes(LISTED);
    changes
        .retain(|change| matches!(change.state, ChangeState::Changed | ChangeState::New | ChangeState::Gone));
    changes
}

#[test]
fn edited_functions_are_named_and_no_others() {
    let compiler = Compiler::new();
    let bases = LEVELS.map(|level| compiler.build(&Build::new(read_sources(), level)));
    let (mut right, mut wrong, mut all) = (0, 0, 0);
    for edit in &EDITS {
        for (level, base) in LEVELS.iter().zip(&bases) {
            let after = compiler.build(&Build::new(apply(edit), level));
            let named = named(base, &after);
            let is_edited = |change: &&FunctionChange| {
                change.name.contains(edit.function)
                    || change.symbol.as_ref().is_some_and(|symbol| symbol.contains(edit.function))
            };
            let is_right = named.iter().any(|change| is_edited(&change));
            let others: Vec<_> =
                named.iter().filter(|change| !is_edited(change)).map(|one| &*one.text).collect();
            if !is_right || !others.is_empty() {
                println!("{level} {}: named {is_right}, others {others:?}", edit.function);
            }
            all += 1;
            right += usize::from(is_right);
            wrong += usize::from(!others.is_empty());
        }
    }
    println!("{all} pairs of builds with one edit: {right} name it, {wrong} name another function");
    assert!(right * 100 >= all * 90, "{right} of {all}");
    assert!(wrong * 100 <= all * 2, "{wrong} of {all}");
}

/// Lines before the functions of each file.
fn moved_down(sources: Sources) -> Sources {
    sources.map(|text| format!("// A longer\n// comment at\n// the top.\n\n{text}"))
}

#[test]
fn builds_of_the_same_source_name_no_function() {
    let compiler = Compiler::new();
    let with =
        |options: &[&'static str]| Build { options: options.to_vec(), ..Build::new(read_sources(), "") };
    let moved = |level| Build::new(moved_down(read_sources()), level);
    let pairs = [
        ("optimised", with(&["-O0"]), with(&["-O2"])),
        ("for size", with(&["-O2"]), with(&["-Oz"])),
        ("less", with(&["-O2"]), with(&["-O1"])),
        ("not inlined", with(&["-O2"]), with(&["-O2", "-fno-inline"])),
        ("stack protector", with(&["-O0"]), with(&["-O0", "-fstack-protector-all"])),
        ("without columns", with(&["-O2"]), with(&["-O2", "-gno-column-info"])),
        ("DWARF 5", with(&["-O2", "-gdwarf-4"]), with(&["-O2", "-gdwarf-5"])),
        ("lower lines", with(&["-O0"]), moved("-O0")),
        ("lower lines, optimised", with(&["-O2"]), moved("-O2")),
        ("another folder", with(&["-Oz"]), Build { folder: "lib/shop", ..moved("-Oz") }),
    ];
    for (difference, before, after) in pairs {
        let (before, after) = (compiler.build(&before), compiler.build(&after));
        let comparison = BuildComparison::from_symcaches(&before, &after).unwrap();
        println!("{difference}: {}, {:?}", comparison.outcome(), comparison.counts());
        let texts: Vec<String> = named(&before, &after).into_iter().map(|change| change.text).collect();
        assert!(texts.is_empty(), "{difference}: {texts:?}");
    }
}
