//! A CODEOWNERS file: its lines, and those that decide for a path.

use crate::pattern::{PathPattern, PathSegments};
use serde::{Deserialize, Serialize};
use unslide_model::words;
use utoipa::ToSchema;

/// The most bytes of a file: GitHub does not load a larger one.
pub const MAX_OWNERS_BYTES: usize = 3_000_000;
/// The most lines with a pattern.
pub(crate) const MAX_RULES: usize = 50_000;
/// The most lines of a file, comments included.
pub(crate) const MAX_LINES: usize = 100_000;
/// The most headings of a file.
pub(crate) const MAX_HEADINGS: usize = 1_000;
/// The most bytes of a line. The rest of a longer one is never read.
const MAX_LINE_BYTES: usize = 8_192;
/// The most bytes of a pattern: no path in a repository is that long.
pub(crate) const MAX_PATTERN_BYTES: usize = 1_024;
/// The most wildcards, with the characters beside them, in the patterns of a file: they are the work that a path takes.
pub(crate) const MAX_WILD_TOKENS: usize = 500_000;
/// The most problems that are kept of a file, and the most characters of the text of one.
const MAX_PROBLEMS: usize = 50;
const MAX_PROBLEM_CHARS: usize = 300;
/// The most bytes of an owner.
const MAX_OWNER_BYTES: usize = 255;

words! {
    /// The rules by which a file is read.
    pub enum OwnersDialect {
        /// One list: the last line that matches decides.
        GitHub = "github",
        /// Sections: each has a last line that matches, and may exclude paths.
        GitLab = "gitlab",
    }
}

/// Reason why a file is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnersFileError {
    /// It has too many bytes.
    #[error("the file has {0} bytes; at most {MAX_OWNERS_BYTES} are read")]
    TooLarge(usize),
    /// It is no text.
    #[error("line {0} is not UTF-8")]
    NotText(usize),
    /// It has too many lines.
    #[error(
        "the file has more than {MAX_LINES} lines, {MAX_RULES} with a pattern, or {MAX_HEADINGS} headings of sections"
    )]
    TooManyLines,
    /// Its patterns have too many wildcards.
    #[error(
        "the names with wildcards in the patterns have more than {MAX_WILD_TOKENS} characters together: write folders without * where you can"
    )]
    TooManyWildcards,
}

/// A line that is skipped or that is not read as it was meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OwnersLineProblem {
    /// The line's number, from 1.
    pub line: u32,
    /// The fault, and how the line is read.
    pub problem: String,
}

/// A line that decides for a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecidingLine {
    /// Its number in the file, from 1.
    pub line: u32,
    /// Its pattern, as the file has it.
    #[schema(example = "/Sources/Cart/")]
    pub pattern: String,
    /// The name of its section; absent outside of sections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// The owners that it names. Those of the section's heading if it names none.
    #[schema(max_items = 20, example = json!(["@example/cart"]))]
    pub owners: Vec<String>,
}

/// A file that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnersFile {
    /// The sections. A file of GitHub has one without a name.
    pub(crate) sections: Vec<OwnersSection>,
    /// The lines of the file that are skipped.
    pub problems: OwnersLineProblems,
}

/// The lines of a file that are skipped or not read as they were meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnersLineProblems {
    /// How many problems there are.
    pub count: u64,
    /// The first of them, in the order of their lines, at most 50.
    pub first: Vec<OwnersLineProblem>,
}

impl OwnersLineProblems {
    /// Adds a problem of a line. Only the first ones keep their text: a file may have a million.
    pub(crate) fn add_problem(&mut self, line: u32, problem: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < MAX_PROBLEMS {
            let problem = problem().chars().take(MAX_PROBLEM_CHARS).collect();
            self.first.push(OwnersLineProblem { line, problem });
        }
    }
}

