//! Crash reports in formats that are not read, so that the error says what a document is and what to do instead.

use unslide_report::reader::{ReportReader, TranslatedReport};
use unslide_report::{JsonValue, ReadError, ReadLimits};

/// The reader that refuses other formats by name.
pub const OTHER_FORMATS_READER: ReportReader = ReportReader {
    name: "other",
    recognizes: |document| OtherFormat::from_document(document).is_some(),
    translate: refuse_document,
    parts: None,
};

/// The bytes at the beginning that are searched.
const HEAD_BYTES: usize = 4 << 10;
/// Lines of a text that are searched.
const HEAD_LINES: usize = 64;

/// A format that is known and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherFormat {
    PlCrashReporter,
    Minidump,
    Tombstone,
    JavaTrace,
    SentryEnvelope,
    ThirdPartyText,
    PropertyList,
    ElfCore,
    MachO,
    Zip,
}

impl OtherFormat {
    /// Returns the format of a document by its first bytes.
    fn from_document(document: &[u8]) -> Option<OtherFormat> {
        const MAGICS: [(&[u8], OtherFormat); 8] = [
            (b"plcrash", OtherFormat::PlCrashReporter),
            (b"MDMP", OtherFormat::Minidump),
            (b"bplist0", OtherFormat::PropertyList),
            (b"\x7FELF", OtherFormat::ElfCore),
            (b"\xCF\xFA\xED\xFE", OtherFormat::MachO),
            (b"\xCE\xFA\xED\xFE", OtherFormat::MachO),
            (b"\xCA\xFE\xBA\xBE", OtherFormat::MachO),
            (b"PK\x03\x04", OtherFormat::Zip),
        ];
        let magic = MAGICS.iter().find(|(magic, _)| document.starts_with(magic));
        if let Some((_, format)) = magic {
            return Some(*format);
        }
        let head = document.get(..HEAD_BYTES).unwrap_or(document).trim_ascii_start();
        match head.first() {
            Some(b'{') => is_envelope(head).then_some(OtherFormat::SentryEnvelope),
            Some(b'[' | b'"') | None => None,
            _ => OtherFormat::find_text(head),
        }
    }

    fn find_text(head: &[u8]) -> Option<OtherFormat> {
        let lines = || head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).take(HEAD_LINES);
        let begins = |marks: &[&[u8]]| lines().any(|line| marks.iter().any(|mark| line.starts_with(mark)));
        if begins(&[b"*** *** *** ***", b"Build fingerprint:", b"ABI: 'arm"]) {
            return Some(OtherFormat::Tombstone);
        }
        if begins(&[b"FATAL EXCEPTION:", b"java.lang.", b"Caused by: java.", b"----- pid "]) {
            return Some(OtherFormat::JavaTrace);
        }
        begins(&[b"Application received signal ", b"dSYM UUID:"]).then_some(OtherFormat::ThirdPartyText)
    }

    /// Returns what the document is and what to do.
    fn describe_problem(self) -> &'static str {
        match self {
            OtherFormat::PlCrashReporter => {
                "this is a report of PLCrashReporter (.plcrash), which is not read: convert it with `plcrashutil convert \
                 --format=iphone` and send the text"
            }
            OtherFormat::Minidump => {
                "this is a minidump, which is not read: Unslide reads reports of Apple's systems, as KSCrash, MetricKit and the system \
                 write them"
            }
            OtherFormat::Tombstone => {
                "this is a tombstone of Android, which is not read: Unslide reads reports of Apple's systems"
            }
            OtherFormat::JavaTrace => {
                "this is a stack trace of Java, which is not read: Unslide reads reports of Apple's systems"
            }
            OtherFormat::SentryEnvelope => {
                "this is an envelope of Sentry's clients, which is not read: install KSCrash in the app, or send the crash log of the \
                 system (.ips or .crash)"
            }
            OtherFormat::ThirdPartyText => {
                "this text has no binary images, so it is not an Apple crash log: send the log of the system (.ips or .crash), or \
                 what KSCrash writes"
            }
            OtherFormat::PropertyList => {
                "this is a binary property list, such as a memory graph (.memgraph), and no report: send the log of the system (.ips \
                 or .crash)"
            }
            OtherFormat::ElfCore => {
                "this is an ELF file, and no report: Unslide reads reports of Apple's systems"
            }
            OtherFormat::MachO => {
                "this is a Mach-O file, and no report: pass it as symbols (`--symbols`, or `unslide upload`)"
            }
            OtherFormat::Zip => {
                "this is a zip archive inside of another document: `unslide symbolicate`, `POST /v1/reports` and `POST /i/{key}` take an \
                 archive alone"
            }
        }
    }
}

/// Returns true for a line of JSON about an event of Sentry's, with a further line about its first item.
fn is_envelope(head: &[u8]) -> bool {
    let inside = head.get(1..).unwrap_or_default().trim_ascii_start();
    if ![&b"\"event_id\""[..], b"\"sent_at\"", b"\"dsn\"", b"\"sdk\""]
        .iter()
        .any(|key| inside.starts_with(key))
    {
        return false;
    }
    let mut lines = head.split(|byte| *byte == b'\n');
    let second = lines.nth(1).unwrap_or_default().trim_ascii();
    let item = JsonValue::read(second, 0, &ReadLimits::default());
    item.is_ok_and(|(item, _)| item.is_object() && item.get("type").is_some())
}

fn refuse_document(bytes: &[u8], _: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    let problem =
        OtherFormat::from_document(bytes).map_or("this is no report", OtherFormat::describe_problem);
    Err(ReadError::Unsupported { problem: problem.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_named_with_what_to_do() {
        for (document, named) in [
            (&b"plcrash\x01"[..], "plcrashutil convert"),
            (b"MDMP\x93\xA7", "a minidump"),
            (b"*** *** *** *** *** ***\nBuild fingerprint: 'x'\n", "tombstone"),
            (b"E AndroidRuntime\nFATAL EXCEPTION: main\n", "Java"),
            (b"{\"event_id\":\"1\",\"dsn\":\"x\"}\n{\"type\":\"event\"}\n{}", "Sentry"),
            (b"Application received signal SIGSEGV\n(null)\n", "no binary images"),
            (b"bplist00", "property list"),
            (b"PK\x03\x04", "zip archive"),
            (b"\xCF\xFA\xED\xFE", "Mach-O"),
        ] {
            let error = refuse_document(document, &ReadLimits::default()).unwrap_err().to_string();
            assert!((OTHER_FORMATS_READER.recognizes)(document) && error.contains(named), "{error}");
        }
        for document in
            [&b"{\"event_id\":\"1\"}"[..], b"{\"report\":{}}", b"", b"[", b"Incident Identifier: 1\n"]
        {
            assert!(!(OTHER_FORMATS_READER.recognizes)(document), "{document:?}");
        }
    }
}
