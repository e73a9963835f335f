//! Tests of the reader of request bodies.

use super::*;
use crate::limits::charge::tests::charge;
use crate::limits::permits::tests::reservation;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use unslide_report::reader::{DocumentText, ReportReader, TranslatedReport};

const BOUNDS: Bounds = Bounds {
    unpacked: 10_000,
    reports: 4,
    report: ReadLimits { max_bytes: 2_000, max_depth: 16, max_items: 1_000 },
};
const A: &str = r#"{"report":{"id":"11111111-1111-1111-1111-111111111111"},"system":{"CFBundleIdentifier":"com.a"},"crash":{"error":{}}}"#;
const B: &str = r#"{"report":{"id":"22222222-2222-2222-2222-222222222222"},"system":{"CFBundleIdentifier":"com.b"},"crash":{"threads":[]}}"#;

fn read_within(
    body: &Bytes,
    form: &BodyForm,
    bounds: &Bounds,
    scope: &ReportScope<'_>,
    room: u64,
) -> Result<Vec<ReceivedReport>, Problem> {
    let (reserved, _other) = reservation(room);
    read_reports(body, form, bounds, scope, &mut ReadBudget { reserved, charge: charge(1_000) })
}

/// The line before a report in a format of these tests.
const MARK: &str = "{\"mark\":1}\n";
const MARKED: ReportReader = ReportReader {
    name: "marked",
    recognizes: |document| document.starts_with(MARK.trim_end().as_bytes()),
    translate: |document, limits| {
        let json = document.get(MARK.len()..).unwrap_or_default().to_vec();
        Report::read(&json, limits)?;
        Ok(TranslatedReport { json, ..TranslatedReport::default() })
    },
    parts: None,
};

/// A format that is text.
const LOG: ReportReader = ReportReader {
    name: "log",
    recognizes: |document| document.starts_with(b"Log"),
    translate: |_, _| {
        let text = Some(DocumentText::default());
        Ok(TranslatedReport { json: A.into(), text, ..TranslatedReport::default() })
    },
    parts: None,
};
/// A document with two reports.
const SEVERAL: &str = "{\"several\":2}";
const BOTH: ReportReader = ReportReader {
    name: "both",
    recognizes: |_| false,
    translate: |_, _| Ok(TranslatedReport::default()),
    parts: Some(|document, _| (document == SEVERAL.as_bytes()).then(|| vec![A.into(), B.into()])),
};

fn read(body: impl Into<Bytes>, app: &str) -> Result<Vec<String>, Kind> {
    let refuse = |found: Option<&str>| (found != Some(app)).then(|| format!("{found:?}"));
    let scope = ReportScope { refuse_app: Some(&refuse), readers: &ReportReaders::new([MARKED, LOG, BOTH]) };
    let read = read_within(&body.into(), &BodyForm::Any, &BOUNDS, &scope, 1 << 20);
    let word = |report: ReceivedReport| match report {
        ReceivedReport::Accepted(report) => String::from_utf8(report.bytes.to_vec()).unwrap(),
        ReceivedReport::Refused(refused) => refused.reason.to_owned(),
    };
    read.map(|reports| reports.into_iter().map(word).collect()).map_err(|problem| problem.kind())
}

#[test]
fn one_bad_report_refuses_no_other() {
    let log = r#""Incident: 1\nIdentifier:   com.a\n""#;
    for (body, wanted) in [
        (format!("[{A}, {{\"a\": }}, {A}]"), vec![A, "not_json", A]),
        (format!("[{A},{B},7,{A}]"), vec![A, "wrong_app", "not_a_report", A]),
        (format!("[{log},\"no app\",{{}}]"), vec![log, "wrong_app", "not_a_report"]),
        (format!("{A}\n{{\"a\" 1}}\n\0\0\n[{A}]\n"), vec![A, "not_json", A]),
        (format!("[{A},{{\"report\":{{\"id\""), vec![A, "truncated"]),
        ("{\"report\":".to_owned(), vec!["truncated"]),
        ("[]".to_owned(), vec![]),
    ] {
        assert_eq!(read(body.clone(), "com.a").unwrap(), wanted, "{body}");
    }
    let large = format!("[{A},{{\"crash\":{{\"error\":{{}}}},\"a\":\"{}\"}}]", "x".repeat(2_000));
    assert_eq!(read(large, "com.a").unwrap(), [A, "too_large"]);
}

