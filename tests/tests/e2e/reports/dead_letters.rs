//! What cannot be processed: through the symbolizer, the topic, the index and the api, back into the
//! input and the same way again, with its bytes untouched; and the audit that accounts for all of it.

use serde_json::{Value, json};
use std::time::Duration;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::installation::{Installation, TENANT};

/// The dead letters, once there are `count`.
async fn letters(installation: &Installation, count: usize) -> Vec<Value> {
    let mut waited = Duration::ZERO;
    loop {
        let output = installation.command_succeeds(&["dead-letter", "list", "--json"]);
        let found: Vec<Value> = serde_json::from_str(&output).expect("JSON");
        if found.len() >= count {
            assert_eq!(found.len(), count, "{output}");
            return found;
        }
        assert!(waited < EVENTUAL_TIMEOUT, "{output}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        waited += Duration::from_millis(500);
    }
}

/// A dead letter's key as the api shows it, and its bytes.
fn shown(installation: &Installation, folder: &std::path::Path, letter: &Value) -> (Value, Vec<u8>) {
    let id = letter["id"].as_str().expect("an id");
    let file = folder.join("body");
    let path = file.to_str().expect("a path");
    let output = installation.command_succeeds(&["dead-letter", "show", id, "--body", path, "--json"]);
    let shown: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(shown["held"], true, "{output}");
    (shown["key"].clone(), std::fs::read(file).expect("the body"))
}

/// Proves: unchanged-bytes
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_comes_back_as_it_was_however_often_it_is_replayed() {
    let mut installation = Installation::start().await;
    let create = ["key", "create", "--tenant", TENANT, "--scope", "tenant:admin,reports:write"];
    let output = installation.command_succeeds(&create);
    installation.key =
        output.split_whitespace().find(|w| w.starts_with("unslide_")).expect("a key").to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let input = installation.topic_name("crash.reports");
    let odd: &[u8] = b"\x00\xff{\r\n\x80";
    type Pair<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);
    let records: [Pair<'_>; 3] = [(None, Some(odd)), (Some(b"\xfe\x00"), Some(b"")), (Some(b"key"), None)];
    for (key, value) in records {
        installation.topics.produce_raw(&input, Some(0), &[("tenant", TENANT)], key, value).await;
    }
    let expected = |times: usize| {
        let all = [
            (Value::Null, odd.to_vec()),
            (json!({"base64": "/gA="}), Vec::new()),
            (json!({"text": "key"}), Vec::new()),
        ];
        let mut all: Vec<(Value, Vec<u8>)> = std::iter::repeat_n(all, times).flatten().collect();
        all.sort_by_key(|(key, _)| key.to_string());
        all
    };
    for times in [1, 2] {
        let found = letters(&installation, 3 * times).await;
        let mut told: Vec<_> =
            found.iter().map(|letter| shown(&installation, folder.path(), letter)).collect();
        told.sort_by_key(|(key, _)| key.to_string());
        assert_eq!(told, expected(times));
        let without_value = found.iter().filter(|letter| letter["value_bytes"].is_null());
        assert_eq!(without_value.count(), times);
        if times == 1 {
            for letter in &found {
                let id = letter["id"].as_str().expect("an id");
                installation.command_succeeds(&["dead-letter", "replay", id]);
                let (status, _, error) = installation.run_command(&["dead-letter", "replay", id]);
                assert!(status != 0 && error.contains("replayed already"), "{error}");
            }
        }
    }
    let output = installation.command_succeeds(&["dead-letter", "replay", "--from", "1h", "--dry-run"]);
    assert_eq!(output, "3 would be replayed\n");
    let output = installation.command_succeeds(&["dead-letter", "replay", "--from", "1h"]);
    assert!(output.starts_with("3 matched, 3 replayed"), "{output}");
    letters(&installation, 9).await;

    let (status, output, error) = installation.run_command(&["audit", "--json"]);
    let audit: Value = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}{error}"));
    let total = &audit["total"];
    assert_eq!((status, &audit["clean"]), (0, &json!(true)), "{output}");
    assert_eq!((&total["in"], &total["dead_letter"], &total["unread"]), (&json!(9), &json!(9), &json!(0)));
    // A dead letter that nobody made an input of is one too many: the record says where it came from.
    let letter = installation.topics.read_all(&installation.topic_name("unslide.dead-letter")).remove(0);
    let named: Vec<(&str, &str)> =
        letter.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    installation
        .topics
        .produce_record(&installation.topic_name("unslide.dead-letter"), None, &named, b"")
        .await;
    let (status, output, _) = installation.run_command(&["audit"]);
    assert_eq!(status, 6, "{output}");
    assert!(output.contains("0 lost, 1 doubled") && output.contains("doubled: "), "{output}");
    let (status, _, error) = installation.run_command(&["audit", "--from", "1h", "--to", "2h"]);
    assert!(status == 2 && error.contains("--from is not before --to"), "{error}");
    installation.stop().await;
}
