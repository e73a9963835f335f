//! What rules take out of reports, and what they leave.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::{Value, json};
use unslide_report::{ReadLimits, Report, splice};
use unslide_scrubbing_rules::{
    KeepOnlyRule, KeyRule, OwnRule, ReadyPattern, ReadyRule, ScrubAction, ScrubConfig, ScrubConfigError,
    ScrubError, ScrubRules, ScrubSalt,
};

fn compile(config: &ScrubConfig) -> ScrubRules {
    ScrubRules::compile(config, ScrubSalt::new(&[7; 32])).unwrap()
}

fn every_pattern(action: ScrubAction) -> ScrubConfig {
    // The order of the list does not count.
    let ready = ReadyPattern::ALL.iter().rev().map(|&pattern| ReadyRule { pattern, action });
    ScrubConfig { ready: ready.collect(), ..ScrubConfig::default() }
}

fn own(pattern: &str, action: ScrubAction) -> ScrubConfig {
    let rule = OwnRule { name: "mine".to_owned(), pattern: pattern.to_owned(), action };
    ScrubConfig { own: vec![rule], ..ScrubConfig::default() }
}

fn scrub(rules: &ScrubRules, report: &Value) -> Value {
    serde_json::from_slice(&rules.scrub_report(report.to_string().as_bytes()).unwrap().bytes).unwrap()
}

fn scrub_reason(config: &ScrubConfig, reason: &str) -> String {
    let report = json!({"crash": {"error": {"reason": reason}}});
    scrub(&compile(config), &report)["crash"]["error"]["reason"].as_str().unwrap().to_owned()
}

#[test]
fn ready_patterns_take_what_they_name_and_nothing_like_it() {
    let rules = every_pattern(ScrubAction::Mask);
    for (text, wanted) in [
        ("no cart for jane.doe+x@mail.example.com.", "no cart for [scrubbed:email]."),
        ("call +49 30 1234567 now", "call [scrubbed:phone] now"),
        ("call (555) 010-1234", "call [scrubbed:phone]"),
        ("pay DE89 3704 0044 0532 0130 00 today", "pay [scrubbed:iban] today"),
        ("pay DE88 3704 0044 0532 0130 00 today", "pay DE88 3704 0044 0532 0130 00 today"),
        ("card 4111 1111 1111 1111 12", "card [scrubbed:card] 12"),
        ("card 4111 1111 1111 1112", "card 4111 1111 1111 1112"),
        ("from 203.0.113.9:443", "from [scrubbed:ip]:443"),
        ("from 2001:db8::8a2e:370:7334", "from [scrubbed:ip]"),
        ("in std::vector<a::b>", "in std::vector<a::b>"),
        ("256.0.113.9", "256.0.113.9"),
        ("Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer [scrubbed:token]"),
        ("password=hunter22&x", "password=[scrubbed:token]&x"),
        ("open /Users/Jane Doe/Library/a.db", "open /Users/[scrubbed:user_path]/Library/a.db"),
        ("open /Users/Shared/a.db", "open /Users/Shared/a.db"),
        ("at <+37.33233141,-122.03121860>", "at <[scrubbed:coordinates]>"),
        ("latitude: 52.52", "latitude: [scrubbed:coordinates]"),
        (
            "unrecognized selector sent to instance 0x600000c0a1b0",
            "unrecognized selector sent to instance 0x600000c0a1b0",
        ),
        ("image 0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0", "image 0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0"),
    ] {
        assert_eq!(scrub_reason(&rules, text), wanted);
    }
}

#[test]
fn an_escaped_text_is_read_before_it_is_searched() {
    let rules = compile(&every_pattern(ScrubAction::Mask));
    let report = br#"{"crash":{"error":{"reason":"a\u0062 jane\u0040example.com \ud83d\ude00\n"}}}"#;
    let scrubbed = rules.scrub_report(report).unwrap();
    let value: Value = serde_json::from_slice(&scrubbed.bytes).unwrap();
    assert_eq!(value["crash"]["error"]["reason"], "ab [scrubbed:email] \u{1f600}\n");
    assert_eq!(scrubbed.taken, [("email".to_owned(), 1)].into());
}

#[test]
fn a_hash_is_equal_for_equal_values_of_a_tenant_only() {
    let config = every_pattern(ScrubAction::Hash);
    let (one, other) = (scrub_reason(&config, "jane@example.com"), scrub_reason(&config, "joe@example.com"));
    assert_eq!(one, scrub_reason(&config, "jane@example.com"));
    assert_ne!(one, other);
    let foreign = ScrubRules::compile(&config, ScrubSalt::new(&[8; 32])).unwrap();
    let report = json!({"crash": {"error": {"reason": "jane@example.com"}}});
    assert_ne!(scrub(&foreign, &report)["crash"]["error"]["reason"], one);
    assert!(one.starts_with("[scrubbed:email:") && one.len() == "[scrubbed:email:]".len() + 16);
    assert!(!format!("{foreign:?}").contains("8, 8"));
}

