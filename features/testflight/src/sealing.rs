//! Encryption of the private keys of tenants with the key of the service, so that the database and its backups hold none.
//!
//! A sealed key is a nonce of 12 bytes, and the text in AES-256-GCM. The tenant and the ids of the key are authenticated:
//! a row that is copied to another tenant does not open.

use unslide_api::feature::sealing::{SealError, Sealer};
use unslide_model::{Secret, TenantId};

/// The setting with the key.
pub const SEALING_KEY: &str = "api.testflight.sealing_key";

const OTHER_KEY: &str =
    "the private key was sealed with another api.testflight.sealing_key: set the App Store Connect key again";

/// Seals and opens private keys.
pub struct AppleKeySealer(Sealer);

/// The owner of a private key.
#[derive(Clone, Copy, Debug)]
pub struct AppleKeyOwner<'k> {
    pub tenant: &'k TenantId,
    pub key_id: &'k str,
}

impl AppleKeyOwner<'_> {
    fn associated_data(self) -> String {
        format!("testflight key 1\n{}\n{}", self.tenant, self.key_id)
    }
}

impl AppleKeySealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<AppleKeySealer>, String> {
        Ok(Sealer::from_setting(text, OTHER_KEY)?.map(AppleKeySealer))
    }

    /// Encrypts a private key.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal(&self, owner: AppleKeyOwner<'_>, private_key: &Secret) -> Result<Vec<u8>, SealError> {
        self.0.seal_secret(&owner.associated_data(), private_key.reveal().as_bytes())
    }

    /// Decrypts a private key.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open(&self, owner: AppleKeyOwner<'_>, sealed: &[u8]) -> Result<Secret, SealError> {
        self.0.open_text(&owner.associated_data(), sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    fn sealer(byte: u8) -> AppleKeySealer {
        AppleKeySealer::from_setting(&Secret::new(STANDARD.encode([byte; 32]))).unwrap().unwrap()
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
        let read = |text: &str| AppleKeySealer::from_setting(&Secret::new(text));
        assert!(read("").unwrap().is_none());
        for wrong in ["secret", "c2hvcnQ="] {
            assert!(read(wrong).err().unwrap().contains("32 bytes"));
        }
    }
}
