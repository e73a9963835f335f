//! Layouts of symbol sources: the path at which a dSYM's file with debug information lies.

use unslide_model::DebugId;
use unslide_store::sql::words;
use utoipa::ToSchema;

words! {
    /// The layout of the files of a symbol source.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum SourceLayout {
        /// `0f/1e2d3c…/debuginfo`, as tools of Sentry write it.
        Unified = "unified",
        /// `buildid/0f1e2d3c…/debuginfo`, as servers of debuginfod answer.
        Debuginfod = "debuginfod",
        /// `0F1E/2D3C/4B5A/6978/8796/A5B4C3D2E1F0`, LLDB's folders of mapped UUIDs.
        Lldb = "lldb",
    }
}

impl SourceLayout {
    /// Returns the path of the debug information of a debug id.
    #[must_use]
    pub fn path_of_id(self, debug_id: &DebugId) -> String {
        let digits = debug_id.uuid().simple().to_string();
        match self {
            SourceLayout::Unified => {
                let (first, rest) = digits.split_at(2);
                format!("{first}/{rest}/debuginfo")
            }
            SourceLayout::Debuginfod => format!("buildid/{digits}/debuginfo"),
            SourceLayout::Lldb => {
                let digits = digits.to_uppercase();
                let folders: Vec<&str> = (0..5).filter_map(|at| digits.get(4 * at..4 * at + 4)).collect();
                format!("{}/{}", folders.join("/"), digits.get(20..).unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_has_its_path() {
        let debug_id: DebugId = "4c4c442c55553144a13ccb08e4ddcb6b".parse().unwrap();
        for (layout, path) in [
            (SourceLayout::Unified, "4c/4c442c55553144a13ccb08e4ddcb6b/debuginfo"),
            (SourceLayout::Debuginfod, "buildid/4c4c442c55553144a13ccb08e4ddcb6b/debuginfo"),
            (SourceLayout::Lldb, "4C4C/442C/5555/3144/A13C/CB08E4DDCB6B"),
        ] {
            assert_eq!(layout.path_of_id(&debug_id), path);
        }
    }
}
