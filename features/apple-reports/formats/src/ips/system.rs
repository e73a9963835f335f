//! The app, the device and the time of a log.

use super::document::IpsDocument;
use crate::json::JsonBuilder;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use unslide_report::{JsonValue, device_clock_time};

/// Bytes of the hash of a device's key that are kept.
const DEVICE_HASH_BYTES: usize = 20;
/// Names of systems in logs, and the names that other reports have.
const SYSTEMS: [(&str, &str); 6] = [
    ("iPhone OS", "iOS"),
    ("Mac OS X", "macOS"),
    ("Watch OS", "watchOS"),
    ("Apple TVOS", "tvOS"),
    ("xrOS", "visionOS"),
    ("Bridge OS", "bridgeOS"),
];

/// Writes the members `report` and `system`.
pub fn write(document: &IpsDocument<'_>, json: &mut JsonBuilder) {
    let process = document.text("procName").or_else(|| document.text("app_name"));
    let incident = document.text("incident_id").or_else(|| document.text("incident"));
    let time = document.text("captureTime").or_else(|| document.text("timestamp"));
    json.object("report", |json| {
        json.some_string("id", incident.as_deref());
        json.string("type", "standard");
        json.some_string("process_name", process.as_deref());
        json.some_string("timestamp", time.as_deref().and_then(device_clock_time).as_deref());
    });
    let bundle = |key: &str| {
        let text = document.body.get("bundleInfo")?.get(key)?.decode_string()?.trim().to_owned();
        Some(text).filter(|text| !text.is_empty())
    };
    let system = SystemName::read(document);
    let app = document.text("bundleID").or_else(|| bundle("CFBundleIdentifier")).or_else(|| process.clone());
    let version = document.text("app_version").or_else(|| bundle("CFBundleShortVersionString"));
    let build = document.text("build_version").or_else(|| bundle("CFBundleVersion"));
    let number = |key: &str| document.body.get(key).and_then(JsonValue::decimal_unsigned);
    json.object("system", |json| {
        for (key, value) in [
            ("CFBundleIdentifier", app),
            ("CFBundleName", document.text("app_name")),
            ("CFBundleShortVersionString", version),
            ("CFBundleVersion", build),
            ("CFBundleExecutablePath", document.text("procPath")),
            ("app_uuid", document.text("slice_uuid")),
            ("system_name", system.name),
            ("system_version", system.version),
            ("os_version", system.build),
            ("machine", document.text("modelCode")),
            ("device_app_hash", document.text("crashReporterKey").and_then(|key| device_hash(&key))),
            ("process_name", process),
        ] {
            json.some_string(key, value.as_deref());
        }
        if let Some((arch, cpu_type)) = document.text("cpuType").and_then(|name| cpu(&name)) {
            json.string("cpu_arch", arch);
            json.number("cpu_type", cpu_type);
        }
        for (key, value) in [("process_id", number("pid")), ("parent_process_id", number("parentPid"))] {
            if let Some(value) = value {
                json.number(key, value);
            }
        }
        if let Some(translated) = document.body.get("translated").and_then(JsonValue::as_boolean) {
            json.flag("proc_translated", translated);
        }
    });
}

/// The parts of a text such as `iPhone OS 18.3.1 (22D72)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemName {
    pub name: Option<String>,
    pub version: Option<String>,
    pub build: Option<String>,
}

impl SystemName {
    fn read(document: &IpsDocument<'_>) -> SystemName {
        let own = |key: &str| document.body.get("osVersion")?.get(key)?.decode_string();
        let text = document.text("os_version").or_else(|| own("train")).unwrap_or_default();
        let mut name = SystemName::parse(&text);
        name.build = name.build.or_else(|| own("build"));
        name
    }

    /// Splits the text of a system into its parts.
    pub fn parse(text: &str) -> SystemName {
        let (text, build) = text.split_once(" (").unwrap_or((text, ""));
        let (name, version) = match text.rsplit_once(' ') {
            Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => (name, version),
            _ => (text, ""),
        };
        let known = SYSTEMS.iter().find(|(written, _)| *written == name).map_or(name, |(_, known)| known);
        let some = |part: &str| Some(part.trim().to_owned()).filter(|part| !part.is_empty());
        SystemName { name: some(known), version: some(version), build: some(build.trim_end_matches(')')) }
    }
}

/// Returns the architecture and the CPU type of the machine. The subtype is not known: a machine for arm64e is called
/// `ARM-64`, too.
fn cpu(name: &str) -> Option<(&'static str, u64)> {
    match name {
        "ARM-64" => Some(("arm64", 0x0100_000C)),
        "X86-64" => Some(("x86_64", 0x0100_0007)),
        "ARM" => Some(("armv7", 12)),
        "X86" => Some(("x86", 7)),
        _ => None,
    }
}

/// Returns the hash of a device's key, which identifies the device across vendors. Zeros are no key.
pub fn device_hash(key: &str) -> Option<String> {
    if key.bytes().all(|byte| matches!(byte, b'0' | b'-')) {
        return None;
    }
    let hash = Sha256::digest(key.as_bytes());
    let mut text = String::with_capacity(2 * DEVICE_HASH_BYTES);
    for byte in hash.iter().take(DEVICE_HASH_BYTES) {
        write!(text, "{byte:02x}").ok()?;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_have_the_names_of_other_reports() {
        let parts = |text| {
            let SystemName { name, version, build } = SystemName::parse(text);
            [name, version, build].map(Option::unwrap_or_default)
        };
        assert_eq!(parts("iPhone OS 18.3.1 (22D72)"), ["iOS", "18.3.1", "22D72"]);
        assert_eq!(parts("macOS 13.0"), ["macOS", "13.0", ""]);
        assert_eq!(parts("Mac OS X 10.15.7 (19H15)"), ["macOS", "10.15.7", "19H15"]);
        assert_eq!(parts("watchOS"), ["watchOS", "", ""]);
    }

    #[test]
    fn a_device_is_known_by_a_hash_of_its_key() {
        assert_eq!(device_hash("0000-0000"), None);
        let hash = device_hash("0123456789abcdef").unwrap();
        assert_eq!(hash.len(), 40);
        assert!(!hash.contains("0123456789abcdef"));
    }
}
