//! What a gateway signs so that the symbolizer knows who sent a record, even if others may write to the
//! topic.
//!
//! The signature is Ed25519 over this text, without a newline at its end:
//!
//! ```text
//! unslide-v1
//! <the tenant's slug>
//! <when it was signed: decimal milliseconds since the Unix epoch>
//! <SHA-256 of the record's value, lower-case hexadecimal>
//! ```
//!
//! It travels in the headers [`crate::headers::SIGNATURE`] (base64 with padding),
//! [`crate::headers::SIGNATURE_KEY`] (the key's name) and [`crate::headers::SIGNED_AT`]. A new form of
//! the text gets a new first line, so that no signature can be taken for one of another form.

use crate::headers;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fmt::Write;
use unslide_model::{Secret, TenantId};

/// Why a key can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not base64.
    #[error("the key is not base64")]
    NotBase64,
    /// Not 32 bytes, or not a key of Ed25519.
    #[error("the key is not an Ed25519 key of 32 bytes")]
    NotAKey,
}

/// A gateway's private key.
pub struct SigningKey(ed25519_dalek::SigningKey);

/// The public half of a [`SigningKey`].
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({})", STANDARD.encode(self.0.as_bytes()))
    }
}

impl SigningKey {
    /// The key of 32 secret bytes in base64.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(secret: &Secret) -> Result<SigningKey, KeyError> {
        Ok(SigningKey(ed25519_dalek::SigningKey::from_bytes(&thirty_two(secret.reveal())?)))
    }

    /// The key that the signatures are checked with.
    #[must_use]
    pub fn verifying(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    /// The value of the header [`crate::headers::SIGNATURE`] for a record with this value, sent for
    /// `tenant` and signed at `signed_at` (milliseconds since the Unix epoch).
    #[must_use]
    pub fn sign(&self, tenant: &TenantId, signed_at: i64, value: &[u8]) -> String {
        STANDARD.encode(self.0.sign(text(tenant, signed_at, value).as_bytes()).to_bytes())
    }
}

/// A gateway's key with its name.
#[derive(Debug)]
pub struct Signer {
    name: String,
    key: SigningKey,
}

impl Signer {
    /// Signs as `name`, which is what those who check know the public half by.
    #[must_use]
    pub fn new(name: impl Into<String>, key: SigningKey) -> Signer {
        Signer { name: name.into(), key }
    }

    /// The headers of a record with this value, signed at `signed_at` (milliseconds since the Unix
    /// epoch). Hashes the value, which takes its time.
    #[must_use]
    pub fn headers(&self, tenant: &TenantId, signed_at: i64, value: &[u8]) -> [(&'static str, String); 3] {
        [
            (headers::SIGNATURE, self.key.sign(tenant, signed_at, value)),
            (headers::SIGNATURE_KEY, self.name.clone()),
            (headers::SIGNED_AT, signed_at.to_string()),
        ]
    }
}

impl VerifyingKey {
    /// The key of 32 public bytes in base64.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(public: &str) -> Result<VerifyingKey, KeyError> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(&thirty_two(public)?);
        key.map(VerifyingKey).map_err(|_| KeyError::NotAKey)
    }

    /// True where `signature` is what the private half makes of the other arguments.
    #[must_use]
    pub fn verify(&self, tenant: &TenantId, signed_at: i64, value: &[u8], signature: &str) -> bool {
        let decoded = STANDARD.decode(signature).ok().and_then(|bytes| Signature::from_slice(&bytes).ok());
        // Strict: a weak key or a signature in another spelling of the same numbers is refused.
        decoded.is_some_and(|s| self.0.verify_strict(text(tenant, signed_at, value).as_bytes(), &s).is_ok())
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0.as_bytes()))
    }
}

/// The text that is signed.
#[must_use]
pub fn text(tenant: &TenantId, signed_at: i64, value: &[u8]) -> String {
    let mut text = format!("unslide-v1\n{tenant}\n{signed_at}\n");
    for byte in Sha256::digest(value) {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn thirty_two(text: &str) -> Result<[u8; 32], KeyError> {
    let bytes = STANDARD.decode(text.trim()).map_err(|_| KeyError::NotBase64)?;
    bytes.try_into().map_err(|_| KeyError::NotAKey)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of RFC 8032, section 7.1, test 2.
    const SECRET: &str = "TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=";
    const PUBLIC: &str = "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=";

    fn tenant(slug: &str) -> TenantId {
        TenantId::new(slug).unwrap()
    }

    #[test]
    fn the_text_and_its_signature_have_the_documented_form() {
        let signed = text(&tenant("acme"), 1_700_000_000_123, b"abc");
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(signed, format!("unslide-v1\nacme\n1700000000123\n{hash}"));
        let key = SigningKey::parse(&Secret::new(SECRET)).unwrap();
        assert_eq!(key.verifying().to_string(), PUBLIC);
        // Ed25519 is deterministic: a gateway in another language can be held against this.
        let expected = include_str!("signed/example.txt").trim();
        assert_eq!(key.sign(&tenant("acme"), 1_700_000_000_123, b"abc"), expected);
    }

    /// Proves: sender
    #[test]
    fn a_signature_holds_for_its_tenant_time_value_and_key_only() {
        let key = SigningKey::parse(&Secret::new(SECRET)).unwrap();
        let public = VerifyingKey::parse(PUBLIC).unwrap();
        let good = key.sign(&tenant("acme"), 5, b"v");
        assert!(public.verify(&tenant("acme"), 5, b"v", &good));
        assert!(!public.verify(&tenant("other"), 5, b"v", &good));
        assert!(!public.verify(&tenant("acme"), 6, b"v", &good));
        assert!(!public.verify(&tenant("acme"), 5, b"w", &good));
        for bad in ["", "x", &good[1..], &STANDARD.encode([0; 64])] {
            assert!(!public.verify(&tenant("acme"), 5, b"v", bad), "{bad}");
        }
        let other = SigningKey::parse(&Secret::new(STANDARD.encode([7; 32]))).unwrap();
        assert!(!other.verifying().verify(&tenant("acme"), 5, b"v", &good));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert_eq!(VerifyingKey::parse("!"), Err(KeyError::NotBase64));
        assert_eq!(VerifyingKey::parse("AAAA"), Err(KeyError::NotAKey));
        assert!(SigningKey::parse(&Secret::new("AAAA")).is_err());
    }
}
