//! What we add, and taking it out again.

use crate::{enrich, enrich_with, read, strip};
use proptest::prelude::*;
use unslide_report::{Element, ReadLimits, split_record};
use unslide_testkit::reports;

const OURS: &str = r#"{"version":1,"engine":"unslide/0.1.0"}"#;

#[test]
fn our_members_go_in_before_the_closing_braces() {
    let bytes =
        br#"{"crash": {"threads": [{"backtrace": {"contents": [{"instruction_addr": 7 }, { }]}}] } }"#;
    let enriched = String::from_utf8(enrich_with(bytes, "{}", OURS)).unwrap();
    assert_eq!(
        enriched,
        [
            r#"{"crash": {"threads": [{"backtrace": {"contents": [{"instruction_addr": 7 ,"symbolication":{}}, "#,
            r#"{ "symbolication":{}}]}}] } ,"symbolication":{"version":1,"engine":"unslide/0.1.0"}}"#,
        ]
        .concat()
    );
    assert_eq!(strip(enriched.as_bytes()), bytes);
    let empty = enrich_with(b"\xEF\xBB\xBF {\n} \0", "{}", OURS);
    assert_eq!(empty, b"\xEF\xBB\xBF {\n\"symbolication\":{\"version\":1,\"engine\":\"unslide/0.1.0\"}} \0");
    assert_eq!(strip(&empty), b"\xEF\xBB\xBF {\n} \0");
    assert!(!read(b"{}").has_members && !read(&empty).has_members && read(bytes).has_members);
}

