//! Encryption of the secrets of trackers with the key of the service, so that the database and its backups hold none.
//!
//! A sealed secret is a nonce of 12 bytes, and the text in AES-256-GCM. The tenant, the tracker and the use are authenticated: a
//! value that is copied to another row or column does not open.

use ring::rand::{SecureRandom, SystemRandom};
use unslide_api::feature::sealing::{SealError, Sealer};
use unslide_model::{Secret, TenantId};

/// The setting with the key.
pub const SEALING_KEY: &str = "api.tickets.sealing_key";

const OTHER_KEY: &str = "it was sealed with another api.tickets.sealing_key: set the tracker again";

/// Seals and opens the secrets of trackers.
pub struct TrackerSealer(Sealer);

/// The use of a secret.
#[derive(Clone, Copy, Debug)]
pub enum SecretUse {
    /// The token for requests to the tracker.
    Token,
    /// The secret that signs the tracker's hooks.
    Hook,
}

/// The owner of a secret.
#[derive(Clone, Copy, Debug)]
pub struct TrackerSecretOwner<'n> {
    pub tenant: &'n TenantId,
    pub tracker: &'n str,
}

impl TrackerSecretOwner<'_> {
    fn associated_data(self, secret_use: SecretUse) -> String {
        format!("tracker secret 1\n{}\n{}\n{secret_use:?}", self.tenant, self.tracker)
    }
}

impl TrackerSealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<TrackerSealer>, String> {
        Ok(Sealer::from_setting(text, OTHER_KEY)?.map(TrackerSealer))
    }

    /// Encrypts a secret.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal(
        &self,
        owner: TrackerSecretOwner<'_>,
        secret_use: SecretUse,
        secret: &Secret,
    ) -> Result<Vec<u8>, SealError> {
        self.0.seal_secret(&owner.associated_data(secret_use), secret.reveal().as_bytes())
    }

    /// Decrypts a secret.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open(
        &self,
        owner: TrackerSecretOwner<'_>,
        secret_use: SecretUse,
        sealed: &[u8],
    ) -> Result<Secret, SealError> {
        self.0.open_text(&owner.associated_data(secret_use), sealed)
    }
}

/// Returns a new secret of 256 random bits in hexadecimal digits.
///
/// # Errors
/// [`SealError::Random`].
pub fn generate_secret() -> Result<Secret, SealError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| SealError::Random)?;
    Ok(Secret::new(unslide_api::entropy::write_token(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn a_sealed_secret_opens_for_its_tracker_and_use_only() {
        let sealer = |byte: u8| {
            TrackerSealer::from_setting(&Secret::new(STANDARD.encode([byte; 32]))).unwrap().unwrap()
        };
        let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("umbrella").unwrap());
        let owner = TrackerSecretOwner { tenant: &acme, tracker: "main" };
        let sealed = sealer(1).seal(owner, SecretUse::Token, &Secret::new("the secret")).unwrap();
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
        let open = |sealer: TrackerSealer, owner, secret_use| sealer.open(owner, secret_use, &sealed);
        assert_eq!(open(sealer(1), owner, SecretUse::Token).unwrap().reveal(), "the secret");
        assert!(open(sealer(2), owner, SecretUse::Token).is_err(), "another key of the service");
        assert!(open(sealer(1), owner, SecretUse::Hook).is_err(), "another column");
        let foreign = TrackerSecretOwner { tenant: &other, ..owner };
        assert!(open(sealer(1), foreign, SecretUse::Token).is_err(), "another tenant");
        let second = TrackerSecretOwner { tracker: "second", ..owner };
        assert!(open(sealer(1), second, SecretUse::Token).is_err(), "another tracker");
        assert!(TrackerSealer::from_setting(&Secret::new("c2hvcnQ=")).err().unwrap().contains("32 bytes"));
        assert!(TrackerSealer::from_setting(&Secret::new("")).unwrap().is_none());
    }
}
