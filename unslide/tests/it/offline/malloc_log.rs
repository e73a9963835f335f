//! `unslide malloc-log` with a log of each layout.

use super::symbolicate::{debug_id, run, written};
use serde_json::{Value, json};
use unslide_testkit::fixtures;

/// The load address of the app.
const LOAD: u64 = 0x1_04a0_0000;
const DISGUISE: u64 = 0x5555;

/// Type, address, size and stack of each event.
const EVENTS: [(u64, u64, u64, u64); 6] = [
    (2, 0x6000_0030, 100, 2),
    (2, 0x6000_0020, 200, 2),
    (16 | 88 << 24, 0x7000_0000, 4096, 3),
    (4, 0x6000_0030, 0, 3),
    (2, 0x6000_0010, 1000, 3),
    (4, 0x5000_0000, 0, 3),
];

fn packed(kind: u64, stack: u64) -> u64 {
    stack | (kind >> 24) << 48 | (kind & 0xff) << 56
}

fn disk(events: &[(u64, u64, u64, u64)]) -> Vec<u8> {
    let words =
        |(kind, at, size, stack): &(u64, u64, u64, u64)| [*size, at ^ DISGUISE, packed(*kind, *stack)];
    events.iter().flat_map(words).flat_map(u64::to_le_bytes).collect()
}

fn index(events: &[(u64, u64, u64, u64)]) -> Vec<u8> {
    let words = |(kind, at, size, stack): &(u64, u64, u64, u64)| [*size, at ^ DISGUISE, *stack, *kind];
    events.iter().flat_map(words).flat_map(u64::to_le_bytes).collect()
}

/// Two stacks of thread 0x103: the app calls from one place, or from another.
fn stacks() -> Vec<u8> {
    let slots = [(0, 0), (0x104, u64::MAX), (LOAD + 0x4010, 1), (LOAD + 0x4020, 1)];
    slots
        .iter()
        .flat_map(|(address, caller): &(u64, u64)| [*address, *caller])
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// The arguments of the command with files in a folder.
fn files(folder: &tempfile::TempDir, events: &[u8]) -> (String, String, String) {
    let id = debug_id(&fixtures::dsym("app")).to_string();
    let images = json!({"binary_images": [{"name": "/private/var/containers/Bundle/Application/1/Shop.app/Shop",
        "uuid": id, "image_addr": LOAD, "image_size": 1_048_576}]});
    (
        written(folder, "events.bin", events),
        written(folder, "stacks.bin", &stacks()),
        written(folder, "images.json", images.to_string().as_bytes()),
    )
}

#[test]
fn live_memory_is_the_same_in_every_layout() {
    let folder = tempfile::tempdir().unwrap();
    for (layout, events) in [("disk", disk(&EVENTS)), ("index", index(&EVENTS))] {
        let (events, stacks, images) = files(&folder, &[&events[..], &[7; 5]].concat());
        let arguments =
            ["malloc-log", "--layout", layout, "--stacks", &stacks, "--images", &images, "--json", &events];
        let (code, output, error) = run(&arguments);
        assert_eq!(code, Some(0), "{error}");
        let answer: Value = serde_json::from_str(&output).unwrap();
        assert_eq!((&answer["events"], &answer["trailing_bytes"]), (&json!(6), &json!(5)));
        let memory = json!({"heap_bytes": 1200, "heap_blocks": 2, "vm_bytes": 4096, "vm_ranges": 1});
        assert_eq!(answer["memory"], memory, "{output}");
        assert_eq!(answer["vm_tags"][0]["name"], "IOSURFACE");
        let stacks = answer["stacks"].as_array().unwrap().iter();
        let stacks: Vec<Value> = stacks.map(|row| json!([row["stack"], row["kind"], row["bytes"]])).collect();
        assert_eq!(stacks[..2], [json!([3, "virtual", 4096]), json!([3, "heap", 1000])]);
        assert_eq!(answer["threads"][0]["thread"], "0x103");
        assert_eq!(answer["counts"]["unknown_deallocations"], 1);
        assert_eq!(answer["stacks"][0]["functions"], json!(["Shop + 16416 (Shop)"]));
    }
}

#[test]
fn a_layout_is_detected_a_wrong_one_is_refused_and_a_header_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let many: Vec<_> = EVENTS.iter().copied().cycle().take(60).collect();
    for (layout, wrong, bytes) in [("disk", "index", disk(&many)), ("index", "disk", index(&many))] {
        let (events, stacks, images) = files(&folder, &bytes);
        let log = |stacks: &str, layout: &[&str]| {
            let arguments = ["malloc-log", "--stacks", stacks, "--images", &images, "--json", &events];
            run(&[&arguments[..], layout].concat())
        };
        let (code, stated, error) = log(&stacks, &["--layout", layout]);
        assert_eq!(code, Some(0), "{error}");
        let (code, detected, error) = log(&stacks, &[]);
        assert_eq!((code, &detected), (Some(0), &stated), "{error}");
        assert!(error.contains(&format!("the events have the layout {layout}")), "{error}");
        let (code, _, error) = log(&stacks, &["--layout", wrong]);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains(&format!("They are of the layout {layout}, so set that")), "{error}");
        // One page of slots behind a header of 48 bytes.
        let words = [1, 256, 4_096, 0, 0x1_2000_0000, 19_u64];
        let mut headed: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        headed.extend(super::malloc_log::stacks());
        headed.resize(48 + 4_096, 0);
        let (code, output, error) = log(&written(&folder, "headed.bin", &headed), &["--layout", layout]);
        assert_eq!((code, output), (Some(0), stated), "{error}");
    }
    let (events, stacks, _) = files(&folder, &disk(&EVENTS));
    let (code, _, error) = run(&["malloc-log", "--stacks", &stacks, &events]);
    assert_eq!(code, Some(1), "too few records show no layout");
    assert!(error.contains("Set the layout"), "{error}");
}

