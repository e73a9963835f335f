//! Which members of a report may be changed.

/// The part of a report that a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubPlace {
    /// The report, or the report in it of the crash of the handler.
    Report,
    /// Symbolication and grouping read it: it is not changed.
    Structure,
    /// Images, and facts about the app: only the name of a user in a path is taken.
    Images,
    /// A path of an image.
    ImagePath,
    /// The additions of Unslide.
    Addition,
    /// Texts of the device.
    Text,
    /// The object of the app's own keys.
    OwnKeys,
    /// Something below an own key: its numbers and the names of its members are texts, too.
    OwnValue,
}

/// Members of the parts with texts that are structure wherever they are: those of KSCrash, then those of MetricKit, and then those
/// of Apple's logs.
const STRUCTURE_NAMES: [&str; 30] = [
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
    "frames",
    "lastExceptionBacktrace",
    "asiBacktraces",
    "threadState",
    "os_version",
    "app_version",
    "build_version",
    "bundleID",
    "bundleInfo",
    "incident",
    "incident_id",
    "slice_uuid",
    "crashReporterKey",
    "captureTime",
    "cpuType",
    "modelCode",
    "bug_type",
];
/// Members with paths of images and of the app.
const PATH_NAMES: [&str; 3] = ["name", "path", "CFBundleExecutablePath"];
/// The beginning of the names of an image's members with words about the end of its process.
const MESSAGE_PREFIX: &str = "crash_info_";

impl ScrubPlace {
    /// Returns the place of a member of an object in this place.
    pub fn member(self, name: &str) -> ScrubPlace {
        match (self, name) {
            (ScrubPlace::Report | ScrubPlace::Text, "binary_images" | "usedImages")
            | (ScrubPlace::Report, "system") => ScrubPlace::Images,
            (ScrubPlace::Images, name) if PATH_NAMES.contains(&name) => ScrubPlace::ImagePath,
            (ScrubPlace::Report, "report") | (ScrubPlace::Structure | ScrubPlace::ImagePath, _) => {
                ScrubPlace::Structure
            }
            (ScrubPlace::Images, name) if name.starts_with(MESSAGE_PREFIX) => ScrubPlace::Text,
            (ScrubPlace::Images, _) => ScrubPlace::Structure,
            (ScrubPlace::Report, "symbolication") => ScrubPlace::Addition,
            (ScrubPlace::Report, "user") => ScrubPlace::OwnKeys,
            (ScrubPlace::Report, "recrash_report") => ScrubPlace::Report,
            (ScrubPlace::Addition, "variables" | "fault" | "grouping") => ScrubPlace::Text,
            (ScrubPlace::Addition, _) => ScrubPlace::Structure,
            (ScrubPlace::Report | ScrubPlace::Text, name) if STRUCTURE_NAMES.contains(&name) => {
                ScrubPlace::Structure
            }
            (ScrubPlace::Report | ScrubPlace::Text, _) => ScrubPlace::Text,
            (ScrubPlace::OwnKeys | ScrubPlace::OwnValue, _) => ScrubPlace::OwnValue,
        }
    }

    /// Returns true for texts that rules may change.
    pub fn is_scrubbed(self) -> bool {
        matches!(self, ScrubPlace::Text | ScrubPlace::OwnKeys | ScrubPlace::OwnValue | ScrubPlace::Report)
    }

    /// Returns true if names of members and numbers are data of the app.
    pub fn is_own(self) -> bool {
        matches!(self, ScrubPlace::OwnKeys | ScrubPlace::OwnValue)
    }
}
