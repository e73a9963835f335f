//! Jetsam logs as text, which iOS up to 8 wrote (`LowMemory…`, `JetsamEvent…`, type 198): pages by their state, and a line for
//! each process. The core reads those in JSON.

use crate::crash_text::split_header;
use crate::identity::text_id;
use crate::json::JsonBuilder;
use unslide_report::reader::{DocumentText, ReportReader, TranslatedReport};
use unslide_report::{ReadError, ReadLimits, device_clock_time};

/// The reader of Jetsam logs that are text.
pub const JETSAM_TEXT_READER: ReportReader =
    ReportReader { name: "jetsam", recognizes: is_jetsam_text, translate: translate_text, parts: None };

/// The bytes at the beginning that are searched.
const HEAD_BYTES: usize = 16 << 10;
/// The line above the processes.
const PROCESSES: &str = "Processes";
/// The page size of the kernels that wrote such logs, in bytes.
const PAGE_BYTES: u64 = 4096;
/// Fields with numbers of pages, and their names in the JSON of later logs.
const PAGE_FIELDS: [(&str, &str); 6] = [
    ("Free pages", "free"),
    ("Active pages", "active"),
    ("Inactive pages", "inactive"),
    ("Throttled pages", "throttled"),
    ("Purgeable pages", "purgeable"),
    ("Wired pages", "wired"),
];
/// The state of a process that the kernel killed, in logs that give no reason.
const KILLED_STATE: &str = "jettisoned";

/// A line about a process: `Shop <UUID> 76543 80000 [vm-pageshortage] (frontmost) (resume)`.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProcessLine<'t> {
    name: &'t str,
    uuid: &'t str,
    /// Pages now, and at most.
    pages: [Option<u64>; 2],
    reason: Option<&'t str>,
    states: Vec<String>,
}

fn is_jetsam_text(document: &[u8]) -> bool {
    let (_, text, _) = split_header(document);
    let head = text.get(..HEAD_BYTES).unwrap_or(text);
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    // The pages stand above the processes.
    lines.any(|line| line.starts_with(b"Free pages:") || line.starts_with(b"Largest process:"))
        && lines.any(|line| line == PROCESSES.as_bytes())
}

fn translate_text(bytes: &[u8], limits: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    let (_, body, _) = split_header(bytes);
    let text = String::from_utf8_lossy(body);
    let (fields, rows) = text.split_once(PROCESSES).unwrap_or((&text, ""));
    let mut processes = Vec::new();
    for process in rows.lines().filter_map(ProcessLine::parse_line) {
        if processes.len() == limits.max_items {
            return Err(ReadError::TooManyItems { offset: bytes.len(), limit: limits.max_items });
        }
        processes.push(process);
    }
    if processes.is_empty() {
        let problem = "this is a Jetsam log as text without a line for a process: it ends too early. Send the whole file";
        return Err(ReadError::Unsupported { problem: problem.to_owned() });
    }
    let find = |name: &str| {
        let value = fields.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim).filter(|value| !value.is_empty())
    };
    let incident = find("Incident Identifier").map_or_else(|| text_id(bytes), str::to_owned);
    let mut json = JsonBuilder::default();
    json.item(|json| {
        json.object("report", |json| {
            json.string("id", &incident);
            let time = find("Date").or_else(|| find("Date/Time"));
            json.some_string("timestamp", time.and_then(device_clock_time).as_deref());
        });
        json.string("incident", &incident);
        for (key, name) in [
            ("crashReporterKey", "CrashReporter Key"),
            ("product", "Hardware Model"),
            ("build", "OS Version"),
            ("largestProcess", "Largest process"),
        ] {
            json.some_string(key, find(name));
        }
        json.object("memoryStatus", |json| {
            json.number("pageSize", PAGE_BYTES);
            json.object("memoryPages", |json| {
                for (name, key) in PAGE_FIELDS {
                    if let Some(pages) = find(name).and_then(|pages| pages.parse().ok()) {
                        json.number(key, pages);
                    }
                }
            });
        });
        json.array("processes", |json| {
            processes.iter().for_each(|process| json.item(|json| process.write_members(json)));
        });
    });
    let text = Some(DocumentText::from_lines(Vec::new()));
    Ok(TranslatedReport { json: json.into_bytes(), text, ..TranslatedReport::default() })
}

impl<'t> ProcessLine<'t> {
    /// Reads a line. Returns `None` for a line about anything else, such as the names of the columns.
    fn parse_line(line: &'t str) -> Option<ProcessLine<'t>> {
        let (name, rest) = line.split_once('<')?;
        let (uuid, rest) = rest.split_once('>')?;
        let digits = uuid.bytes().filter(u8::is_ascii_hexdigit).count();
        if digits != 32 || !uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
            return None;
        }
        let mut process = ProcessLine { name: name.trim(), uuid, ..ProcessLine::default() };
        let mut numbers = Vec::new();
        for word in rest.split_whitespace() {
            let inside = |open, close| word.strip_prefix(open)?.strip_suffix(close);
            if let Some(reason) = inside('[', ']') {
                process.reason = Some(reason).filter(|reason| !reason.is_empty());
            } else if let Some(state) = inside('(', ')') {
                process.states.push(state.to_owned());
            } else {
                numbers.extend(word.parse::<u64>().ok());
            }
        }
        process.pages = [numbers.first().copied(), numbers.get(1).copied()];
        let killed = process.states.iter().any(|state| state == KILLED_STATE);
        process.reason = process.reason.or(killed.then_some(KILLED_STATE));
        Some(process)
    }

    fn write_members(&self, json: &mut JsonBuilder) {
        json.string("name", self.name);
        json.string("uuid", self.uuid);
        for (key, pages) in ["rpages", "lifetimeMax"].into_iter().zip(self.pages) {
            if let Some(pages) = pages {
                json.number(key, pages);
            }
        }
        json.string_array("states", &self.states);
        json.some_string("reason", self.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_a_line_with_a_uuid() {
        let uuid = "0123456789abcdef0123456789abcdef";
        let read = |rest: &str| {
            let line = format!("      My Shop <{uuid}>  {rest}");
            let process = ProcessLine::parse_line(&line).unwrap();
            let reason = process.reason.map(str::to_owned);
            (process.name.to_owned(), process.pages, reason, process.states)
        };
        let name = || "My Shop".to_owned();
        let states = |states: &[&str]| states.iter().map(|state| (*state).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            read("76543  80000  100  [vm-pageshortage]  (frontmost) (resume)"),
            (
                name(),
                [Some(76_543), Some(80_000)],
                Some("vm-pageshortage".to_owned()),
                states(&["frontmost", "resume"])
            )
        );
        assert_eq!(
            read("10523 (jettisoned) (active)"),
            (name(), [Some(10_523), None], Some("jettisoned".to_owned()), states(&["jettisoned", "active"]))
        );
        assert_eq!(read("[] (daemon)"), (name(), [None; 2], None, states(&["daemon"])));
        for other in ["Name <UUID> rpages [reason] (state)", "**End**", "", "a <0123> 1"] {
            assert!(ProcessLine::parse_line(other).is_none(), "{other}");
        }
    }
}
