//! Reads the paths of symbol-server layouts, in any case of letters.

use crate::files::{DSYM_KINDS, EXECUTABLE_KINDS};
use unslide_model::DebugId;

/// The longest path that is read, in bytes.
const MAX_PATH_BYTES: usize = 1_024;
/// Digits of a debug id without dashes.
const ID_DIGITS: usize = 32;

/// The file that a client wants of a debug id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    DebugInfo,
    Executable,
    /// Names and lines in Breakpad's text format.
    Breakpad,
}

impl FileRole {
    /// Returns the kinds of files that fit.
    pub fn list_kinds(self) -> &'static [&'static str] {
        match self {
            FileRole::DebugInfo => DSYM_KINDS,
            FileRole::Executable => EXECUTABLE_KINDS,
            FileRole::Breakpad => &[],
        }
    }

    /// Reads the last part of a path in the layouts that name it.
    fn parse(name: &str) -> Option<FileRole> {
        match name {
            "debuginfo" => Some(FileRole::DebugInfo),
            "executable" => Some(FileRole::Executable),
            "breakpad" => Some(FileRole::Breakpad),
            _ => None,
        }
    }
}

/// A path of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutPath {
    pub debug_id: DebugId,
    pub role: FileRole,
}

impl LayoutPath {
    /// Reads a path without a slash before it. Returns None if no layout has such a path.
    pub fn parse(path: &str) -> Option<LayoutPath> {
        if path.len() > MAX_PATH_BYTES {
            return None;
        }
        let path = path.to_ascii_lowercase();
        let parts: Vec<&str> = path.split('/').collect();
        let (debug_id, role) = match parts.as_slice() {
            // debuginfod
            ["buildid", id, role] => (parse_id(id)?, FileRole::parse(role)?),
            // Breakpad, with an age after the id
            [_, id, file] if file.ends_with(".sym") => (parse_breakpad_id(id)?, FileRole::Breakpad),
            // symstore and SSQP; symstore_index2 has one folder more
            [_, id, _] | [_, _, id, _] if id.starts_with("mach-uuid-") => parse_symstore_id(id)?,
            // unified
            [first, rest, role] if first.len() == 2 => {
                (parse_id(&format!("{first}{rest}"))?, FileRole::parse(role)?)
            }
            // native, of LLDB: a program ends in `.app`
            [folders @ .., last] if folders.len() == 5 && folders.iter().all(|part| part.len() == 4) => {
                let program = last.strip_suffix(".app");
                let id = parse_id(&format!("{}{}", folders.concat(), program.unwrap_or(last)))?;
                (id, if program.is_some() { FileRole::Executable } else { FileRole::DebugInfo })
            }
            _ => return None,
        };
        Some(LayoutPath { debug_id, role })
    }
}

fn parse_id(digits: &str) -> Option<DebugId> {
    let is_id = digits.len() == ID_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    digits.parse().ok().filter(|_| is_id)
}

/// Parses an id of Breakpad: the digits, and an age that is 0 for Mach-O files.
pub fn parse_breakpad_id(text: &str) -> Option<DebugId> {
    let (digits, age) = text.split_at_checked(ID_DIGITS)?;
    let is_age = age.len() <= 8 && age.bytes().all(|digit| digit.is_ascii_hexdigit());
    parse_id(digits).filter(|_| is_age)
}

fn parse_symstore_id(text: &str) -> Option<(DebugId, FileRole)> {
    let id = text.strip_prefix("mach-uuid-")?;
    match id.strip_prefix("sym-") {
        Some(id) => Some((parse_id(id)?, FileRole::DebugInfo)),
        None => Some((parse_id(id)?, FileRole::Executable)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_leads_to_the_same_id() {
        use FileRole::{Breakpad, DebugInfo, Executable};
        let debug_id: DebugId = "4c4c442c55553144a13ccb08e4ddcb6b".parse().unwrap();
        for (path, role) in [
            ("buildid/4c4c442c55553144a13ccb08e4ddcb6b/debuginfo", DebugInfo),
            ("buildid/4c4c442c55553144a13ccb08e4ddcb6b/executable", Executable),
            ("4c/4c442c55553144a13ccb08e4ddcb6b/debuginfo", DebugInfo),
            ("4C/4C442C55553144A13CCB08E4DDCB6B/executable", Executable),
            ("4c/4c442c55553144a13ccb08e4ddcb6b/breakpad", Breakpad),
            ("4C4C/442C/5555/3144/A13C/CB08E4DDCB6B", DebugInfo),
            ("4C4C/442C/5555/3144/A13C/CB08E4DDCB6B.app", Executable),
            ("Shop/mach-uuid-4c4c442c55553144a13ccb08e4ddcb6b/Shop", Executable),
            ("_.dwarf/mach-uuid-sym-4c4c442c55553144a13ccb08e4ddcb6b/_.dwarf", DebugInfo),
            ("_./_.dwarf/mach-uuid-sym-4c4c442c55553144a13ccb08e4ddcb6b/_.dwarf", DebugInfo),
            ("Shop/4C4C442C55553144A13CCB08E4DDCB6B0/Shop.sym", Breakpad),
        ] {
            assert_eq!(LayoutPath::parse(path), Some(LayoutPath { debug_id, role }), "{path}");
        }
    }

    #[test]
    fn other_paths_are_of_no_layout() {
        for path in [
            "",
            "index2.txt",
            "buildid/4c4c442c55553144a13ccb08e4ddcb6b",
            "buildid/4c4c442c55553144a13ccb08e4ddcb6b/section/.text",
            "buildid/4c4c442c-5555-3144-a13c-cb08e4ddcb6b/debuginfo",
            "buildid/4c4c442c55553144a13ccb08e4ddcb6b0/debuginfo",
            "4c/4c442c55553144a13ccb08e4ddcb6b/sourcebundle",
            "4c/4c442c55553144a13ccb08e4ddcb6é/debuginfo",
            "4C4C/442C/5555/3144/A13C/CB08E4DDCB6B.src.zip",
            "Shop/mach-uuid-xyz/Shop",
            "Shop/4C4C442C55553144A13CCB08E4DDCB6B0X/Shop.sym",
            &format!("{}/4C4C442C55553144A13CCB08E4DDCB6B0/Shop.sym", "a".repeat(2_000)),
        ] {
            assert_eq!(LayoutPath::parse(path), None, "{path}");
        }
    }
}
