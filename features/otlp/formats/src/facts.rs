//! Facts about the app, the device and the run from the attributes of a record, as members of a report.

use crate::attributes::Attributes;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

/// The most characters of a fact.
const FACT_CHARS_LIMIT: usize = 200;
/// Attributes that name the app, if their value has the form of a bundle identifier: no convention has a key for that.
const APP_KEYS: [&str; 3] = ["app.bundle_id", "app.bundle.id", "service.name"];

/// Members of the sections `report`, `system` and `user` that a report gets if it lacks them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryFacts {
    /// The bundle identifier of the app.
    pub app: Option<String>,
    /// The marketing version.
    pub version: Option<String>,
    /// The build.
    pub build: Option<String>,
    /// The system's name, such as `iOS`.
    pub system_name: Option<String>,
    /// The system's version.
    pub system_version: Option<String>,
    /// The system's build.
    pub system_build: Option<String>,
    /// The device's model, such as `iPhone15,2`.
    pub machine: Option<String>,
    /// The id of the installation.
    pub installation: Option<String>,
    /// When it happened (RFC 3339).
    pub timestamp: Option<String>,
    /// `session.id`.
    pub session: Option<String>,
    /// `user.id`.
    pub user: Option<String>,
    /// `screen.name`.
    pub screen: Option<String>,
    /// Remarks about the record for a person, such as that its stack is cut.
    pub notes: Vec<String>,
}

impl TelemetryFacts {
    /// Returns these facts of a record, and else those of its resource.
    pub(crate) fn or_resource(self, resource: &TelemetryFacts) -> TelemetryFacts {
        let pick = |own: Option<String>, resource: &Option<String>| own.or_else(|| resource.clone());
        TelemetryFacts {
            app: pick(self.app, &resource.app),
            version: pick(self.version, &resource.version),
            build: pick(self.build, &resource.build),
            system_name: pick(self.system_name, &resource.system_name),
            system_version: pick(self.system_version, &resource.system_version),
            system_build: pick(self.system_build, &resource.system_build),
            machine: pick(self.machine, &resource.machine),
            installation: pick(self.installation, &resource.installation),
            session: pick(self.session, &resource.session),
            user: pick(self.user, &resource.user),
            screen: pick(self.screen, &resource.screen),
            ..self
        }
    }

    /// Reads the facts of attributes.
    pub(crate) fn from_attributes(attributes: &Attributes<'_>) -> TelemetryFacts {
        let find = |keys: &[&str]| keys.iter().find_map(|key| attributes.text(key)).map(shorten_fact);
        let app = APP_KEYS.iter().find_map(|key| attributes.text(key).filter(|name| is_bundle_id(name)));
        // An id of a build is free text: a UUID is no build number.
        let build = find(&["app.build_number", "app.build_id"]).filter(|id| Uuid::parse_str(id).is_err());
        TelemetryFacts {
            app: app.map(str::to_owned),
            version: find(&["service.version", "app.version", "crash.app.version"]),
            build,
            system_name: find(&["os.name"]),
            system_version: find(&["os.version"]),
            system_build: find(&["os.build_id"]),
            machine: find(&["device.model.identifier"]),
            installation: find(&["app.installation.id", "device.id"]),
            timestamp: None,
            session: find(&["session.id"]),
            user: find(&["user.id", "enduser.id"]),
            screen: find(&["screen.name"]),
            notes: Vec::new(),
        }
    }

    /// Returns the members of each section.
    pub(crate) fn list_sections(&self) -> [(&'static str, Vec<(&'static str, String)>); 3] {
        let list = |members: &[(&'static str, Option<&String>)]| -> Vec<(&'static str, String)> {
            members.iter().filter_map(|(key, value)| Some((*key, (*value)?.clone()))).collect()
        };
        let note = Some(self.notes.join("; ")).filter(|note| !note.is_empty());
        [
            ("report", list(&[("timestamp", self.timestamp.as_ref())])),
            (
                "system",
                list(&[
                    ("CFBundleIdentifier", self.app.as_ref()),
                    ("CFBundleShortVersionString", self.version.as_ref()),
                    ("CFBundleVersion", self.build.as_ref()),
                    ("system_name", self.system_name.as_ref()),
                    ("system_version", self.system_version.as_ref()),
                    ("os_version", self.system_build.as_ref()),
                    ("machine", self.machine.as_ref()),
                    ("device_app_hash", self.installation.as_ref()),
                ]),
            ),
            (
                "user",
                list(&[
                    ("session_id", self.session.as_ref()),
                    ("user_id", self.user.as_ref()),
                    ("screen_name", self.screen.as_ref()),
                    ("otlp_note", note.as_ref()),
                ]),
            ),
        ]
    }
}

fn shorten_fact(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(FACT_CHARS_LIMIT).collect()
}

/// Returns true for a text in the form of a bundle identifier: senders put a name for people into the same attribute.
fn is_bundle_id(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= FACT_CHARS_LIMIT
        && text.contains('.')
        && text.split('.').all(is_part)
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Returns the time of nanoseconds since 1970, unless they are 0.
pub fn format_nanos(nanos: u64) -> Option<String> {
    if nanos == 0 {
        return None;
    }
    // Milliseconds: reports have no finer time.
    let millis = i128::from(nanos / 1_000_000);
    OffsetDateTime::from_unix_timestamp_nanos(millis * 1_000_000).ok()?.format(&Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_for_people_is_no_bundle_identifier() {
        for id in ["com.example.shop", "org.example.shop-2", "example.App"] {
            assert!(is_bundle_id(id), "{id}");
        }
        for name in ["Shop", "My Shop.app", "", ".", "a..b", "1.2.3", "unknown_service"] {
            assert!(!is_bundle_id(name), "{name}");
        }
    }
}
