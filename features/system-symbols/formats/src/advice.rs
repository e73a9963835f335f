//! The next step for a build that lacks names: a sentence, and the command to run.

use crate::coverage::{BuildCoverage, CoverageState};
use crate::release::is_build;

/// The next step for a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportAdvice {
    /// Says which names are missing and which files have them.
    pub reason: String,
    /// The command that imports these files.
    pub command: String,
}

/// The command for the folder in which Xcode puts the symbols of connected iPhones and iPads.
pub const FIRST_COMMAND: &str =
    r"unslide system-symbols import ~/Library/Developer/Xcode/iOS\ DeviceSupport/";

/// Returns the name of a build with its version, for people.
pub fn format_release(build: &BuildCoverage) -> String {
    let number = build.build.as_ref().map(|number| format!("({number})"));
    let parts = [build.os.clone(), build.version.clone(), number];
    let release = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    if release.is_empty() { "unknown system".to_owned() } else { release }
}

/// Says how to get the names of a build; `None` if nothing is missing.
pub fn advise_import(build: &BuildCoverage) -> Option<ImportAdvice> {
    let release = format_release(build);
    // The build comes from a device: any other text must not get into a command.
    let number = build.build.as_deref().filter(|text| is_build(text)).unwrap_or("BUILD");
    let first = build.lacking.first()?;
    let (reason, command) = match build.state {
        CoverageState::Whole => return None,
        CoverageState::None => (
            format!(
                "{release} has no names. Run the command on a Mac that had such a device connected. From a firmware: \
                 ipsw extract --dyld FILE.ipsw, then unslide system-symbols import --build {number} FOLDER"
            ),
            find_device_command(build.os.as_deref().unwrap_or_default()).to_owned(),
        ),
        CoverageState::ExportsOnly => (
            format!(
                "{release} was imported without local symbols. Import the cache again with its file .symbols beside it"
            ),
            format!("unslide system-symbols import --build {number} FOLDER"),
        ),
        CoverageState::Partly => (
            format!(
                "{release} lacks {}, among others (reports with it: {}). Import the cache of another model or architecture of \
                 this build",
                first.debug_id, first.reports
            ),
            format!("unslide system-symbols import --build {number} FOLDER"),
        ),
    };
    Some(ImportAdvice { reason, command })
}

/// Returns the command for the folder in which a Mac has the symbols of a system.
fn find_device_command(os: &str) -> &'static str {
    match os {
        "macOS" => "unslide system-symbols import /System/Volumes/Preboot/Cryptexes/OS/System/Library/dyld/",
        "tvOS" => r"unslide system-symbols import ~/Library/Developer/Xcode/tvOS\ DeviceSupport/",
        "watchOS" => r"unslide system-symbols import ~/Library/Developer/Xcode/watchOS\ DeviceSupport/",
        _ => FIRST_COMMAND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::UnnamedImage;
    use unslide_model::DebugId;

    fn build(state: CoverageState) -> BuildCoverage {
        BuildCoverage {
            os: Some("iOS".to_owned()),
            version: Some("26.2".to_owned()),
            build: Some("23B87".to_owned()),
            state,
            reports: 12,
            images: 3,
            named_images: 0,
            exports_only_images: 0,
            lacking: vec![UnnamedImage { debug_id: DebugId([7; 16]), reports: 5 }],
        }
    }

    #[test]
    fn each_state_has_its_own_advice() {
        let advice = |state| advise_import(&build(state));
        let none = advice(CoverageState::None).unwrap();
        assert!(
            none.reason.starts_with("iOS 26.2 (23B87) has no names.")
                && none.reason.contains("--build 23B87")
        );
        assert_eq!(none.command, FIRST_COMMAND);
        assert!(advice(CoverageState::ExportsOnly).unwrap().reason.contains(".symbols"));
        let partly = advice(CoverageState::Partly).unwrap();
        assert!(partly.reason.contains("07070707-0707-0707-0707-070707070707"));
        assert_eq!(partly.command, "unslide system-symbols import --build 23B87 FOLDER");
        assert_eq!(advice(CoverageState::Whole), None);
    }

    #[test]
    fn a_command_has_no_other_text_of_a_device() {
        let foreign = BuildCoverage { build: Some("$(id)".to_owned()), ..build(CoverageState::Partly) };
        assert_eq!(
            advise_import(&foreign).unwrap().command,
            "unslide system-symbols import --build BUILD FOLDER"
        );
        let unknown = BuildCoverage { os: None, version: None, build: None, ..build(CoverageState::None) };
        assert_eq!(format_release(&unknown), "unknown system");
        assert!(find_device_command("watchOS").contains("watchOS"));
    }
}
