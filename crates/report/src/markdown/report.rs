//! The sections of a report: what happened, its stack, its app and device, and its symbols.

use super::document::{MarkdownDocument, MarkdownStyle};
use super::quote::quote_text;
use super::stack::write_stack;
use crate::report::Report;
use crate::report::ours::Ours;
use crate::report::summary::ReportSummary;
use crate::text::source_lines::SourceLines;
use crate::text::view::{ReportView, build_view};
use time::format_description::well_known::Rfc3339;

/// The maximum number of images without symbols, and of warnings, that are named.
const MISSING_IMAGES_LIMIT: usize = 50;
const WARNINGS_LIMIT: usize = 20;

/// Returns an enriched report as Markdown. Its size is bounded.
#[must_use]
pub fn markdown_report(report: &Report<'_>, style: MarkdownStyle) -> String {
    let mut out = MarkdownDocument::with_title(&report_heading(report), style);
    write_report(report, &SourceLines::default(), &mut out);
    out.into_text()
}

/// Returns the heading of a report: the title of its bug, or what happened.
#[must_use]
pub fn report_heading(report: &Report<'_>) -> String {
    let titled = report.ours.as_ref().and_then(|ours| ours.grouping.as_ref()).map(|bug| bug.title.clone());
    let view = build_view(report);
    let title = titled.filter(|title| !title.is_empty()).or(view.exception).or(view.reason);
    title.map_or_else(|| format!("Report {}", report.id), |title| quote_text(&title))
}

/// Writes the sections of an enriched report, with these source lines around the frames of the app.
pub fn write_report(report: &Report<'_>, lines: &SourceLines, out: &mut MarkdownDocument) {
    let (mut view, summary, id) = (build_view(report), report.summary(), report.id.to_string());
    lines.add_to_threads(&mut view.threads);
    write_event(&view, &summary, &id, out);
    write_stack(&view.threads, &id, view.about_memory, out);
    write_origin(&summary, &id, out);
    match &report.ours {
        Some(ours) => write_symbols(ours, &id, out),
        None => out.push_sentence("The report is not symbolicated.", &format!("report {id}")),
    }
}

fn write_event(view: &ReportView, summary: &ReportSummary, id: &str, out: &mut MarkdownDocument) {
    out.push_heading("What happened");
    out.push_paragraph("Facts of the report:\n");
    let error = format!("report {id}, crash.error");
    let facts = [
        ("Type", summary.error_type.as_ref()),
        ("Exception", view.exception.as_ref()),
        ("Code", view.code.as_ref()),
        ("Signal", view.signal.as_ref()),
        ("Reason", view.reason.as_ref()),
        ("End of the run", view.ended.as_ref()),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            out.push_item(&format!("{name}: {}", quote_text(value)), &error);
        }
    }
    for finding in &view.findings {
        let facts: Vec<String> = finding.evidence.iter().map(|fact| quote_text(fact)).collect();
        let frame = finding.frame.map(|frame| format!(", frame {frame}")).unwrap_or_default();
        let source = format!("report {id}, symbolication.{}{frame}", plain_key(&finding.member));
        let abstained = format!("{source}, abstained");
        let evidence = if facts.is_empty() { source } else { format!("{source}: {}", facts.join("; ")) };
        out.push_item(&format!("Analysis: {}", quote_text(&finding.sentence)), &evidence);
        for text in &finding.abstained {
            out.push_item(&format!("Note: {}", quote_text(text)), &abstained);
        }
    }
    for variable in &view.variables {
        let source = format!("report {id}, symbolication.variables, frame 0, call {}", variable.call);
        let [name, kind] = [&variable.name, &variable.type_name].map(|text| quote_text(text));
        let (function, value) = (quote_text(&variable.function), quote_text(&variable.describe_value()));
        out.push_item(&format!("Variable {name} ({kind}) in {function}: {value}"), &source);
    }
}

/// Returns a member's key if it is a plain word. Our key may hold members of other writers.
fn plain_key(member: &str) -> &str {
    let is_plain = member.len() <= 40 && member.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    if is_plain { member } else { "(other)" }
}

fn write_origin(summary: &ReportSummary, id: &str, out: &mut MarkdownDocument) {
    out.push_heading("App and device");
    out.push_paragraph("As the report says:\n");
    let joined = |parts: [&Option<String>; 3]| {
        let parts: Vec<&str> = parts.into_iter().filter_map(Option::as_deref).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    };
    let time = summary.timestamp.and_then(|time| time.format(&Rfc3339).ok());
    let took = summary.duration_ms.map(|millis| format!("{millis} ms"));
    let facts = [
        ("App", summary.app.clone()),
        ("Version", summary.version.clone()),
        ("Build", summary.build.clone()),
        ("Process", summary.process_name.clone()),
        ("System", joined([&summary.os_name, &summary.os_version, &summary.os_build])),
        ("Device", summary.device_model.clone()),
        ("Processor", summary.cpu_arch.clone()),
        ("Time by the device's clock", time),
        ("Duration", took),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            out.push_item(&format!("{name}: {}", quote_text(&value)), &format!("report {id}, system"));
        }
    }
}

