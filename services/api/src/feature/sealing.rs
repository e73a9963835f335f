//! Encryption of secrets of tenants with a key of the service, so that the database and its backups hold none.
//!
//! A sealed secret is a nonce of 12 bytes, and the secret in AES-256-GCM. Its owner is authenticated: a value that is copied to another
//! row or column does not open.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use unslide_model::Secret;

/// Seals and opens secrets of one kind.
pub struct Sealer {
    key: LessSafeKey,
    /// The words of [`SealError::OtherKey`] for these secrets.
    other_key: &'static str,
}

/// The failure to seal or open a secret.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("the operating system gives no random bytes")]
    Random,
    /// The secret is damaged, belongs to another owner, or was sealed with another key.
    #[error("{0}")]
    OtherKey(&'static str),
}

impl Sealer {
    /// Reads the key from a setting. Returns None if there is none. `other_key` says what to do about a secret that does not open.
    ///
    /// # Errors
    /// Returns what is wrong with the setting.
    pub fn from_setting(text: &Secret, other_key: &'static str) -> Result<Option<Sealer>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let bytes = STANDARD.decode(text.reveal()).unwrap_or_default();
        let key = UnboundKey::new(&AES_256_GCM, &bytes)
            .map_err(|_| "must be 32 bytes in base64, as `openssl rand -base64 32` prints".to_owned())?;
        Ok(Some(Sealer { key: LessSafeKey::new(key), other_key }))
    }

    /// Encrypts a secret.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal_secret(&self, owner: &str, secret: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::Random)?;
        let (unique, mut text) = (Nonce::assume_unique_for_key(nonce), secret.to_vec());
        let tag = self.key.seal_in_place_separate_tag(unique, Aad::from(owner.as_bytes()), &mut text);
        let tag = tag.map_err(|_| SealError::Random)?;
        Ok([&nonce, text.as_slice(), tag.as_ref()].concat())
    }

    /// Decrypts a secret.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open_secret(&self, owner: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let failed = || SealError::OtherKey(self.other_key);
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>().ok_or_else(failed)?;
        let (nonce, mut text) = (Nonce::assume_unique_for_key(*nonce), text.to_vec());
        let plain = self.key.open_in_place(nonce, Aad::from(owner.as_bytes()), &mut text);
        Ok(plain.map_err(|_| failed())?.to_vec())
    }

    /// Decrypts a secret that is a text.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open_text(&self, owner: &str, sealed: &[u8]) -> Result<Secret, SealError> {
        Ok(Secret::new(String::from_utf8_lossy(&self.open_secret(owner, sealed)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_secret_opens_for_its_owner_and_service_only() {
        let sealer = |byte: u8| {
            let setting = Secret::new(STANDARD.encode([byte; 32]));
            Sealer::from_setting(&setting, "set it again").unwrap().unwrap()
        };
        let sealed = sealer(1).seal_secret("acme", b"the secret").unwrap();
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
        assert_ne!(sealed, sealer(1).seal_secret("acme", b"the secret").unwrap());
        assert_eq!(sealer(1).open_text("acme", &sealed).unwrap().reveal(), "the secret");
        assert_eq!(sealer(2).open_secret("acme", &sealed).unwrap_err().to_string(), "set it again");
        assert!(sealer(1).open_secret("umbrella", &sealed).is_err());
        assert!(sealer(1).open_secret("acme", &sealed[..5]).is_err());
        let mut changed = sealed.clone();
        changed[20] ^= 1;
        assert!(sealer(1).open_secret("acme", &changed).is_err());
    }

    #[test]
    fn a_setting_that_is_no_key_is_refused() {
        let read = |text: &str| Sealer::from_setting(&Secret::new(text), "");
        assert!(read("").unwrap().is_none());
        for wrong in ["secret", "c2hvcnQ="] {
            assert!(read(wrong).err().unwrap().contains("32 bytes"));
        }
    }
}
