//! Converts a record of the output topic to the row that is stored. Runs on the CPU pool and does no I/O.

use super::Reading;
use super::context::build_context;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use time::{Duration, OffsetDateTime};
use unslide_model::{ContentHash, ReportId, SenderKeyId, TenantId, timestamp};
use unslide_proto::{body, headers};
use unslide_report::{Ours, OwnFrames, ProcessIdentity, ReadError, Report, ReportSummary, TopFrame};
use unslide_store::Uuid;
use unslide_store::persons::hash_person;
use unslide_store::reports::{
    Arrival, CrashTeller, FrameTotals, ImageUse, MOST_REPORT_USERS, ReportDetails, ReportOrigin,
};
use unslide_stream::Record;

/// A report and its tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadReport {
    /// Tenant that the report belongs to.
    pub tenant: TenantId,
    pub arrival: Arrival,
    /// True if a rewriter of a feature has changed the document.
    pub is_rewritten: bool,
}

/// Reason why a record cannot be stored, with details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Stable reason, such as `no_tenant`.
    pub reason: &'static str,
    pub detail: String,
}

fn unreadable(reason: &'static str, detail: impl Into<String>) -> Unreadable {
    Unreadable { reason, detail: detail.into() }
}

/// Reads a record. Its identity is that of the bytes as they came, and all else is of what the rewriters of features leave.
pub fn read_report(record: &Record, reading: &Reading) -> Result<ReadReport, Unreadable> {
    let Reading { readers, limits, .. } = reading;
    let tenant = record.headers.get_text(headers::TENANT).ok_or_else(|| {
        unreadable("no_tenant", format!("the header {} is not there or is no text", headers::TENANT))
    })?;
    let tenant = TenantId::new(tenant).map_err(|e| unreadable("no_tenant", e.to_string()))?;
    let input = record.value.as_ref().ok_or_else(|| unreadable("empty", "the record has no value"))?;
    let refused = |error: ReadError| unreadable(error.reason(), error.to_string());
    let document = readers.open(input, limits).map_err(refused)?;
    let report = Report::read(document.json(), limits).map_err(refused)?;
    let not_enriched = || unreadable("not_enriched", "the report lacks our key");
    let ours = report.ours.as_ref().ok_or_else(not_enriched)?;
    let revision = ours.revision.or_else(|| record.headers.get_number(headers::REVISION));
    let revision = revision.filter(|revision| *revision > 0).ok_or_else(|| {
        unreadable("no_revision", "neither the report nor a header says which revision it is")
    })?;
    let (report_id, content_hash) = read_identity(record).unwrap_or_else(|| {
        let original = document.stripped().unwrap_or_else(|| report.strip_additions());
        (report.id, ContentHash(Sha256::digest(&original).into()))
    });
    // Hashed, so that a person's reports are found and erased whatever is rewritten.
    let users = unslide_report::list_users(document.json(), limits, MOST_REPORT_USERS);
    let summary = report.summary();
    let app = summary.app.as_deref().unwrap_or_default();
    let rewritten = reading.rewriters.rewrite_document(&tenant, app, input);
    let rewritten = rewritten.map_err(|detail| unreadable("not_rewritten", detail))?;
    let input: &[u8] = rewritten.as_ref().map_or(&input[..], |rewritten| rewritten.bytes.as_slice());
    let opened = rewritten.as_ref().map(|_| readers.open(input, limits)).transpose().map_err(refused)?;
    let document = opened.as_ref().unwrap_or(&document);
    let read =
        opened.as_ref().map(|opened| Report::read(opened.json(), limits)).transpose().map_err(refused)?;
    let (report, summary) = match &read {
        Some(read) => (read, read.summary()),
        None => (&report, summary),
    };
    let ours = report.ours.as_ref().ok_or_else(not_enriched)?;
    let monitor = summary.monitor_id.clone();
    let arrival = Arrival {
        report_id,
        content_hash,
        revision,
        received_at: received_at(record, reading.now),
        body: body::compress_report(input),
        size: u64::try_from(input.len()).unwrap_or(u64::MAX),
        facts: ReportDetails {
            terms: report.search_terms(),
            users: users.iter().map(|user| hash_person(user)).collect(),
            process_identity: report.process_identity().and_then(|process| identity_column(&process)),
            context: build_context(report, rewritten.as_ref().map(|rewritten| &rewritten.changes)),
            teller: find_teller(report, monitor.as_deref(), document.is_translated()),
            is_second_handler: monitor.as_deref().is_some_and(is_second_handler),
            process_id: report.process_id().and_then(|pid| u32::try_from(pid).ok()),
            is_memory_exception: report.crash_error().is_memory_exception(),
            sender_key: read_sender_key(record),
            ..build_details(summary, ours, report.count_own_frames())
        },
        images: list_images(ours),
        origin: read_origin(record),
        traceparent: record.headers.get_text(headers::TRACEPARENT).map(str::to_owned),
    };
    Ok(ReadReport { tenant, arrival, is_rewritten: rewritten.is_some() })
}

