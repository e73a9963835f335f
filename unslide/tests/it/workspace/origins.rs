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

/// A tag of an action can be moved to other code, a commit cannot.
#[test]
fn the_actions_of_workflows_are_named_by_commit() {
    let folder = std::fs::read_dir(top().join(".github/workflows")).unwrap();
    let mut actions = 0;
    for path in folder.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&path).unwrap();
        for action in text.lines().filter_map(|line| line.split_once("uses: ")).map(|(_, action)| action) {
            let commit = action.split_once('@').map(|(_, name)| name.split(' ').next().unwrap_or_default());
            let is_commit =
                |name: &str| name.len() == 40 && name.bytes().all(|digit| digit.is_ascii_hexdigit());
            assert!(commit.is_some_and(is_commit), "{}: {action}", path.display());
            actions += 1;
        }
    }
    assert!(actions > 0);
}
