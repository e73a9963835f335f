//! `unslide jetsam` with logs.

use super::symbolicate::{run, written};
use serde_json::Value;

const LOG: &str = r#"{"bug_type":"298","timestamp":"2026-03-02 11:00:00.00 +0900"}
{"bug_type":"298","incident":"66666666-7777-8888-9999-AAAAAAAAAAAA","product":"iPhone16,1",
 "build":"iPhone OS 18.3.1 (22D72)","date":"2026-03-02 11:00:00.00 +0900","largestProcess":"Maps",
 "memoryStatus":{"pageSize":16384,"memoryPages":{"free":4000}},
 "processes":[{"name":"Maps","rpages":140000,"states":["active"],"pid":7},
 {"name":"Sh\u001bop","rpages":134000,"lifetimeMax":134000,"states":["frontmost"],"reason":"per-process-limit","pid":42}]}
"#;

#[test]
fn a_log_is_shown_as_a_table_with_the_killed_process_first_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "JetsamEvent.ips", LOG.as_bytes());
    let (code, text, error) = run(&["jetsam", &file]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let at = |wanted: &str| text.find(wanted).unwrap_or_else(|| panic!("{wanted}: {text}"));
    // The header names the largest process, too.
    assert!(at("per-process-limit") < text.rfind("  Maps").unwrap(), "{text}");
    at("time      2026-03-02T11:00:00+09:00");
    at("free      63 MB");
    assert!(!text.contains('\u{1b}'));
    let (code, json, _) = run(&["jetsam", "--json", &file]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["killed"][0]["footprint"].as_u64()), (Some(0), Some(134_000 * 16_384)));
    assert_eq!(
        (json["killed"][0]["foreground"].as_bool(), json["processes"].as_array().unwrap().len()),
        (Some(true), 2)
    );
}

#[test]
fn what_is_no_jetsam_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("crash.ips", LOG.replace("298", "309")), ("cut.ips", LOG.get(..200).unwrap().to_owned())]
    {
        let file = written(&folder, name, text.as_bytes());
        let (code, _, error) = run(&["jetsam", &file]);
        assert!(code != Some(0) && error.contains("cannot read"), "{error}");
    }
    assert_ne!(run(&["jetsam", "no/such/file"]).0, Some(0));
}