/// Returns the identity that a later revision carries: it may be made of other bytes than the first one. Only workers write
/// the headers of the outputs.
fn read_identity(record: &Record) -> Option<(ReportId, ContentHash)> {
    let hash = record.headers.get_text(headers::CONTENT_HASH)?.parse().ok()?;
    Some((record.headers.get_text(headers::REPORT_ID)?.parse().ok()?, hash))
}

/// Returns when the report first arrived at the broker: the time that the symbolizer passed on, or else the
/// record's own time. A producer may invent its time, so one in the future is ignored.
fn received_at(record: &Record, now: OffsetDateTime) -> OffsetDateTime {
    let times = [record.headers.get_number(headers::ORIGIN_TIME), record.time_millis];
    let possible = |at: &OffsetDateTime| *at >= OffsetDateTime::UNIX_EPOCH && *at <= now + Duration::HOUR;
    times.into_iter().flatten().filter_map(timestamp::from_millis).find(possible).unwrap_or(now)
}

/// Returns the public key that an app sent the record with. Any sender may name one: it grants nothing, and only says which
/// records are erased together.
pub fn read_sender_key(record: &Record) -> Option<SenderKeyId> {
    SenderKeyId::parse(record.headers.get_text(headers::SENDER_KEY)?)
}

fn read_origin(record: &Record) -> Option<ReportOrigin> {
    Some(ReportOrigin {
        topic: record.headers.get_text(headers::ORIGIN_TOPIC)?.to_owned(),
        partition: record.headers.get_number(headers::ORIGIN_PARTITION)?,
        offset: record.headers.get_number(headers::ORIGIN_OFFSET)?,
        index: record.headers.get_number(headers::SOURCE_INDEX).unwrap_or(0),
    })
}

/// Maximum number of characters of a text in a summary.
const SHOWN_CHARS: usize = 500;

fn put_text(shown: &mut Map<String, Value>, key: &str, text: Option<&String>) {
    if let Some(text) = text {
        shown.insert(key.to_owned(), json!(text.chars().take(SHOWN_CHARS).collect::<String>()));
    }
}

fn put_number(shown: &mut Map<String, Value>, key: &str, number: Option<u64>) {
    if let Some(number) = number {
        shown.insert(key.to_owned(), json!(number));
    }
}

fn shown_frame(frame: &TopFrame) -> Map<String, Value> {
    let mut shown = Map::new();
    put_text(&mut shown, "image", frame.image.as_ref());
    put_text(&mut shown, "function", frame.function.as_ref());
    put_text(&mut shown, "file", frame.file.as_ref());
    put_number(&mut shown, "line", frame.line.map(u64::from));
    shown
}

/// Returns the fields that pages show of a report and that no filter uses.
fn shown_summary(summary: &ReportSummary) -> Value {
    let mut shown = Map::new();
    put_text(&mut shown, "app_name", summary.app_name.as_ref());
    put_text(&mut shown, "report_type", summary.report_type.as_ref());
    put_text(&mut shown, "exception", summary.exception.as_ref());
    put_text(&mut shown, "signal", summary.signal.as_ref());
    put_text(&mut shown, "code", summary.code.as_ref());
    put_text(&mut shown, "thread_name", summary.thread_name.as_ref());
    put_text(&mut shown, "cpu_arch", summary.cpu_arch.as_ref());
    put_number(&mut shown, "crashed_thread", summary.crashed_thread);
    if let Some(fatal) = summary.fatal {
        shown.insert("fatal".to_owned(), json!(fatal));
    }
    put_number(&mut shown, "duration_ms", summary.duration_ms);
    put_number(&mut shown, "memory_limit", summary.memory_limit);
    let top: Vec<_> = summary.top_frames.iter().map(shown_frame).collect();
    shown.insert("top_frames".to_owned(), json!(top));
    Value::Object(shown)
}

