//! Signatures of gateways. They prove to the symbolizer who sent a record, even if other producers may write
//! to the topic.
//!
//! The signature is Ed25519 over this text, without a newline at its end:
//!
//! ```text
//! unslide-v1
//! <the tenant's slug>
//! <time of the signature: decimal milliseconds since the Unix epoch>
//! <SHA-256 of the record's value, lower-case hexadecimal>
//! ```
//!
//! It is sent in the headers [`unslide_proto::headers::SIGNATURE`] (base64 with padding),
//! [`unslide_proto::headers::SIGNATURE_KEY`] (the key's name) and [`unslide_proto::headers::SIGNED_AT`]. A new format of
//! the text gets a new first line, so that no signature is valid for another format.
//!
//! A record that is sent again keeps these headers. The service that sends it signs the same text with the first line
//! `unslide-replay-v1` and the time of the replay, in the headers [`unslide_proto::headers::REPLAY_SIGNATURE`],
//! [`unslide_proto::headers::REPLAY_SIGNATURE_KEY`] and [`unslide_proto::headers::REPLAY_SIGNED_AT`].

#![warn(missing_docs)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fmt::Write;
use unslide_model::{Secret, TenantId};
use unslide_proto::headers;

/// The purpose of a signature. It is the first line of the text that is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedPurpose {
    /// The sender acts for the tenant.
    Record,
    /// The service sends a record again that another sender signed before.
    Replay,
}

impl SignedPurpose {
    fn first_line(self) -> &'static str {
        match self {
            SignedPurpose::Record => "unslide-v1",
            SignedPurpose::Replay => "unslide-replay-v1",
        }
    }

    /// Returns the names of the headers for the signature, the key's name and the time.
    #[must_use]
    pub fn header_names(self) -> [&'static str; 3] {
        match self {
            SignedPurpose::Record => [headers::SIGNATURE, headers::SIGNATURE_KEY, headers::SIGNED_AT],
            SignedPurpose::Replay => {
                [headers::REPLAY_SIGNATURE, headers::REPLAY_SIGNATURE_KEY, headers::REPLAY_SIGNED_AT]
            }
        }
    }
}

/// The reason why a key cannot be used.
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
    /// Reads a key of 32 secret bytes in base64.
    ///
    /// # Errors
    /// Returns [`KeyError`] if the text is not such a key.
    pub fn parse(secret: &Secret) -> Result<SigningKey, KeyError> {
        Ok(SigningKey(ed25519_dalek::SigningKey::from_bytes(&thirty_two(secret.reveal())?)))
    }

    /// Returns the key that verifies the signatures.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    /// Returns the value of the header [`unslide_proto::headers::SIGNATURE`] for a record with this value, sent for
    /// `tenant` and signed at `signed_at` (milliseconds since the Unix epoch).
    #[must_use]
    pub fn sign_record(&self, tenant: &TenantId, signed_at: i64, value: &[u8]) -> String {
        self.sign_for(SignedPurpose::Record, tenant, signed_at, value)
    }

    fn sign_for(&self, purpose: SignedPurpose, tenant: &TenantId, signed_at: i64, value: &[u8]) -> String {
        STANDARD
            .encode(self.0.sign(format_signed_text(purpose, tenant, signed_at, value).as_bytes()).to_bytes())
    }
}

/// A gateway's key with its name.
#[derive(Debug)]
pub struct Signer {
    name: String,
    key: SigningKey,
}

