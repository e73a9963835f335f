//! Encryption of the headers for a tenant's collector with the key of the service, so that the database and its backups hold none.
//!
//! Sealed headers are a nonce of 12 bytes, and their JSON in AES-256-GCM. The tenant and the URL are authenticated: a row that is
//! copied to another tenant, or whose URL is changed, does not open.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::BTreeMap;
use unslide_model::{Secret, TenantId};

/// The setting with the key.
pub const SEALING_KEY: &str = "api.otlp.sealing_key";

/// Seals and opens headers.
pub struct HeaderSealer(LessSafeKey);

/// The owner of headers.
#[derive(Clone, Copy, Debug)]
pub struct HeaderOwner<'o> {
    pub tenant: &'o TenantId,
    pub url: &'o str,
}

impl HeaderOwner<'_> {
    fn associated_data(self) -> Vec<u8> {
        format!("otlp headers 1\n{}\n{}", self.tenant, self.url).into_bytes()
    }
}

/// The failure to seal or open headers.
#[derive(Debug, thiserror::Error)]
pub enum HeaderSealError {
    #[error("the operating system gives no random bytes")]
    Random,
    #[error("the headers were sealed with another {SEALING_KEY}: set them again")]
    OtherKey,
}

impl HeaderSealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<HeaderSealer>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let bytes = STANDARD.decode(text.reveal()).unwrap_or_default();
        let key = UnboundKey::new(&AES_256_GCM, &bytes)
            .map_err(|_| "must be 32 bytes in base64, as `openssl rand -base64 32` prints".to_owned())?;
        Ok(Some(HeaderSealer(LessSafeKey::new(key))))
    }

    /// Encrypts headers.
    ///
    /// # Errors
    /// [`HeaderSealError::Random`].
    pub fn seal_headers(
        &self,
        owner: HeaderOwner<'_>,
        headers: &BTreeMap<String, Secret>,
    ) -> Result<Vec<u8>, HeaderSealError> {
        let plain: BTreeMap<&str, &str> =
            headers.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        let mut text = serde_json::to_vec(&plain).map_err(|_| HeaderSealError::Random)?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| HeaderSealError::Random)?;
        let aad = Aad::from(owner.associated_data());
        let tag = self.0.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text);
        let tag = tag.map_err(|_| HeaderSealError::Random)?;
        Ok([&nonce, text.as_slice(), tag.as_ref()].concat())
    }

    /// Decrypts headers.
    ///
    /// # Errors
    /// [`HeaderSealError::OtherKey`].
    pub fn open_headers(
        &self,
        owner: HeaderOwner<'_>,
        sealed: &[u8],
    ) -> Result<BTreeMap<String, Secret>, HeaderSealError> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(HeaderSealError::OtherKey)?;
        let (nonce, mut text) = (Nonce::assume_unique_for_key(*nonce), text.to_vec());
        let plain = self.0.open_in_place(nonce, Aad::from(owner.associated_data()), &mut text);
        let plain = plain.map_err(|_| HeaderSealError::OtherKey)?;
        let headers: BTreeMap<String, String> =
            serde_json::from_slice(plain).map_err(|_| HeaderSealError::OtherKey)?;
        Ok(headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