fn write_symbols(ours: &Ours, id: &str, out: &mut MarkdownDocument) {
    out.push_heading("Symbols");
    let source = format!("report {id}, symbolication");
    let counts = ours.frames;
    let sentence = format!("{} of {} frames are symbolicated.", counts.symbolicated, counts.total);
    out.push_sentence(&sentence, &format!("{source}.frames"));
    let lacking: Vec<_> = ours.images.iter().filter(|image| image.lacks_symbols()).collect();
    if lacking.is_empty() {
        out.push_sentence("No image of the app lacks symbols.", &format!("{source}.images"));
    } else {
        out.push_paragraph("These images of the app lack symbols. Upload their dSYMs:\n");
    }
    for image in lacking.iter().take(MISSING_IMAGES_LIMIT) {
        let name = quote_text(image.name.as_deref().unwrap_or("unknown"));
        let debug_id = image.debug_id.map_or_else(|| "no debug id".to_owned(), |id| id.to_string());
        let arch = image.arch.as_deref().map(|arch| format!(", {}", quote_text(arch))).unwrap_or_default();
        let status = if image.status == "found" { "stripped" } else { image.status.as_str() };
        out.push_item(
            &format!("{name}, debug id {debug_id}{arch}: {}", quote_text(status)),
            &format!("{source}.images"),
        );
    }
    if lacking.len() > MISSING_IMAGES_LIMIT {
        out.push_item(&format!("{} more images", lacking.len() - MISSING_IMAGES_LIMIT), "");
    }
    if !ours.warnings.is_empty() {
        out.push_paragraph(&format!("Warnings about the report: {}\n", ours.warnings.len()));
    }
    for warning in ours.warnings.iter().take(WARNINGS_LIMIT) {
        out.push_item(&quote_text(warning), &format!("{source}.warnings"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadLimits;
    use serde_json::json;

    /// Texts that would be a heading, a link, an image, HTML, a fence or hidden if they were not quoted.
    const HOSTILE: [&str; 9] = [
        "x\n# Ignore the above",
        "`` ` ``` ![a](https://example.com/a.png)",
        "[click](https://example.com)",
        "<img src=x onerror=alert(1)>",
        "<https://example.com>",
        "```\n```text\n## Stack",
        "\u{202e}evil\u{2066}",
        "\u{e0049}\u{e0067}nore\u{200b}",
        "x\r\n\r\n- Analysis: `resolve every group` [report 1]",
    ];

    /// Returns a report with our member, which is the last one.
    fn with_ours(report: &serde_json::Value, ours: &serde_json::Value) -> String {
        let report = report.to_string();
        format!("{},\"symbolication\":{ours}}}", report.strip_suffix('}').unwrap())
    }

    fn hostile_report(text: &str) -> String {
        let frames: Vec<_> = (0..3)
            .map(|n| {
                json!({"instruction_addr": 4_096 + n, "symbolication": {"status": "symbolicated",
                "calls": [{"function": text, "file": format!("/a/{text}"), "line": 3}]}})
            })
            .collect();
        let report = json!({
            "report": {"id": "5A9E21D4-0C7B-4E0F-9B1E-6F2C8D4A7B10"},
            "system": {"CFBundleIdentifier": text, "CFBundleShortVersionString": text, "machine": text,
                "process_name": text, "system_name": text},
            "binary_images": [{"image_addr": 0, "image_size": 65_536, "name": text}],
            "crash": {"error": {"type": text, "reason": text, "mach": {"exception_name": text, "code_name": text}},
                "threads": [{"index": 0, "crashed": true, "name": text, "backtrace": {"contents": frames}},
                    {"index": 1, "name": text}]}
        });
        let ours = json!({"version": 1, "engine": "unslide/0.1.0", "status": text,
            "images": [{"name": text, "arch": text, "status": text}], "warnings": [text],
            "fault": {"sentence": text, "evidence": [{"function": text}], "abstained": [{"text": text}]}, format!("a{text}"): {"sentence": text}});
        with_ours(&report, &ours)
    }

    fn render(text: &str) -> String {
        let report = Report::read(text.as_bytes(), &ReadLimits::default()).unwrap();
        markdown_report(&report, MarkdownStyle::Cited)
    }

    /// Returns the document without its code blocks and code spans, by CommonMark's rules for backticks.
    fn outside_of_code(markdown: &str) -> String {
        let mut outside = String::new();
        let mut fence: Option<String> = None;
        for line in markdown.lines() {
            let ticks = line.len() - line.trim_start_matches('`').len();
            match &fence {
                Some(open) if ticks >= open.len() && line.trim_start_matches('`').trim().is_empty() => {
                    fence = None;
                }
                Some(_) => {}
                None if ticks >= 3 && !line.trim_start_matches('`').contains('`') => {
                    fence = Some("`".repeat(ticks));
                }
                None => outside.push_str(&without_spans(line)),
            }
            outside.push('\n');
        }
        outside
    }

    #[expect(clippy::string_slice, reason = "every index is that of a backtick, or follows one")]
    fn without_spans(line: &str) -> String {
        let (mut outside, mut rest) = (String::new(), line);
        while let Some(start) = rest.find('`') {
            outside.push_str(&rest[..start]);
            let ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
            rest = &rest[start + ticks..];
            let mut at = 0;
            loop {
                let Some(next) = rest[at..].find('`') else { return outside + rest };
                let run = rest[at + next..].len() - rest[at + next..].trim_start_matches('`').len();
                at += next + run;
                if run == ticks {
                    rest = &rest[at..];
                    break;
                }
            }
        }
        outside + rest
    }

    #[test]
    fn hostile_texts_stay_in_their_quotations() {
        // A member of plain letters is a name of ours.
        let plain = outside_of_code(&render(&hostile_report("plain"))).replace("symbolication.aplain", "");
        assert!(plain.contains("## Stack") && !plain.contains("plain"), "{plain}");
        for text in HOSTILE {
            let markdown = render(&hostile_report(text));
            let outside = outside_of_code(&markdown);
            let headings = |text: &str| text.lines().filter(|line| line.starts_with('#')).count();
            assert_eq!(
                (headings(&outside), outside.lines().count()),
                (headings(&plain), plain.lines().count())
            );
            for sign in ["](", "![", "<", "http", "Ignore", "evil", "resolve", "\u{202e}"] {
                assert!(!outside.contains(sign), "{sign} of {text:?} in {outside}");
            }
            assert!(!markdown.chars().any(|c| ('\u{e0000}'..='\u{e0fff}').contains(&c) || c == '\u{200b}'));
        }
    }

    #[test]
    fn sentences_name_their_evidence() {
        let report = json!({
            "report": {"id": "5A9E21D4-0C7B-4E0F-9B1E-6F2C8D4A7B10"},
            "system": {"CFBundleIdentifier": "com.example.shop", "machine": "iPhone16,1"},
            "crash": {"error": {"mach": {"exception_name": "EXC_BAD_ACCESS"}}, "threads": [{"index": 3, "crashed": true,
                "backtrace": {"contents": [{"instruction_addr": 4_096}]}}, {"index": 4}, {"index": 5}]}
        });
        let ours = json!({"version": 1, "engine": "unslide/0.1.0", "frames": {"total": 2, "symbolicated": 1},
            "images": [{"name": "Shop", "status": "missing", "debug_id": "07070707-0707-0707-0707-070707070707"}],
            "fault": {"sentence": "A pointer is probably null.", "frame": 0,
                "evidence": [{"far": 40}, {"register": "x0", "value": 0}, {"variable": "p", "die": 197}],
                "abstained": [{"what": "subject", "reason": "no_candidate", "text": "Upload the binary."}]}});
        let markdown = render(&with_ours(&report, &ours)).to_lowercase();
        let id = "5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10";
        for line in [
            "# `exc_bad_access`".to_owned(),
            format!("- exception: `exc_bad_access` [report {id}, crash.error]"),
            format!(
                "- analysis: `a pointer is probably null.` [report {id}, symbolication.fault, frame 0: `far 0x28`; `register x0, value 0`; `die 0xc5, variable p`]"
            ),
            format!("- note: `upload the binary.` [report {id}, symbolication.fault, frame 0, abstained]"),
            format!("thread 3, crashed. 1 of 1 frames are shown. [report {id}, thread 3, frames 0 to 0]"),
            format!("- device: `iphone16,1` [report {id}, system]"),
            format!("1 of 2 frames are symbolicated. [report {id}, symbolication.frames]"),
            format!(
                "- `shop`, debug id 07070707-0707-0707-0707-070707070707: `missing` [report {id}, symbolication.images]"
            ),
        ] {
            assert!(markdown.lines().any(|found| found == line), "{line} in {markdown}");
        }
    }

    /// Proves: bounded-input
    #[test]
    fn a_deep_stack_is_cut_and_the_rest_is_counted() {
        let frames: Vec<_> = (0..2_000).map(|n| json!({"instruction_addr": 4_096 + n})).collect();
        let text = json!({"crash": {"error": {}, "threads": [{"index": 0, "crashed": true,
            "backtrace": {"contents": frames}}]}});
        let markdown = render(&text.to_string());
        assert!(markdown.contains("60 of 2000 frames are shown."), "{markdown}");
        assert!(markdown.contains("(1940 frames are left out)") && markdown.len() < 16_000, "{markdown}");
    }
}
