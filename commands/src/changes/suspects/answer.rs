//! The suspects of bugs as text.

use super::search::{ImageSuspects, SuspectCommit};
use serde::Serialize;
use unslide_cli::say;
use unslide_model::shorten_commit;

/// Characters of a time that are its day.
const DAY_CHARS: usize = 10;

/// A bug with the suspects of each image in its stack.
#[derive(Debug, Serialize)]
pub struct GroupSuspects {
    /// The name by which it was asked for.
    pub group: String,
    pub id: String,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_before: Option<String>,
    pub images: Vec<ImageSuspects>,
}

/// Prints bugs with their suspects.
pub fn print_groups(groups: &[GroupSuspects]) {
    for group in groups {
        say!("{}: {}", group.group, group.text);
        group.images.iter().for_each(print_image);
    }
}

fn print_image(image: &ImageSuspects) {
    match &image.hint {
        Some(hint) => say!("  {}: {hint}", image.name),
        None => say!("  {}:", image.name),
    }
    if let Some(url) = &image.compare_url {
        say!("    {url}");
    }
    for function in &image.functions {
        let place = match (&function.path, function.line) {
            (Some(path), Some(line)) => format!(" ({path}:{line})"),
            (Some(path), None) => format!(" ({path})"),
            (None, _) => String::new(),
        };
        say!("    {}{place}", function.name);
        if let Some(hint) = &function.hint {
            say!("      {hint}");
        }
        function.commits.iter().for_each(|commit| say!("      {}", describe_commit(commit)));
    }
}

fn describe_commit(found: &SuspectCommit) -> String {
    let SuspectCommit { commit, author, email, at, subject } = found;
    let commit = shorten_commit(commit);
    let day = at.get(..DAY_CHARS).unwrap_or(at);
    format!("{commit} {day} {author} <{email}>: {subject}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_one_line() {
        let found = SuspectCommit {
            commit: "3f2a9c1d0e4b5a6978f1e2d3c4b5a69788796a5b".to_owned(),
            author: "Ada".to_owned(),
            email: "ada@example.com".to_owned(),
            at: "2026-11-20T09:00:00+00:00".to_owned(),
            subject: "Cap the discount".to_owned(),
        };
        assert_eq!(
            describe_commit(&found),
            "3f2a9c1d0e4b 2026-11-20 Ada <ada@example.com>: Cap the discount"
        );
    }
}
