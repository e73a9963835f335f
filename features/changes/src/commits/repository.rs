//! The address of a repository, without credentials.

/// The most bytes of an address.
const REPOSITORY_BYTES: usize = 300;

/// The user names of SSH that a code host gives to everyone.
const SSH_USERS: [&str; 2] = ["git", "hg"];

/// Why a text is no address of a repository. The text is not repeated: it may have a password in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryError {
    #[error("at most {REPOSITORY_BYTES} bytes")]
    TooLong,
    #[error(
        "an address with https or ssh, such as https://github.com/example/shop or git@github.com:example/shop.git"
    )]
    NoAddress,
    #[error(
        "has a user name, a password or a token in it, and was not stored: give the address without them"
    )]
    HasCredentials,
}

/// The parts of an address that distinguish repositories and make their links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// In lower case, with the port of HTTPS if it is not the usual one.
    host: String,
    /// Without slashes at both ends and without `.git`.
    path: String,
}

impl Repository {
    /// Reads an address with `https://` or `ssh://`, or the short form of SSH.
    ///
    /// # Errors
    /// [`RepositoryError`].
    pub fn parse(address: &str) -> Result<Repository, RepositoryError> {
        if address.len() > REPOSITORY_BYTES {
            return Err(RepositoryError::TooLong);
        }
        if let Some(rest) = address.strip_prefix("https://") {
            let (authority, path) = rest.split_once('/').ok_or(RepositoryError::NoAddress)?;
            if rest.contains(['@', '?', '#']) {
                return Err(RepositoryError::HasCredentials);
            }
            return Repository::from_parts(authority, path, true);
        }
        let (authority, path) = match address.strip_prefix("ssh://") {
            Some(rest) => rest.split_once('/'),
            None if address.contains("://") => None,
            None => address.split_once(':').filter(|(authority, _)| authority.contains('@')),
        }
        .ok_or(RepositoryError::NoAddress)?;
        let host = match authority.rsplit_once('@') {
            Some((user, host)) if SSH_USERS.contains(&user) => host,
            Some(_) => return Err(RepositoryError::HasCredentials),
            None => authority,
        };
        if path.contains(['@', '?', '#']) {
            return Err(RepositoryError::HasCredentials);
        }
        Repository::from_parts(host, path, false)
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the path, such as `example/shop`.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn from_parts(authority: &str, path: &str, keeps_port: bool) -> Result<Repository, RepositoryError> {
        let (name, port) =
            authority.split_once(':').map_or((authority, None), |(name, port)| (name, Some(port)));
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let has_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        if !name.split('.').all(is_label) || !has_port || !path.split('/').all(is_segment) {
            return Err(RepositoryError::NoAddress);
        }
        let host = if keeps_port { authority } else { name };
        let host = host.to_ascii_lowercase();
        let host = host.strip_suffix(":443").map_or(host.clone(), str::to_owned);
        Ok(Repository { host, path: path.to_owned() })
    }
}

/// Returns true for a part of a path that is a name as code hosts allow it.
fn is_segment(segment: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'%');
    !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(address: &str) -> (String, String) {
        let Repository { host, path } = Repository::parse(address).unwrap();
        (host, path)
    }

    #[test]
    fn forms_of_one_address_are_one_repository() {
        let expected = ("github.com".to_owned(), "example/shop".to_owned());
        for address in [
            "https://github.com/example/shop",
            "https://GitHub.com/example/shop.git",
            "https://github.com:443/example/shop/",
            "git@github.com:example/shop.git",
            "ssh://git@github.com/example/shop.git",
            "ssh://git@github.com:22/example/shop",
        ] {
            assert_eq!(parts(address), expected, "{address}");
        }
        assert_eq!(parts("https://git.example.com:8443/a/b/c").0, "git.example.com:8443");
        assert_eq!(parts("ssh://git.example.com/a/b").0, "git.example.com");
    }

    #[test]
    fn credentials_are_refused_in_every_form_and_not_repeated() {
        for address in [
            "https://user:secret@github.com/example/shop",
            "https://secret@github.com/example/shop",
            "https://user:12@secret/x@github.com/example/shop",
            "https://user:1/secret@github.com/example/shop",
            "https://github.com/example/shop?access_token=secret",
            "https://github.com/example/shop#secret",
            "ssh://git:secret@github.com/example/shop",
            "ssh://secret@github.com/example/shop",
            "git:secret@github.com:example/shop",
            "secret@github.com:example/shop.git",
            "git@github.com:secret@example/shop.git",
        ] {
            let error = Repository::parse(address).unwrap_err();
            assert_ne!(error, RepositoryError::TooLong, "{address}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn other_texts_are_no_address() {
        for address in [
            "",
            "http://github.com/example/shop",
            "file:///example/shop",
            "javascript:alert(1)",
            "https://github.com",
            "https:///example/shop",
            "https://github.com/example/../shop",
            "https://github.com/example//shop",
            "https://github.com/example/sh op",
            "https://github.com/example/shop\n",
            "https://github.com:port/example/shop",
            "https://-.example.com:1:2/example/shop",
            "github.com:example/shop",
            "/srv/git/shop",
        ] {
            assert_eq!(Repository::parse(address).unwrap_err(), RepositoryError::NoAddress, "{address}");
        }
        let long = format!("https://github.com/example/{}", "a".repeat(REPOSITORY_BYTES));
        assert_eq!(Repository::parse(&long).unwrap_err(), RepositoryError::TooLong);
    }
}
