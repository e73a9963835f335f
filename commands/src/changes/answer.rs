//! The answer about an image in two builds, of the server or of this machine, and its text.

use serde::{Deserialize, Serialize};
use unslide_changes_compare::{BuildCounts, FunctionChange};
use unslide_cli::{note, say};
use unslide_model::DebugId;

/// The functions of an image that differ between two builds.
#[derive(Debug, Deserialize, Serialize)]
pub struct ImageDiff {
    /// The name of the file; the server does not say it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub a: DebugId,
    pub b: DebugId,
    pub outcome: String,
    pub text: String,
    pub counts: BuildCounts,
    pub functions: Vec<FunctionChange>,
    pub is_truncated: bool,
}

/// Prints images with their functions.
pub fn print_images(images: &[ImageDiff]) {
    for image in images {
        let name = if image.name.is_empty() { String::new() } else { format!("{}: ", image.name) };
        say!("{name}{}", image.text);
        for function in &image.functions {
            say!("  {}", function.text);
            let line = function.changed_line.or(function.line).or(function.line_before);
            if let (Some(file), Some(line)) = (&function.file, line) {
                say!("    {file}:{line}");
            }
        }
        if image.is_truncated {
            note!("more functions differ than are listed");
        }
    }
}
