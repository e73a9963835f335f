//! The reason of a crash, from the fields of a text.

use super::frame_line::parse_hex;
use super::sections::TextLog;
use crate::ips::signal_note;
use crate::json::JsonBuilder;
use unslide_report::read_signal;

/// The exception type of old watchdogs.
const WATCHDOG_TYPE: &str = "00000020";
/// The code of a watchdog that ended the process.
const WATCHDOG_CODE: u64 = 0x8BAD_F00D;

/// The exception and the termination of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextException {
    kind: Option<String>,
    signal: Option<String>,
    /// Numbers, as the text lists them.
    codes: Vec<u64>,
    /// The words behind the signal, such as `Code Signature Invalid`.
    signal_note: Option<String>,
    /// A name and an address, such as `KERN_INVALID_ADDRESS at 0x0`.
    subtype: Option<String>,
    namespace: Option<String>,
    code: Option<u64>,
    /// The system's words behind the namespace and the code, such as `Invalid Page`.
    indicator: Option<String>,
    /// The log's own words on the exception.
    message: Option<String>,
    details: Option<String>,
}

impl TextException {
    /// Reads the fields about the exception and the termination.
    pub fn from_log(log: &TextLog) -> TextException {
        let mut exception = TextException::default();
        exception.read_type(log.find_field("Exception Type").unwrap_or_default());
        let codes = log.find_field("Exception Codes").unwrap_or_default();
        exception.codes = codes.split([',', ' ']).filter_map(parse_hex).collect();
        let is_name = |text: &&str| text.contains(" at 0x");
        let subtype =
            log.find_field("Exception Subtype").filter(is_name).or_else(|| Some(codes).filter(is_name));
        exception.subtype = subtype.map(|text| text.rsplit(", ").find(is_name).unwrap_or(text).to_owned());
        exception.read_termination(log.find_field("Termination Reason").unwrap_or_default());
        let description =
            log.find_field("Termination Description").or_else(|| log.find_field("Termination Details"));
        exception.details = description.map(str::to_owned);
        exception.message = log.find_field("Exception Message").map(str::to_owned);
        if log.is_backtraces {
            exception.details.get_or_insert_with(|| "backtraces of threads, without an exception".to_owned());
        }
        if exception.kind.as_deref() == Some(WATCHDOG_TYPE) {
            exception.kind = None;
            let code = exception.codes.first().copied();
            exception.code = exception.code.or(code);
            if code == Some(WATCHDOG_CODE) {
                exception.namespace.get_or_insert_with(|| "SPRINGBOARD".to_owned());
            }
        }
        exception
    }

