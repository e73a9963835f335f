//! The commit that builds are made of: from options, or from the environment of a CI system.

use clap::Args;
use std::env;
use std::path::Path;
use unslide_cli::{CommandError, SourceCommit, note};
use unslide_model::is_commit;

/// The most bytes of a repository's address and of a folder that the API keeps.
const REPOSITORY_BYTES: usize = 300;
const SOURCE_ROOT_BYTES: usize = 1_000;
/// The user name of SSH that is no person's.
const SSH_USER: &str = "git";

/// Which commit the builds are made of.
#[derive(Args)]
pub struct CommitArguments {
    /// The commit that the builds are made of, at least 7 hexadecimal digits. If absent, the one that the environment of a CI system
    /// names
    #[arg(long, value_name = "SHA", value_parser = parse_commit)]
    commit: Option<String>,
    /// The address of the commit's repository, with https or ssh. A user name, password or token in it is not sent
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
    /// The number of the commit's pull request
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    pull_request: Option<u32>,
    /// Send no commit, also if the environment names one
    #[arg(long, conflicts_with_all = ["commit", "repository", "pull_request"])]
    no_commit: bool,
}

/// The variables of the environment in which a CI system names the commit.
struct CiSystem {
    commit: &'static str,
    /// They are joined by a slash.
    repository: &'static [&'static str],
    /// The first that names a number counts.
    pull_request: &'static [&'static str],
}

