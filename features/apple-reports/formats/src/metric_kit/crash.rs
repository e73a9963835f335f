//! The app, the device and the reason of a crash diagnostic.

use super::termination::Termination;
use crate::ips::system::SystemName;
use crate::ips::{region_words, write_exit_reason};
use crate::json::JsonBuilder;
use unslide_report::{
    JsonValue, device_clock_time, exception_name, exception_number, signal_name, signal_number,
};

/// The maximum size of a text about the end, in bytes.
const TEXT_BYTES_LIMIT: usize = 4_096;

fn find_text(metadata: Option<JsonValue<'_>>, key: &str) -> Option<String> {
    let text = metadata?.get(key)?.decode_string()?.trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// Writes the members `report` and `system`.
pub fn write_header(root: JsonValue<'_>, metadata: Option<JsonValue<'_>>, id: &str, json: &mut JsonBuilder) {
    let end = find_text(Some(root), "timeStampEnd").or_else(|| find_text(Some(root), "timeStampBegin"));
    json.object("report", |json| {
        json.string("id", id);
        json.string("type", "standard");
        // The rules for program counters and for systems' images depend on it.
        json.string("monitor_id", "MetricKit");
        json.some_string("timestamp", end.as_deref().and_then(device_clock_time).as_deref());
    });
    let system = SystemName::parse(&find_text(metadata, "osVersion").unwrap_or_default());
    json.object("system", |json| {
        for (key, value) in [
            ("CFBundleIdentifier", find_text(metadata, "bundleIdentifier")),
            ("CFBundleShortVersionString", find_text(metadata, "appVersion")),
            ("CFBundleVersion", find_text(metadata, "appBuildVersion")),
            ("system_name", system.name),
            ("system_version", system.version),
            ("os_version", system.build),
            ("machine", find_text(metadata, "deviceType")),
            ("cpu_arch", find_text(metadata, "platformArchitecture")),
        ] {
            json.some_string(key, value.as_deref());
        }
        let pid = metadata.and_then(|metadata| metadata.get("pid")).and_then(JsonValue::decimal_unsigned);
        if let Some(pid) = pid {
            json.number("process_id", pid);
        }
    });
}

/// Facts of a crash diagnostic about the end of the process.
#[derive(Clone, Debug, Default)]
pub struct CrashFacts {
    pub exception: Option<u64>,
    pub code: Option<u64>,
    pub signal: Option<u64>,
    /// The text about the region of memory at the address of the fault.
    pub region: Option<String>,
    /// The text on why the system ended the process.
    pub termination: Option<String>,
    /// The uncaught exception.
    pub thrown: Option<ThrownException>,
    /// MetricKit's word for the kind of end, since iOS 27.
    pub category: Option<String>,
}

/// An uncaught exception of Objective-C or C++.
#[derive(Clone, Debug, Default)]
pub struct ThrownException {
    pub name: Option<String>,
    pub message: Option<String>,
}

impl CrashFacts {
    /// Reads `diagnosticMetaData`.
    pub fn from_metadata(metadata: Option<JsonValue<'_>>) -> CrashFacts {
        let number = |key: &str| metadata?.get(key)?.as_number()?.to_bits();
        let reason = metadata.and_then(|metadata| {
            let [new, old] = metadata.find_members(["exceptionReason", "objectiveCexceptionReason"]);
            new.or(old).filter(|reason| reason.is_object())
        });
        let thrown = reason.map(|reason| ThrownException {
            name: find_text(Some(reason), "exceptionName").or_else(|| find_text(Some(reason), "className")),
            message: find_text(Some(reason), "composedMessage"),
        });
        CrashFacts {
            exception: number("exceptionType"),
            code: number("exceptionCode"),
            signal: number("signal"),
            region: find_text(metadata, "virtualMemoryRegionInfo"),
            termination: find_text(metadata, "terminationReason"),
            thrown,
            category: None,
        }
    }

    /// Returns true if they say why the process ended.
    pub fn has_reason(&self) -> bool {
        self.exception.is_some()
            || self.code.is_some()
            || self.signal.is_some()
            || self.termination.is_some()
            || self.thrown.is_some()
            || self.category.is_some()
    }

    /// Returns the exception and the signal, or else those that the category names.
    fn exception_and_signal(&self) -> (Option<u64>, Option<u64>) {
        match (self.exception, self.signal, self.category.as_deref()) {
            (None, None, Some("badAccess")) => (exception_number("EXC_BAD_ACCESS"), None),
            (None, None, Some("illegalInstruction")) => (None, signal_number("SIGILL")),
            (None, None, Some("abnormal")) => (None, signal_number("SIGABRT")),
            (exception, signal, _) => (exception, signal),
        }
    }

    /// Writes the member `error` of the crash.
    pub fn write_error(&self, json: &mut JsonBuilder) {
        let ended = self.termination.as_deref().map(shorten_text);
        let termination = Termination::parse_text(ended.as_deref().unwrap_or_default());
        let (exception, signal) = self.exception_and_signal();
        let is_limit = matches!(self.category.as_deref(), Some("taskTimeout" | "fileLock"));
        json.object("error", |json| {
            json.string(
                "type",
                match () {
                    () if is_limit => "termination",
                    () if self.thrown.is_some() => "nsexception",
                    () => "mach",
                },
            );
            if is_limit {
                json.flag("is_fatal", true);
            }
            if let Some(address) = self.region.as_deref().and_then(first_number) {
                json.number("address", address);
            }
            json.object("mach", |json| {
                if let Some(exception) = exception {
                    json.number("exception", exception);
                    json.some_string("exception_name", exception_name(exception));
                }
                if let Some(code) = self.code {
                    json.number("code", code);
                }
                let region = self.region.as_deref().map(shorten_text);
                let words = region.map(|region| region_words(&region)).unwrap_or_default();
                if !words.is_empty() {
                    json.string_array("words", &words);
                }
            });
            if let Some(signal) = signal {
                json.object("signal", |json| {
                    json.number("signal", signal);
                    json.some_string("name", signal_name(signal));
                });
            }
            if let Some(thrown) = &self.thrown {
                json.object("nsexception", |json| json.some_string("name", thrown.name.as_deref()));
            }
            let composed = self.thrown.as_ref().and_then(|thrown| thrown.message.as_deref());
            let own = composed.map(shorten_text).or(ended.filter(|_| !is_signal(&termination)));
            json.some_string("reason", own.as_deref());
            if self.category.as_deref() == Some("watchdog") {
                json.string("termination_reason", "hang");
            }
            write_exit_reason(termination.code, termination.namespace_number(), json);
        });
    }
}

/// Returns true if the end says no more than the signal.
fn is_signal(termination: &Termination) -> bool {
    termination.namespace.as_deref() == Some("SIGNAL")
}

/// Reads the first word of a text, which is the address of the fault: decimal, or hexadecimal after `0x`.
fn first_number(text: &str) -> Option<u64> {
    let word = text.split_whitespace().next()?;
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn shorten_text(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_LIMIT);
    text.get(..end).unwrap_or_default().to_owned()
}
