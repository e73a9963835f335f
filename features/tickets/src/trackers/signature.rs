//! Signatures of Standard Webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use unslide_api::feature::hooks::has_signature;
use unslide_model::Secret;

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
        .any(|signature| has_signature(&key, bytes, &signature))
}
