//! The two JSON texts of a log, and the bytes around them.

use unslide_report::{JsonValue, ReadError, ReadLimits, Text};

/// The maximum size of a header, in bytes. Real ones have about half a KiB.
const HEADER_BYTES_LIMIT: usize = 16 << 10;
/// The beginnings of keys with which reports of KSCrash begin. No log begins with one of them.
const KSCRASH_KEYS: [&[u8]; 9] = [
    b"report\"",
    b"crash\"",
    b"binary_images\"",
    b"process\"",
    b"system\"",
    b"system_atcrash\"",
    b"user\"",
    b"debug\"",
    b"recrash_report\"",
];
/// The types of logs that hold a crash: now, before JSON, and a simulated one.
const CRASH_TYPES: [&str; 3] = ["309", "109", "308"];
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// The members of a header and a body that are read.
const KEYS: [&str; 31] = [
    "app_name",
    "app_version",
    "asi",
    "asiBacktraces",
    "build_version",
    "bundleID",
    "bundleInfo",
    "captureTime",
    "cpuType",
    "crashReporterKey",
    "exception",
    "faultingThread",
    "incident",
    "incident_id",
    "ktriageinfo",
    "lastExceptionBacktrace",
    "modelCode",
    "osVersion",
    "os_version",
    "parentPid",
    "pid",
    "procName",
    "procPath",
    "slice_uuid",
    "termination",
    "threads",
    "timestamp",
    "translated",
    "usedImages",
    "vmRegionInfo",
    "vmregioninfo",
];

/// The members of an object that are read, found in one pass.
#[derive(Clone, Copy, Debug)]
pub struct LogMembers<'a>([Option<JsonValue<'a>>; KEYS.len()]);

/// The header and the crash of one log.
#[derive(Clone, Copy, Debug)]
pub struct IpsDocument<'a> {
    /// The members of the header, if the log has one of its own. A collector may have left it out, or merged it into the
    /// body.
    header: Option<LogMembers<'a>>,
    /// The object that holds the crash.
    pub object: JsonValue<'a>,
    /// The members of the crash.
    pub body: LogMembers<'a>,
}

impl<'a> LogMembers<'a> {
    fn read(object: JsonValue<'a>) -> LogMembers<'a> {
        LogMembers(object.find_members(KEYS))
    }

    /// Returns a member, or `None` if it is absent.
    pub fn get(&self, key: &str) -> Option<JsonValue<'a>> {
        let position = KEYS.iter().position(|known| *known == key)?;
        *self.0.get(position)?
    }

    /// Returns the items of an array, or none.
    pub fn items(&self, key: &str) -> Vec<JsonValue<'a>> {
        self.get(key).map(JsonValue::items).unwrap_or_default()
    }
}

/// Returns true if a JSON text begins like a report of KSCrash.
pub fn is_kscrash(start: &[u8]) -> bool {
    let key = first_key(start).unwrap_or_default();
    KSCRASH_KEYS.iter().any(|known| key.starts_with(known))
}

/// Returns the text from the first key of an object on.
fn first_key(start: &[u8]) -> Option<&[u8]> {
    start.strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")
}

/// Returns true if a document begins like a log. A log of memory shortage is none: the core reads it.
pub fn is_ips(bytes: &[u8]) -> bool {
    let start = bytes.strip_prefix(MARK).unwrap_or(bytes).trim_ascii_start();
    if first_key(start).is_none() || is_kscrash(start) {
        return false;
    }
    let head = start.get(..HEADER_BYTES_LIMIT).unwrap_or(start);
    let end = head.iter().position(|byte| *byte == b'\n').unwrap_or(head.len());
    let (line, rest) = head.split_at_checked(end).unwrap_or((head, &[]));
    if let Ok((header, _)) = JsonValue::read(line, 0, &ReadLimits::default())
        && header.get("bug_type").is_some()
    {
        return !matches!(bug_type(header).as_deref(), Some("298" | "198"));
    }
    let names = |key: &[u8]| find(line, key) || find(rest, key);
    names(b"\"procName\"") && names(b"\"incident\"") && !names(b"\"memoryStatus\"")
        || names(b"\"usedImages\"")
        || names(b"\"captureTime\"") && names(b"\"procPath\"")
}

fn find(bytes: &[u8], key: &[u8]) -> bool {
    bytes.windows(key.len()).any(|window| window == key)
}

