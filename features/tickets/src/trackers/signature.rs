//! Signatures of hooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{HMAC_SHA256, Key, verify};
use subtle::ConstantTimeEq;
use unslide_model::Secret;

/// Returns true if the hexadecimal digits are the HMAC-SHA256 of the bytes. It compares in constant time.
pub fn has_hex_signature(secret: &Secret, bytes: &[u8], digits: Option<&str>) -> bool {
    let Some(signature) = digits.and_then(unslide_api::entropy::read_token) else { return false };
    verify_bytes(secret.reveal().as_bytes(), bytes, &signature)
}

/// Returns true if one of the signatures of Standard Webhooks, such as `v1,BASE64`, is that of the bytes.
pub fn has_standard_signature(secret: &Secret, bytes: &[u8], signatures: &str) -> bool {
    let text = secret.reveal();
    let key = match text.strip_prefix("whsec_") {
        Some(key) => STANDARD.decode(key).unwrap_or_default(),
        None => text.as_bytes().to_vec(),
    };
    signatures
        .split(' ')
        .filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok())
        .any(|signature| verify_bytes(&key, bytes, &signature))
}

/// Returns true if two secrets are the same, in constant time.
pub fn is_same_secret(secret: &Secret, given: Option<&str>) -> bool {
    given.is_some_and(|given| bool::from(secret.reveal().as_bytes().ct_eq(given.as_bytes())))
        && !secret.is_empty()
}

fn verify_bytes(key: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
    !key.is_empty() && verify(&Key::new(HMAC_SHA256, key), bytes, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_all_bytes_with_the_secret() {
        let secret = Secret::new("It's a Secret to Everybody");
        // The example of GitHub's documentation.
        let digits = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(has_hex_signature(&secret, b"Hello, World!", Some(digits)));
        assert!(!has_hex_signature(&secret, b"Hello, World", Some(digits)));
        assert!(!has_hex_signature(&Secret::new(""), b"Hello, World!", Some(digits)));
        assert!(!has_hex_signature(&secret, b"Hello, World!", Some("757107")));
        assert!(!has_hex_signature(&secret, b"Hello, World!", None));
        assert!(
            is_same_secret(&secret, Some("It's a Secret to Everybody")) && !is_same_secret(&secret, Some(""))
        );
        assert!(!is_same_secret(&Secret::new(""), Some("")));
    }
}
