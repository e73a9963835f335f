//! The kind of event for which an app's own monitor took a backtrace.

use unslide_report::JsonValue;

/// Names of members with the kind, in the order of their precedence, in lower case and without `_` and `-`.
const KIND_NAMES: [&str; 9] = [
    "monitortype",
    "monitor",
    "eventtype",
    "issuetype",
    "exceptiontype",
    "errortype",
    "type",
    "event",
    "kind",
];
/// The maximum depth at which members are searched, and their number.
const DEPTH_LIMIT: usize = 4;
const MEMBERS_LIMIT: usize = 1_024;
/// The maximum size of a kind, in bytes.
const KIND_BYTES_LIMIT: usize = 64;

/// A kind of event, as an app's monitor names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorKind {
    Crash,
    Hang,
    Cpu,
    DiskWrite,
    Launch,
    /// An event of another kind. The app goes on.
    Other,
}

impl MonitorKind {
    /// Finds the kind of the event that an object is about. Returns `None` if no member says it.
    pub fn from_object(object: JsonValue<'_>) -> Option<MonitorKind> {
        let mut found: [Option<MonitorKind>; KIND_NAMES.len()] = [None; KIND_NAMES.len()];
        let mut left = MEMBERS_LIMIT;
        let mut level = vec![object];
        for _ in 0..DEPTH_LIMIT {
            let mut below = Vec::new();
            for object in level {
                object.each_member(|name, value| {
                    if left == 0 {
                        return;
                    }
                    left -= 1;
                    if value.is_object() {
                        below.push(value);
                    } else if let Some(slot) = position_of_name(name).and_then(|at| found.get_mut(at)) {
                        *slot = slot.or_else(|| MonitorKind::from_word(&value.decode_string()?));
                    }
                });
            }
            level = below;
        }
        found.into_iter().flatten().next()
    }

    /// Reads a kind such as `CPU`, `main_thread_stall` or `crash`. Returns `None` for an empty or a long text.
    fn from_word(word: &str) -> Option<MonitorKind> {
        const KIND_WORDS: [(MonitorKind, &[&str]); 5] = [
            (
                MonitorKind::Hang,
                &["stall", "hang", "lag", "block", "freez", "anr", "stuck", "watchdog", "jank", "deadlock"],
            ),
            (MonitorKind::Cpu, &["cpu", "power", "energy", "battery"]),
            (MonitorKind::DiskWrite, &["disk"]),
            (MonitorKind::Launch, &["launch", "startup"]),
            (MonitorKind::Crash, &["crash", "exception", "signal", "fatal", "abort"]),
        ];
        let word = word.trim();
        if word.is_empty() || word.len() > KIND_BYTES_LIMIT {
            return None;
        }
        let words = split_words(word);
        let is_named = |part: &str| words.iter().any(|word| names_part(word, part));
        let named = KIND_WORDS.iter().find(|(_, parts)| parts.iter().any(|part| is_named(part)));
        Some(named.map_or(MonitorKind::Other, |(kind, _)| *kind))
    }

    /// Returns the `crash.error.type` of a report about such an event. Returns `None` for a crash: its exception says it.
    pub fn error_type(self) -> Option<&'static str> {
        Some(match self {
            MonitorKind::Crash => return None,
            MonitorKind::Hang => "hang",
            MonitorKind::Cpu => "cpu",
            MonitorKind::DiskWrite => "disk_write",
            MonitorKind::Launch => "launch",
            MonitorKind::Other => "user",
        })
    }
}

/// Splits `main_thread_stall` and `MainThreadStall` into words in lower case.
fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in text.chars() {
        if !letter.is_alphanumeric() || was_lower && letter.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    words
}

/// Returns true if a word begins with a part of a kind, or ends with it if it is long: `flag` is no lag.
fn names_part(word: &str, part: &str) -> bool {
    const LONG_PART_BYTES: usize = 5;
    word.starts_with(part) || part.len() >= LONG_PART_BYTES && word.ends_with(part)
}

fn position_of_name(name: &[u8]) -> Option<usize> {
    let plain: Vec<u8> =
        name.iter().filter(|byte| !matches!(byte, b'_' | b'-')).map(u8::to_ascii_lowercase).collect();
    KIND_NAMES.iter().position(|known| known.as_bytes() == plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::ReadLimits;

    fn read(json: &str) -> Option<MonitorKind> {
        MonitorKind::from_object(JsonValue::read(json.as_bytes(), 0, &ReadLimits::default()).unwrap().0)
    }

    #[test]
    fn the_monitor_of_an_object_says_the_kind() {
        for (json, expected) in [
            (r#"{"MONITOR_TYPE":"CPU"}"#, Some(MonitorKind::Cpu)),
            (r#"{"type":"x","detail":{"monitorType":"MAIN_THREAD_STALL"}}"#, Some(MonitorKind::Hang)),
            (r#"{"event-type":"lag"}"#, Some(MonitorKind::Hang)),
            (r#"{"type":"anr"}"#, Some(MonitorKind::Hang)),
            (r#"{"TYPE":"battery"}"#, Some(MonitorKind::Cpu)),
            (r#"{"kind":"slow startup"}"#, Some(MonitorKind::Launch)),
            (r#"{"monitor":"crash"}"#, Some(MonitorKind::Crash)),
            (r#"{"type":"FPS"}"#, Some(MonitorKind::Other)),
            (r#"{"type":"mainthreadstall"}"#, Some(MonitorKind::Hang)),
            (r#"{"type":"stateChanged"}"#, Some(MonitorKind::Other)),
            (r#"{"type":"flag"}"#, Some(MonitorKind::Other)),
            (r#"{"type":7,"kind":""}"#, None),
            (r#"{"LEVEL":"fatal"}"#, None),
            ("[]", None),
        ] {
            assert_eq!(read(json), expected, "{json}");
        }
        assert_eq!(MonitorKind::Crash.error_type(), None);
    }
}