/// In the order in which they are asked. Xcode Cloud names no repository.
const CI_SYSTEMS: [CiSystem; 7] = [
    // GitHub Actions.
    CiSystem {
        commit: "GITHUB_SHA",
        repository: &["GITHUB_SERVER_URL", "GITHUB_REPOSITORY"],
        pull_request: &["GITHUB_REF"],
    },
    // GitLab CI.
    CiSystem {
        commit: "CI_COMMIT_SHA",
        repository: &["CI_PROJECT_URL"],
        pull_request: &["CI_MERGE_REQUEST_IID"],
    },
    // Bitrise.
    CiSystem {
        commit: "BITRISE_GIT_COMMIT",
        repository: &["GIT_REPOSITORY_URL"],
        pull_request: &["BITRISE_PULL_REQUEST"],
    },
    // CircleCI.
    CiSystem {
        commit: "CIRCLE_SHA1",
        repository: &["CIRCLE_REPOSITORY_URL"],
        pull_request: &["CIRCLE_PULL_REQUEST"],
    },
    // Azure Pipelines.
    CiSystem {
        commit: "BUILD_SOURCEVERSION",
        repository: &["BUILD_REPOSITORY_URI"],
        pull_request: &["SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "SYSTEM_PULLREQUEST_PULLREQUESTID"],
    },
    // Bitbucket Pipelines.
    CiSystem {
        commit: "BITBUCKET_COMMIT",
        repository: &["BITBUCKET_GIT_HTTP_ORIGIN"],
        pull_request: &["BITBUCKET_PR_ID"],
    },
    // Xcode Cloud.
    CiSystem { commit: "CI_COMMIT", repository: &[], pull_request: &["CI_PULL_REQUEST_NUMBER"] },
];

impl CommitArguments {
    /// Returns the commit to send. None if none is known or wanted.
    ///
    /// # Errors
    /// Returns an error if the options name a repository or a pull request without a commit, or an address that cannot be sent.
    pub fn find_commit(&self) -> Result<Option<SourceCommit>, CommandError> {
        let found = self.find_in(|variable| env::var(variable).ok().filter(|value| !value.is_empty()))?;
        let source_root = env::current_dir().ok().and_then(|folder| find_source_root(&folder));
        Ok(found.map(|commit| SourceCommit { source_root, ..commit }))
    }

    fn find_in(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<SourceCommit>, CommandError> {
        if self.no_commit {
            return Ok(None);
        }
        let named = |system: &&CiSystem| variable(system.commit).and_then(|text| parse_commit(&text).ok());
        let system = CI_SYSTEMS.iter().find(|system| named(system).is_some());
        let Some(commit) = self.commit.clone().or_else(|| named(&system?)) else {
            if self.repository.is_some() || self.pull_request.is_some() {
                return Err(CommandError::usage(
                    "--repository and --pull-request belong to a commit: give --commit",
                ));
            }
            return Ok(None);
        };
        let repository = match &self.repository {
            Some(address) => Some(clean_repository(address).ok_or_else(|| {
                CommandError::usage("--repository: at most 300 bytes, an address with https or ssh")
            })?),
            None => system.and_then(|system| {
                let parts =
                    system.repository.iter().map(|name| variable(name)).collect::<Option<Vec<_>>>()?;
                let cleaned = (!parts.is_empty()).then(|| clean_repository(&parts.join("/")));
                if cleaned == Some(None) {
                    note!("the address of the repository is not sent: it is none with https or ssh");
                }
                cleaned.flatten()
            }),
        };
        let numbers = || system?.pull_request.iter().find_map(|name| read_pull_request(&variable(name)?));
        let pull_request = self.pull_request.or_else(numbers);
        Ok(Some(SourceCommit { commit, repository, pull_request, source_root: None }))
    }
}

fn parse_commit(text: &str) -> Result<String, String> {
    if is_commit(text) { Ok(text.to_ascii_lowercase()) } else { Err("7 to 64 hexadecimal digits".to_owned()) }
}

/// Returns the number of a pull request: the text, or its part in an address or a ref.
fn read_pull_request(text: &str) -> Option<u32> {
    let number = match text.contains('/') {
        false => text,
        true => {
            let mut names = text.split('/');
            names.find(|name| matches!(*name, "pull" | "pulls" | "pull-requests" | "merge_requests"))?;
            names.next()?
        }
    };
    number.parse().ok().filter(|number| (1..=2_147_483_647).contains(number))
}

/// Returns an address without credentials, query and fragment. None if it is none with https or ssh, or too long.
fn clean_repository(address: &str) -> Option<String> {
    let (plain, _) = address.split_once(['?', '#']).unwrap_or((address, ""));
    let (start, rest) = match plain.split_once("://") {
        Some(("https", rest)) => ("https://".to_owned(), rest),
        Some(("ssh", rest)) => ("ssh://".to_owned(), rest),
        Some(_) => return None,
        None => (String::new(), plain),
    };
    // A password may have any character, a host and a path no at sign.
    let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
    let keeps_user = start != "https://" && user == Some(SSH_USER);
    let cleaned = match start.as_str() {
        "" if user.is_none() || !rest.contains(':') => return None,
        "https://" => format!("{start}{rest}"),
        _ => format!("{start}{SSH_USER}@{rest}"),
    };
    if user.is_some() && !keeps_user || plain.len() < address.len() {
        note!("the address of the repository is sent without the user name, password or token in it");
    }
    (cleaned.len() <= REPOSITORY_BYTES).then_some(cleaned)
}

/// Returns the folder of the checkout that a folder lies in.
fn find_source_root(folder: &Path) -> Option<String> {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists())?;
    root.to_str().filter(|root| root.len() <= SOURCE_ROOT_BYTES).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const SHA: &str = "3f2a9c1d0e4b5a6978f1e2d3c4b5a69788796a5b";

    /// Variables, with the repository and the pull request that they name.
    type CiCase<'c> = (&'c [(&'c str, &'c str)], Option<&'c str>, Option<u32>);

    fn arguments() -> CommitArguments {
        CommitArguments { commit: None, repository: None, pull_request: None, no_commit: false }
    }

    fn find(arguments: &CommitArguments, variables: &[(&str, &str)]) -> Option<SourceCommit> {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        arguments.find_in(|name| variables.get(name).map(|value| (*value).to_owned())).unwrap()
    }

    #[test]
    fn each_ci_system_names_its_commit() {
        let cases: [CiCase<'_>; 7] = [
            (
                &[
                    ("GITHUB_SHA", SHA),
                    ("GITHUB_SERVER_URL", "https://github.com"),
                    ("GITHUB_REPOSITORY", "example/shop"),
                    ("GITHUB_REF", "refs/pull/214/merge"),
                ],
                Some("https://github.com/example/shop"),
                Some(214),
            ),
            (
                &[
                    ("CI_COMMIT_SHA", SHA),
                    ("CI_PROJECT_URL", "https://gitlab.example.com/apps/shop"),
                    ("CI_MERGE_REQUEST_IID", "7"),
                ],
                Some("https://gitlab.example.com/apps/shop"),
                Some(7),
            ),
            (
                &[
                    ("BITRISE_GIT_COMMIT", SHA),
                    ("GIT_REPOSITORY_URL", "git@github.com:example/shop.git"),
                    ("BITRISE_PULL_REQUEST", "false"),
                ],
                Some("git@github.com:example/shop.git"),
                None,
            ),
            (
                &[
                    ("CIRCLE_SHA1", SHA),
                    ("CIRCLE_REPOSITORY_URL", "https://github.com/example/shop"),
                    ("CIRCLE_PULL_REQUEST", "https://github.com/example/shop/pull/9"),
                ],
                Some("https://github.com/example/shop"),
                Some(9),
            ),
            (
                &[
                    ("BUILD_SOURCEVERSION", SHA),
                    ("BUILD_REPOSITORY_URI", "https://example@dev.azure.com/example/apps/_git/shop"),
                    ("SYSTEM_PULLREQUEST_PULLREQUESTID", "12"),
                ],
                Some("https://dev.azure.com/example/apps/_git/shop"),
                Some(12),
            ),
            (
                &[
                    ("BITBUCKET_COMMIT", SHA),
                    ("BITBUCKET_GIT_HTTP_ORIGIN", "http://bitbucket.org/example/shop"),
                ],
                None,
                None,
            ),
            (&[("CI_COMMIT", SHA), ("CI_PULL_REQUEST_NUMBER", "3")], None, Some(3)),
        ];
        for (variables, repository, pull_request) in cases {
            let found = find(&arguments(), variables).unwrap();
            assert_eq!(found.commit, SHA);
            assert_eq!(
                (found.repository.as_deref(), found.pull_request),
                (repository, pull_request),
                "{variables:?}"
            );
        }
        assert_eq!(find(&arguments(), &[]), None);
        assert_eq!(find(&arguments(), &[("GITHUB_SHA", "main")]), None);
    }

    #[test]
    fn options_win_and_none_is_sent_on_request() {
        let github = [
            ("GITHUB_SHA", SHA),
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", "example/shop"),
            ("GITHUB_REF", "refs/heads/214"),
        ];
        let mut given = arguments();
        given.commit = Some("0a1b2c3".to_owned());
        given.pull_request = Some(5);
        let found = find(&given, &github).unwrap();
        assert_eq!((found.commit.as_str(), found.pull_request), ("0a1b2c3", Some(5)));
        assert_eq!(found.repository.as_deref(), Some("https://github.com/example/shop"));
        assert_eq!(find(&arguments(), &github).unwrap().pull_request, None);
        assert_eq!(find(&CommitArguments { no_commit: true, ..arguments() }, &github), None);
        let alone = CommitArguments { repository: Some("https://a.example/b".to_owned()), ..arguments() };
        assert!(alone.find_in(|_| None).is_err());
    }

    #[test]
    fn credentials_do_not_leave_the_machine() {
        let clean = |address: &str| clean_repository(address).unwrap();
        for address in [
            "https://gitlab-ci-token:secret@gitlab.com/example/shop.git",
            "https://user:se/cr@et@gitlab.com/example/shop.git",
            "https://gitlab.com/example/shop.git?private_token=secret",
            "https://gitlab.com/example/shop.git#secret",
        ] {
            assert_eq!(clean(address), "https://gitlab.com/example/shop.git", "{address}");
        }
        assert_eq!(clean("ssh://robin:secret@example.com/a/b"), "ssh://git@example.com/a/b");
        assert_eq!(clean("robin@example.com:a/b"), "git@example.com:a/b");
        for other in ["http://example.com/a", "file:///a", "/srv/git/a", "", "a:b"] {
            assert_eq!(clean_repository(other), None, "{other}");
        }
        assert_eq!(clean_repository(&format!("https://example.com/{}", "a".repeat(300))), None);
    }

    #[test]
    fn the_root_is_the_folder_of_the_checkout() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("shop/ci_scripts");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir(folder.path().join("shop/.git")).unwrap();
        assert_eq!(find_source_root(&inner), folder.path().join("shop").to_str().map(str::to_owned));
    }
}
