//! Names of files with reports, in folders and in archives of Xcode, TestFlight and App Store Connect.

/// Endings of the names of files with reports.
pub const EXTENSIONS: [&str; 9] = ["ips", "crash", "json", "ndjson", "txt", "diag", "hang", "spin", "beta"];
/// Folders with copies, or with data about files.
const IGNORED_FOLDERS: [&str; 2] = ["LocallySymbolicated", "__MACOSX"];
/// Files that Xcode and TestFlight write beside logs.
const IGNORED_FILES: [&str; 5] =
    ["DistributionInfo.json", "PointInfo.json", "DeviceInfo.json", "LastAccessedInfo.json", "feedback.json"];

/// Returns true for the path of a report in an archive. Files in hidden folders and copies are none.
#[must_use]
pub fn is_report_path(path: &str) -> bool {
    let mut folders: Vec<&str> = path.split('/').collect();
    let name = folders.pop().unwrap_or_default();
    !folders.iter().any(|folder| folder.starts_with('.') || is_ignored_folder(folder)) && is_report_name(name)
}

/// Returns true for a folder with copies, or with data about files.
#[must_use]
pub fn is_ignored_folder(name: &str) -> bool {
    IGNORED_FOLDERS.contains(&name)
}

/// Returns true for the name of a file with reports, packed with gzip or zstd or not.
#[must_use]
pub fn is_report_name(name: &str) -> bool {
    let plain = plain_name(name);
    let extension = plain.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let is_known = extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()));
    is_known && !name.starts_with('.') && !IGNORED_FILES.contains(&plain)
}

/// Returns a name without the endings that a packer or a device has added: devices rename logs that were sent to Apple to
/// `….ips.synced` and `….ips.ca.synced`.
fn plain_name(name: &str) -> &str {
    const ADDED_ENDINGS: [&str; 4] = [".gz", ".zst", ".synced", ".ca"];
    let mut plain = name;
    while let Some(shorter) = ADDED_ENDINGS.iter().find_map(|ending| strip_ending(plain, ending)) {
        plain = shorter;
    }
    plain
}

/// Removes an ending in any case.
fn strip_ending<'n>(name: &'n str, ending: &str) -> Option<&'n str> {
    let (plain, last) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
    last.eq_ignore_ascii_case(ending).then_some(plain)
}

/// Returns the error for a folder or an archive without reports.
#[must_use]
pub fn no_report_files() -> String {
    format!(
        "it has no reports: files that end with .{}, also with .synced behind it or packed as .gz",
        EXTENSIONS.join(", .")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_data_beside_logs_are_no_reports() {
        for path in ["a.xccrashpoint/Filters/F/Logs/2026.crash", "b.IPS", "c.json.gz", "d/e.ndjson.zst"]
            .into_iter()
            .chain(["a.ips.synced", "a.ips.ca.synced", "A.IPS.SYNCED", "b.crash.synced.gz"])
        {
            assert!(is_report_path(path), "{path}");
        }
        for path in [
            "a.xccrashpoint/Filters/F/Logs/LocallySymbolicated/2026.crash",
            "a.xccrashpoint/DistributionInfo.json",
            "photo.png",
            "photo.png.synced",
            ".ips.synced",
            ".hidden.json",
            "../outside.ips",
            "__MACOSX/._b.ips",
            "logs.zip",
            "crash",
            "",
        ] {
            assert!(!is_report_path(path), "{path}");
        }
    }
}
