//! Which reports are published, and which are not.

use super::worker_fixture::*;
use prost::Message;
use unslide_artifacts::{Fault, Operation};
use unslide_proto::report::ledger_record::Entry;
use unslide_proto::report::{LedgerRecord, Outcome, Resymbolicate, TerminalOutcome, resymbolicate::Body};
use unslide_proto::{body, headers};
use unslide_report::MemberPlace;
use unslide_report::reader::{DocumentText, ReportReader, ReportReaders, TranslatedReport};
use unslide_report::{Backtrace, FrameSlot, ReadError, ReadLimits, Report};
use unslide_stream::{OutRecord, Record};

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_ends_where_its_outputs_are_enough_and_the_next_goes_on() {
    let bench = Bench::with(Wishes { most_outputs: 1, input_partitions: 1, ..Wishes::default() }).await;
    let app = App::new();
    bench.publish(&app, 1).await;
    for n in 1..=12 {
        bench.input(Some("acme"), app.report(n, 2)).await;
    }
    let lane = bench.live();
    let outputs = bench.wait(&bench.names.output, 12).await;
    assert_eq!(outputs.len(), 12);
    assert!(outputs.iter().all(|output| symbolicated(output) > 0));
    let ledger = bench.wait(&bench.names.ledger, 12).await.into_iter();
    let batches = ledger.filter_map(|r| match LedgerRecord::decode(r.value.unwrap()).unwrap().entry {
        Some(Entry::Batch(batch)) => Some(batch.partitions.iter().map(|p| p.records).sum::<u64>()),
        _ => None,
    });
    assert_eq!(batches.collect::<Vec<_>>(), [1; 12]);
    bench.end(vec![lane]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_has_its_outcome() {
    let bench = Bench::new().await;
    let app = App::new();
    bench.publish(&app, 3).await;
    let (one, two) = (app.report(1, 2), app.report(2, 2));
    let mut array = b"[".to_vec();
    for (n, element) in [&one[..], b"\"as text\"", &two[..], b"17", b"{\"crash\":{\"error\":{}}}", b"{}"]
        .into_iter()
        .enumerate()
    {
        if n > 0 {
            array.push(b',');
        }
        array.extend_from_slice(element);
    }
    array.push(b']');
    bench.input(Some("acme"), one.clone()).await;
    bench.input(Some("acme"), array).await;
    bench.input(Some("acme"), "[]").await;
    bench.input(Some("acme"), "{\"report\":").await;
    bench.input(None, two.clone()).await;
    bench.input(Some("No Slug"), two.clone()).await;
    bench.input(Some("gone"), two.clone()).await;
    let lane = bench.live();

    let outputs = bench.wait(&bench.names.output, 4).await;
    assert_eq!(outputs.len(), 4);
    let mut places: Vec<_> = outputs.iter().map(|r| r.headers.get_text(headers::SOURCE_INDEX)).collect();
    places.sort_unstable();
    assert_eq!(places, [None, Some("0"), Some("2"), Some("4")]);
    for record in &outputs {
        let ours = &json(record)["symbolication"];
        assert_eq!((&ours["tenant"], &ours["revision"]), (&"acme".into(), &1.into()));
        let text = |name| record.headers.get_text(name).unwrap();
        assert_eq!(
            (text(headers::TENANT), text(headers::ORIGIN_TOPIC)),
            ("acme", bench.names.input.as_str())
        );
        assert!(
            text(headers::TRACEPARENT).starts_with(TRACE.get(..36).unwrap())
                && text(headers::TRACEPARENT) != TRACE
        );
        let key = format!("acme/{}", text(headers::REPORT_ID));
        assert_eq!(record.key.as_deref(), Some(key.as_bytes()));
    }
    let whole = outputs.iter().find(|r| r.headers.get_text(headers::SOURCE_INDEX).is_none()).unwrap();
    assert!(symbolicated(whole) > 0);
    assert_eq!(json(whole)["symbolication"]["images"][0]["generation"], 3);

    let dead = bench.wait(&bench.names.dead_letter, 7).await;
    let mut reasons: Vec<(&str, &[u8])> = dead
        .iter()
        .map(|r| (r.headers.get_text(headers::REASON).unwrap(), r.value.as_deref().unwrap()))
        .collect();
    reasons.sort_unstable();
    let expected: [(&str, &[u8]); 7] = [
        ("no_tenant", &two),
        ("not_a_report", b"17"),
        ("not_a_report", b"[]"),
        ("not_a_report", b"as text"),
        ("not_a_report", b"{}"),
        ("truncated", b"{\"report\":"),
        ("unknown_tenant", &two),
    ];
    assert_eq!(reasons, expected);
    assert_eq!(bench.terminals().await, [(Outcome::DroppedDeleted, 0)]);
    bench.end(vec![lane]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn symbols_that_come_late_make_a_revision_and_nothing_better_makes_none() {
    let bench = Bench::new().await;
    let app = App::new();
    let lanes = vec![bench.live(), bench.again()];
    bench.input(Some("acme"), app.report(1, 2)).await;
    let first = bench.wait(&bench.names.output, 1).await.remove(0);
    assert_eq!(json(&first)["symbolication"]["missing"][0], app.id.to_string());

    // This worker learns of the symbols by the request alone.
    bench.publish(&app, 1).await;
    let ask = async |revision: u32, stored: &Record| {
        let wishes = Resymbolicate {
            revision,
            needs: app.needs(1),
            traceparent: TRACE.into(),
            variant: 4,
            content_hash: vec![0xab; 32].into(),
            ..Resymbolicate::default()
        };
        bench.ask(stored, stored.value.as_ref().unwrap(), wishes).await;
    };
    ask(2, &first).await;
    let both = bench.wait(&bench.names.output, 2).await;
    let second = both.iter().find(|r| r.headers.get_text(headers::REVISION) == Some("2")).unwrap();
    assert_eq!(second.headers.get_text(headers::SUPERSEDES), Some("1"));
    let variants = (first.headers.get_text(headers::VARIANT), second.headers.get_text(headers::VARIANT));
    assert_eq!(variants, (None, Some("4")), "the answer is of the variant that was asked for");
    assert_eq!(second.headers.get_text(headers::CONTENT_HASH), Some("ab".repeat(32).as_str()));
    assert!(second.headers.get_text(headers::TRACEPARENT).unwrap().starts_with(TRACE.get(..36).unwrap()));
    let ours = &json(second)["symbolication"];
    assert_eq!((&ours["revision"], &ours["supersedes"]), (&2.into(), &1.into()));
    assert_eq!((symbolicated(&first), ours["missing"].as_array().map_or(0, Vec::len)), (0, 0));
    assert!(symbolicated(second) > 0);
    assert_eq!(second.key, first.key);

    ask(3, second).await;
    assert_eq!(bench.terminals().await, [(Outcome::Unchanged, 3)]);
    let ledger = bench.read(&bench.names.ledger).await;
    let of_variant = ledger.iter().filter(|record| record.headers.get_text(headers::VARIANT) == Some("4"));
    assert_eq!(of_variant.count(), 1);
    assert_eq!(bench.read(&bench.names.output).await.len(), 2);
    bench.end(lanes).await;
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_symbols_fail_for_now_waits_in_the_retry_tiers_and_stops_no_other() {
    let bench = Bench::new().await;
    let app = App::new();
    let lanes = vec![bench.live(), bench.again()];
    bench.input(Some("acme"), app.report(1, 2)).await;
    let first = bench.wait(&bench.names.output, 1).await.remove(0);
    bench.publish(&app, 1).await;
    bench.memory.fail(Operation::Get, "t/acme/", Fault::Transient, None);
    let wishes = Resymbolicate { revision: 2, needs: app.needs(1), ..Resymbolicate::default() };
    let sent = bench.ask(&first, first.value.as_ref().unwrap(), wishes).await;
    let waiting = bench.wait(&bench.names.retry_10s, 1).await.remove(0);
    assert_eq!(waiting.value, Some(sent));
    assert_eq!(waiting.headers.get_text(headers::REASON), Some("fetch_failed"));
    bench.memory.heal();
    bench.clock.ahead(3_600);
    let mut lanes = lanes;
    lanes.push(bench.retry());
    let both = bench.wait(&bench.names.output, 2).await;
    let second = both.iter().find(|r| r.headers.get_text(headers::REVISION) == Some("2")).unwrap();
    assert!(symbolicated(second) > 0);
    bench.end(lanes).await;
}

/// It is no better for want of newer symbols, which is not to say that they help nothing.
/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_symbols_fail_in_every_tier_says_so() {
    let bench = Bench::new().await;
    let app = App::new();
    let mut lanes = vec![bench.live(), bench.again()];
    bench.publish(&app, 1).await;
    bench.input(Some("acme"), app.report(1, 2)).await;
    let first = bench.wait(&bench.names.output, 1).await.remove(0);
    assert!(symbolicated(&first) > 0);
    bench.publish(&app, 2).await;
    bench.memory.fail(Operation::Get, "t/acme/", Fault::Transient, None);
    let wishes = Resymbolicate {
        revision: 2,
        needs: app.needs(2),
        requested_at_micros: 1_700,
        ..Resymbolicate::default()
    };
    bench.ask(&first, first.value.as_ref().unwrap(), wishes).await;
    bench.clock.ahead(3_600);
    lanes.push(bench.retry());
    let ends = bench.wait_ends().await;
    let ends: Vec<_> =
        ends.iter().map(|end| (end.outcome(), end.revision, end.requested_at_micros)).collect();
    assert_eq!(ends, [(Outcome::FetchingFailed, 2, 1_700)], "and which request it was");
    assert_eq!(bench.reasons(&bench.names.retry_10m).await.len(), 1, "after the last tier");
    assert_eq!(bench.read(&bench.names.output).await.len(), 1);
    bench.end(lanes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_a_deleted_tenant_is_dropped_and_nothing_of_it_published() {
    let bench = Bench::new().await;
    let app = App::new();
    let request = |tenant: &str, revision| Resymbolicate {
        tenant: tenant.into(),
        report_id: vec![7; 16].into(),
        revision,
        supersedes: 1,
        body: Some(Body::InlineLz4(body::compress_report(&app.report(1, 2)).into())),
        variant: 3,
        ..Resymbolicate::default()
    };
    for request in [request("gone", 2), request("acme", 5)] {
        let record = OutRecord::for_topic(bench.names.resymbolicate.as_str(), request.encode_to_vec());
        bench.producer.send_record(&record).await.unwrap();
    }
    let lane = bench.again();
    let published = bench.wait(&bench.names.output, 1).await;
    assert_eq!(published.len(), 1);
    assert_eq!(published[0].headers.get_text(headers::TENANT), Some("acme"));
    assert_eq!(bench.terminals().await, [(Outcome::DroppedDeleted, 2)]);
    let ledger = bench.read(&bench.names.ledger).await;
    let of_variant = ledger.iter().filter(|record| record.headers.get_text(headers::VARIANT) == Some("3"));
    assert_eq!(of_variant.count(), 1, "the store learns which one it was");
    assert_eq!(bench.read(&bench.names.output).await.len(), 1);
    bench.end(vec![lane]).await;
}

/// The line before a report in a format of this test.
const MARK: &str = "{\"mark\":1}\n";

/// Translates a marked report: the report begins behind the line.
fn read_marked(document: &[u8], limits: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    let json = document[MARK.len()..].to_vec();
    let report = Report::read(&json, limits)?;
    let moved = |own: std::ops::Range<usize>| own.start + MARK.len()..own.end + MARK.len();
    let place = |insert_at: usize, has_members, own: Option<std::ops::Range<usize>>| MemberPlace {
        insert_at: insert_at + MARK.len(),
        has_members,
        own_member: own.map(moved),
    };
    let frames = report.backtraces.iter().flat_map(Backtrace::frame_slots).map(|slot| match slot {
        FrameSlot::Frame(frame) => place(frame.insert_at, frame.has_members, frame.own_member.clone()),
        FrameSlot::Blank(blank) => place(blank.insert_at(), blank.has_members(), blank.own_member()),
    });
    let frames = frames.map(Some).collect();
    let own = place(report.insert_at, report.has_members, report.own_member.clone());
    Ok(TranslatedReport { frames, report: own, json: json.clone(), text: None })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_another_format_is_answered_in_its_form_and_again_with_later_symbols() {
    let marked = ReportReader {
        name: "marked",
        recognizes: |document| document.starts_with(MARK.as_bytes()),
        translate: read_marked,
        parts: None,
    };
    let bench = Bench::with(Wishes { readers: ReportReaders::new([marked]), ..Wishes::default() }).await;
    let app = App::new();
    let report = app.report(1, 2);
    let lanes = vec![bench.live(), bench.again()];
    bench.input(Some("acme"), [MARK.as_bytes(), &report].concat()).await;
    bench.input(Some("acme"), report.clone()).await;
    let both = bench.wait(&bench.names.output, 2).await;
    let is_marked = |record: &&Record| record.value.as_ref().unwrap().starts_with(MARK.as_bytes());
    let first = both.iter().find(is_marked).unwrap();
    let plain = both.iter().find(|record| !is_marked(record)).unwrap();
    let behind = |record: &Record| record.value.as_ref().unwrap()[MARK.len()..].to_vec();
    let answered = |bytes: &[u8]| Report::read_stored(bytes).unwrap().ours.unwrap().frames;
    assert_eq!(answered(&behind(first)), answered(plain.value.as_ref().unwrap()));
    assert_eq!(&*Report::read_stored(&behind(first)).unwrap().strip_additions(), &report[..]);
    bench.publish(&app, 1).await;
    for revision in [2, 3] {
        let wishes = Resymbolicate { revision, needs: app.needs(1), ..Resymbolicate::default() };
        let stored = bench.read(&bench.names.output).await;
        let newest = stored.iter().rfind(is_marked).unwrap();
        bench.ask(newest, newest.value.as_ref().unwrap(), wishes).await;
        bench.wait(&bench.names.output, 3).await;
    }
    let outputs = bench.wait(&bench.names.output, 3).await;
    let second =
        outputs.iter().find(|record| record.headers.get_text(headers::REVISION) == Some("2")).unwrap();
    assert!(is_marked(&second) && answered(&behind(second)).symbolicated > 0);
    let ends = bench.wait_ends().await;
    assert_eq!(
        ends.first().map(TerminalOutcome::outcome),
        Some(Outcome::Unchanged),
        "the third says no more"
    );
    bench.end(lanes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_answered_beside_itself_and_again_with_later_symbols() {
    let logs = ReportReader {
        name: "log",
        recognizes: |document| document.starts_with(b"Log\n"),
        translate: |document, limits| {
            let json = document[4..].to_vec();
            let frames =
                Report::read(&json, limits)?.backtraces.iter().flat_map(Backtrace::frame_slots).count();
            let text = Some(DocumentText::from_lines(vec![2; frames]));
            Ok(TranslatedReport { json, frames: vec![None; frames], text, ..TranslatedReport::default() })
        },
        parts: None,
    };
    let readers = ReportReaders::new([logs]);
    let bench = Bench::with(Wishes { readers: readers.clone(), ..Wishes::default() }).await;
    let app = App::new();
    let log = [b"Log\n", app.report(1, 2).as_slice()].concat();
    let lanes = vec![bench.live(), bench.again()];
    bench.input(Some("acme"), log.clone()).await;
    let in_array = serde_json::json!([String::from_utf8(log.clone()).unwrap(), "another text"]).to_string();
    bench.input(Some("acme"), in_array).await;
    let outputs = bench.wait(&bench.names.output, 2).await;
    let limits = ReadLimits::default();
    for output in &outputs {
        let value = output.value.as_ref().unwrap();
        assert!(value.starts_with(b"{\"text\":\"Log\\n"), "{value:?}");
        let opened = readers.open(value, &limits).unwrap();
        assert_eq!(opened.stripped().unwrap(), log);
        assert!(Report::read_stored(opened.json()).unwrap().ours.is_some());
    }
    bench.publish(&app, 1).await;
    let wishes = Resymbolicate { revision: 2, needs: app.needs(1), ..Resymbolicate::default() };
    bench.ask(&outputs[0], outputs[0].value.as_ref().unwrap(), wishes).await;
    let outputs = bench.wait(&bench.names.output, 3).await;
    let second =
        outputs.iter().find(|record| record.headers.get_text(headers::REVISION) == Some("2")).unwrap();
    let opened = readers.open(second.value.as_ref().unwrap(), &limits).unwrap();
    assert!(Report::read_stored(opened.json()).unwrap().ours.unwrap().frames.symbolicated > 0);
    bench.end(lanes).await;
}
