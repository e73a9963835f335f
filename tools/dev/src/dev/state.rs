//! The state that `unslide dev` keeps in its data folder.

use serde::{Deserialize, Serialize};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;
use unslide_cli::BoxError;
use unslide_embedded::private_file;

/// The address of the api if it is free and no other was given.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// The tenant and key of the first start.
#[derive(Clone, Serialize, Deserialize)]
pub struct Credentials {
    pub tenant: String,
    pub api_key: String,
    /// The path of the URL for apps, with the public key of the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_path: Option<String>,
}

impl Credentials {
    fn path(data: &Path) -> PathBuf {
        data.join("credentials.json")
    }

    /// Reads the kept credentials. Returns `None` if there are none that can be read.
    pub fn read(data: &Path) -> Option<Credentials> {
        serde_json::from_slice(&fs::read(Credentials::path(data)).ok()?).ok()
    }

    /// Keeps them for the next start, readable by this user alone.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, data: &Path) -> Result<(), BoxError> {
        Ok(private_file(&Credentials::path(data), &serde_json::to_string_pretty(self)?)?)
    }
}

/// Creates the data folder and the folders of the services in it.
///
/// # Errors
/// Returns an error if they cannot be created.
pub fn make(data: &Path) -> Result<(), BoxError> {
    // The data folder may have to let PostgreSQL's user through, so the folders in it are private.
    for folder in [data.to_path_buf(), data.join("cache"), data.join("work")] {
        make_private(&folder)?;
    }
    Ok(())
}

/// Creates a folder that only this user can read, with those above it.
///
/// # Errors
/// Returns an error if it cannot be created.
pub fn make_private(folder: &Path) -> Result<(), BoxError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    Ok(made.map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?)
}

/// Returns the api's listener: on the given address, else on the usual one, that of the run before, or any
/// that is free. Keeps the port for the next start.
///
/// # Errors
/// Returns an error if the given address cannot be used.
pub async fn listen(wanted: Option<SocketAddr>, data: &Path) -> Result<TcpListener, BoxError> {
    let kept = data.join("api-port");
    let before = fs::read_to_string(&kept).ok().and_then(|text| text.trim().parse::<u16>().ok());
    let ip = wanted.map_or(USUAL.ip(), |wanted| wanted.ip());
    let choices: Vec<SocketAddr> = match wanted {
        Some(wanted) if wanted.port() != 0 => vec![wanted],
        Some(_) => before.into_iter().chain([0]).map(|port| SocketAddr::new(ip, port)).collect(),
        None => before.into_iter().chain([USUAL.port(), 0]).map(|port| SocketAddr::new(ip, port)).collect(),
    };
    let mut last = None;
    for address in choices {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                fs::write(&kept, format!("{}\n", listener.local_addr()?.port()))?;
                return Ok(listener);
            }
            Err(error) => last = Some(format!("the api cannot listen on {address}: {error}")),
        }
    }
    Err(last.unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[tokio::test]
    async fn the_api_comes_back_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let first = listen(any, folder.path()).await.unwrap().local_addr().unwrap();
        let again = listen(any, folder.path()).await.unwrap();
        assert_eq!(again.local_addr().unwrap(), first);
        let other = listen(any, folder.path()).await.unwrap();
        assert_ne!(other.local_addr().unwrap(), first);
        assert!(listen(Some(first), folder.path()).await.is_err(), "a wanted port is taken or nothing");
    }

    #[test]
    fn credentials_are_kept_in_private() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Credentials::read(folder.path()).is_none());
        let made =
            Credentials { tenant: "dev".to_owned(), api_key: "unslide_a_b".to_owned(), public_path: None };
        made.write(folder.path()).unwrap();
        assert_eq!(Credentials::read(folder.path()).unwrap().api_key, "unslide_a_b");
        assert_eq!(fs::metadata(Credentials::path(folder.path())).unwrap().mode() & 0o777, 0o600);
    }
}