impl Signer {
    /// Creates a signer. Verifiers know the public key by `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, key: SigningKey) -> Signer {
        Signer { name: name.into(), key }
    }

    /// Returns the headers of a record with this value, signed at `signed_at` (milliseconds since the Unix
    /// epoch). Hashes the value, so it is slow for a large one.
    #[must_use]
    pub fn signature_headers(
        &self,
        tenant: &TenantId,
        signed_at: i64,
        value: &[u8],
    ) -> [(&'static str, String); 3] {
        self.headers_for(SignedPurpose::Record, tenant, signed_at, value)
    }

    /// Works as [`Signer::signature_headers`], for any purpose.
    #[must_use]
    pub fn headers_for(
        &self,
        purpose: SignedPurpose,
        tenant: &TenantId,
        signed_at: i64,
        value: &[u8],
    ) -> [(&'static str, String); 3] {
        let [signature, key, at] = purpose.header_names();
        let signed = self.key.sign_for(purpose, tenant, signed_at, value);
        [(signature, signed), (key, self.name.clone()), (at, signed_at.to_string())]
    }
}

impl VerifyingKey {
    /// Reads a key of 32 public bytes in base64.
    ///
    /// # Errors
    /// Returns [`KeyError`] if the text is not such a key.
    pub fn parse(public: &str) -> Result<VerifyingKey, KeyError> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(&thirty_two(public)?);
        key.map(VerifyingKey).map_err(|_| KeyError::NotAKey)
    }

    /// Returns true if `signature` was made with the private key for the other arguments.
    #[must_use]
    pub fn verify_record(&self, tenant: &TenantId, signed_at: i64, value: &[u8], signature: &str) -> bool {
        self.verify_for(SignedPurpose::Record, tenant, signed_at, value, signature)
    }

    /// Works as [`VerifyingKey::verify_record`], for any purpose.
    #[must_use]
    pub fn verify_for(
        &self,
        purpose: SignedPurpose,
        tenant: &TenantId,
        signed_at: i64,
        value: &[u8],
        signature: &str,
    ) -> bool {
        let decoded = STANDARD.decode(signature).ok().and_then(|bytes| Signature::from_slice(&bytes).ok());
        // Strict: refuses a weak key, and a signature in another encoding of the same numbers.
        let text = format_signed_text(purpose, tenant, signed_at, value);
        decoded.is_some_and(|signature| self.0.verify_strict(text.as_bytes(), &signature).is_ok())
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0.as_bytes()))
    }
}

/// Returns the text that is signed.
#[must_use]
pub fn format_signed_text(purpose: SignedPurpose, tenant: &TenantId, signed_at: i64, value: &[u8]) -> String {
    let mut text = format!("{}\n{tenant}\n{signed_at}\n", purpose.first_line());
    for byte in Sha256::digest(value) {
        // Writing to a string cannot fail.
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
        let signed = format_signed_text(SignedPurpose::Record, &tenant("acme"), 1_700_000_000_123, b"abc");
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(signed, format!("unslide-v1\nacme\n1700000000123\n{hash}"));
        let key = SigningKey::parse(&Secret::new(SECRET)).unwrap();
        assert_eq!(key.verifying_key().to_string(), PUBLIC);
        // Ed25519 is deterministic: a gateway in another language can be held against this.
        let expected = include_str!("example.txt").trim();
        assert_eq!(key.sign_record(&tenant("acme"), 1_700_000_000_123, b"abc"), expected);
    }

    /// Proves: sender
    #[test]
    fn a_signature_holds_for_its_tenant_time_value_and_key_only() {
        let key = SigningKey::parse(&Secret::new(SECRET)).unwrap();
        let public = VerifyingKey::parse(PUBLIC).unwrap();
        let good = key.sign_record(&tenant("acme"), 5, b"v");
        let verify = |of: &str, at: i64, value: &[u8], signature: &str| {
            public.verify_record(&tenant(of), at, value, signature)
        };
        assert!(verify("acme", 5, b"v", &good));
        assert!(!verify("other", 5, b"v", &good));
        assert!(!verify("acme", 6, b"v", &good));
        assert!(!verify("acme", 5, b"w", &good));
        for bad in ["", "x", good.get(1..).unwrap(), &STANDARD.encode([0; 64])] {
            assert!(!verify("acme", 5, b"v", bad), "{bad}");
        }
        // No signature is good for another purpose.
        assert!(!public.verify_for(SignedPurpose::Replay, &tenant("acme"), 5, b"v", &good));
        let replay = key.sign_for(SignedPurpose::Replay, &tenant("acme"), 5, b"v");
        assert!(!verify("acme", 5, b"v", &replay));
        let other = SigningKey::parse(&Secret::new(STANDARD.encode([7; 32]))).unwrap();
        assert!(!other.verifying_key().verify_record(&tenant("acme"), 5, b"v", &good));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert_eq!(VerifyingKey::parse("!"), Err(KeyError::NotBase64));
        assert_eq!(VerifyingKey::parse("AAAA"), Err(KeyError::NotAKey));
        assert!(SigningKey::parse(&Secret::new("AAAA")).is_err());
    }
}