#[test]
fn only_the_last_member_of_the_report_with_our_version_and_engine_is_ours() {
    let frame = r#"{"crash":{"threads":[{"backtrace":{"contents":[{"a":1,"symbolication":{}}]}}]}"#;
    for own in [
        "",
        r#","symbolication":{}"#,
        r#","symbolication":{"version":1}"#,
        r#","symbolication":{"engine":"unslide/1"}"#,
        r#","symbolication":{"version":"1","engine":"unslide/1"}"#,
        r#","symbolication":{"version":1,"engine":"other/1"}"#,
        r#","symbolication":{"version":1,"engine":"my unslide/1"}"#,
        r#","symbolication":[{"version":1,"engine":"unslide/1"}]"#,
        r#","symbolication":{"version":1,"engine":"unslide/1"},"user":{}"#,
        r#","report":{"symbolication":{"version":1,"engine":"unslide/1"}}"#,
        r#","symbolication":{"version":1,"engine":"unslide/1"},"symbolication":7"#,
    ] {
        let bytes = format!("{frame}{own}}}");
        let report = read(bytes.as_bytes());
        assert!(report.ours.is_none() && report.own_member.is_none(), "{own}");
        assert_eq!(report.backtraces[0].frames[0].own_member, None, "{own}");
        assert!(report.backtraces[0].frames[0].has_members && report.has_members);
        assert_eq!(strip(bytes.as_bytes()), bytes.as_bytes(), "{own}");
        // Ours goes behind another's, and comes out alone.
        assert_eq!(strip(&enrich(bytes.as_bytes())), bytes.as_bytes(), "{own}");
    }
    let ours = format!(r#"{frame},"symbolication":{OURS}}}"#);
    assert_eq!(strip(ours.as_bytes()), br#"{"crash":{"threads":[{"backtrace":{"contents":[{"a":1}]}}]}}"#);
}

#[test]
fn in_a_frame_only_the_last_member_is_ours_and_only_an_object() {
    let with = |frame: &str| {
        format!(
            r#"{{"crash":{{"threads":[{{"backtrace":{{"contents":[{frame}]}}}}]}},"symbolication":{OURS}}}"#
        )
    };
    let check = |frame: &str, stripped: &str| {
        let expected = with(stripped).replace(&format!(r#","symbolication":{OURS}"#), "");
        assert_eq!(String::from_utf8(strip(with(frame).as_bytes())).unwrap(), expected, "{frame}");
    };
    check(r#"{"a":1,"symbolication":{}}"#, r#"{"a":1}"#);
    check(r#"{"symbolication":{}}"#, "{}");
    check(r#"{"a":1,"symbolication":{},"symbolication":{"b":2}}"#, r#"{"a":1,"symbolication":{}}"#);
    check(r#"{"symbolication":{},"a":1}"#, r#"{"symbolication":{},"a":1}"#);
    check(r#"{"a":1,"symbolication":7}"#, r#"{"a":1,"symbolication":7}"#);
    // Printed anew, with white space that was not ours.
    check("{\"a\": 1 ,\n  \"symbolication\" : { }\n}", "{\"a\": 1 \n}");
    let bytes = with(r#"{"symbolication":{}},{"a":1,"symbolication":{}}"#);
    let report = read(bytes.as_bytes());
    let members: Vec<bool> = report.backtraces[0].frames.iter().map(|f| f.has_members).collect();
    assert_eq!(members, [false, true]);
}

#[test]
fn an_enriched_report_reads_like_the_original() {
    for (name, report) in reports::shapes() {
        let bytes = report.bytes();
        let enriched = enrich(&bytes);
        let (before, after) = (read(&bytes), read(&enriched));
        assert_eq!(before.id, after.id, "{name}");
        assert_eq!(before.has_members, after.has_members, "{name}");
        assert!(before.ours.is_none() && after.ours.is_some(), "{name}");
        assert_eq!(before.backtraces.len(), after.backtraces.len(), "{name}");
        for (before, after) in before.backtraces.iter().zip(&after.backtraces) {
            assert_eq!((before.part, before.origin, before.thread), (after.part, after.origin, after.thread));
            for (before, after) in before.frames.iter().zip(&after.frames) {
                assert_eq!(before.instruction_addr, after.instruction_addr, "{name}");
                assert_eq!(before.has_members, after.has_members, "{name}");
                assert!(after.own_member.is_some());
            }
        }
        assert_eq!(before.summary().app, after.summary().app);
    }
}

#[test]
fn our_own_key_is_read_back() {
    let own = r#"{"version": 1, "engine": "unslide/0.1.0", "revision": 2, "supersedes": 1, "status": "partial", "tenant": "acme",
      "processed_at": "2026-11-20T09:00:00.000Z", "reason": "because",
      "frames": {"total": 412, "symbolicated": 220, "device": 170, "device_app": 12, "missing": 20, "unknown_image": 2, "invalid": 1},
      "images": [{"debug_id": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "name": "Shop", "arch": "arm64", "status": "found", "slide": -81920, "generation": 3}, {"status": "missing"}],
      "missing": ["363F8E49-2D2A-3A26-BF90-60D6A8896CF0", 7], "warnings": ["one"]}"#;
    let enriched = enrich_with(b"{\"report\":{}}", "{}", own);
    let ours = read(&enriched).ours.unwrap();
    assert_eq!((ours.version, ours.engine.as_str(), ours.status.as_str()), (1, "unslide/0.1.0", "partial"));
    assert_eq!((ours.revision, ours.supersedes), (Some(2), Some(1)));
    assert_eq!((ours.tenant.as_deref(), ours.reason.as_deref()), (Some("acme"), Some("because")));
    assert_eq!(ours.processed_at.unwrap().unix_timestamp(), 1_795_165_200);
    let counts = (ours.frames.total, ours.frames.symbolicated, ours.frames.device, ours.frames.missing);
    assert_eq!(counts, (412, 220, 170, 20));
    assert_eq!((ours.frames.unknown_image, ours.frames.invalid, ours.frames.malformed), (2, 1, 0));
    assert_eq!(ours.frames.device_app, 12);
    assert_eq!(ours.images[0].debug_id.unwrap().to_string(), "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
    assert_eq!((ours.images[0].slide, ours.images[0].generation), (Some(-81920), Some(3)));
    assert_eq!(
        (ours.images[0].name.as_deref(), ours.images[0].arch.as_deref()),
        (Some("Shop"), Some("arm64"))
    );
    assert_eq!((ours.images[1].debug_id, ours.images[1].status.as_str()), (None, "missing"));
    assert_eq!(ours.missing.len(), 1);
    assert_eq!(ours.warnings, ["one"]);
}

#[test]
fn a_record_is_split_into_its_reports() {
    let limits = ReadLimits::default();
    let bare = b"\xEF\xBB\xBF {} \0";
    assert_eq!(split_record(bare, &limits).unwrap(), [Element::Report(bare)]);
    let record = br#" [ {"a":1} ,"Incident\n", 7, [{}], null,{}] "#;
    let elements = split_record(record, &limits).unwrap();
    assert_eq!(elements.len(), 6);
    assert_eq!(elements[0], Element::Report(br#"{"a":1}"#));
    let Element::Text(text) = elements[1] else { panic!("{:?}", elements[1]) };
    assert_eq!(text.decode(), "Incident\n");
    assert_eq!(elements[2], Element::Other { bytes: b"7", found: "a number" });
    assert_eq!(elements[3], Element::Other { bytes: b"[{}]", found: "an array" });
    assert_eq!(elements[5], Element::Report(b"{}"));
    assert!(split_record(b"[]", &limits).unwrap().is_empty());
    assert!(matches!(split_record(b"\"text\"", &limits).unwrap()[..], [Element::Text(_)]));
    let reason = |bytes: &[u8]| split_record(bytes, &limits).unwrap_err().reason();
    assert_eq!(reason(b"[{},]"), "not_json");
    assert_eq!(reason(b"[{}"), "truncated");
    assert_eq!(reason(b""), "truncated");
    assert_eq!(reason(b"[{}] x"), "not_json");
    assert_eq!(reason(&vec![b' '; (20 << 20) + 1]), "too_large");
}

#[test]
fn a_report_in_a_record_may_be_as_deep_as_one_alone() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(255), "]".repeat(255));
    read(deep.as_bytes());
    let record = format!("[{deep}]");
    assert_eq!(
        split_record(record.as_bytes(), &ReadLimits::default()).unwrap(),
        [Element::Report(deep.as_bytes())]
    );
}

#[test]
fn reports_sent_together_are_the_reports() {
    let list: Vec<_> = (0..20).map(reports::random).map(|r| r.style(reports::Style::Compact)).collect();
    let record = reports::record(&list);
    let elements = split_record(&record, &ReadLimits::default()).unwrap();
    for (element, report) in elements.iter().zip(&list) {
        assert_eq!(*element, Element::Report(&report.bytes()));
    }
    assert_eq!(elements.len(), list.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Proves: unchanged-bytes
    #[test]
    fn what_goes_in_comes_out(seed: u64) {
        let bytes = reports::random(seed).bytes();
        let enriched = enrich(&bytes);
        prop_assert_eq!(strip(&enriched), &bytes[..]);
        prop_assert_eq!(strip(&bytes), &bytes[..]);
        prop_assert_eq!(read(&enriched).id, read(&bytes).id);
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&enriched).is_ok());
        // Its own order of offsets is the document's.
        let report = read(&enriched);
        let offsets: Vec<_> = report.backtraces.iter().flat_map(|b| &b.frames).map(|f| f.insert_at).collect();
        prop_assert!(offsets.is_sorted());
    }
}
