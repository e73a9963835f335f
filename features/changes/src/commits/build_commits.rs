//! The commits of the builds that are compared, as answers have them.

use super::code_host::{build_compare_url, build_file_url};
use super::repository::Repository;
use super::source_path::find_path_in_repository;
use crate::store::BuildCommitRow;
use serde::Serialize;
use std::collections::BTreeMap;
use unslide_changes_compare::{ChangeState, FunctionChange};
use unslide_model::{DebugId, shorten_commit};
use utoipa::ToSchema;

/// The commits of two builds, and the page that compares them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BuildCommits {
    /// The commit of the build before; absent if no upload named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<BuildCommit>,
    /// The commit of the build after; absent if no upload named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<BuildCommit>,
    /// The page that compares both. Absent if one is not known, they are of different repositories, or the address of such a page on
    /// their host is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000, example = "https://github.com/example/shop/compare/0a1b2c3...4d5e6f7")]
    pub compare_url: Option<String>,
    /// The source files of functions that were edited or are new, if they lie in the repository.
    #[schema(max_items = 200)]
    pub files: Vec<ComparedFile>,
}

/// The commit that a build was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BuildCommit {
    /// The commit, in hexadecimal digits.
    #[schema(max_length = 64, example = "3f2a9c1d0e4b5a6978f1e2d3c4b5a69788796a5b")]
    pub commit: String,
    /// The address of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 300, example = "https://github.com/example/shop")]
    pub repository: Option<String>,
    /// The number of its pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_147_483_647, example = 214)]
    pub pull_request: Option<u32>,
}

/// A source file in the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ComparedFile {
    /// The path in the symbols, as functions have it.
    #[schema(max_length = 1000)]
    pub file: String,
    /// The path in the repository.
    #[schema(max_length = 1000, example = "Sources/Cart.swift")]
    pub path: String,
    /// The place of the file on the page that compares the commits; absent if the host has no address for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1100)]
    pub compare_url: Option<String>,
}

impl From<&BuildCommitRow> for BuildCommit {
    fn from(row: &BuildCommitRow) -> BuildCommit {
        BuildCommit {
            commit: row.commit.clone(),
            repository: row.repository.clone(),
            pull_request: row.pull_request,
        }
    }
}

/// Describes the commits of two builds with these functions. None if neither build has one.
pub fn describe_commits(
    rows: &BTreeMap<DebugId, BuildCommitRow>,
    [before, after]: [DebugId; 2],
    functions: &[FunctionChange],
) -> Option<BuildCommits> {
    let [before, after] = [before, after].map(|id| rows.get(&id));
    if before.is_none() && after.is_none() {
        return None;
    }
    let pair = before.zip(after).and_then(|(before, after)| {
        let repository = find_common_repository([&before.repository, &after.repository])?;
        let url = build_compare_url(&repository, &before.commit, &after.commit);
        Some((repository, url.filter(|_| before.commit != after.commit)?))
    });
    let mut files: BTreeMap<&str, ComparedFile> = BTreeMap::new();
    let is_edited =
        |function: &&FunctionChange| matches!(function.state, ChangeState::Changed | ChangeState::New);
    for function in functions.iter().filter(is_edited) {
        let (Some(file), Some(after)) = (&function.file, after) else { continue };
        let Some(path) = find_path_in_repository(file, after.source_root.as_deref()) else { continue };
        let compare_url = pair.as_ref().and_then(|(repository, url)| build_file_url(repository, url, &path));
        files.insert(file, ComparedFile { file: file.clone(), path, compare_url });
    }
    Some(BuildCommits {
        before: before.map(BuildCommit::from),
        after: after.map(BuildCommit::from),
        compare_url: pair.map(|(_, url)| url),
        files: files.into_values().collect(),
    })
}

impl BuildCommits {
    /// Says which commits the builds were made of.
    pub fn describe_pair(&self) -> String {
        let [before, after] = [&self.before, &self.after].map(|commit| match commit {
            None => "an unknown commit".to_owned(),
            Some(BuildCommit { commit, pull_request: None, .. }) => shorten_commit(commit).to_owned(),
            Some(BuildCommit { commit, pull_request: Some(number), .. }) => {
                format!("{} (pull request {number})", shorten_commit(commit))
            }
        });
        format!("built of {before} before, and of {after} since")
    }

