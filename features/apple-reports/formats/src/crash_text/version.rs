//! The version and the build of an app, in the order in which the system writes them.

/// The last version of iOS that writes the build first.
const BUILD_FIRST_UP_TO: u64 = 14;

/// The version of an app, from the field `Version`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppVersion {
    pub short: Option<String>,
    pub build: Option<String>,
}

impl AppVersion {
    /// Reads `4.2.0 (4201)` or `4201 (4.2.0)`: a whole number is the build if the other one is not; otherwise the
    /// system decides.
    pub fn parse_version(text: &str, system: &str) -> AppVersion {
        let some = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty() && text != "???");
        let Some((outer, inner)) = text.rsplit_once(" (") else {
            return AppVersion { short: some(text), build: None };
        };
        let inner = inner.trim_end_matches(')');
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_build_first = match (is_number(outer.trim()), is_number(inner)) {
            (true, false) => true,
            (false, true) => false,
            _ => writes_build_first(system),
        };
        let (short, build) = if is_build_first { (inner, outer) } else { (outer, inner) };
        AppVersion { short: some(short), build: some(build) }
    }
}

/// Returns true for systems that write the build before the version.
fn writes_build_first(system: &str) -> bool {
    let Some(version) = system.strip_prefix("iPhone OS ") else { return false };
    let major = version.split(['.', ' ']).next().and_then(|major| major.parse::<u64>().ok());
    major.is_some_and(|major| major <= BUILD_FIRST_UP_TO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_the_build_and_otherwise_the_system_decides() {
        let old = "iPhone OS 10.1.1 (14B100)";
        let new = "iPhone OS 26.4.1 (23E254)";
        for (text, system, short, build) in [
            ("820 (3.1.4)", new, "3.1.4", "820"),
            ("3.1.4 (820)", old, "3.1.4", "820"),
            ("3.5.5.2 (3.5.5)", old, "3.5.5", "3.5.5.2"),
            ("3.5.5 (3.5.5.2)", new, "3.5.5", "3.5.5.2"),
            ("2 (1)", old, "1", "2"),
            ("1 (2)", "macOS 12.0.1 (21A559)", "1", "2"),
            ("4.21.1", new, "4.21.1", ""),
            ("??? (???)", new, "", ""),
        ] {
            let found = AppVersion::parse_version(text, system);
            let found = (found.short.unwrap_or_default(), found.build.unwrap_or_default());
            assert_eq!(found, (short.to_owned(), build.to_owned()), "{text} {system}");
        }
    }
}
