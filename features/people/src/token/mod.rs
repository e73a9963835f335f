//! Signed tokens of identity providers (JWS in its compact form, RFC 7515): their signatures, and the claims that a sign-in
//! and a notice of a sign-out depend on. Claims are read one by one, so that one of an unexpected type that nobody reads
//! fails no sign-in.

mod claims;
mod keys;
#[cfg(test)]
mod tests;

pub use claims::{Claims, Expected, TokenPurpose};
pub use keys::{KeySet, is_algorithm, list_algorithms};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// The reason why a token is refused. The texts hold nothing secret: people and administrators see them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the answer has no ID token: the provider must return one for the scope openid")]
    Absent,
    #[error("it is encrypted. Set the client at the provider to ID tokens that are signed and not encrypted")]
    Encrypted,
    #[error("it is not a signed token of three parts with JSON objects")]
    Malformed,
    #[error("it has the header {0}, which must be understood and is not")]
    Header(String),
    #[error("it is signed with {0}. Algorithms are {list}", list = list_algorithms())]
    Algorithm(String),
    /// The provider may have new keys.
    #[error("the provider publishes no key for it")]
    NoKey,
    /// Without an id of a key, the provider may have new keys.
    #[error("its signature is wrong")]
    Signature,
    #[error("its claim {0} is absent or of the wrong type")]
    Claim(&'static str),
    #[error("its issuer is {0}")]
    Issuer(String),
    #[error("its audience is {0}, and not this client")]
    Audience(String),
    #[error("it was issued to the client {0} (azp), and not to this one")]
    AuthorizedParty(String),
    #[error("it ended {0} s ago")]
    Expired(i64),
    #[error("its claim {claim} is {seconds} s ahead: compare the clocks of the provider and of this service")]
    Ahead { claim: &'static str, seconds: i64 },
    #[error("it was not issued for this sign-in (nonce)")]
    Nonce,
    #[error("its claim sub is no id of 1 to 255 characters without control characters")]
    Subject,
    #[error("it is no notice of a sign-out")]
    NoSignOut,
}

/// Reads the claims of a token whose signature fits one of the keys.
///
/// # Errors
/// [`TokenError`]; the claims are not checked yet.
pub fn read_signed(token: &str, keys: &KeySet) -> Result<Claims, TokenError> {
    let parts: Vec<&str> = token.split('.').collect();
    if parts.len() == 5 {
        return Err(TokenError::Encrypted);
    }
    let [header, payload, signature] = parts[..] else { return Err(TokenError::Malformed) };
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed);
    let read_object = |part: &str| -> Result<Map<String, Value>, TokenError> {
        serde_json::from_slice(&decode(part)?).map_err(|_| TokenError::Malformed)
    };
    let head = read_object(header)?;
    if head.contains_key("crit") {
        return Err(TokenError::Header("crit".to_owned()));
    }
    let algorithm = head.get("alg").and_then(Value::as_str).ok_or(TokenError::Malformed)?;
    let signature = decode(signature)?;
    let signed = token.get(..header.len() + 1 + payload.len()).ok_or(TokenError::Malformed)?;
    keys.verify(algorithm, head.get("kid").and_then(Value::as_str), signed.as_bytes(), &signature)?;
    Ok(Claims::new(read_object(payload)?))
}