#[test]
fn lines_behind_one_that_cannot_be_read_are_read() {
    for (first, reason) in [
        ("{\"a\" 1}", "not_json"),
        ("no report", "not_json"),
        ("{\"crash\":", "truncated"),
        ("{\"crash\":{}}", "not_a_report"),
        ("{\"timeStampEnd\":\"\",\"crashDiagnostics\":[{}]}", "not_a_report"),
    ] {
        let body = format!("{first}\n{A}\n{A}\n");
        assert_eq!(read(body.clone(), "com.a").unwrap(), [reason, A, A], "{body}");
    }
    assert_eq!(read(format!("{{\n{SEVERAL}\n"), "com.a").unwrap(), ["truncated", A, "wrong_app"]);
}

#[test]
fn a_document_without_a_report_is_refused_once() {
    for body in ["[1,2,3]", "[{},{},{\"a\" 1}]", "{}\n{}\n", "one\ntwo\nthree\n", "[[],7]"] {
        let read = read_all(body, &BodyForm::Lines).unwrap_err();
        assert!(matches!(read.kind(), Kind::NotAReport | Kind::InvalidReport), "{body}");
    }
    assert_eq!(read("[1,2,3]", "com.a").unwrap(), ["not_a_report"]);
    assert_eq!(read("[{},{},{\"a\" 1}]", "com.a").unwrap(), ["not_a_report"]);
    let archive = zip_archive(&[("a.json", A.as_bytes()), ("notes.txt", b"{}\n{}\n{}\n")]);
    assert_eq!(read(archive, "com.a").unwrap(), [A, "not_a_report"]);
    let detail = refusal("[1,2,3]", &BodyForm::Any).1;
    assert!(detail.starts_with("report 0: ") && detail.contains("2 more could not be read"), "{detail}");
}

#[test]
fn a_document_of_another_format_is_one_report() {
    let marked = format!("{MARK}{A}\n");
    assert_eq!(read(marked.clone(), "com.a").unwrap(), std::slice::from_ref(&marked));
    assert_eq!(read(marked.clone(), "com.b").unwrap(), ["wrong_app"]);
    assert_eq!(read(MARK, "com.a").unwrap(), ["truncated"], "without its report");
    let part = "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n";
    let form = format!("{part}{marked}\r\n{part}{A}\r\n--b--\r\n");
    assert_eq!(read(form, "com.a").unwrap(), [marked, A.to_owned()]);
    assert_eq!(read("Incident Identifier: 1\nIdentifier: com.a\n", "com.a").unwrap(), ["not_a_report"]);
}

#[test]
fn a_text_is_one_report_alone_and_in_an_array() {
    assert_eq!(read("Log\nof a crash\n", "com.a").unwrap(), ["Log\nof a crash\n"]);
    assert_eq!(read("Log\n", "com.b").unwrap(), ["wrong_app"]);
    let translated = format!("{}\nTranslated Report (Full Report Below)\n", "-".repeat(37));
    assert_eq!(read(translated, "com.a").unwrap(), ["not_a_report"], "a log, and no form");
    let log = r#""Log\nof a crash""#;
    assert_eq!(read(format!("[{log},{A}]"), "com.a").unwrap(), [log, A]);
}

#[test]
fn a_document_of_several_reports_is_a_record_of_each() {
    assert_eq!(read(SEVERAL, "com.a").unwrap(), [A, "wrong_app"]);
    assert_eq!(read(format!("[{B},{SEVERAL}]"), "com.b").unwrap(), [B, "wrong_app", B]);
    assert_eq!(read(format!("[{A},{A},{A},{SEVERAL}]"), "com.a"), Err(Kind::TooLarge));
}

