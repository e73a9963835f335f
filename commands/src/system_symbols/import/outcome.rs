//! The result of an import, for people and as JSON.

use super::find::UnusableFile;
use super::read::{ImageFile, LeftOut};
use serde::Serialize;
use std::collections::BTreeSet;
use unslide_cli::{BoxError, Console, Exit, Outcome, inform, note};

/// Images that are named on the terminal; JSON has all of them.
const MAX_SHOWN: usize = 20;

/// The result of one cache, or of the libraries of one release.
#[derive(Debug, Default, Serialize)]
pub struct SourceOutcome {
    /// Release and architecture, such as `iOS 26.2 (23B87) arm64e`.
    pub name: String,
    /// Path of the cache's main file; absent for libraries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub libraries: usize,
    /// Libraries with names that the server lacked.
    pub new: usize,
    /// Libraries that the server has, with as many names.
    pub known: usize,
    /// Libraries that are damaged or cannot be read.
    pub left_out: Vec<LeftOut>,
    /// Paths of libraries that name no function, as a few of every release.
    pub nameless: Vec<String>,
    /// Functions with a name in the new libraries.
    pub functions: u64,
    /// Functions without a name in the new libraries.
    pub unnamed_functions: u64,
    pub sent_bytes: u64,
    /// The file with local symbols, if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks_locals: Option<String>,
}

impl SourceOutcome {
    /// Counts a library that is sent.
    pub fn add(&mut self, image: &ImageFile) {
        self.new += 1;
        self.functions += image.named;
        self.unnamed_functions += image.unnamed;
    }

    /// Returns true if all names that the files have are there.
    fn is_whole(&self) -> bool {
        self.left_out.is_empty() && self.lacks_locals.is_none()
    }

    fn show_result(&self, is_dry_run: bool) -> String {
        let head = format!("{}: {} libraries", self.name, group_digits(self.libraries as u64));
        let (new, known) = (group_digits(self.new as u64), group_digits(self.known as u64));
        if is_dry_run {
            return format!("{head}, {new} lacking, {known} known");
        }
        let mut text = format!("{head}, {new} new, {known} known");
        if self.functions > 0 {
            let all = self.functions + self.unnamed_functions;
            let share = self.unnamed_functions * 1_000 / all;
            let functions = group_digits(self.functions);
            text += &format!(", {functions} functions named, {}.{} % without a name", share / 10, share % 10);
        }
        if !self.nameless.is_empty() {
            text += &format!(", {} without a function", self.nameless.len());
        }
        if !self.left_out.is_empty() {
            text += &format!(", {} left out", self.left_out.len());
        }
        text + &format!(", {} KB sent", group_digits(self.sent_bytes.div_ceil(1_000)))
    }
}

/// Writes a number with commas between its thousands.
fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The result of all sources.
#[derive(Default)]
pub struct ImportOutcome {
    pub sources: Vec<SourceOutcome>,
    pub unusable: Vec<UnusableFile>,
    /// The images that the server refused, with the reasons.
    pub refused: BTreeSet<String>,
    /// The error that ended the import early.
    pub ended: Option<BoxError>,
}

impl ImportOutcome {
    /// Prints the result and returns the exit code.
    ///
    /// # Errors
    /// Returns the error that ended the import.
    pub fn show_result(self, json: bool, is_dry_run: bool) -> Outcome {
        for UnusableFile { path, reason } in &self.unusable {
            note!("{}: {reason}", path.display());
        }
        for refused in self.refused.iter().take(MAX_SHOWN) {
            note!("the server refused {refused}");
        }
        for source in &self.sources {
            if let Some(file) = &source.lacks_locals {
                note!("{}: {file}. Import again with it", source.name);
            }
            for left_out in source.left_out.iter().take(MAX_SHOWN) {
                note!("{}: {}", left_out.path, left_out.reason);
            }
            if source.left_out.len() > MAX_SHOWN {
                note!(
                    "and {} more libraries were left out (--json lists them)",
                    source.left_out.len() - MAX_SHOWN
                );
            }
            inform!("{}", source.show_result(is_dry_run));
        }
        let is_whole = self.unusable.is_empty()
            && self.refused.is_empty()
            && self.sources.iter().all(SourceOutcome::is_whole);
        if json {
            let unusable = self.unusable.iter().map(
                |file| serde_json::json!({ "path": file.path.display().to_string(), "reason": file.reason }),
            );
            Console::get().print_json(&serde_json::json!({
                "sources": self.sources, "unusable": unusable.collect::<Vec<_>>(), "refused": self.refused,
                "ended_by": self.ended.as_ref().map(ToString::to_string),
            }))?;
        }
        match self.ended {
            Some(error) => Err(error),
            None if is_whole => Ok(Exit::Ready),
            None => Ok(Exit::Failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_one_line_with_what_came_and_what_is_missing() {
        let mut source = SourceOutcome {
            name: "iOS 26.2 (23B87) arm64e".to_owned(),
            libraries: 3_412,
            new: 2_871,
            known: 541,
            functions: 6_100_000,
            unnamed_functions: 24_498,
            sent_bytes: 74_000_000,
            ..SourceOutcome::default()
        };
        let line = "iOS 26.2 (23B87) arm64e: 3,412 libraries, 2,871 new, 541 known, 6,100,000 functions named, \
                    0.4 % without a name, 74,000 KB sent";
        assert_eq!(source.show_result(false), line);
        assert_eq!(
            source.show_result(true),
            "iOS 26.2 (23B87) arm64e: 3,412 libraries, 2,871 lacking, 541 known"
        );
        source.nameless.push("/usr/lib/libempty.dylib".to_owned());
        assert!(source.show_result(false).contains(", 1 without a function, "));
        assert!(source.is_whole(), "a library without a function is normal");
        source.left_out.push(LeftOut { path: "/usr/lib/a".to_owned(), reason: "damaged".to_owned() });
        assert!(source.show_result(false).contains(", 1 without a function, 1 left out, "));
        assert!(!source.is_whole());
    }
}
