//! Finds the commits between two builds that changed the lines of edited functions.

use super::checkout::{Checkout, GitError};
use super::group_changes::{AnsweredCommit, AnsweredCommits, AnsweredImage};
use super::source_file::{find_by_names, is_inside};
use serde::Serialize;
use unslide_changes_compare::{ChangeState, FunctionChange};
use unslide_model::is_commit;

/// Commits that are named of one function.
const COMMITS_LIMIT: usize = 20;
/// Functions of an image that are searched for.
const FUNCTIONS_LIMIT: usize = 50;
/// The parts of a commit in the output of git, between separators that begin a commit and a part.
const FORMAT: &str = "--format=%x1e%H%x1f%aN%x1f%aE%x1f%aI%x1f%s";
const COMMIT_SEPARATOR: char = '\x1e';
const PART_SEPARATOR: char = '\x1f';
/// The most characters of a part.
const PART_CHARS: usize = 300;

/// The edited functions of an image, with the commits that changed them.
#[derive(Debug, Default, Serialize)]
pub struct ImageSuspects {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare_url: Option<String>,
    /// Why no commits are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub functions: Vec<FunctionSuspects>,
    /// True if the checkout lacks a commit.
    #[serde(skip)]
    pub lacks_commit: bool,
}

/// An edited function with the commits that changed its lines.
#[derive(Debug, Serialize)]
pub struct FunctionSuspects {
    pub name: String,
    pub text: String,
    /// The path in the repository, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare_url: Option<String>,
    /// Why no commit is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Commits that changed its lines, the newest first.
    pub commits: Vec<SuspectCommit>,
}

/// A commit that changed lines of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SuspectCommit {
    pub commit: String,
    pub author: String,
    pub email: String,
    pub at: String,
    pub subject: String,
}

/// Finds the commits that changed the functions of an image.
///
/// # Errors
/// Returns an error if git cannot be run.
pub async fn find_suspects(checkout: &Checkout, image: AnsweredImage) -> Result<ImageSuspects, GitError> {
    let AnsweredImage { name, functions, commits } = image;
    let is_edited =
        |function: &FunctionChange| matches!(function.state, ChangeState::Changed | ChangeState::New);
    let edited: Vec<FunctionChange> = functions.into_iter().filter(is_edited).take(FUNCTIONS_LIMIT).collect();
    let commits = commits.unwrap_or_default();
    let sha = |commit: Option<&AnsweredCommit>| {
        commit.map(|commit| commit.commit.clone()).filter(|commit| is_commit(commit))
    };
    let (before, after) = (sha(commits.before.as_ref()), sha(commits.after.as_ref()));
    let mut found = ImageSuspects {
        name,
        before: before.clone(),
        after: after.clone(),
        compare_url: commits.compare_url.clone(),
        ..ImageSuspects::default()
    };
    let (Some(before), Some(after)) = (before, after) else {
        found.hint =
            Some("no upload named the commits of both builds: see unslide upload --commit".to_owned());
        return Ok(found);
    };
    if edited.is_empty() {
        found.hint = Some("no function of the stack was edited".to_owned());
        return Ok(found);
    }
    if let Some(hint) = find_lacking(checkout, [&before, &after]).await? {
        found.hint = Some(hint);
        found.lacks_commit = true;
        return Ok(found);
    }
    let listed = checkout.run_git(["ls-tree", "-r", "-z", "--name-only", &after]).await?;
    let listed = String::from_utf8_lossy(&listed);
    let paths: Vec<&str> = listed.split('\0').collect();
    for function in edited {
        let suspects = search_function(checkout, [&before, &after], &paths, &commits, function).await?;
        found.functions.push(suspects);
    }
    Ok(found)
}

