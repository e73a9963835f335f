//! The reason of the crash.

use super::document::LogMembers;
use crate::json::JsonBuilder;
use std::collections::HashMap;
use unslide_report::{JsonValue, exception_number, read_signal, signal_number};

/// Parts of the system that end processes, by number from 1.
const NAMESPACES: [&str; 34] = [
    "JETSAM",
    "SIGNAL",
    "CODESIGNING",
    "HANGTRACER",
    "TEST",
    "DYLD",
    "LIBXPC",
    "OBJC",
    "EXEC",
    "SPRINGBOARD",
    "TCC",
    "REPORTCRASH",
    "COREANIMATION",
    "AGGREGATED",
    "RUNNINGBOARD",
    "SKYWALK",
    "SETTINGS",
    "LIBSYSTEM",
    "FOUNDATION",
    "WATCHDOG",
    "METAL",
    "WATCHKIT",
    "GUARD",
    "ANALYTICS",
    "SANDBOX",
    "SECURITY",
    "ENDPOINTSECURITY",
    "PAC_EXCEPTION",
    "BLUETOOTH_CHIP",
    "PORT_SPACE",
    "WEBKIT",
    "BACKLIGHTSERVICES",
    "MEDIA",
    "ROSETTA",
];
/// The maximum size of a message, in bytes.
const MESSAGE_BYTES_LIMIT: usize = 4_096;
/// The maximum number of sentences of a log on its exception.
const WORDS_LIMIT: usize = 8;
/// The maximum number of frames in a printed backtrace.
const PRINTED_FRAMES_LIMIT: usize = 1_024;

/// An exception that was not caught.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Uncaught {
    /// Of Objective-C, with its name if it is known.
    ObjectiveC { name: Option<String>, reason: Option<String> },
    /// Of C++, with its type.
    Cpp { name: String, reason: Option<String> },
}

/// The error of a log.
#[derive(Clone, Debug, Default)]
pub struct IpsError {
    exception: Option<String>,
    signal: Option<String>,
    /// The words behind the signal, such as `Code Signature Invalid`.
    signal_note: Option<String>,
    /// What the log says of the exception and of its address, in sentences.
    words: Vec<String>,
    /// The kernel's notes on what failed, such as `protection class does not allow pagein`.
    kernel_notes: Vec<String>,
    codes: [Option<u64>; 2],
    /// The name of the code, such as `KERN_INVALID_ADDRESS`.
    code_name: Option<String>,
    subtype_address: Option<u64>,
    uncaught: Option<Uncaught>,
    /// The system's reason for ending the process.
    termination: Option<String>,
    exit_code: Option<u64>,
    /// The number of the namespace of `exit_code`, if its meaning matters.
    exit_namespace: Option<u64>,
    /// The type of an event that is no crash.
    event: Option<&'static str>,
}

impl IpsError {
    /// Reads the error from the members of a log.
    pub fn read(body: &LogMembers<'_>) -> IpsError {
        let mut error = IpsError::default();
        if let Some(exception) = body.get("exception") {
            error.read_exception(exception);
        }
        if let Some(termination) = body.get("termination") {
            error.exit_code = termination.get("code").and_then(JsonValue::decimal_unsigned);
            let namespace = termination.get("namespace");
            error.exit_namespace = namespace.and_then(|namespace| {
                namespace.decimal_unsigned().or_else(|| namespace_number(&namespace.decode_string()?))
            });
            error.termination = termination_text(termination);
        }
        error.read_words(body);
        let has_backtrace = !body.items("lastExceptionBacktrace").is_empty();
        error.uncaught = uncaught(body)
            .or_else(|| has_backtrace.then_some(Uncaught::ObjectiveC { name: None, reason: None }));
        error
    }

    fn read_exception(&mut self, exception: JsonValue<'_>) {
        let [kind, signal, raw, codes, subtype] =
            exception.find_members(["type", "signal", "rawCodes", "codes", "subtype"]);
        let string = |value: Option<JsonValue<'_>>| value.and_then(JsonValue::decode_string);
        self.exception = string(kind);
        let signal = string(signal).or_else(|| Some(signal?.as_unsigned()?.to_string())).unwrap_or_default();
        self.signal_note = signal_note(&signal).map(str::to_owned);
        self.signal = read_signal(&signal).or(Some(signal)).filter(|text| !text.is_empty());
        let raw: Vec<u64> = raw.map(JsonValue::items).unwrap_or_default().iter().filter_map(bits).collect();
        let written = string(codes).unwrap_or_default();
        let written: Vec<u64> = written.split(',').filter_map(|code| hexadecimal(code.trim())).collect();
        let codes = if raw.is_empty() { written } else { raw };
        self.codes = [codes.first().copied(), codes.get(1).copied()];
        let subtype = string(subtype).unwrap_or_default();
        let mut words = subtype.split_whitespace();
        self.code_name = words.next().filter(|word| word.starts_with("KERN_")).map(str::to_owned);
        self.subtype_address = words.nth(1).and_then(hexadecimal);
    }

