//! Signatures of webhooks that features send, as Standard Webhooks 1.0 has them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::rand::{SecureRandom, SystemRandom};
use unslide_model::Secret;

/// The beginning of a secret, before its key in base64.
const SECRET_PREFIX: &str = "whsec_";
/// The bytes of a new key.
const NEW_KEY_BYTES: usize = 32;

/// Signs webhooks with one secret.
pub struct WebhookSigner(Key);

impl WebhookSigner {
    /// Reads a secret.
    ///
    /// # Errors
    /// Returns what a secret has to be, for the tenant.
    pub fn from_secret(secret: &Secret) -> Result<WebhookSigner, String> {
        let key = secret.reveal().strip_prefix(SECRET_PREFIX).and_then(|text| STANDARD.decode(text).ok());
        match key {
            Some(key) if (24..=64).contains(&key.len()) => Ok(WebhookSigner(Key::new(HMAC_SHA256, &key))),
            _ => Err(format!("secret: {SECRET_PREFIX} and 24 to 64 bytes in base64")),
        }
    }

    /// Returns the header `webhook-signature` of a message, sent at a time in seconds since 1970.
    #[must_use]
    pub fn sign_message(&self, id: &str, at: i64, body: &str) -> String {
        let signature = sign(&self.0, format!("{id}.{at}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(signature))
    }
}

/// Returns a new secret. None if the operating system gives no random bytes.
#[must_use]
pub fn generate_webhook_secret() -> Option<Secret> {
    let mut key = [0; NEW_KEY_BYTES];
    SystemRandom::new().fill(&mut key).ok()?;
    Some(Secret::new(format!("{SECRET_PREFIX}{}", STANDARD.encode(key))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the specification's reference libraries.
    #[test]
    fn a_webhook_is_signed_as_standard_webhooks_has_it() {
        let signer =
            WebhookSigner::from_secret(&Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")).unwrap();
        assert_eq!(
            signer.sign_message("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn a_new_secret_can_sign_and_a_short_one_cannot() {
        assert!(WebhookSigner::from_secret(&generate_webhook_secret().unwrap()).is_ok());
        for wrong in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_?"] {
            assert!(WebhookSigner::from_secret(&Secret::new(wrong)).is_err(), "{wrong}");
        }
    }
}