impl<'a> IpsDocument<'a> {
    /// Reads the texts of a log.
    ///
    /// # Errors
    /// Returns [`ReadError`] if a text is no JSON or exceeds a limit, or if the log holds no crash.
    pub fn read(bytes: &'a [u8], limits: &ReadLimits) -> Result<IpsDocument<'a>, ReadError> {
        let begin = if bytes.starts_with(MARK) { MARK.len() } else { 0 };
        let (first, end) = JsonValue::read(bytes, begin, limits)?;
        if has_crash(first) {
            check_rest(bytes, end)?;
            return Ok(IpsDocument { header: None, object: first, body: LogMembers::read(first) });
        }
        let kind = bug_type(first);
        let rest = bytes.get(end..).unwrap_or_default();
        if !rest.trim_ascii_start().starts_with(b"{") {
            return Err(no_crash(kind.as_deref(), rest.trim_ascii().is_empty()));
        }
        let (body, end) = JsonValue::read(bytes, end, limits)?;
        if !has_crash(body) {
            return Err(no_crash(kind.as_deref(), false));
        }
        check_rest(bytes, end)?;
        let header = Some(LogMembers::read(first));
        Ok(IpsDocument { header, object: body, body: LogMembers::read(body) })
    }

    /// Returns a string of the header, or else of the body, without the white space around it.
    pub fn text(&self, key: &str) -> Option<String> {
        let text = |members: &LogMembers<'a>| {
            let text = members.get(key)?.decode_string()?.trim().to_owned();
            Some(text).filter(|text| !text.is_empty())
        };
        self.header.as_ref().and_then(text).or_else(|| text(&self.body))
    }
}

/// Returns true if an object has the threads of a crash.
fn has_crash(object: JsonValue<'_>) -> bool {
    let [threads, images, exception] = object.find_members(["threads", "usedImages", "exception"]);
    threads.is_some() && (images.is_some() || exception.is_some())
}

/// Refuses a further JSON text behind the crash. Other text belongs to the log, such as the profile of the system.
fn check_rest(bytes: &[u8], end: usize) -> Result<(), ReadError> {
    let rest = bytes.get(end..).unwrap_or_default();
    let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0).count();
    match rest.get(blank) {
        Some(b'{' | b'[' | b'"' | b',' | b'}' | b']') => {
            Err(ReadError::NotJson { offset: end + blank, expected: "the end of the log" })
        }
        _ => Ok(()),
    }
}

/// Returns the type in a header: a text, or a number in old logs.
fn bug_type(header: JsonValue<'_>) -> Option<String> {
    let value = header.get("bug_type")?;
    value.as_text().map(Text::decode).map(Into::into).or_else(|| Some(value.as_unsigned()?.to_string()))
}

/// Returns the error for a log without a crash.
fn no_crash(kind: Option<&str>, is_header_only: bool) -> ReadError {
    let kind = kind.unwrap_or("unknown");
    let name = match kind {
        "288" => "a stackshot",
        "210" | "110" => "a kernel panic",
        "222" | "223" | "228" | "328" => "a hang",
        "185" | "385" | "22" | "227" | "327" => "a resource limit",
        "202" | "206" => "CPU usage",
        "142" => "CPU wake-ups",
        "145" => "disk writes",
        "154" => "a memory graph",
        _ => "another event",
    };
    let problem = if is_header_only && CRASH_TYPES.contains(&kind) {
        "this is the header of an Apple log (.ips) without the crash after it: send the whole file".to_owned()
    } else if CRASH_TYPES.contains(&kind) {
        format!(
            "this is an Apple log (.ips) of type {kind} without `threads` in a JSON text: it holds no crash that can be \
             symbolicated"
        )
    } else {
        format!("this is an Apple log (.ips) of type {kind}, {name}: only crashes, type 309, are read")
    };
    ReadError::Unsupported { problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_recognised_by_its_header_or_its_body() {
        for log in [
            "{\"app_name\":\"a\",\"bug_type\":\"309\"}\n{\"threads\":[]}",
            "\u{FEFF}{\"bug_type\":309}\n{}",
            "{\"app_name\":\"x{cte\\\"st\",\"bug_type\":\"109\"}\r\nIncident Identifier: 1",
            "{\n  \"uptime\" : 1,\n  \"procName\" : \"a\",\n  \"incident\" : \"1\"\n}",
            "{\"usedImages\":[],\"threads\":[]}",
            "{\"name\":\"a\",\"bug_type\":\"288\"}\n{}",
        ] {
            assert!(is_ips(log.as_bytes()), "{log}");
        }
        for other in [
            "{\"report\":{\"bug_type\":\"309\"}}",
            "{ \"crash\":{},\"usedImages\":[]}",
            "{\"bug_type\":\"298\"}\n{\"memoryStatus\":{}}",
            "{\"bug_type\":198}\n{\"memoryStatus\":{}}",
            "{\"memoryStatus\":{},\"incident\":\"1\"}",
            "[{\"bug_type\":\"309\"}]",
            "",
            "{",
            "{}",
            "Incident Identifier: 1",
        ] {
            assert!(!is_ips(other.as_bytes()), "{other}");
        }
    }
}