    /// Reads the log's own words: on the exception, on the region of its address, and the kernel's notes.
    fn read_words(&mut self, body: &LogMembers<'_>) {
        let string = |value: Option<JsonValue<'_>>| value.and_then(JsonValue::decode_string);
        let exception = body.get("exception");
        let [message, subtype] =
            exception.map_or([None; 2], |exception| exception.find_members(["message", "subtype"]));
        let region = string(body.get("vmRegionInfo").or_else(|| body.get("vmregioninfo")));
        let words = [string(message), string(subtype)].into_iter().flatten();
        let words = words.chain(region.iter().flat_map(|region| region_words(region)));
        self.words = bounded_words(words);
        let notes = string(body.get("ktriageinfo")).unwrap_or_default();
        self.kernel_notes = bounded_words(notes.lines().map(|note| kernel_note(note).to_owned()));
    }

    /// Sets the type of an event that is no crash.
    pub fn with_event(self, event: Option<&'static str>) -> IpsError {
        IpsError { event, ..self }
    }

    fn kind(&self) -> &'static str {
        if let Some(event) = self.event {
            return event;
        }
        match &self.uncaught {
            Some(Uncaught::ObjectiveC { .. }) => "nsexception",
            Some(Uncaught::Cpp { .. }) => "cpp_exception",
            None => "mach",
        }
    }

    /// Returns the address that could not be used, if the exception has one.
    fn address(&self) -> Option<u64> {
        let is_access = self.exception.as_deref() == Some("EXC_BAD_ACCESS");
        self.codes[1].filter(|_| is_access).or(self.subtype_address)
    }

    pub fn write(&self, json: &mut JsonBuilder) {
        json.object("error", |json| {
            json.string("type", self.kind());
            if self.event.is_some() {
                json.flag("is_fatal", false);
            }
            if let Some(address) = self.address() {
                json.number("address", address);
            }
            json.object("mach", |json| {
                let name = self.exception.as_deref();
                if let Some(number) = name.and_then(exception_number) {
                    json.number("exception", number);
                }
                json.some_string("exception_name", name);
                let [code, subcode] = self.codes;
                for (key, value) in [("code", code), ("subcode", subcode)] {
                    if let Some(value) = value {
                        json.number(key, value);
                    }
                }
                json.some_string("code_name", self.code_name.as_deref());
                for (key, words) in [("words", &self.words), ("kernel_notes", &self.kernel_notes)] {
                    if !words.is_empty() {
                        json.string_array(key, words);
                    }
                }
            });
            if let Some(name) = &self.signal {
                json.object("signal", |json| {
                    if let Some(number) = signal_number(name) {
                        json.number("signal", number);
                    }
                    json.string("name", name);
                    json.some_string("note", self.signal_note.as_deref());
                });
            }
            self.write_reason(json);
            write_exit_reason(self.exit_code, self.exit_namespace, json);
        });
    }

    fn write_reason(&self, json: &mut JsonBuilder) {
        match &self.uncaught {
            Some(Uncaught::ObjectiveC { name, reason }) => {
                json.object("nsexception", |json| json.some_string("name", name.as_deref()));
                json.some_string("reason", reason.as_deref());
            }
            Some(Uncaught::Cpp { name, reason }) => {
                json.object("cpp_exception", |json| json.string("name", name));
                json.some_string("reason", reason.as_deref());
            }
            None => json.some_string("reason", self.termination.as_deref()),
        }
    }
}

/// Writes the member `exit_reason` of an error, if anything is known.
pub fn write_exit_reason(code: Option<u64>, namespace: Option<u64>, json: &mut JsonBuilder) {
    if code.is_none() && namespace.is_none() {
        return;
    }
    json.object("exit_reason", |json| {
        for (key, value) in [("code", code), ("namespace", namespace)] {
            if let Some(value) = value {
                json.number(key, value);
            }
        }
    });
}

/// Returns the number of the part of the system that ended a process, from `<sys/reason.h>`.
pub fn namespace_number(name: &str) -> Option<u64> {
    let name = if name == "ASSERTIOND" { "RUNNINGBOARD" } else { name };
    NAMESPACES.iter().position(|known| *known == name).map(|index| index as u64 + 1)
}

/// Returns the name of the part of the system with a number of `<sys/reason.h>`.
pub fn namespace_name(number: u64) -> Option<&'static str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    NAMESPACES.get(index).copied()
}

/// Returns the words behind the signal in `SIGKILL (Code Signature Invalid)` and `SIGKILL - CODESIGNING`.
pub fn signal_note(text: &str) -> Option<&str> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).filter(|_| text.starts_with("SIG"))?;
    let note = text.get(end..)?.trim_matches(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '-'));
    Some(note).filter(|note| !note.is_empty())
}

fn bounded_words(words: impl Iterator<Item = String>) -> Vec<String> {
    let words = words.map(|words| shortened(words.trim())).filter(|words| !words.is_empty());
    words.take(WORDS_LIMIT).collect()
}