fn build_details(summary: ReportSummary, ours: &Ours, own: OwnFrames) -> ReportDetails {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let shown = shown_summary(&summary);
    ReportDetails {
        app: summary.app.unwrap_or_default(),
        version: summary.version.unwrap_or_default(),
        build: summary.build.unwrap_or_default(),
        kind: summary.error_type.unwrap_or_default(),
        status: ours.status.clone(),
        device_time: summary.timestamp,
        // The device's own hash is hashed again: the column shows that devices are equal, and nothing more.
        device: summary.device_hash.map(|hash| hash_person(&hash).to_vec()),
        users: Vec::new(),
        os_name: summary.os_name,
        os_version: summary.os_version,
        os_build: summary.os_build,
        model: summary.device_model,
        process: summary.process_name,
        reason: summary.reason,
        summary: shown,
        context: Value::Null,
        sender_key: None,
        frames: FrameTotals {
            total: count(ours.frames.total),
            symbolicated: count(ours.frames.symbolicated),
            device: count(ours.frames.device),
            device_app: count(ours.frames.device_app),
            missing: count(ours.frames.missing),
            own: count(own.total),
            own_symbolicated: count(own.symbolicated),
        },
        grouping: ours.grouping.clone(),
        run_id: summary.run_id.as_deref().and_then(|id| Uuid::parse_str(id).ok()),
        process_identity: None,
        metric_kit: summary.monitor_id.as_deref() == Some("MetricKit"),
        teller: None,
        is_second_handler: false,
        process_id: None,
        is_memory_exception: false,
        sampled: summary.sampled,
        terms: Vec::new(),
    }
}

/// Returns who tells of a crash, if it is neither the app's own handler nor MetricKit.
fn find_teller(report: &Report<'_>, monitor: Option<&str>, is_translated: bool) -> Option<CrashTeller> {
    if report.has_corpse() || monitor == Some("Corpse") {
        return Some(CrashTeller::Corpse);
    }
    (is_translated && monitor != Some("MetricKit")).then_some(CrashTeller::Log)
}

/// Returns true for monitors of KSCrash that may report what another one has reported: signals follow Mach exceptions and uncaught
/// exceptions, and the others report the end of a run.
fn is_second_handler(monitor: &str) -> bool {
    matches!(monitor, "Signal" | "Watchdog" | "Termination")
}

/// Returns the identity of a process for its column: equal for the same process, different for two processes.
fn identity_column(process: &ProcessIdentity) -> Option<Uuid> {
    let mut hash = Sha256::new();
    hash.update(process.pid.to_be_bytes());
    for (debug_id, address) in [process.executable, process.system] {
        hash.update(debug_id.0);
        hash.update(address.to_be_bytes());
    }
    Uuid::from_slice(&hash.finalize()[..16]).ok()
}

