//! Encryption of the headers for a tenant's collector with the key of the service, so that the database and its backups hold none.
//!
//! Sealed headers are a nonce of 12 bytes, and their JSON in AES-256-GCM. The tenant and the URL are authenticated: a row that is
//! copied to another tenant, or gets another URL, does not open.

use std::collections::BTreeMap;
use unslide_api::feature::sealing::{SealError, Sealer};
use unslide_model::{Secret, TenantId};

/// The setting with the key.
pub const SEALING_KEY: &str = "api.otlp.sealing_key";

const OTHER_KEY: &str = "the headers were sealed with another api.otlp.sealing_key: set them again";

/// Seals and opens headers.
pub struct HeaderSealer(Sealer);

/// The owner of headers.
#[derive(Clone, Copy, Debug)]
pub struct HeaderOwner<'o> {
    pub tenant: &'o TenantId,
    pub url: &'o str,
}

impl HeaderOwner<'_> {
    fn associated_data(self) -> String {
        format!("otlp headers 1\n{}\n{}", self.tenant, self.url)
    }
}

impl HeaderSealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<HeaderSealer>, String> {
        Ok(Sealer::from_setting(text, OTHER_KEY)?.map(HeaderSealer))
    }

    /// Encrypts headers.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal_headers(
        &self,
        owner: HeaderOwner<'_>,
        headers: &BTreeMap<String, Secret>,
    ) -> Result<Vec<u8>, SealError> {
        let plain: BTreeMap<&str, &str> =
            headers.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        let text = serde_json::to_vec(&plain).map_err(|_| SealError::Random)?;
        self.0.seal_secret(&owner.associated_data(), &text)
    }

    /// Decrypts headers.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open_headers(
        &self,
        owner: HeaderOwner<'_>,
        sealed: &[u8],
    ) -> Result<BTreeMap<String, Secret>, SealError> {
        let plain = self.0.open_secret(&owner.associated_data(), sealed)?;
        let headers: BTreeMap<String, String> =
            serde_json::from_slice(&plain).map_err(|_| SealError::OtherKey(OTHER_KEY))?;
        Ok(headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn sealed_headers_open_for_their_owner_url_and_service_only() {
        let sealer = |byte: u8| {
            HeaderSealer::from_setting(&Secret::new(STANDARD.encode([byte; 32]))).unwrap().unwrap()
        };
        let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("umbrella").unwrap());
        let owner = HeaderOwner { tenant: &acme, url: "https://otlp.example.com/v1/logs" };
        let headers = BTreeMap::from([("authorization".to_owned(), Secret::new("Bearer abcdef"))]);
        let sealed = sealer(1).seal_headers(owner, &headers).unwrap();
        assert!(!sealed.windows(6).any(|bytes| bytes == b"abcdef"));
        let opened = sealer(1).open_headers(owner, &sealed).unwrap();
        assert_eq!(opened["authorization"].reveal(), "Bearer abcdef");
        assert!(sealer(2).open_headers(owner, &sealed).is_err());
        assert!(sealer(1).open_headers(HeaderOwner { tenant: &other, ..owner }, &sealed).is_err());
        assert!(
            sealer(1).open_headers(HeaderOwner { url: "https://other.example", ..owner }, &sealed).is_err()
        );
        assert!(HeaderSealer::from_setting(&Secret::new("short")).is_err());
    }
}
