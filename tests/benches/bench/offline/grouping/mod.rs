//! How well reports are grouped: a corpus of known bugs, built in many ways. Pairwise precision: of all pairs of
//! reports in one group, the part that is of one bug. Recall: of all pairs of one bug, the part that is in one
//! group.

mod bugs;
mod build;
mod scripts;

use bugs::bugs;
use build::Build;
use std::collections::{BTreeMap, BTreeSet};
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::{Context, enrich};

/// What three rules make of one report: ours, its first function, and all its functions.
fn keys(build: &Build, bytes: &[u8]) -> ([String; 3], String) {
    let report = Report::read(bytes, &ReadLimits::default()).expect("a report");
    let id = build.debug_id.clone();
    let symbols = |wanted: &unslide_model::DebugId| (wanted.to_string() == id).then_some(&build.symbols);
    let enriched = enrich(&report, &symbols, &Context::default());
    let grouping = enriched.grouping.expect("it says what happened");
    let json: serde_json::Value = serde_json::from_slice(&enriched.bytes).expect("a report");
    let frames = json["crash"]["threads"][0]["backtrace"]["contents"].as_array().expect("frames");
    let functions: Vec<String> = frames
        .iter()
        .flat_map(|frame| match frame["symbolication"]["calls"].as_array() {
            Some(calls) if !calls.is_empty() => {
                calls.iter().map(|call| call["function"].to_string()).collect()
            }
            _ => vec![frame["symbol_name"].to_string()],
        })
        .collect();
    let ours = format!("{:?}", grouping.fingerprint);
    let first = functions.first().cloned().unwrap_or_default();
    ([ours, first, functions.join("\n")], grouping.culprit.unwrap_or_default())
}

/// Precision and recall over all pairs of reports.
fn measure(reports: &[(&str, String)]) -> (f64, f64) {
    let pairs = |counts: BTreeMap<String, u64>| counts.values().map(|n| n * (n - 1) / 2).sum::<u64>() as f64;
    let count = |of: &dyn Fn(&(&str, String)) -> String| {
        let mut counts = BTreeMap::new();
        reports.iter().for_each(|report| *counts.entry(of(report)).or_default() += 1);
        pairs(counts)
    };
    let both = count(&|(bug, key)| format!("{bug}\n{key}"));
    (both / count(&|(_, key)| key.clone()), both / count(&|(bug, _)| (*bug).to_owned()))
}

/// What our rule reaches at least: precision and recall of all builds, and of the small run
/// with two optimisation levels.
const FULL_AIM: (f64, f64) = (0.99, 0.95);
const SMALL_AIM: (f64, f64) = (0.97, 0.90);

/// Words in the names of bugs of functions that other compilers have named.
const LANGUAGES: [&str; 7] = ["Kotlin", "il2cpp", "Dart", "Lua", "Mono", "Swift", "Go"];

/// Prints precision and recall of the bugs of each language.
fn print_languages(reports: &[(&str, String)]) {
    for language in LANGUAGES {
        let own: Vec<(&str, String)> =
            reports.iter().filter(|(bug, _)| bug.contains(language)).cloned().collect();
        let (precision, recall) = measure(&own);
        println!("    {language:<18} precision {precision:.3}, recall {recall:.3}");
    }
}

/// Prints precision and recall beside two simpler rules, and which bugs were split or merged.
///
/// # Panics
/// If our rule misses its aim.
pub fn print(full: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let optimisations: &[&str] = if full { &["O0", "O1", "O2", "O3", "Os", "Oz"] } else { &["O0", "Oz"] };
    let mut reports: Vec<(&str, [String; 3])> = Vec::new();
    let mut culprits: BTreeMap<String, BTreeMap<&str, u32>> = BTreeMap::new();
    let mut builds = 0;
    for architecture in ["arm64", "x86_64"] {
        for optimisation in optimisations {
            for version in ["first", "moved", "wrapped"] {
                let build = Build::make(folder.path(), architecture, optimisation, version);
                builds += 1;
                for (number, (bug, steps)) in bugs().into_iter().enumerate() {
                    let slide = (builds * 97 + number as u64) * 0x4000;
                    let (keys, culprit) = keys(&build, &build.report(&steps, slide));
                    *culprits.entry(culprit).or_default().entry(bug).or_default() += 1;
                    reports.push((bug, keys));
                }
            }
        }
    }
    let known: BTreeSet<&str> = reports.iter().map(|(bug, _)| *bug).collect();
    println!("\nGrouping: {} reports of {} known bugs in {builds} builds", reports.len(), known.len());
    let mut ours = (0.0, 0.0);
    for (at, rule) in ["our rule", "the first function", "all functions"].iter().enumerate() {
        let keyed: Vec<(&str, String)> = reports.iter().map(|(bug, keys)| (*bug, keys[at].clone())).collect();
        let (precision, recall) = measure(&keyed);
        println!("  {rule:<20} precision {precision:.3}, recall {recall:.3}");
        if at == 0 {
            ours = (precision, recall);
            print_languages(&keyed);
        }
    }
    let scripts = scripts::group_reports();
    let of_scripts = measure(&scripts);
    println!("  {:<20} precision {:.3}, recall {:.3}", "stacks of scripts", of_scripts.0, of_scripts.1);
    for (culprit, bugs) in &culprits {
        let split =
            bugs.keys().any(|bug| culprits.values().filter(|bugs| bugs.contains_key(bug)).count() > 1);
        if bugs.len() > 1 || split {
            println!("    reports of {bugs:?} have the culprit {culprit}");
        }
    }
    let aim = if full { FULL_AIM } else { SMALL_AIM };
    assert!(of_scripts.0 >= aim.0 && of_scripts.1 >= aim.1, "precision and recall {of_scripts:?} of scripts");
    assert!(ours.0 >= aim.0 && ours.1 >= aim.1, "precision and recall {ours:?} are below {aim:?}");
}