    /// Reads `EXC_CRASH (SIGABRT)`, or one of the two. More text may follow the signal: `SIGKILL (Code Signature Invalid)`.
    fn read_type(&mut self, text: &str) {
        let (kind, signal) = text.split_once(" (").unwrap_or((text, ""));
        let some = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let kind = kind.trim();
        if kind.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("SIG")) {
            self.signal = read_signal(kind);
        } else {
            (self.kind, self.signal) = (some(kind), read_signal(signal));
            self.signal_note = signal_note(signal).and_then(some);
        }
    }

    /// Reads `SIGNAL 6 Abort trap: 6`, or `Namespace SIGNAL, Code 0x6`.
    fn read_termination(&mut self, text: &str) {
        let text = text.strip_prefix("Namespace ").unwrap_or(text);
        let mut words = text.split([' ', ',']).filter(|word| !word.is_empty() && *word != "Code");
        self.namespace = words.next().map(str::to_owned);
        self.code = words.next().and_then(|word| parse_hex(word).or_else(|| word.parse().ok()));
        let rest: Vec<&str> = words.collect();
        self.indicator = Some(rest.join(" ")).filter(|rest| self.code.is_some() && !rest.is_empty());
    }

    /// Writes the members `exception` and `termination`.
    pub fn write_members(&self, json: &mut JsonBuilder) {
        json.object("exception", |json| {
            json.some_string("type", self.kind.as_deref());
            let note = self.signal_note.as_deref();
            let signal = self.signal.as_deref().map(|signal| match note {
                Some(note) => format!("{signal} ({note})"),
                None => signal.to_owned(),
            });
            json.some_string("signal", signal.as_deref());
            json.some_string("message", self.message.as_deref());
            let codes: Vec<String> = self.codes.iter().map(|code| format!("{code:#018x}")).collect();
            json.some_string("codes", Some(&codes.join(", ")));
            json.some_string("subtype", self.subtype.as_deref());
        });
        if self.namespace.is_none() && self.code.is_none() && self.details.is_none() {
            return;
        }
        json.object("termination", |json| {
            json.some_string("namespace", self.namespace.as_deref());
            if let Some(code) = self.code {
                json.number("code", code);
            }
            json.some_string("indicator", self.indicator.as_deref());
            if let Some(details) = &self.details {
                json.string_array("details", std::slice::from_ref(details));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::ReadLimits;

    fn read(text: &str) -> TextException {
        TextException::from_log(&TextLog::read_text(text, 1, &ReadLimits::default()).unwrap())
    }

    #[test]
    fn codes_are_numbers_or_a_name_with_an_address() {
        let apple = read(
            "Exception Type:  EXC_BAD_ACCESS (SIGSEGV)\nException Subtype: KERN_INVALID_ADDRESS at 0xfffffffffffffff8\n\
             Exception Codes: 0x0000000000000001, 0xfffffffffffffff8\nTermination Reason: SIGNAL 11 Segmentation fault: 11\n",
        );
        assert_eq!(
            (apple.kind.as_deref(), apple.signal.as_deref()),
            (Some("EXC_BAD_ACCESS"), Some("SIGSEGV"))
        );
        assert_eq!(apple.codes, [1, u64::MAX - 7]);
        assert_eq!((apple.namespace.as_deref(), apple.code), (Some("SIGNAL"), Some(11)));
        let other = read("Exception Type: SIGSEGV\nException Codes: SEGV_MAPERR at 0x88\n");
        assert_eq!((other.kind, other.signal.as_deref()), (None, Some("SIGSEGV")));
        assert_eq!(other.subtype.as_deref(), Some("SEGV_MAPERR at 0x88"));
    }

    #[test]
    fn a_signal_has_its_name_alone() {
        for (written, kind, signal) in [
            ("EXC_CRASH (SIGKILL (Code Signature Invalid))", "EXC_CRASH", "SIGKILL"),
            ("EXC_BAD_ACCESS (SIGKILL - CODESIGNING)", "EXC_BAD_ACCESS", "SIGKILL"),
            ("SIGKILL - CODESIGNING", "", "SIGKILL"),
            ("EXC_CRASH (6)", "EXC_CRASH", "SIGABRT"),
            ("Signal 11", "", "SIGSEGV"),
            ("EXC_RESOURCE (RESOURCE_TYPE_MEMORY)", "EXC_RESOURCE", ""),
            ("00000020", "00000020", ""),
        ] {
            let mut exception = TextException::default();
            exception.read_type(written);
            let read = (exception.kind.unwrap_or_default(), exception.signal.unwrap_or_default());
            assert_eq!(read, (kind.to_owned(), signal.to_owned()), "{written}");
        }
    }

    #[test]
    fn terminations_have_an_old_and_a_new_form() {
        let new = read("Termination Reason: FRONTBOARD 2343432205 <RBSTerminateContext| domain:10>\n");
        assert_eq!((new.namespace.as_deref(), new.code), (Some("FRONTBOARD"), Some(WATCHDOG_CODE)));
        let old = read("Termination Reason: Namespace SPRINGBOARD, Code 0x8badf00d\n");
        assert_eq!((old.namespace.as_deref(), old.code), (Some("SPRINGBOARD"), Some(WATCHDOG_CODE)));
        let oldest = read("Exception Type: 00000020\nException Codes: 0x000000008badf00d\n");
        assert_eq!((oldest.kind, oldest.code), (None, Some(WATCHDOG_CODE)));
    }
}