#[test]
fn members_that_symbolication_and_grouping_read_keep_every_byte() {
    let rules = compile(&own(".", ScrubAction::Drop));
    let structure = br#"{ "report":{"id":"a@b.c","timestamp":"2026-01-01"},"binary_images":[{"name":"/Users/jane/Shop","uuid":"u"}],
        "system":{"CFBundleIdentifier":"com.example.shop"},"crash":{"threads":[{"backtrace":{"contents":[
        {"instruction_addr":18446744073709551615,"symbol_name":"a@b.c","symbolication":{"calls":[{"function":"f"}]}}]},
        "registers":{"basic":{"x0":1.50}}}],"error":{"type":"mach"}},
        "symbolication":{"version":1,"engine":"unslide/0.1.0","images":[{"debug_id":"d"}],"status":"complete"}}"#;
    let scrubbed = rules.scrub_report(structure).unwrap();
    assert_eq!((&*scrubbed.bytes, scrubbed.taken.len()), (&structure[..], 0));
}

#[test]
fn every_text_of_a_report_is_searched() {
    let marker = "jane@example.com";
    let report = json!({
        "crash": {"error": {"reason": marker, "nsexception": {"userInfo": marker}},
            "threads": [{"name": marker, "notable_addresses": {"x0": {"type": "string", "value": marker}}}],
            "diagnosis": marker},
        "binary_images": [{"name": "Shop", "crash_info_message": marker, "crash_info_message2": marker}],
        "debug": {"console_log": [format!("line of {marker}")]},
        "process": {"last_dealloced_nsexception": {"reason": marker}},
        "recrash_report": {"crash": {"error": {"reason": marker}}, "user": {"a": [marker]}},
        "user": {"type": marker, "backtrace": {"uuid": marker}, marker: {marker: 1}, "card": 4_111_111_111_111_111_u64},
        "symbolication": {"version": 1, "engine": "unslide/0.1.0", "variables": [{"value": marker}],
            "fault": {"sentence": marker}, "grouping": {"title": marker}},
        marker: null, "other": marker,
    });
    for action in [ScrubAction::Mask, ScrubAction::Hash, ScrubAction::Drop] {
        let mut config = every_pattern(action);
        let rules = compile(&config);
        let mut report = report.clone();
        // A name outside of the own keys is structure.
        report.as_object_mut().unwrap().remove(marker);
        let text = scrub(&rules, &report).to_string();
        assert!(!text.contains("jane") && !text.contains("411111"), "{action:?}: {text}");
        config.ready.retain(|rule| rule.pattern != ReadyPattern::Email);
        assert!(scrub(&compile(&config), &report).to_string().contains(marker));
    }
}

#[test]
fn a_report_of_metric_kit_keeps_its_stacks_and_versions() {
    let rules = compile(&every_pattern(ScrubAction::Mask));
    let report = json!({"crashDiagnostics": [{
        "callStackTree": {"callStacks": [{"callStackRootFrames": [{"binaryName": "a@b.c", "address": 7}]}]},
        "diagnosticMetaData": {"appVersion": "1.2.3.4", "virtualMemoryRegionInfo": "of jane@example.com",
            "exceptionReason": {"composedMessage": "no jane@example.com"}},
    }]});
    let wanted = report.to_string().replace("jane@example.com", "[scrubbed:email]");
    assert_eq!(scrub(&rules, &report).to_string(), wanted);
}

#[test]
fn a_log_of_apple_of_two_texts_keeps_its_stacks_and_versions() {
    let rules = compile(&every_pattern(ScrubAction::Mask));
    let log = concat!(
        r#"{"bug_type":"309","app_version":"1.2.3.4","os_version":"iPhone OS 26.1 (23B85)","name":"of jane@example.com"}"#,
        "\n",
        r#"{"procPath":"/Users/jane/Shop.app/Shop","bundleInfo":{"CFBundleVersion":"10.0.0.1"},"asi":{"lib":["no jane@example.com"]},
        "usedImages":[{"uuid":"u","path":"/Users/jane/Shop.app/Shop","name":"jane@example.com"}],
        "threads":[{"frames":[{"symbol":"jane@example.com"}],"name":"jane@example.com"}]}"#,
        "\n\0\0"
    );
    let wanted = log
        .replace("of jane@example.com", "of [scrubbed:email]")
        .replace("no jane@example.com", "no [scrubbed:email]")
        .replace("/Users/jane/", "/Users/[scrubbed:user_path]/")
        .replace("}],\"name\":\"jane@example.com\"", "}],\"name\":\"[scrubbed:email]\"");
    assert_eq!(String::from_utf8_lossy(&rules.scrub_report(log.as_bytes()).unwrap().bytes), wanted);
    assert!(matches!(rules.scrub_report(b"{}\n{\"a\""), Err(ScrubError::Invalid { .. })));
}

