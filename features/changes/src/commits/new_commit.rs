//! A commit of builds as a client sends it.

use super::repository::Repository;
use crate::store::NewBuildCommitRow;
use serde::Deserialize;
use unslide_api::feature::operation::{Kind, Problem, is_text};
use unslide_model::is_commit;
use utoipa::ToSchema;

/// The most bytes of the folder of a checkout.
const SOURCE_ROOT_BYTES: usize = 1_000;

/// The commit that builds were made of.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBuildCommit {
    /// The debug ids of the builds, dashed or not, in any case.
    #[schema(min_items = 1, max_items = 500, example = json!(["0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"]))]
    pub debug_ids: Vec<String>,
    /// The commit: 7 to 64 hexadecimal digits.
    #[schema(min_length = 7, max_length = 64, example = "3f2a9c1d0e4b5a6978f1e2d3c4b5a69788796a5b")]
    pub commit: String,
    /// The address of the repository, with https or ssh. One with a user name, a password, a token, a query or a fragment is refused.
    #[serde(default)]
    #[schema(max_length = 300, example = "https://github.com/example/shop")]
    pub repository: Option<String>,
    /// The number of the pull request that the commit is of.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 2_147_483_647, example = 214)]
    pub pull_request: Option<u32>,
    /// The folder of the checkout on the machine of the build: paths of source files in the symbols begin with it.
    #[serde(default)]
    #[schema(max_length = 1000, example = "/Users/runner/work/shop/shop")]
    pub source_root: Option<String>,
}

/// Checks a commit, and returns it in the form in which it is stored.
///
/// # Errors
/// [`Kind::InvalidBody`]. It does not repeat the address.
pub fn check_commit(new: NewBuildCommit) -> Result<NewBuildCommitRow, Problem> {
    let NewBuildCommit { debug_ids: _, commit, repository, pull_request, source_root } = new;
    let refuse =
        |field: &str, reason: &str| Err(Problem::new(Kind::InvalidBody, format!("{field}: {reason}")));
    if !is_commit(&commit) {
        return refuse("commit", "7 to 64 hexadecimal digits");
    }
    if let Some(Err(error)) = repository.as_deref().map(Repository::parse) {
        return refuse("repository", &error.to_string());
    }
    let number = pull_request.map(i32::try_from).transpose().ok().filter(|number| *number != Some(0));
    let Some(pull_request) = number else {
        return refuse("pull_request", "1 to 2147483647");
    };
    if source_root.as_deref().is_some_and(|root| !is_text(root, SOURCE_ROOT_BYTES)) {
        return refuse("source_root", "1 to 1000 bytes, no control characters");
    }
    Ok(NewBuildCommitRow { commit: commit.to_ascii_lowercase(), repository, pull_request, source_root })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut NewBuildCommit)) -> Result<NewBuildCommitRow, String> {
        let mut new = NewBuildCommit {
            debug_ids: Vec::new(),
            commit: "0A1B2C3".to_owned(),
            repository: None,
            pull_request: None,
            source_root: None,
        };
        change(&mut new);
        check_commit(new).map_err(|problem| format!("{problem:?}"))
    }

    #[test]
    fn a_commit_is_stored_in_one_form() {
        assert_eq!(check(|_| {}).unwrap().commit, "0a1b2c3");
        assert_eq!(check(|new| new.pull_request = Some(214)).unwrap().pull_request, Some(214));
    }

    #[test]
    fn a_wrong_field_is_named_and_an_address_with_a_password_is_not_repeated() {
        for commit in ["", "0a1b2c", "0a1b2cg", "--output=x", "HEAD", &"a".repeat(65)] {
            assert!(
                check(|new| new.commit = commit.to_owned()).unwrap_err().contains("commit: "),
                "{commit}"
            );
        }
        for number in [0, 1 << 31] {
            let refused = check(|new| new.pull_request = Some(number)).unwrap_err();
            assert!(refused.contains("pull_request: "), "{refused}");
        }
        for root in ["", "a\nb", &"a".repeat(1_001)] {
            assert!(
                check(|new| new.source_root = Some(root.to_owned())).unwrap_err().contains("source_root: ")
            );
        }
        let address = "https://ci:hunter2@github.com/example/shop";
        let refused = check(|new| new.repository = Some(address.to_owned())).unwrap_err();
        assert!(refused.contains("repository: has a user name") && !refused.contains("hunter2"), "{refused}");
    }
}
