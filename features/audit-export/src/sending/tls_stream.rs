//! One-way streams over TLS. The receiver shows by its end that it has read all of it.
//!
//! Syslog has no answers. RFC 5425 (section 4.4) has the sender close the TLS session, and the receiver answer that with its own close. It
//! reads the close after all that was sent before, so its answer says that it has read the whole. A server that is killed with unread bytes
//! resets the connection instead.

use crate::settings::AUDIT_EXPORT_SECTION;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt;
use std::io::{Error, ErrorKind, Result as IoResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use unslide_runtime::egress::{AllowedReceivers, connect_host};

/// The most certificates of an authority.
const CERTIFICATES_LIMIT: usize = 20;
/// The most bytes that a receiver may send before its end.
const RECEIVED_BYTES_LIMIT: usize = 64 << 10;

/// The failure of a stream.
#[derive(Debug)]
pub struct StreamFailure {
    pub error: Error,
    /// True if the server was reached and is not in one of the operator's networks.
    pub is_stranger: bool,
}

/// Sends streams to allowed servers.
pub struct TlsSender {
    pub receivers: AllowedReceivers,
    /// Bounds a stream from the name's look-up to the receiver's end.
    pub timeout: Duration,
}

impl TlsSender {
    /// Sends bytes, and waits until the receiver has read them.
    ///
    /// # Errors
    /// The server is not allowed or not reached, its certificate is not trusted, or it did not end the stream in time.
    pub async fn send_bytes(
        &self,
        host: &str,
        port: u16,
        authority: &str,
        bytes: &[u8],
    ) -> Result<(), StreamFailure> {
        let mut is_stranger = false;
        let sent = tokio::time::timeout(
            self.timeout,
            self.send_stream(host, port, authority, bytes, &mut is_stranger),
        );
        let late =
            || Error::new(ErrorKind::TimedOut, "it did not read everything and close the connection in time");
        sent.await.unwrap_or_else(|_| Err(late())).map_err(|error| StreamFailure { error, is_stranger })
    }

    async fn send_stream(
        &self,
        host: &str,
        port: u16,
        authority: &str,
        bytes: &[u8],
        is_stranger: &mut bool,
    ) -> IoResult<()> {
        let connector = TlsConnector::from(Arc::new(build_config(authority)?));
        let name = ServerName::try_from(host.to_owned()).map_err(Error::other)?;
        let tcp = connect_host(host, port, &self.receivers, AUDIT_EXPORT_SECTION).await?;
        *is_stranger = !self.receivers.has_in_networks(tcp.peer_addr()?.ip());
        let mut stream = connector.connect(name, tcp).await?;
        stream.write_all(bytes).await?;
        stream.shutdown().await?;
        let (mut buffer, mut received) = ([0; 1 << 10], 0);
        while received < RECEIVED_BYTES_LIMIT {
            match stream.read(&mut buffer).await {
                // Many servers end the connection without a close of TLS.
                Ok(0) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Ok(count) => received += count,
                Err(error) => return Err(error),
            }
        }
        Err(Error::other("it sends more than a server of syslog does"))
    }
}

/// Reads the certificates of an authority.
///
/// # Errors
/// Returns what is wrong with the text, for the tenant.
pub fn read_authority(pem: &str) -> Result<RootCertStore, String> {
    let wrong = || format!("1 to {CERTIFICATES_LIMIT} certificates in PEM");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| wrong())?;
        roots.add(certificate).map_err(|_| "a certificate that can be read as an authority's".to_owned())?;
        if roots.len() > CERTIFICATES_LIMIT {
            return Err(wrong());
        }
    }
    if roots.is_empty() { Err(wrong()) } else { Ok(roots) }
}

/// Trusts an authority, or what this machine trusts if the text is empty.
fn build_config(authority: &str) -> IoResult<ClientConfig> {
    // There may be one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if authority.is_empty() {
        return ClientConfig::with_platform_verifier().map_err(Error::other);
    }
    let roots = read_authority(authority).map_err(Error::other)?;
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}
