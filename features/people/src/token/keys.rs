//! The public keys of an identity provider (RFC 7517), and the signatures that they verify (RFC 7518).

use super::TokenError;
use openidconnect::core::{CoreJsonWebKey, CoreJwsSigningAlgorithm};
use openidconnect::{JsonWebKey, JsonWebKeyUse, SignatureVerificationError};
use serde_json::Value;

/// Algorithms of tokens: those with a public key, so that no one who knows only that key can sign. ES512 is left out, because
/// the library does not have its curve.
const SIGNATURES: [(&str, CoreJwsSigningAlgorithm); 9] = [
    ("RS256", CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256),
    ("RS384", CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384),
    ("RS512", CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512),
    ("PS256", CoreJwsSigningAlgorithm::RsaSsaPssSha256),
    ("PS384", CoreJwsSigningAlgorithm::RsaSsaPssSha384),
    ("PS512", CoreJwsSigningAlgorithm::RsaSsaPssSha512),
    ("ES256", CoreJwsSigningAlgorithm::EcdsaP256Sha256),
    ("ES384", CoreJwsSigningAlgorithm::EcdsaP384Sha384),
    ("EdDSA", CoreJwsSigningAlgorithm::EdDsa),
];

/// Keys of one provider. More are not read.
const MAX_KEYS: usize = 100;

/// Returns the algorithms of tokens for a message.
pub fn list_algorithms() -> String {
    SIGNATURES.map(|(name, _)| name).join(", ")
}

/// Returns true for an algorithm of tokens.
pub fn is_algorithm(name: &str) -> bool {
    SIGNATURES.iter().any(|(own, _)| *own == name)
}

/// The keys that a provider publishes. Keys of other kinds and keys for encryption are left out.
#[derive(Clone, Debug, Default)]
pub struct KeySet(Vec<CoreJsonWebKey>);

impl KeySet {
    /// Reads the keys of a provider's JSON. A key that cannot be read is left out.
    pub fn from_json(json: &Value) -> KeySet {
        let keys = json.get("keys").and_then(Value::as_array).into_iter().flatten();
        let read = keys.filter_map(|key| serde_json::from_value::<CoreJsonWebKey>(key.clone()).ok());
        let signing = read.filter(|key| key.key_use().is_none_or(JsonWebKeyUse::allows_signature));
        KeySet(signing.take(MAX_KEYS).collect())
    }

    /// Returns true if there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks a signature with the keys that fit the algorithm and the id of a key in the token's header. Neither is trusted:
    /// an algorithm with a shared secret is none of ours, and each key checks its own kind of signature.
    ///
    /// # Errors
    /// [`TokenError::Algorithm`], [`TokenError::NoKey`] or [`TokenError::Signature`].
    pub fn verify(
        &self,
        algorithm: &str,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), TokenError> {
        let known = SIGNATURES.iter().find(|(name, _)| *name == algorithm);
        let unknown = || TokenError::Algorithm(algorithm.chars().take(20).collect());
        let (_, wanted) = known.ok_or_else(unknown)?;
        let mut wrong = TokenError::NoKey;
        for key in &self.0 {
            let own = key.key_id().map(|id| id.as_str());
            if id.is_some_and(|id| own.is_some_and(|own| own != id)) {
                continue;
            }
            match key.verify_signature(wanted, message, signature) {
                Ok(()) => return Ok(()),
                Err(SignatureVerificationError::CryptoError(_)) => wrong = TokenError::Signature,
                // It is a key for another algorithm.
                Err(_) => {}
            }
        }
        Err(wrong)
    }
}
