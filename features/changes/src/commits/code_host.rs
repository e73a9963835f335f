//! Pages of code hosts that compare two commits.

use super::repository::Repository;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// A code host with pages at known addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeHost {
    /// GitHub, also of an enterprise.
    GitHub,
    /// GitLab, also of an own server.
    GitLab,
    /// Bitbucket Cloud.
    Bitbucket,
    /// Gitea and Forgejo.
    Gitea,
}

impl CodeHost {
    /// Recognises a host by its name: the public ones, and own servers with a name that begins with that of the product.
    fn from_name(host: &str) -> Option<CodeHost> {
        let (product, _) = host.split_once('.')?;
        match (host, product) {
            ("bitbucket.org", _) => Some(CodeHost::Bitbucket),
            (_, "github") => Some(CodeHost::GitHub),
            (_, "gitlab") => Some(CodeHost::GitLab),
            (_, "gitea" | "forgejo") | ("codeberg.org", _) => Some(CodeHost::Gitea),
            _ => None,
        }
    }
}

/// Returns the page that compares two commits of a repository. None if its host is not known, or has no such page for this path.
pub fn build_compare_url(repository: &Repository, before: &str, after: &str) -> Option<String> {
    let (host, path) = (repository.host(), repository.path());
    let segments = path.split('/').count();
    let page = match CodeHost::from_name(host)? {
        CodeHost::GitHub | CodeHost::Gitea if segments == 2 => format!("compare/{before}...{after}"),
        CodeHost::GitLab if segments >= 2 => format!("-/compare/{before}...{after}"),
        CodeHost::Bitbucket if segments == 2 => format!("branches/compare/{after}..{before}"),
        _ => return None,
    };
    Some(format!("https://{host}/{path}/{page}"))
}

/// Returns the place of a file on the page that compares two commits. None if the host has no address for it.
pub fn build_file_url(repository: &Repository, compare_url: &str, path: &str) -> Option<String> {
    if CodeHost::from_name(repository.host())? != CodeHost::GitHub {
        return None;
    }
    let mut url = format!("{compare_url}#diff-");
    for byte in Sha256::digest(path.as_bytes()) {
        // Writing to a string has no error.
        let _ = write!(url, "{byte:02x}");
    }
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(address: &str) -> Option<String> {
        build_compare_url(&Repository::parse(address).unwrap(), "0a1b2c3", "4d5e6f7")
    }

    #[test]
    fn each_host_has_its_own_page() {
        for (address, page) in [
            ("git@github.com:example/shop.git", "https://github.com/example/shop/compare/0a1b2c3...4d5e6f7"),
            (
                "https://github.example.com/example/shop",
                "https://github.example.com/example/shop/compare/0a1b2c3...4d5e6f7",
            ),
            (
                "https://gitlab.com/example/apps/shop.git",
                "https://gitlab.com/example/apps/shop/-/compare/0a1b2c3...4d5e6f7",
            ),
            (
                "https://bitbucket.org/example/shop",
                "https://bitbucket.org/example/shop/branches/compare/4d5e6f7..0a1b2c3",
            ),
            (
                "https://codeberg.org/example/shop",
                "https://codeberg.org/example/shop/compare/0a1b2c3...4d5e6f7",
            ),
        ] {
            assert_eq!(compare(address).as_deref(), Some(page));
        }
    }

    #[test]
    fn an_unknown_host_or_path_has_no_page() {
        for address in [
            "https://git.example.com/example/shop",
            "https://notgithub.com/example/shop",
            "https://example.com/github.com/shop",
            "https://github.com/shop",
            "https://github.com/example/apps/shop",
        ] {
            assert_eq!(compare(address), None, "{address}");
        }
    }

    #[test]
    fn github_alone_has_the_place_of_a_file() {
        let url =
            |address: &str| build_file_url(&Repository::parse(address).unwrap(), "https://page", "README.md");
        let digest = "b335630551682c19a781afebcf4d07bf978fb1f8ac04c6bf87428ed5106870f5";
        assert_eq!(url("https://github.com/example/shop"), Some(format!("https://page#diff-{digest}")));
        assert_eq!(url("https://gitlab.com/example/shop"), None);
    }
}