/// A section with its lines in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnersSection {
    pub(crate) name: Option<String>,
    pub(crate) rules: Vec<OwnerRule>,
    /// Paths that have no owner in this section.
    pub(crate) excluded: Vec<PathPattern>,
}

/// A line with a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerRule {
    pub(crate) line: u32,
    pub(crate) text: String,
    pub(crate) pattern: PathPattern,
    pub(crate) owners: Vec<String>,
}

impl OwnersFile {
    /// Returns the number of lines with a pattern.
    #[must_use]
    pub fn count_rules(&self) -> usize {
        self.sections.iter().map(|section| section.rules.len() + section.excluded.len()).sum()
    }

    /// Returns the number of tokens in names with wildcards.
    pub(crate) fn count_wild_tokens(&self) -> usize {
        let patterns = self
            .sections
            .iter()
            .flat_map(|section| section.rules.iter().map(|rule| &rule.pattern).chain(&section.excluded));
        patterns.map(PathPattern::count_wild_tokens).sum()
    }

    /// Returns the last line of each section that matches a path of the repository.
    pub(crate) fn find_deciding(&self, path: &str) -> Vec<(&OwnersSection, &OwnerRule)> {
        let path = PathSegments::new(path);
        let find = |section: &'_ OwnersSection| -> Option<usize> {
            if section.excluded.iter().any(|pattern| pattern.is_match(&path)) {
                return None;
            }
            section.rules.iter().rposition(|rule| rule.pattern.is_match(&path))
        };
        let found = self.sections.iter().filter_map(|section| Some((section, find(section)?)));
        found.filter_map(|(section, at)| Some((section, section.rules.get(at)?))).collect()
    }
}

impl OwnerRule {
    /// Returns the line as a part of an answer.
    pub(crate) fn to_deciding(&self, section: &OwnersSection) -> DecidingLine {
        DecidingLine {
            line: self.line,
            pattern: self.text.clone(),
            section: section.name.clone(),
            owners: self.owners.clone(),
        }
    }
}

/// Returns the lines of a text with their numbers, without those that are empty or comments. A line that is too long is an error.
pub(crate) fn list_lines(text: &str) -> impl Iterator<Item = (u32, Result<&str, String>)> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim_matches([' ', '\t', '\r'])));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| {
        if line.len() > MAX_LINE_BYTES {
            return (number, Err(format!("the line has more than {MAX_LINE_BYTES} bytes; it is skipped")));
        }
        if split_pattern(line).0.len() > MAX_PATTERN_BYTES {
            return (
                number,
                Err(format!("the pattern has more than {MAX_PATTERN_BYTES} bytes; it is skipped")),
            );
        }
        (number, Ok(line))
    })
}

/// Splits a line at the first white space that is not escaped with a backslash: its pattern, and the rest.
pub(crate) fn split_pattern(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    for (at, one) in line.char_indices() {
        if (one == ' ' || one == '\t') && !is_escaped {
            let (pattern, rest) = line.split_at(at);
            return (pattern, rest.trim_start_matches([' ', '\t']));
        }
        is_escaped = one == '\\' && !is_escaped;
    }
    (line, "")
}

/// Returns true for an address: a name, an at sign and a domain.
pub(crate) fn is_mail_address(owner: &str) -> bool {
    let Some((name, domain)) = owner.split_once('@') else { return false };
    let is_domain = |one: char| one.is_alphanumeric() || matches!(one, '.' | '-');
    owner.len() <= MAX_OWNER_BYTES
        && !name.is_empty()
        && !name.contains(char::is_control)
        && domain.contains('.')
        && domain.chars().all(is_domain)
}

/// Returns true for the name of a user, or of a group with its path, after the at sign.
pub(crate) fn is_account_path(name: &str) -> bool {
    let is_name = |one: char| one.is_alphanumeric() || matches!(one, '.' | '-' | '_');
    name.len() < MAX_OWNER_BYTES && name.split('/').all(|part| !part.is_empty() && part.chars().all(is_name))
}
