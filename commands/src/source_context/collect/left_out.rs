//! Source files that symbols name and that are not sent.

use std::collections::BTreeMap;
use std::path::Path;

/// Why a source file is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOutReason {
    /// There is no such file.
    Missing,
    /// It lies outside of the source root.
    Outside,
    /// It matches a pattern of files that are not sent.
    Excluded,
    /// It is no text, or too large.
    NoText,
}

/// The number of source files that are not sent, and one of them, for each reason.
#[derive(Debug, Default)]
pub struct LeftOutSources(BTreeMap<LeftOutReason, (usize, String)>);

impl LeftOutSources {
    pub fn add_path(&mut self, named: &str, reason: LeftOutReason) {
        self.0.entry(reason).or_insert_with(|| (0, named.to_owned())).0 += 1;
    }

    /// Says why no source file is sent.
    pub fn describe_absence(&self, root: &Path) -> String {
        let all: usize = self.0.values().map(|(count, _)| count).sum();
        if all == 0 {
            return "the symbols name no source files".to_owned();
        }
        let parts = self.0.iter().map(|(reason, (count, example))| {
            let verb = if *count == 1 { "is" } else { "are" };
            let what = match reason {
                LeftOutReason::Missing => "not on this machine".to_owned(),
                LeftOutReason::Outside => format!("outside of the source root {}", root.display()),
                LeftOutReason::Excluded => "left out by a pattern".to_owned(),
                LeftOutReason::NoText => "no text in UTF-8 of at most 2 MiB".to_owned(),
            };
            format!("{count} {verb} {what}, such as {example}")
        });
        let parts: Vec<String> = parts.collect();
        format!("the symbols name {all} source files: {}", parts.join("; "))
    }
}