/// Returns a note of the kernel without its component and argument: `protection class does not allow pagein`.
fn kernel_note(line: &str) -> &str {
    let words = line.split_once(" - (arg = ").and_then(|(_, rest)| rest.split_once(") "));
    words.map_or(line, |(_, words)| words)
}

/// Returns what the log says of the region of an address: its first line, and the line of the region, which begins with an
/// arrow.
pub fn region_words(region: &str) -> Vec<String> {
    let lines = region.lines().map(str::trim);
    let first = lines.clone().next();
    let marked = lines.filter_map(|line| line.strip_prefix("--->")).next();
    first.into_iter().chain(marked).map(str::to_owned).collect()
}

fn bits(value: &JsonValue<'_>) -> Option<u64> {
    value.as_number()?.to_bits()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns the system's words about the end: the details, or else the reasons. A signal alone has none.
fn termination_text(termination: JsonValue<'_>) -> Option<String> {
    let [details, reasons, namespace, code, indicator] =
        termination.find_members(["details", "reasons", "namespace", "code", "indicator"]);
    let texts = |list: Option<JsonValue<'_>>| -> Vec<String> {
        let items = list.map(JsonValue::items).unwrap_or_default();
        items
            .into_iter()
            .filter_map(JsonValue::decode_string)
            .filter(|text| !text.trim().is_empty())
            .collect()
    };
    let found = [texts(details), texts(reasons)].into_iter().find(|texts| !texts.is_empty());
    if let Some(found) = found {
        return Some(shortened(&found.join("\n")));
    }
    let namespace = namespace.and_then(JsonValue::decode_string).filter(|name| name != "SIGNAL")?;
    let code = code.and_then(JsonValue::decimal_unsigned);
    let indicator = indicator.and_then(JsonValue::decode_string).filter(|words| !words.trim().is_empty());
    let words = [Some(namespace), code.map(|code| format!("{code:#x}")), indicator];
    Some(shortened(&words.into_iter().flatten().collect::<Vec<_>>().join(" ")))
}

/// Returns the messages that images left, by the name of the image.
pub fn messages(body: &LogMembers<'_>) -> HashMap<String, String> {
    let mut messages = HashMap::new();
    let Some(asi) = body.get("asi") else { return messages };
    asi.each_member(|name, lines| {
        let lines: Vec<String> = lines.items().into_iter().filter_map(JsonValue::decode_string).collect();
        if !lines.is_empty() {
            messages.insert(String::from_utf8_lossy(name).into_owned(), shortened(&lines.join("\n")));
        }
    });
    messages
}

/// Returns the exception that ended the process, from the messages of images.
fn uncaught(body: &LogMembers<'_>) -> Option<Uncaught> {
    let mut found = None;
    body.get("asi")?.each_member(|_, lines| {
        for line in lines.items().into_iter().filter_map(JsonValue::decode_string) {
            let exception = objective_c(&line).or_else(|| cpp(&line));
            // A line with a name says more than one without.
            if exception.is_some() && !matches!(found, Some(Uncaught::ObjectiveC { name: Some(_), .. })) {
                found = exception;
            }
        }
    });
    found
}

/// Reads `*** Terminating app due to uncaught exception 'NAME', reason: 'REASON'`.
fn objective_c(line: &str) -> Option<Uncaught> {
    let (_, rest) = line.split_once("uncaught exception '")?;
    let (name, rest) = rest.split_once('\'')?;
    let reason = rest.strip_prefix(", reason: '").map(|rest| {
        let end = rest.find("'\n").or_else(|| rest.rfind('\'')).unwrap_or(rest.len());
        shortened(rest.get(..end).unwrap_or(rest))
    });
    Some(Uncaught::ObjectiveC { name: Some(shortened(name)), reason })
}

/// Reads `terminating due to uncaught exception of type NAME: REASON`.
fn cpp(line: &str) -> Option<Uncaught> {
    let (_, rest) = line.split_once("uncaught exception of type ")?;
    let (name, reason) = match rest.split_once(": ") {
        Some((name, reason)) => (name, Some(shortened(reason.trim()))),
        None => (rest, None),
    };
    let name = name.trim();
    if name.starts_with("NSException") {
        return Some(Uncaught::ObjectiveC { name: None, reason: None });
    }
    Some(Uncaught::Cpp { name: shortened(name), reason })
}

/// Returns the addresses of the first backtrace that the log holds as text.
pub fn printed_backtrace(body: &LogMembers<'_>) -> Vec<u64> {
    let first = body.items("asiBacktraces").into_iter().next().and_then(JsonValue::decode_string);
    let text = first.unwrap_or_default();
    let address =
        |line: &str| line.split_whitespace().find(|word| word.starts_with("0x")).and_then(hexadecimal);
    text.lines().filter_map(address).take(PRINTED_FRAMES_LIMIT).collect()
}

/// Returns the beginning of a text, at most [`MESSAGE_BYTES_LIMIT`] bytes of it.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(MESSAGE_BYTES_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
