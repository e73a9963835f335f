//! Encryption of the secrets of receivers with the key of the service, so that the database and its backups hold none.
//!
//! A sealed secret is a nonce of 12 bytes, and the text in AES-256-GCM. The tenant, the channel and the host of the receiver, or the
//! rule of a hook, are authenticated: a value that is copied to another one does not open.

use crate::store::AlertRuleId;
use crate::store::receivers::SealedReceiver;
use crate::store::rules::{AlertChannel, AlertReceiver, mask_address};
use unslide_api::feature::sealing::{SealError, Sealer};
use unslide_model::{Secret, TenantId};

/// The setting with the key.
pub const SEALING_KEY: &str = "api.alerts.sealing_key";

const OTHER_KEY: &str = "it was sealed with another api.alerts.sealing_key: set the receiver again";

/// Seals and opens the secrets of receivers.
pub struct ReceiverSealer(Sealer);

/// The receiver that owns sealed secrets.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverOwner<'o> {
    pub tenant: &'o TenantId,
    pub channel: AlertChannel,
    /// The part of its address that may be shown.
    pub shown_address: &'o str,
}

impl ReceiverOwner<'_> {
    fn associated_data(self, secret_use: &str) -> String {
        format!("alert receiver 1\n{}\n{}\n{}\n{secret_use}", self.tenant, self.channel, self.shown_address)
    }
}

fn hook_data(tenant: &TenantId, rule: AlertRuleId) -> String {
    format!("alert hook 1\n{tenant}\n{rule}")
}

impl ReceiverSealer {
    /// Reads the key from the settings. Returns None if there is none.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_setting(text: &Secret) -> Result<Option<ReceiverSealer>, String> {
        Ok(Sealer::from_setting(text, OTHER_KEY)?.map(ReceiverSealer))
    }

    /// Encrypts the address and the secret of a receiver. Returns None for a channel with an address that is no secret.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal_receiver(
        &self,
        tenant: &TenantId,
        receiver: &AlertReceiver,
    ) -> Result<Option<SealedReceiver>, SealError> {
        let AlertReceiver { channel, address, secret, .. } = receiver;
        if matches!(channel, AlertChannel::Mail | AlertChannel::Kafka) {
            return Ok(None);
        }
        let shown_address = mask_address(*channel, address.reveal());
        let owner = ReceiverOwner { tenant, channel: *channel, shown_address: &shown_address };
        let seal =
            |word, text: &Secret| self.0.seal_secret(&owner.associated_data(word), text.reveal().as_bytes());
        let secret = (!secret.is_empty()).then(|| seal("secret", secret)).transpose()?;
        Ok(Some(SealedReceiver { address: seal("address", address)?, secret, shown_address }))
    }

    /// Decrypts the address and the secret of a receiver.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open_receiver(
        &self,
        tenant: &TenantId,
        channel: AlertChannel,
        sealed: &SealedReceiver,
    ) -> Result<(Secret, Secret), SealError> {
        let owner = ReceiverOwner { tenant, channel, shown_address: &sealed.shown_address };
        let open = |word, bytes: &[u8]| self.0.open_text(&owner.associated_data(word), bytes);
        let secret = sealed.secret.as_deref().map(|bytes| open("secret", bytes)).transpose()?;
        Ok((open("address", &sealed.address)?, secret.unwrap_or_default()))
    }

    /// Encrypts the secret of the hooks of a rule.
    ///
    /// # Errors
    /// [`SealError::Random`].
    pub fn seal_hook(
        &self,
        tenant: &TenantId,
        rule: AlertRuleId,
        secret: &Secret,
    ) -> Result<Vec<u8>, SealError> {
        self.0.seal_secret(&hook_data(tenant, rule), secret.reveal().as_bytes())
    }

    /// Decrypts the secret of the hooks of a rule.
    ///
    /// # Errors
    /// [`SealError::OtherKey`].
    pub fn open_hook(
        &self,
        tenant: &TenantId,
        rule: AlertRuleId,
        sealed: &[u8],
    ) -> Result<Secret, SealError> {
        self.0.open_text(&hook_data(tenant, rule), sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::rules::TemplateType;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    fn sealer(byte: u8) -> ReceiverSealer {
        ReceiverSealer::from_setting(&Secret::new(STANDARD.encode([byte; 32]))).unwrap().unwrap()
    }

    fn receiver(channel: AlertChannel, address: &str, secret: &str) -> AlertReceiver {
        let (address, secret) = (Secret::new(address), Secret::new(secret));
        AlertReceiver { channel, address, secret, template: String::new(), content_type: TemplateType::Json }
    }

    #[test]
    fn a_sealed_receiver_opens_for_its_tenant_channel_and_host_only() {
        let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("umbrella").unwrap());
        let hook = receiver(AlertChannel::Webhook, "https://hooks.example.com/words", "whsec_words");
        let sealed = sealer(1).seal_receiver(&acme, &hook).unwrap().unwrap();
        assert_eq!(sealed.shown_address, "https://hooks.example.com/…");
        for bytes in [&sealed.address, sealed.secret.as_ref().unwrap()] {
            assert!(!bytes.windows(5).any(|part| part == b"words"));
        }
        let (address, secret) = sealer(1).open_receiver(&acme, AlertChannel::Webhook, &sealed).unwrap();
        assert_eq!((address.reveal(), secret.reveal()), ("https://hooks.example.com/words", "whsec_words"));
        assert!(sealer(2).open_receiver(&acme, AlertChannel::Webhook, &sealed).is_err(), "another key");
        assert!(sealer(1).open_receiver(&other, AlertChannel::Webhook, &sealed).is_err(), "another tenant");
        assert!(sealer(1).open_receiver(&acme, AlertChannel::Slack, &sealed).is_err(), "another channel");
        let moved = SealedReceiver { shown_address: "https://evil.example.com/…".to_owned(), ..sealed };
        assert!(sealer(1).open_receiver(&acme, AlertChannel::Webhook, &moved).is_err(), "another host");
        let mail = receiver(AlertChannel::Mail, "a@example.com", "");
        assert!(sealer(1).seal_receiver(&acme, &mail).unwrap().is_none(), "recipients are shown");
    }

    #[test]
    fn the_secret_of_a_hook_opens_for_its_rule_only() {
        let acme = TenantId::new("acme").unwrap();
        let rule = |number| AlertRuleId::from_uuid(unslide_store::Uuid::from_u128(number));
        let sealed = sealer(1).seal_hook(&acme, rule(1), &Secret::new("the secret of hooks")).unwrap();
        assert_eq!(sealer(1).open_hook(&acme, rule(1), &sealed).unwrap().reveal(), "the secret of hooks");
        assert!(sealer(1).open_hook(&acme, rule(2), &sealed).is_err());
    }
}