#[test]
fn packed_files_are_read_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let (events, stacks, images) = files(&folder, &disk(&EVENTS));
    let log = |[events, stacks, images]: [&str; 3]| {
        run(&["malloc-log", "--layout", "disk", "--stacks", stacks, "--images", images, events])
    };
    let plain = log([&events, &stacks, &images]);
    assert_eq!(plain.0, Some(0), "{}", plain.2);
    for path in [&events, &stacks, &images] {
        fixtures::run(std::process::Command::new("gzip").arg("--keep").arg(path));
    }
    let packed = [events.clone() + ".gz", stacks.clone() + ".gz", images + ".gz"];
    assert_eq!(log(packed.each_ref().map(String::as_str)), plain);
    assert_eq!(log(["-", "-", &events]).0, Some(2));
}

#[test]
fn growth_and_what_stays_are_between_two_events() {
    let folder = tempfile::tempdir().unwrap();
    let (events, stacks, images) = files(&folder, &disk(&EVENTS));
    let log = ["malloc-log", "--layout", "disk", "--stacks", &stacks, "--images", &images];
    let symbols = fixtures::dsym("app");
    let flame = folder.path().join("growth.svg");
    let more = ["--from", "2", "--at", "5", "--symbols", symbols.to_str().unwrap()];
    let (code, output, error) = run(&[&log[..], &more, &["--json", &events]].concat());
    assert_eq!(code, Some(0), "{error}");
    let answer: Value = serde_json::from_str(&output).unwrap();
    let grown: Vec<_> =
        answer["growth"].as_array().unwrap().iter().map(|row| row["grown_bytes"].clone()).collect();
    assert_eq!(grown, [json!(4096), json!(1000), json!(-100)]);
    assert_eq!((&answer["older"][0]["bytes"], &answer["position"]), (&json!(200), &json!(5)));
    let (code, output, error) =
        run(&[&log[..], &more, &["--flame", flame.to_str().unwrap(), &events]].concat());
    assert_eq!((code, output.as_str()), (Some(0), ""), "{error}");
    assert!(std::fs::read_to_string(flame).unwrap().contains("live heap after 5 events, since 2"));
    let (_, text, _) = run(&[&log[..], &more, &[&events]].concat());
    for part in ["live after 5 events: 1200 bytes in 2 blocks", "changed since:", "GROWN", "still live:"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn heap_and_virtual_memory_have_a_flame_graph_each() {
    let folder = tempfile::tempdir().unwrap();
    let (events, stacks, images) = files(&folder, &disk(&EVENTS));
    let path = folder.path().join("memory.svg");
    let graph = |more: &[&str]| {
        let log = ["malloc-log", "--layout", "disk", "--stacks", &stacks, "--images", &images, "--flame"];
        let (code, _, error) = run(&[&log[..], &[path.to_str().unwrap()], more, &[&events]].concat());
        assert_eq!(code, Some(0), "{error}");
        (std::fs::read_to_string(&path).unwrap(), error)
    };
    let (heap, said) = graph(&[]);
    assert!(heap.contains("live heap after 6 events") && heap.contains("1000 bytes, 83.3 %"), "{heap}");
    assert!(said.contains("--memory virtual shows virtual memory"), "{said}");
    let (vm, _) = graph(&["--memory", "virtual"]);
    assert!(vm.contains("live virtual memory") && vm.contains("4096 bytes, 100.0 %"), "{vm}");
    for graph in [heap, vm] {
        assert!(!graph.contains("5296"), "they are not added: {graph}");
    }
}

#[test]
fn a_table_behind_other_bytes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (events, _, images) = files(&folder, &disk(&EVENTS));
    let other = [7_u64, 7, 7, 0, LOAD, 19].map(u64::to_le_bytes).concat();
    let stacks = written(&folder, "with_bytes.bin", &[other, stacks()].concat());
    let (code, output, error) =
        run(&["malloc-log", "--layout", "disk", "--stacks", &stacks, "--images", &images, &events]);
    assert_eq!((code, output.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains("with_bytes.bin") && error.contains("from byte 48 on"), "{error}");
}

#[test]
fn many_moments_are_asked_for_at_once_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    // Of each hundred events the first is never freed.
    let event = |at: u64| match at % 2 {
        0 => (2, 0x6000_0000 + at * 7_919 % 10_007 * 0x40, 48, 2 + at / 2 % 2),
        _ if at % 100 == 1 => (1, 1, 1, 1),
        _ => (4, 0x6000_0000 + (at - 1) * 7_919 % 10_007 * 0x40, 0, 2),
    };
    let log: Vec<_> = (0..5_000).map(event).collect();
    let (events, stacks, images) = files(&folder, &disk(&log));
    let log = ["malloc-log", "--layout", "disk", "--stacks", &stacks, "--images", &images];
    let moments = |more: &[&str]| {
        let (code, output, error) = run(&[&log[..], more, &["--json", &events]].concat());
        assert_eq!(code, Some(0), "{error}");
        serde_json::from_str::<Value>(&output).unwrap()
    };
    let several = moments(&["--from", "100", "--at", "4000", "--at", "700", "--at", "5000", "--at", "701"]);
    for (n, at) in ["4000", "700", "5000", "701"].into_iter().enumerate() {
        let alone = moments(&["--from", "100", "--at", at]);
        let history = &alone["history"];
        assert_eq!(history["events"].as_array().unwrap().last(), Some(&alone["position"]));
        assert_eq!(history["memory"].as_array().unwrap().last(), Some(&alone["memory"]));
        // Of several moments the last alone has one.
        assert_eq!(several[n].get("history"), (at == "5000").then_some(history));
        for part in ["position", "counts", "memory", "threads", "stacks", "growth", "older"] {
            assert_eq!(several[n][part], alone[part], "{at} {part}");
        }
    }
    assert_eq!(
        (&several[0]["memory"]["heap_blocks"], &several[2]["memory"]["heap_blocks"]),
        (&json!(40), &json!(50))
    );
    let (_, text, _) = run(&[&log[..], &["--at", "5000", "--at", "700", &events]].concat());
    for part in ["live after 5000 events", "live after 700 events", "live memory over time:", "HEAP BYTES"] {
        assert_eq!(text.matches(part).count(), 1, "{part} is not once in\n{text}");
    }
    let flame = folder.path().join("heap.svg");
    let refused =
        run(&[&log[..], &["--at", "1", "--at", "2", "--flame", flame.to_str().unwrap(), &events]].concat());
    assert_eq!(refused.0, Some(2), "{}", refused.2);
}

#[test]
fn a_sorted_log_has_totals_only() {
    let folder = tempfile::tempdir().unwrap();
    let sorted: Vec<_> = (0..40).map(|n| (2, 0x6000_0000 + n * 0x1_0000, 10, 2)).collect();
    let (events, stacks, _) = files(&folder, &disk(&sorted));
    let log = ["malloc-log", "--layout", "disk", "--stacks", &stacks];
    let (code, output, error) = run(&[&log[..], &[&events]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(
        error.contains("sorted by address") && output.contains("allocated, freed or not: 400 bytes"),
        "{output}"
    );
    assert_eq!(run(&[&log[..], &["--at", "3", &events]].concat()).0, Some(1));
}

#[test]
fn arguments_that_do_not_go_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (events, stacks, _) = files(&folder, &disk(&EVENTS));
    let wrong: [&[&str]; 4] = [
        &["--layout", "index", "--pointer-size", "4"],
        &["--layout", "disk", "--pointer-size", "5"],
        &["--layout", "disk", "--from", "3", "--at", "2"],
        &["--layout", "disk", "--at", "7"],
    ];
    for arguments in wrong {
        let (code, _, error) = run(&[&["malloc-log", "--stacks", &stacks, &events], arguments].concat());
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
    }
}

#[test]
fn an_address_has_its_stacks_and_records_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let log = [
        (2, 0x6000_0300, 100, 2),
        (2, 0x6000_0200, 200, 2),
        (16 | 88 << 24, 0x7000_0000, 4096, 3),
        (4, 0x6000_0300, 0, 3),
        (2, 0x6000_1000, 1000, 3),
        (4, 0x5000_0000, 0, 3),
    ];
    let (events, stacks, images) = files(&folder, &disk(&log));
    let log = |arguments: &[&str]| {
        let common = ["malloc-log", "--layout", "disk", "--stacks", &stacks, "--images", &images, &events];
        run(&[&common[..], arguments].concat())
    };
    let (code, output, error) = log(&["--json", "--address", "0x60000340"]);
    assert_eq!(code, Some(0), "{error}");
    let found: Value = serde_json::from_str(&output).unwrap();
    let records: Vec<Value> =
        found["records"].as_array().unwrap().iter().map(|row| json!([row["record"], row["event"]])).collect();
    assert_eq!(records, [json!([1, "allocated"]), json!([4, "freed"])]);
    assert_eq!(found["records"][1]["functions"], json!(["Shop + 16416 (Shop)"]));
    assert_eq!(found["live_since"], Value::Null);
    let (code, output, _) = log(&["--address", "0x60001000", "--address", "0x60000340"]);
    assert_eq!(code, Some(0));
    assert!(output.contains("0x60001000: live since event 5"), "{output}");
    assert!(output.contains("event 1 allocated it, thread 0x103:\n    Shop + 16400"), "{output}");
    let (code, output, _) = log(&["--address", "0x10"]);
    assert_eq!((code, output.as_str()), (Some(3), "0x10: the log has no memory at it\n"));
    let (code, output, _) = log(&["--list", "--json", "--from", "1", "--at", "4"]);
    let listed: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, listed.as_array().map(Vec::len)), (Some(0), Some(3)));
    assert_eq!((&listed[1]["tag"], &listed[1]["kind"]), (&json!("IOSURFACE"), &json!("virtual")));
    let (_, output, _) = log(&["--list"]);
    assert_eq!(output.lines().count(), 7, "{output}");
    for wrong in [&["--address", "60001000"][..], &["--list", "--at", "1", "--at", "2"]] {
        assert_eq!(log(wrong).0, Some(2), "{wrong:?}");
    }
}