/// Says what to do if a commit is not in the checkout. None if both are.
async fn find_lacking(checkout: &Checkout, commits: [&str; 2]) -> Result<Option<String>, GitError> {
    for commit in commits {
        if !checkout.has_object(&format!("{commit}^{{commit}}")).await? {
            let advice = match checkout.is_shallow().await? {
                true => "git fetch --unshallow",
                false => "git fetch --all",
            };
            return Ok(Some(format!("the commit {commit} is not in the checkout: run {advice}")));
        }
    }
    Ok(None)
}

async fn search_function(
    checkout: &Checkout,
    [before, after]: [&str; 2],
    paths: &[&str],
    commits: &AnsweredCommits,
    function: FunctionChange,
) -> Result<FunctionSuspects, GitError> {
    let FunctionChange { name, text, file, line, last_line, .. } = function;
    let known = commits.files.iter().find(|known| Some(&known.file) == file.as_ref());
    let path = known.map(|known| known.path.as_str()).filter(|path| paths.contains(path) && is_inside(path));
    let path = path.or_else(|| find_by_names(paths.iter().copied(), file.as_deref()?));
    let mut found = FunctionSuspects {
        name,
        text,
        path: path.map(str::to_owned),
        line,
        last_line,
        compare_url: known.and_then(|known| known.compare_url.clone()),
        hint: None,
        commits: Vec::new(),
    };
    let Some(path) = path else {
        found.hint = Some("no file of the repository has its path".to_owned());
        return Ok(found);
    };
    let Some(line) = line else {
        found.hint = Some("the symbols do not name its lines".to_owned());
        return Ok(found);
    };
    let lines = format!("-L{line},{}:{path}", last_line.unwrap_or(line).max(line));
    let range = format!("{before}..{after}");
    let limit = format!("--max-count={COMMITS_LIMIT}");
    let log =
        ["log", "--no-color", "--no-patch", "--no-ext-diff", "--no-textconv", &limit, FORMAT, &lines, &range];
    match checkout.run_git(log).await {
        Ok(output) => found.commits = read_commits(&String::from_utf8_lossy(&output)),
        // The file has fewer lines: it is not the one that was built.
        Err(GitError::Failed(reason)) => {
            found.hint = Some(format!("git cannot follow its lines: {}", cut_part(&reason)));
        }
        Err(error) => return Err(error),
    }
    if found.hint.is_none() && found.commits.is_empty() {
        found.hint = Some("no commit between the two builds changed its lines".to_owned());
    }
    Ok(found)
}

/// Reads the commits in the output of git. A part of a commit that has separators ends there.
fn read_commits(output: &str) -> Vec<SuspectCommit> {
    let commits = output.split(COMMIT_SEPARATOR).filter_map(|entry| {
        let mut parts = entry.lines().next()?.split(PART_SEPARATOR);
        let commit = parts.next().filter(|commit| is_commit(commit))?.to_owned();
        let [author, email, at, subject] =
            std::array::from_fn(|_| cut_part(parts.next().unwrap_or_default()));
        Some(SuspectCommit { commit, author, email, at, subject })
    });
    commits.take(COMMITS_LIMIT).collect()
}

fn cut_part(text: &str) -> String {
    text.chars().take(PART_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_read_and_a_subject_forges_none() {
        let forged = "\x1e0a1b2c3d\x1fAda\x1fada@example.com\x1f2026-11-20T09:00:00+00:00\x1fA\x1e--x\x1fMallory\x1fm\x1fn\x1fo\n";
        let commits = read_commits(&format!("{forged}diff --git a/x b/x\n\x1e4d5e6f7a\x1fBob\n"));
        assert_eq!(commits.len(), 2, "{commits:?}");
        assert_eq!((commits[0].author.as_str(), commits[0].subject.as_str()), ("Ada", "A"));
        assert_eq!((commits[1].author.as_str(), commits[1].at.as_str()), ("Bob", ""));
    }

    #[test]
    fn an_option_is_no_commit() {
        assert!(
            is_commit("0a1b2c3") && !is_commit("--output=/tmp/x") && !is_commit("HEAD") && !is_commit("")
        );
    }
}
