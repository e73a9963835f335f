//! The app, the device and the reason of a crash diagnostic.

use super::termination::Termination;
use crate::ips::system::SystemName;
use crate::ips::{region_words, write_exit_reason};
use crate::json::JsonBuilder;
use unslide_report::{JsonValue, device_clock_time, exception_name, signal_name};

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

/// Returns true if a diagnostic says why the process ended.
pub fn has_reason(metadata: Option<JsonValue<'_>>) -> bool {
    const REASON_KEYS: [&str; 6] = [
        "exceptionType",
        "exceptionCode",
        "signal",
        "terminationReason",
        "exceptionReason",
        "objectiveCexceptionReason",
    ];
    let members = metadata.map(|metadata| metadata.find_members(REASON_KEYS));
    members.into_iter().flatten().flatten().any(|value| !value.is_null())
}

/// Writes the member `error` of the crash.
pub fn write_error(metadata: Option<JsonValue<'_>>, json: &mut JsonBuilder) {
    let number = |key: &str| metadata?.get(key)?.as_number()?.to_bits();
    let reason = metadata.and_then(|metadata| {
        let [new, old] = metadata.find_members(["exceptionReason", "objectiveCexceptionReason"]);
        new.or(old).filter(|reason| reason.is_object())
    });
    let ended = find_text(metadata, "terminationReason").map(|text| shorten_text(&text));
    let termination = Termination::parse_text(ended.as_deref().unwrap_or_default());
    json.object("error", |json| {
        json.string("type", if reason.is_some() { "nsexception" } else { "mach" });
        if let Some(address) =
            find_text(metadata, "virtualMemoryRegionInfo").as_deref().and_then(first_number)
        {
            json.number("address", address);
        }
        json.object("mach", |json| {
            if let Some(exception) = number("exceptionType") {
                json.number("exception", exception);
                json.some_string("exception_name", exception_name(exception));
            }
            if let Some(code) = number("exceptionCode") {
                json.number("code", code);
            }
            let region = find_text(metadata, "virtualMemoryRegionInfo");
            let words = region.map(|region| region_words(&shorten_text(&region))).unwrap_or_default();
            if !words.is_empty() {
                json.string_array("words", &words);
            }
        });
        if let Some(signal) = number("signal") {
            json.object("signal", |json| {
                json.number("signal", signal);
                json.some_string("name", signal_name(signal));
            });
        }
        if let Some(reason) = reason {
            let name =
                find_text(Some(reason), "exceptionName").or_else(|| find_text(Some(reason), "className"));
            json.object("nsexception", |json| json.some_string("name", name.as_deref()));
        }
        let composed = reason.and_then(|reason| find_text(Some(reason), "composedMessage"));
        let own = composed.map(|text| shorten_text(&text)).or(ended.filter(|_| !is_signal(&termination)));
        json.some_string("reason", own.as_deref());
        write_exit_reason(termination.code, termination.namespace_number(), json);
    });
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