/// A late revision is made from the scrubbed body: without what Unslide added it has to be the same report.
#[test]
fn a_report_without_its_additions_is_scrubbed_to_the_same_bytes() {
    let rules = compile(&every_pattern(ScrubAction::Hash));
    let enriched = br#"{"report":{"id":"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"},"user":{"mail":"jane@example.com"},
        "binary_images":[{"image_addr":4096,"image_size":4096,"name":"/Users/jane/Shop","uuid":"11111111-1111-1111-1111-111111111111"}],
        "crash":{"error":{"type":"mach","reason":"no jane@example.com"},"threads":[{"crashed":true,"index":0,"backtrace":{"contents":[
        {"instruction_addr":4100,"symbolication":{"status":"missing"}}]}}]},
        "symbolication":{"version":1,"engine":"unslide/0.1.0","revision":1,"status":"none","frames":{"total":1,"symbolicated":0},"images":[]}}"#;
    let limits = ReadLimits::default();
    let scrubbed = rules.scrub_report(enriched).unwrap();
    assert_eq!(scrubbed.taken, [("email".to_owned(), 2), ("user_path".to_owned(), 1)].into());
    let stripped = splice::strip_additions(enriched, &limits).unwrap();
    assert_ne!(stripped.len(), enriched.len());
    let of_scrubbed = splice::strip_additions(&scrubbed.bytes, &limits).unwrap();
    assert_eq!(of_scrubbed, rules.scrub_report(&stripped).unwrap().bytes);
    let (before, after) =
        (Report::read(enriched, &limits).unwrap(), Report::read(&scrubbed.bytes, &limits).unwrap());
    assert_eq!((before.id, &before.ours), (after.id, &after.ours));
}