/// Returns each image with a debug id once. If two entries contradict each other, the one with an answer is
/// used.
fn list_images(ours: &Ours) -> Vec<ImageUse> {
    let mut images: BTreeMap<_, ImageUse> = BTreeMap::new();
    for image in &ours.images {
        let Some(debug_id) = image.debug_id else { continue };
        let found = image.status == "found";
        let seen = ImageUse {
            debug_id,
            name: image.name.clone().unwrap_or_default(),
            arch: image.arch.clone().unwrap_or_default(),
            system: image.system,
            found,
            stripped: image.stripped,
            failed: image.status == "fetching_failed",
            seen_generation: image.generation.unwrap_or(0),
        };
        match images.get(&debug_id) {
            Some(known) if known.found || !found => {}
            _ => {
                images.insert(debug_id, seen);
            }
        }
    }
    images.into_values().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::records::Content;
    use crate::rewriting::LoadedRewriters;
    use std::sync::Arc;
    use unslide_report::reader::ReportReaders;
    use unslide_report::{ReadLimits, splice};
    use unslide_stream::{Headers, RecordRef, SignatureSettings, Signatures};

    pub(crate) const ENRICHED: &str = r#"{"report":{"id":"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"},"crash":{"error":{"type":"mach"}},
        "system":{"CFBundleIdentifier":"com.acme.shop","CFBundleShortVersionString":"1.2","device_app_hash":"d"},
        "symbolication":{"version":1,"engine":"unslide/0.1.0","revision":2,"status":"partial",
        "frames":{"total":3,"symbolicated":1},"images":[
        {"debug_id":"11111111111111111111111111111111","name":"Shop","arch":"arm64","status":"missing"},
        {"debug_id":"11111111111111111111111111111111","name":"Shop","arch":"arm64","status":"found","generation":4,"stripped":true},
        {"name":"nameless","status":"missing"}]}}"#;

    pub(crate) fn record(value: &str, headers: Headers) -> Record {
        Record {
            at: RecordRef { topic: "out".into(), partition: 0, offset: 7 },
            time_millis: Some(1_763_600_000_000),
            key: None,
            value: Some(value.to_owned().into()),
            headers,
        }
    }

    pub(crate) fn reading() -> Reading {
        Reading {
            content: Content::Reports,
            readers: ReportReaders::default(),
            rewriters: LoadedRewriters::default(),
            limits: ReadLimits::default(),
            signatures: Arc::new(Signatures::new(&SignatureSettings::default())),
            now: now(),
            has_spans: false,
        }
    }

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_763_600_100).unwrap()
    }

    #[test]
    fn a_report_is_read_with_its_images_and_the_hash_of_what_the_device_sent() {
        let headers = Headers::new()
            .with(headers::TENANT, "acme")
            .with(headers::ORIGIN_TIME, "1763590000000")
            .with(headers::ORIGIN_TOPIC, "in")
            .with(headers::ORIGIN_PARTITION, "1")
            .with(headers::ORIGIN_OFFSET, "5")
            .with(headers::SENDER_KEY, "0a1b2c3d");
        let read = read_report(&record(ENRICHED, headers), &reading()).unwrap();
        let arrival = read.arrival;
        assert_eq!((read.tenant.as_str(), arrival.revision), ("acme", 2));
        assert_eq!(arrival.received_at.unix_timestamp(), 1_763_590_000);
        assert_eq!((arrival.facts.app.as_str(), arrival.facts.version.as_str()), ("com.acme.shop", "1.2"));
        assert_eq!(arrival.facts.kind, "mach");
        assert_eq!(arrival.facts.sender_key, SenderKeyId::parse("0a1b2c3d"));
        assert_eq!(arrival.facts.frames.symbolicated, 1);
        assert_eq!(arrival.origin.unwrap().offset, 5);
        assert_eq!(arrival.images.len(), 1);
        let image = &arrival.images[0];
        assert!(image.found && image.stripped && image.seen_generation == 4);
        let stripped = splice::strip_additions(ENRICHED.as_bytes(), &ReadLimits::default()).unwrap();
        assert_eq!(arrival.content_hash.0, <[u8; 32]>::from(Sha256::digest(&stripped)));
        assert_eq!(body::decompress_report(&arrival.body, 1 << 20).unwrap(), ENRICHED.as_bytes());
    }

    /// Proves: late-symbols
    #[test]
    fn a_later_revision_of_other_bytes_is_the_same_report_and_an_older_one_is_known_by_its_bytes() {
        let nameless = ENRICHED.replace(r#""report":{"id":"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"},"#, "");
        let of_acme = || Headers::new().with(headers::TENANT, "acme");
        let first = read_report(&record(&nameless, of_acme()), &reading()).unwrap().arrival;
        let changed = nameless.replace(r#""mach""#, r#""mach","reason":"[scrubbed:email]""#);
        let later = read_report(&record(&changed, of_acme()), &reading()).unwrap().arrival;
        assert!(later.content_hash != first.content_hash && later.report_id != first.report_id);
        let carried = of_acme()
            .with(headers::REPORT_ID, first.report_id.to_string())
            .with(headers::CONTENT_HASH, first.content_hash.to_string());
        let later = read_report(&record(&changed, carried), &reading()).unwrap().arrival;
        assert_eq!((later.report_id, later.content_hash), (first.report_id, first.content_hash));
        assert_eq!(later.facts.reason.as_deref(), Some("[scrubbed:email]"));
    }

    #[test]
    fn a_report_says_the_share_that_is_sent() {
        let sampled = |enriched: &str| {
            let headers = Headers::new().with(headers::TENANT, "acme");
            read_report(&record(enriched, headers), &reading()).unwrap().arrival.facts.sampled
        };
        assert_eq!(sampled(ENRICHED), None);
        let report = ENRICHED.replacen("\"report\":{", "\"report\":{\"sampled\":0.25,", 1);
        assert_eq!(sampled(&report), Some(0.25));
    }

    #[test]
    fn a_group_is_found_by_the_functions_of_its_reports() {
        let frame = r#"{"instruction_addr":1,"symbolication":{"status":"symbolicated","calls":[
            {"function":"Cart.price","file":"/src/Cart.swift","inlined":true},{"function":"Cart.total"}]}}"#;
        let threads =
            format!(r#""crash":{{"threads":[{{"crashed":true,"backtrace":{{"contents":[{frame}]}}}}],"#);
        let headers = Headers::new().with(headers::TENANT, "acme");
        let enriched = ENRICHED.replace("\"crash\":{", &threads);
        let arrival = read_report(&record(&enriched, headers), &reading()).unwrap().arrival;
        assert_eq!(arrival.facts.terms, ["Cart.price", "Cart.swift", "Cart.total"]);
    }

    #[test]
    fn reports_of_one_process_have_one_identity() {
        let identity = |pid: u32| {
            let images = r#"{"binary_images":[
                {"name":"/x/Shop","uuid":"11111111-1111-1111-1111-111111111111","image_addr":4096},
                {"name":"libsystem_kernel.dylib","uuid":"22222222-2222-2222-2222-222222222222","image_addr":8192}],"#;
            let system = format!(r#""system":{{"process_name":"Shop","process_id":{pid},"#);
            let enriched = ENRICHED.replacen('{', images, 1).replace("\"system\":{", &system);
            let headers = Headers::new().with(headers::TENANT, "acme");
            let read = read_report(&record(&enriched, headers), &reading()).unwrap();
            read.arrival.facts.process_identity
        };
        assert!(identity(7).is_some() && identity(7) == identity(7));
        assert_ne!(identity(7), identity(8));
    }

    /// Lists show what the index template of Elasticsearch has.
    #[test]
    fn the_index_template_has_every_member_of_a_summary() {
        let text = || Some("x".to_owned());
        let summary = ReportSummary {
            app_name: text(),
            report_type: text(),
            exception: text(),
            signal: text(),
            code: text(),
            thread_name: text(),
            cpu_arch: text(),
            crashed_thread: Some(1),
            fatal: Some(true),
            duration_ms: Some(1),
            memory_limit: Some(1),
            top_frames: vec![unslide_report::TopFrame {
                image: text(),
                function: text(),
                file: text(),
                line: Some(1),
                debug_id: None,
            }],
            ..ReportSummary::default()
        };
        let shown = build_details(summary, &Ours::default(), OwnFrames::default()).summary;
        let template = include_str!("../../../../deploy/elasticsearch/reports.json");
        let template: serde_json::Value = serde_json::from_str(template).unwrap();
        let mapped = &template["template"]["mappings"]["properties"]["summary"]["properties"];
        for name in shown.as_object().unwrap().keys() {
            assert!(mapped[name].is_object(), "{name}");
        }
        for name in shown["top_frames"][0].as_object().unwrap().keys() {
            assert!(mapped["top_frames"]["properties"][name].is_object(), "{name}");
        }
    }

    #[test]
    fn a_time_that_lies_ahead_is_not_believed() {
        let of = |millis: &str| {
            let headers = Headers::new().with(headers::ORIGIN_TIME, millis.to_owned());
            received_at(&record("{}", headers), now()).unix_timestamp()
        };
        assert_eq!(of("1763590000000"), 1_763_590_000);
        assert_eq!(of("9999999999999"), 1_763_600_000);
        assert_eq!(of("-5"), 1_763_600_000);
        assert_eq!(of("soon"), 1_763_600_000);
    }

    #[test]
    fn what_cannot_be_stored_says_why() {
        let why = |value: &str, tenant: &str| {
            let headers = Headers::new().with(headers::TENANT, tenant.to_owned());
            read_report(&record(value, headers), &reading()).unwrap_err().reason
        };
        assert_eq!(why(ENRICHED, "No Tenant"), "no_tenant");
        assert_eq!(why("{", "acme"), "truncated");
        assert_eq!(why(r#"{"report":{}}"#, "acme"), "not_enriched");
        assert_eq!(why(&ENRICHED.replace("\"revision\":2,", ""), "acme"), "no_revision");
    }
}