#[test]
fn the_content_decides_what_a_body_is() {
    let mut form = Vec::new();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(A.as_bytes()).unwrap();
    for (head, data) in [
        ("name=\"any name\"", format!("[{A}]").into_bytes()),
        ("name=\"x\"; filename=\"r.gz\"", packed.finish().unwrap()),
        ("name=\"sender\"", b"an app".to_vec()),
    ] {
        form.extend(format!("--b0-\r\nContent-Disposition: form-data; {head}\r\n\r\n").bytes());
        form.extend(data);
        form.extend(b"\r\n");
    }
    let cut = form.clone();
    form.extend(b"--b0---\r\n");
    assert_eq!(read(form.clone(), "com.a").unwrap(), [A, A]);
    assert_eq!(read(zstd::encode_all(&form[..], 3).unwrap(), "com.a").unwrap(), [A, A]);
    assert_eq!(read(cut, "com.a"), Err(Kind::InvalidBody));
    assert_eq!(read(" \n\0", "com.a"), Err(Kind::InvalidReport));
    assert_eq!(read(format!("[{A},{A},{A},{A},{A}]"), "com.a"), Err(Kind::TooLarge));
    assert_eq!(read([&b"\x1f\x8b"[..], &[0; 9]].concat(), "com.a"), Err(Kind::InvalidBody));
}

/// Returns a zip archive of files.
fn zip_archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn each_file_of_an_archive_has_its_outcome() {
    let packed = gzip(A);
    let archive = zip_archive(&[
        ("c.json", b"{"),
        ("b.json", B.as_bytes()),
        ("d.json.gz", &packed),
        ("p.xccrashpoint/Logs/a.crash", b"Log\n"),
        ("p.xccrashpoint/Logs/LocallySymbolicated/a.crash", b"Log\n"),
        ("p.xccrashpoint/DistributionInfo.json", b"{}"),
        ("screenshot.png", b"x"),
    ]);
    let expected = ["wrong_app", "truncated", A, "Log\n"];
    assert_eq!(read(archive.clone(), "com.a").unwrap(), expected);
    let part = b"--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n".to_vec();
    let form = [part, archive.clone(), b"\r\n--b--\r\n".to_vec()].concat();
    assert_eq!(read(form, "com.a").unwrap(), expected);
    let (kind, detail) = refusal(zip_archive(&[("logs/bad.json", b"{\"a\" 1}")]), &BodyForm::Any);
    assert!(kind == Kind::InvalidReport && detail.starts_with("logs/bad.json: at byte 5"), "{detail}");
    assert_eq!(read(archive[..archive.len() - 30].to_vec(), "com.a"), Err(Kind::InvalidBody));
    let (kind, detail) = refusal(zip_archive(&[("screenshot.png", b"x")]), &BodyForm::Any);
    assert!(kind == Kind::InvalidReport && detail.contains("files that end with .ips"), "{detail}");
}