    /// Returns the place of a function's source file on the page that compares the commits.
    pub fn find_file_url(&self, file: &str) -> Option<&str> {
        self.files.iter().find(|known| known.file == file)?.compare_url.as_deref()
    }
}

/// Returns the repository of two addresses. None if one is not known, or they are of different ones.
pub fn find_common_repository(addresses: [&Option<String>; 2]) -> Option<Repository> {
    let [before, after] = addresses.map(|address| Repository::parse(address.as_deref()?).ok());
    before.filter(|before| after.as_ref() == Some(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILDS: [DebugId; 2] = [DebugId([1; 16]), DebugId([2; 16])];

    fn rows(repositories: [Option<&str>; 2], commits: [&str; 2]) -> BTreeMap<DebugId, BuildCommitRow> {
        let rows = BUILDS.iter().zip(repositories).zip(commits).map(|((debug_id, repository), commit)| {
            let row = BuildCommitRow {
                debug_id: *debug_id,
                commit: commit.to_owned(),
                repository: repository.map(str::to_owned),
                pull_request: None,
                source_root: Some("/ci".to_owned()),
            };
            (*debug_id, row)
        });
        rows.collect()
    }

    fn function(file: &str, state: &str) -> FunctionChange {
        let function = serde_json::json!({
            "name": "total", "state": state, "text": "", "file": file, "lines_more": 0,
        });
        serde_json::from_value(function).unwrap()
    }

    #[test]
    fn the_page_and_the_files_of_edited_functions_are_linked() {
        let github = Some("git@github.com:example/shop.git");
        let functions = [
            function("/ci/Sources/Cart.swift", "changed"),
            function("/ci/Sources/Cart.swift", "new"),
            function("/ci/Sources/Shelf.swift", "same"),
            function("/usr/include/stdio.h", "changed"),
        ];
        let rows = rows([Some("https://github.com/example/shop"), github], ["0a1b2c3", "4d5e6f7"]);
        let found = describe_commits(&rows, BUILDS, &functions).unwrap();
        let page = "https://github.com/example/shop/compare/0a1b2c3...4d5e6f7";
        assert_eq!(found.compare_url.as_deref(), Some(page));
        assert_eq!(found.files.len(), 1, "{found:?}");
        assert_eq!(found.files[0].path, "Sources/Cart.swift");
        let place = found.find_file_url("/ci/Sources/Cart.swift").unwrap();
        assert!(place.starts_with(&format!("{page}#diff-")), "{place}");
        assert_eq!(found.find_file_url("/ci/Sources/Shelf.swift"), None);
        assert_eq!(found.describe_pair(), "built of 0a1b2c3 before, and of 4d5e6f7 since");
    }

    #[test]
    fn commits_without_a_common_page_are_named_without_a_link() {
        let github = Some("https://github.com/example/shop");
        for (repositories, commits) in [
            ([None, github], ["0a1b2c3", "4d5e6f7"]),
            ([None, None], ["0a1b2c3", "4d5e6f7"]),
            ([github, Some("https://github.com/example/other")], ["0a1b2c3", "4d5e6f7"]),
            ([github, github], ["0a1b2c3", "0a1b2c3"]),
            ([Some("https://git.example.com/a/b"); 2], ["0a1b2c3", "4d5e6f7"]),
        ] {
            let found = describe_commits(&rows(repositories, commits), BUILDS, &[]).unwrap();
            assert_eq!(found.compare_url, None, "{repositories:?}");
            assert_eq!(found.after.unwrap().commit, commits[1]);
        }
        let mut one = rows([github, github], ["0a1b2c3", "4d5e6f7"]);
        one.remove(&BUILDS[0]);
        let found = describe_commits(&one, BUILDS, &[]).unwrap();
        assert!(found.before.is_none() && found.compare_url.is_none() && found.after.is_some());
        assert_eq!(describe_commits(&BTreeMap::new(), BUILDS, &[]), None);
    }
}
