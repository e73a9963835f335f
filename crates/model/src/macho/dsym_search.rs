//! The command that finds a dSYM on a Mac, which all advice about a missing one names.

use crate::DebugId;

/// Returns the command that prints the path of an image's dSYM on the Mac that made the build.
#[must_use]
pub fn find_dsym_command(id: DebugId) -> String {
    format!("mdfind \"com_apple_xcode_dsym_uuids == {}\"", id.to_string().to_uppercase())
}

/// Returns the command that finds the dSYM of an image and uploads it.
#[must_use]
pub fn upload_dsym_command(id: DebugId) -> String {
    format!("unslide upload \"$(mdfind 'com_apple_xcode_dsym_uuids == {}')\"", id.to_string().to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsym_is_found_by_its_uuid_in_capitals() {
        let id = DebugId([0xab; 16]);
        let search = "com_apple_xcode_dsym_uuids == ABABABAB-ABAB-ABAB-ABAB-ABABABABABAB";
        assert_eq!(find_dsym_command(id), format!("mdfind \"{search}\""));
        assert_eq!(upload_dsym_command(id), format!("unslide upload \"$(mdfind '{search}')\""));
    }
}
