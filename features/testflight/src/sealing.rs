//! Encryption of the private keys of tenants with the key of the service, so that the database and its backups hold none.
//!
//! A sealed key is a nonce of 12 bytes, and the text in AES-256-GCM. The tenant and the ids of the key are authenticated:
//! a row that is copied to another tenant does not open.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use unslide_model::{Secret, TenantId};

/// The setting with the key.
pub const SEALING_KEY: &str = "api.testflight.sealing_key";

/// Seals and opens private keys.
pub struct Sealer(LessSafeKey);

/// The owner of a private key.
#[derive(Clone, Copy, Debug)]
pub struct AppleKeyOwner<'k> {
    pub tenant: &'k TenantId,
    pub key_id: &'k str,
}

impl AppleKeyOwner<'_> {
    fn associated_data(self) -> Vec<u8> {
        format!("testflight key 1\n{}\n{}", self.tenant, self.key_id).into_bytes()
    }
}

/// The failure to seal or open a private key.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("the operating system gives no random bytes")]
    Random,
    #[error("the private key was sealed with another {SEALING_KEY}: set the App Store Connect key again")]
    OtherKey,
}

impl Sealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<Sealer>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let bytes = STANDARD.decode(text.reveal()).unwrap_or_default();
        let key = UnboundKey::new(&AES_256_GCM, &bytes)
            .map_err(|_| "must be 32 bytes in base64, as `openssl rand -base64 32` prints".to_owned())?;
        Ok(Some(Sealer(LessSafeKey::new(key))))
    }

    /// Encrypts a private key.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal(&self, owner: AppleKeyOwner<'_>, private_key: &Secret) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::Random)?;
        let mut text = private_key.reveal().as_bytes().to_vec();
        let aad = Aad::from(owner.associated_data());
        let tag = self.0.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text);
        let tag = tag.map_err(|_| SealError::Random)?;
        Ok([&nonce, text.as_slice(), tag.as_ref()].concat())
    }

    /// Decrypts a private key.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open(&self, owner: AppleKeyOwner<'_>, sealed: &[u8]) -> Result<Secret, SealError> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(SealError::OtherKey)?;
        let (nonce, mut text) = (Nonce::assume_unique_for_key(*nonce), text.to_vec());
        let plain = self.0.open_in_place(nonce, Aad::from(owner.associated_data()), &mut text);
        let plain = plain.map_err(|_| SealError::OtherKey)?;
        Ok(Secret::new(String::from_utf8_lossy(plain)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(byte: u8) -> Sealer {
        Sealer::from_setting(&Secret::new(STANDARD.encode([byte; 32]))).unwrap().unwrap()
    }

    #[test]
    fn a_sealed_key_opens_for_its_owner_and_service_only() {
        let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("umbrella").unwrap());
        let owner = AppleKeyOwner { tenant: &acme, key_id: "2X9R4HXF34" };
        let sealed = sealer(1).seal(owner, &Secret::new("the private key")).unwrap();
        assert!(!sealed.windows(7).any(|bytes| bytes == b"private"));
        assert_ne!(sealed, sealer(1).seal(owner, &Secret::new("the private key")).unwrap());
        assert_eq!(sealer(1).open(owner, &sealed).unwrap().reveal(), "the private key");
        assert!(sealer(2).open(owner, &sealed).is_err(), "another key of the service");
        assert!(sealer(1).open(AppleKeyOwner { tenant: &other, ..owner }, &sealed).is_err());
        assert!(sealer(1).open(AppleKeyOwner { key_id: "OTHER", ..owner }, &sealed).is_err());
        assert!(sealer(1).open(owner, &sealed[..5]).is_err());
        let mut changed = sealed.clone();
        changed[20] ^= 1;
        assert!(sealer(1).open(owner, &changed).is_err());
    }

    #[test]
    fn a_setting_that_is_no_key_is_refused() {
        let read = |text: &str| Sealer::from_setting(&Secret::new(text));
        assert!(read("").unwrap().is_none());
        for wrong in ["secret", "c2hvcnQ="] {
            assert!(read(wrong).err().unwrap().contains("32 bytes"));
        }
    }
}
