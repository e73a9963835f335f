//! The repository has only what its authors wrote.

use super::layering::top;
use std::process::Command;

#[test]
fn no_file_carries_the_notice_of_others() {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(top()).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let files = String::from_utf8(listed.stdout).unwrap();
    let notices = [concat!("Copy", "right"), concat!("SPDX-", "License"), concat!("All rights ", "reserved")];
    let mut wrong = Vec::new();
    for file in files.split_terminator('\0').filter(|file| !file.starts_with("LICENSE-")) {
        // Deleted and not committed yet.
        let Ok(bytes) = std::fs::read(top().join(file)) else { continue };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if let Some(notice) = notices.iter().find(|notice| text.contains(**notice)) {
            wrong.push(format!("{file}: {notice}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "third-party text belongs into a package that the build fetches:\n{}",
        wrong.join("\n")
    );
}
