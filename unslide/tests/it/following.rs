//! `unslide audit-log follow`: entries as lines, from the one that is known on.

use crate::api::Api;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Begins to follow a log.
fn follow(api: &Api, more: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unslide"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSLIDE_")) {
        command.env_remove(name);
    }
    let folder = tempfile::tempdir().unwrap();
    command.env_remove("XDG_CONFIG_HOME").env("HOME", folder.path());
    command.args(["audit-log", "follow", "--interval", "1", "--url", &api.url, "--api-key", "unslide_a_b"]);
    command.args(more).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn page(ids: &[&str]) -> (u16, String) {
    let items = ids.iter().map(|id| format!(r#"{{"id":"{id}","action":"key.create"}}"#));
    (200, format!(r#"{{"items":[{}]}}"#, items.collect::<Vec<_>>().join(",")))
}

#[test]
fn a_log_is_followed_from_an_entry_on_to_its_end() {
    let api = Api::start(|line| match line {
        "GET /v1/audit-log/entries?after=a&limit=500" => page(&["b", "c"]),
        _ => (404, r#"{"title":"Not found"}"#.to_owned()),
    });
    let done = follow(&api, &["--after", "a", "--once"]).wait_with_output().unwrap();
    let output = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let ids = output.lines().map(|line| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        entry["id"].as_str().unwrap().to_owned()
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(api.count("GET"), 1);
}

#[test]
fn new_entries_are_printed_as_they_come_and_an_outage_misses_none() {
    let outage = Mutex::new(false);
    let api = Api::start(move |line| match line {
        "GET /v1/audit-log?limit=1" => page(&["a"]),
        "GET /v1/audit-log/entries?after=a&limit=500" => page(&["b"]),
        "GET /v1/audit-log/entries?after=b&limit=500" => {
            let is_first = !std::mem::replace(&mut *outage.lock().unwrap(), true);
            if is_first { (503, r#"{"title":"The service is busy"}"#.to_owned()) } else { page(&["c"]) }
        }
        _ => page(&[]),
    });
    let mut child = follow(&api, &[]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ids = [lines.next(), lines.next()].map(|line| line.unwrap().unwrap());
    assert!(ids[0].contains(r#""id":"b""#) && ids[1].contains(r#""id":"c""#), "{ids:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}