/// Proves: bounded-input
#[test]
fn archives_are_bounded_in_number_size_and_ratio() {
    let names: Vec<String> = (0..1_001).map(|number| format!("{number}.png")).collect();
    let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    assert!(refusal(zip_archive(&many), &BodyForm::Any).1.contains("more than 1000 entries"));
    let five: Vec<(String, &[u8])> = (0..5).map(|number| (format!("{number}.json"), A.as_bytes())).collect();
    let five: Vec<(&str, &[u8])> = five.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    assert_eq!(read(zip_archive(&five), "com.a"), Err(Kind::TooLarge));
    let blank = vec![b' '; 3 << 20];
    let bomb = zip_archive(&[("a.json", A.as_bytes()), ("b.json", &blank)]);
    assert_eq!(read(bomb.clone(), "com.a"), Err(Kind::TooLarge), "of the whole body");
    let bounds = Bounds { unpacked: 4 << 20, ..BOUNDS };
    let scope = ReportScope { refuse_app: None, readers: &ReportReaders::default() };
    let found = read_within(&bomb.into(), &BodyForm::Any, &bounds, &scope, 16 << 20).unwrap();
    assert!(matches!(found[0], ReceivedReport::Accepted(_)));
    let ReceivedReport::Refused(refused) = &found[1] else { panic!("it is a bomb") };
    assert_eq!(refused.reason, TOO_LARGE);
    assert_eq!(refused.detail, "b.json: it unpacks to more than 200 times its size");
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Reads reports of any app, all or none of them.
fn read_all(body: impl Into<Bytes>, form: &BodyForm) -> Result<Vec<Incoming>, Problem> {
    let scope = ReportScope { refuse_app: None, readers: &ReportReaders::default() };
    let bounds = Bounds { reports: 3, ..BOUNDS };
    let read = read_within(&body.into(), form, &bounds, &scope, 1 << 20)?;
    if read.is_empty() {
        return Err(no_report());
    }
    let accept = |report| match report {
        ReceivedReport::Accepted(report) => Ok(report),
        ReceivedReport::Refused(refused) => Err(refused.to_problem()),
    };
    read.into_iter().map(accept).collect()
}

fn reports(body: impl Into<Bytes>, form: &BodyForm) -> Vec<String> {
    let read = read_all(body, form).unwrap();
    read.into_iter().map(|r| String::from_utf8(r.bytes.to_vec()).unwrap()).collect()
}

fn refusal(body: impl Into<Bytes>, form: &BodyForm) -> (Kind, String) {
    let problem = read_all(body, form).unwrap_err();
    (problem.kind(), problem.detail().unwrap_or_default().to_owned())
}

#[test]
fn every_packaging_gives_the_same_reports_byte_for_byte() {
    assert_eq!(reports(A, &BodyForm::Any), [A]);
    assert_eq!(reports(format!("[{A},\n {B}]"), &BodyForm::Any), [A, B]);
    assert_eq!(reports(format!("{A}\n\n{B}\r\n"), &BodyForm::Lines).len(), 2);
    assert_eq!(reports(format!("{A}\n{B}\n"), &BodyForm::Any), [A, B]);
    assert_eq!(reports(format!("[{A}]\n{B}\n"), &BodyForm::Any), [A, B]);
    for form in [BodyForm::Any, BodyForm::Lines] {
        assert_eq!(reports(format!("{A}\n\0\0\n{B}\n\0\0"), &form), [A, B]);
        assert_eq!(reports(format!("[{A}]\n\0\0"), &form), [A]);
    }
    assert_eq!(reports(gzip(&format!("[{A},{B}]")), &BodyForm::Any), [A, B]);
    let id = read_all(A, &BodyForm::Any).unwrap()[0].id.unwrap();
    assert_eq!(id.to_string(), "11111111-1111-1111-1111-111111111111");
}

#[test]
fn a_form_brings_its_files_and_json_and_nothing_else() {
    let mut body = Vec::new();
    for (head, data) in [
        (
            "name=\"reports\"; filename=\"reports.json\"\r\nContent-Type: application/json",
            format!("[{A}]").into_bytes(),
        ),
        ("name=\"x\"; filename=\"r.gz\"", gzip(B)),
        ("name=\"sender\"", b"not a report".to_vec()),
    ] {
        body.extend_from_slice(format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes());
        body.extend_from_slice(&data);
        body.extend_from_slice(b"\r\n");
    }
    let cut = body.clone();
    body.extend_from_slice(b"--b--\r\n");
    let form = BodyForm::Parts("b".to_owned());
    assert_eq!(reports(body.clone(), &form), [A, B]);
    let packed: Vec<u8> = {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&body).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(reports(packed, &form), [A, B]);
    assert_eq!(refusal(cut, &form).0, Kind::InvalidBody);
}

#[test]
fn a_log_as_text_is_called_that() {
    let (kind, detail) = refusal("Incident Identifier: 5A9E\nHardware Model: iPhone15,2\n", &BodyForm::Any);
    assert_eq!(kind, Kind::NotAReport);
    assert!(detail.contains("an Apple log (.crash)"), "{detail}");
}

#[test]
fn a_rendered_log_is_taken_and_has_no_id() {
    let read = read_all(format!("[\"Incident\\n\", {A}]"), &BodyForm::Any).unwrap();
    assert_eq!((read[0].id, &read[0].bytes[..]), (None, &b"\"Incident\\n\""[..]));
    assert!(read[1].id.is_some());
}

#[test]
fn a_refusal_names_the_report_and_the_place() {
    let (kind, detail) = refusal(format!("[{A}, {{\"a\": }}]"), &BodyForm::Any);
    assert_eq!(kind, Kind::InvalidReport);
    assert!(detail.contains("at byte") && detail.contains("not_json"), "{detail}");
    let (kind, detail) = refusal(format!("{A}\n{{\"a\" 1}}\n"), &BodyForm::Any);
    assert_eq!(kind, Kind::InvalidReport);
    assert!(detail.starts_with("line 2: at byte 5"), "{detail}");
    let (kind, detail) = refusal(format!("[{A}, 7]"), &BodyForm::Any);
    assert_eq!(kind, Kind::NotAReport);
    assert!(detail.starts_with("report 1: ") && detail.contains("a number"), "{detail}");
    let (kind, detail) = refusal(format!("{A}\n{{}}\n"), &BodyForm::Any);
    assert_eq!(kind, Kind::NotAReport);
    assert!(detail.starts_with("line 2: a crash report has an object `crash`"), "{detail}");
    assert!(refusal(r#"{"report": {"#, &BodyForm::Any).1.contains("truncated"));
    assert!(refusal("{\"a\":".repeat(40), &BodyForm::Any).1.contains("too_deep"));
    assert_eq!(refusal("", &BodyForm::Any).0, Kind::InvalidReport);
    assert_eq!(refusal("[]", &BodyForm::Any), (Kind::InvalidReport, "the body has no report".to_owned()));
}

#[test]
fn bounds_hold_for_bytes_and_numbers() {
    assert_eq!(refusal(format!("[{A},{A},{A},{A}]"), &BodyForm::Any).0, Kind::TooLarge);
    assert_eq!(refusal(gzip(&" ".repeat(10_001)), &BodyForm::Any).0, Kind::TooLarge);
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(2_000));
    assert_eq!(refusal(large.clone(), &BodyForm::Any).0, Kind::TooLarge);
    assert_eq!(refusal(format!("[{large}]"), &BodyForm::Any).0, Kind::TooLarge);
}

/// However few reports there are in them.
#[test]
fn lines_and_parts_are_as_many_as_reports_may_be() {
    let part = "--b\r\nContent-Disposition: form-data; name=\"report\"\r\n\r\n[]\r\n";
    let parts = |number| format!("{}--b--\r\n", part.repeat(number));
    for (form, three, four) in [
        (BodyForm::Lines, "[]\n \n".repeat(3), "[]\n".repeat(4)),
        (BodyForm::Any, "[]\n \n".repeat(3), "[]\n".repeat(4)),
        (BodyForm::Any, "[]\n".repeat(3), format!("[{A}]\n{}", "[]\n".repeat(3))),
        (BodyForm::Parts("b".to_owned()), parts(3), parts(4)),
    ] {
        assert_eq!(refusal(three, &form).0, Kind::InvalidReport, "{form:?}");
        let (kind, detail) = refusal(four, &form);
        assert_eq!(kind, Kind::TooLarge, "{form:?}: {detail}");
        assert!(detail.starts_with("more than 3 reports"), "{detail}");
    }
}

/// A part's gzip is unpacked within the same room as a body's.
#[test]
fn what_is_unpacked_has_room_wherever_it_is_packed() {
    let bounds = Bounds { unpacked: 1 << 20, ..BOUNDS };
    let packed = gzip(&" ".repeat(900_000));
    let head = "--b\r\nContent-Disposition: form-data; name=\"x\"; filename=\"r.gz\"\r\n\r\n";
    let form = [head.as_bytes(), &packed, b"\r\n--b--\r\n"].concat();
    for (body, form) in [(packed, BodyForm::Any), (form, BodyForm::Parts("b".to_owned()))] {
        let scope = ReportScope { refuse_app: None, readers: &ReportReaders::default() };
        let refused = read_within(&body.into(), &form, &bounds, &scope, 500_000).unwrap_err();
        assert_eq!(refused.kind(), Kind::TenantBusy, "{form:?}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>) {
        for form in [BodyForm::Any, BodyForm::Lines, BodyForm::Parts("b".to_owned())] {
            let _ = read_all(bytes.clone(), &form);
        }
    }
}
