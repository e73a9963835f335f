//! Which members of a report may be changed.

/// The part of a report that a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberPlace {
    /// The report, or the report in it of the crash of the handler.
    Report,
    /// Symbolication and grouping read it: it is not changed.
    Structure,
    /// What Unslide added.
    Addition,
    /// Texts of the device.
    Text,
    /// The object of the app's own keys.
    OwnKeys,
    /// Something below an own key: its numbers and the names of its members are texts, too.
    OwnValue,
}

/// Members of the parts with texts that are structure wherever they are: those of KSCrash, and then those of MetricKit.
const STRUCTURE_NAMES: [&str; 13] = [
    "backtrace",
    "registers",
    "type",
    "uuid",
    "debug_id",
    "fingerprint",
    "callStackTree",
    "appVersion",
    "appBuildVersion",
    "bundleIdentifier",
    "osVersion",
    "platformArchitecture",
    "deviceType",
];

impl MemberPlace {
    /// Returns the place of a member of an object in this place.
    pub fn member(self, name: &str) -> MemberPlace {
        match (self, name) {
            (MemberPlace::Report, "binary_images" | "system" | "report") | (MemberPlace::Structure, _) => {
                MemberPlace::Structure
            }
            (MemberPlace::Report, "symbolication") => MemberPlace::Addition,
            (MemberPlace::Report, "user") => MemberPlace::OwnKeys,
            (MemberPlace::Report, "recrash_report") => MemberPlace::Report,
            (MemberPlace::Addition, "variables" | "fault" | "grouping") => MemberPlace::Text,
            (MemberPlace::Addition, _) => MemberPlace::Structure,
            (MemberPlace::Text, name) if STRUCTURE_NAMES.contains(&name) => MemberPlace::Structure,
            (MemberPlace::Report | MemberPlace::Text, _) => MemberPlace::Text,
            (MemberPlace::OwnKeys | MemberPlace::OwnValue, _) => MemberPlace::OwnValue,
        }
    }

    /// Returns true for texts that rules may change.
    pub fn is_scrubbed(self) -> bool {
        matches!(self, MemberPlace::Text | MemberPlace::OwnKeys | MemberPlace::OwnValue | MemberPlace::Report)
    }

    /// Returns true if names of members and numbers are data of the app.
    pub fn is_own(self) -> bool {
        matches!(self, MemberPlace::OwnKeys | MemberPlace::OwnValue)
    }
}