#[test]
fn own_keys_are_dropped_or_kept_by_their_names() {
    let key = |key: &str, action| KeyRule { key: key.to_owned(), action };
    let report = br#"{"user": { "a" : 1, "b":{"c":2,"a":[3]} , "d":"x" },"e":{"a":1}}"#;
    let by_name = |keys: Vec<KeyRule>, keep_only: Option<KeepOnlyRule>| {
        let rules = compile(&ScrubConfig { keys, keep_only, ..ScrubConfig::default() });
        String::from_utf8(rules.scrub_report(report).unwrap().bytes.into_owned()).unwrap()
    };
    use ScrubAction::{Drop, Mask};
    assert_eq!(by_name(vec![key("a", Drop)], None), r#"{"user": { "b":{"c":2} , "d":"x" },"e":{"a":1}}"#);
    assert_eq!(
        by_name(vec![key("b", Mask), key("d", Drop)], None),
        r#"{"user": { "a" : 1, "b":"[scrubbed:key]"  },"e":{"a":1}}"#
    );
    let kept =
        |keys: &[&str], action| KeepOnlyRule { keys: keys.iter().map(|&k| k.to_owned()).collect(), action };
    assert_eq!(by_name(vec![], Some(kept(&["d"], Drop))), r#"{"user": { "d":"x" },"e":{"a":1}}"#);
    assert_eq!(by_name(vec![], Some(kept(&[], Drop))), r#"{"user": {  },"e":{"a":1}}"#);
    assert_eq!(
        by_name(vec![key("c", Drop)], Some(kept(&["b"], Drop))),
        r#"{"user": { "b":{"a":[3]}  },"e":{"a":1}}"#
    );
}

#[test]
fn rules_that_cannot_be_used_are_refused_with_their_place() {
    let compile = |config: &ScrubConfig| ScrubRules::compile(config, ScrubSalt::new(&[7; 32])).map(drop);
    let pattern = |text: &str| compile(&own(text, ScrubAction::Mask)).unwrap_err();
    assert_eq!(pattern("a*"), ScrubConfigError::EmptyMatch { index: 0 });
    assert_eq!(pattern(&"a".repeat(501)), ScrubConfigError::LongPattern { index: 0, bytes: 501 });
    for hostile in ["(", "(?=a)", r"(a)\1", "(((a{100}){100}){100})", r"\w{1000}{100}"] {
        assert!(matches!(pattern(hostile), ScrubConfigError::InvalidPattern { index: 0, .. }), "{hostile}");
    }
    for name in ["", "email", "key", "A", "a|b", &"a".repeat(33)] {
        let mut config = own("a", ScrubAction::Mask);
        config.own[0].name = name.to_owned();
        assert_eq!(compile(&config), Err(ScrubConfigError::InvalidName { index: 0 }), "{name}");
    }
    let mut config = own("a", ScrubAction::Mask);
    config.own = vec![config.own[0].clone(); 51];
    assert_eq!(compile(&config), Err(ScrubConfigError::TooMany { list: "own", count: 51 }));
}

#[test]
fn hostile_reports_end_with_an_error_or_a_whole_mark() {
    let rules = compile(&every_pattern(ScrubAction::Mask));
    for (report, at) in
        [("", 0), ("{", 1), ("{\"a\"}", 4), ("[1,]", 3), ("{\"a\":\"b", 7), ("\"\\", 3), ("{}x", 2)]
    {
        let refused = rules.scrub_report(report.as_bytes());
        assert!(
            matches!(refused, Err(ScrubError::Invalid { at: found }) if found <= at),
            "{report}: {refused:?}"
        );
    }
    let deep = "[".repeat(100_000);
    assert!(matches!(rules.scrub_report(deep.as_bytes()), Err(ScrubError::TooDeep { .. })));
    // Quadratic for an engine that searches from each byte to the end.
    let slow = compile(&own(".*[^A-Z]|[A-Z]", ScrubAction::Mask));
    let report = json!({"a": "A".repeat(100_000)});
    assert_eq!(scrub(&slow, &report)["a"], "[scrubbed:mine]");
    let many = "a@b.c ".repeat(5_000);
    assert_eq!(scrub(&rules, &json!({"a": many}))["a"], "[scrubbed:email] ".repeat(5_000));
    // Each round takes one character more.
    assert_eq!(
        scrub(&compile(&own("^a", ScrubAction::Drop)), &json!({"a": "aaaaaaaaaaab"}))["a"],
        "[scrubbed:mine]"
    );
    let bytes = [b"{\"user\":{\"a\":\"\xff jane@example.com\"}}".as_slice()].concat();
    assert!(!String::from_utf8_lossy(&rules.scrub_report(&bytes).unwrap().bytes).contains("jane"));
}

/// A crash log is one text. A line that cannot be searched does not take the others with it.
#[test]
fn a_long_log_loses_no_line_but_that_of_many_matches() {
    let line = "4   Shop    0x0000000104a3c000 0x104a38000 + 16384 4111111111111112 /Users/jane/Shop.app";
    let log = [line; 5_000].join("\n");
    let wanted = log.replace("jane", "[scrubbed:user_path]");
    assert_eq!(scrub_reason(&every_pattern(ScrubAction::Mask), &log), wanted);
    let digits = own("[0-9]", ScrubAction::Mask);
    let flood = "1".repeat(20_000);
    assert_eq!(scrub_reason(&digits, &format!("a\n{flood}\nb 2")), "a\n[scrubbed:mine]\nb [scrubbed:mine]");
}

/// Pieces of texts that rules take, of marks, and of what is between.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("jane@example.com".to_owned()),
        Just("4111 1111 1111 1111".to_owned()),
        Just("DE89370400440532013000".to_owned()),
        Just("+49 30 1234567".to_owned()),
        Just("/Users/jane/".to_owned()),
        Just("52.5200,13.4050".to_owned()),
        Just("token=[scrubbed:email]".to_owned()),
        Just("[scrubbed:".to_owned()),
        "[ a-z0-9@.:/\\\\\"\\]=+,-]{0,8}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn any_action() -> impl Strategy<Value = ScrubAction> {
    prop_oneof![Just(ScrubAction::Mask), Just(ScrubAction::Hash), Just(ScrubAction::Drop)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_scrubbed_report_is_json_and_the_same_rules_do_not_change_it(
        texts in prop::collection::vec(any_text(), 1..5),
        action in any_action(),
        own_pattern in prop_oneof![Just(r"\S+ \S+"), Just("^[a-z]"), Just("a.*"), Just(r"\]"), Just("[0-9]+$")],
        own_action in any_action(),
        key_action in any_action(),
    ) {
        let mut config = every_pattern(action);
        config.own = own(own_pattern, own_action).own;
        config.keys = vec![KeyRule { key: "k1".to_owned(), action: key_action }];
        let rules = compile(&config);
        let user: serde_json::Map<_, _> =
            texts.iter().enumerate().map(|(n, text)| (format!("k{n}"), json!({text: text}))).collect();
        let report = json!({"user": user, "crash": {"error": {"reason": texts.concat()}, "lines": texts}}).to_string();
        let once = rules.scrub_report(report.as_bytes()).unwrap();
        prop_assert!(serde_json::from_slice::<Value>(&once.bytes).is_ok());
        let again = rules.scrub_report(&once.bytes).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&again.bytes), String::from_utf8_lossy(&once.bytes));
        prop_assert!(again.taken.is_empty());
        prop_assert_eq!(rules.scrub_report(report.as_bytes()).unwrap(), once);
    }

    #[test]
    fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = compile(&every_pattern(ScrubAction::Mask)).scrub_report(&bytes);
    }
}
