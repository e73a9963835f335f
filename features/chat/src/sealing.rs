//! Encryption of the secrets of Slack apps with the key of the service.

use unslide_api::feature::sealing::{SealError, Sealer};
use unslide_model::{Secret, TenantId};

/// The setting with the key.
pub const SEALING_KEY: &str = "api.chat.sealing_key";

const OTHER_KEY: &str = "it was sealed with another api.chat.sealing_key: set the Slack app again";

/// Seals and opens the secrets of Slack apps.
pub struct SlackSealer(Sealer);

/// The kind of a secret.
#[derive(Clone, Copy, Debug)]
pub enum SecretKind {
    /// The token for requests to Slack.
    Token,
    /// The secret that signs Slack's requests.
    Signing,
}

impl SecretKind {
    /// Returns what is authenticated with a secret: it opens in the same row and column only.
    fn owner_text(self, tenant: &TenantId) -> String {
        format!("slack secret 1\n{tenant}\n{self:?}")
    }
}

impl SlackSealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<SlackSealer>, String> {
        Ok(Sealer::from_setting(text, OTHER_KEY)?.map(SlackSealer))
    }

    /// Encrypts a secret.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal(&self, tenant: &TenantId, kind: SecretKind, secret: &Secret) -> Result<Vec<u8>, SealError> {
        self.0.seal_secret(&kind.owner_text(tenant), secret.reveal().as_bytes())
    }

    /// Decrypts a secret.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open(&self, tenant: &TenantId, kind: SecretKind, sealed: &[u8]) -> Result<Secret, SealError> {
        self.0.open_text(&kind.owner_text(tenant), sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_secret_opens_for_its_tenant_and_kind_only() {
        let key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
        let sealer = SlackSealer::from_setting(&key).unwrap().unwrap();
        let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("umbrella").unwrap());
        let sealed = sealer.seal(&acme, SecretKind::Token, &Secret::new("xoxb-1")).unwrap();
        assert_eq!(sealer.open(&acme, SecretKind::Token, &sealed).unwrap().reveal(), "xoxb-1");
        assert!(sealer.open(&acme, SecretKind::Signing, &sealed).is_err());
        assert!(sealer.open(&other, SecretKind::Token, &sealed).is_err());
    }
}
