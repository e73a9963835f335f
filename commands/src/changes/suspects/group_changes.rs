//! The answer of the API about the changed functions of a group, as far as suspects are found by it.

use serde::Deserialize;
use unslide_changes_compare::FunctionChange;

/// The changed functions of a group.
#[derive(Debug, Deserialize)]
pub struct AnsweredChanges {
    pub group: String,
    pub text: String,
    pub version: Option<String>,
    pub version_before: Option<String>,
    pub images: Vec<AnsweredImage>,
}

/// An image of the stack in two builds.
#[derive(Debug, Deserialize)]
pub struct AnsweredImage {
    pub name: String,
    pub functions: Vec<FunctionChange>,
    #[serde(default)]
    pub commits: Option<AnsweredCommits>,
}

/// The commits of the two builds.
#[derive(Debug, Default, Deserialize)]
pub struct AnsweredCommits {
    #[serde(default)]
    pub before: Option<AnsweredCommit>,
    #[serde(default)]
    pub after: Option<AnsweredCommit>,
    #[serde(default)]
    pub compare_url: Option<String>,
    #[serde(default)]
    pub files: Vec<AnsweredFile>,
}

#[derive(Debug, Deserialize)]
pub struct AnsweredCommit {
    pub commit: String,
}

/// A source file with its path in the repository.
#[derive(Debug, Deserialize)]
pub struct AnsweredFile {
    pub file: String,
    pub path: String,
    #[serde(default)]
    pub compare_url: Option<String>,
}
