//! Files that others have published.

use unslide_calltree::{CallTree, GraphPlace, flame_graph};
use unslide_captures_formats::profile::{Profile, ProfileError, ProfileFormat, read_profile};
use unslide_testkit::fixtures;

/// The published file of this name; `None` where there are none.
fn sample(name: &str) -> Option<Vec<u8>> {
    let files = fixtures::published(&format!("the published {name} is read"), "apple", name, 1)?;
    Some(std::fs::read(&files[0]).unwrap())
}

fn without_symbols(profile: &Profile) -> CallTree {
    profile.symbolicate(&|_| None).tree
}

#[test]
fn a_published_sample_is_read() {
    let Some(bytes) = sample("hang/synthetic-sample.txt") else { return };
    let profile = read_profile(&bytes).unwrap();
    assert_eq!((profile.format, profile.frames.len(), profile.skipped), (ProfileFormat::Sample, 8, 0));
    let tree = without_symbols(&profile);
    let main = "Thread_70001 DispatchQueue_1: com.apple.main-thread (serial);start;main";
    let expected = format!(
        "{main};compute(int);Demo + 20992 60\n{main};read 40\nThread_70002: worker;thread_start 100\n"
    );
    assert_eq!(tree.to_folded(), expected);
}

#[test]
fn published_diagnostics_are_read() {
    let read = |name: &str| Some(read_profile(&sample(&format!("metrickit/{name}.json"))?));
    let Some(real) = read("tree-real") else { return };
    let real = real.unwrap();
    assert!(real.frames.len() > 100, "{}", real.frames.len());
    for name in ["per-thread", "per-thread-flamegraph", "not-per-thread", "tree-unknown-fields"] {
        let tree = without_symbols(&read(name).unwrap().unwrap());
        assert!(
            tree.total().weight > 0 && flame_graph(&tree, name, GraphPlace::File).contains("Sentry"),
            "{name}"
        );
    }
    assert!(matches!(read("tree-garbage").unwrap(), Err(ProfileError::Json(_))));
    let payload = read("synthetic-MXDiagnosticPayload").unwrap().unwrap();
    let labels: Vec<&str> =
        payload.frames.iter().filter(|f| f.label).filter_map(|f| f.symbol.as_deref()).collect();
    assert!(labels.iter().any(|label| label.starts_with("hang ")), "{labels:?}");
    assert!(!labels.contains(&"crash"), "{labels:?}");
}
