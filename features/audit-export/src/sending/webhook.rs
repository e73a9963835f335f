//! Entries as a webhook, signed as Standard Webhooks 1.0 has it.

use super::delivery::SentEntries;
use serde_json::json;
use unslide_api::feature::webhook_signature::WebhookSigner;
use unslide_model::Secret;

/// A request with entries.
pub struct WebhookRequest {
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// Builds the request for entries. Its id names the first entry and the last: the same entries have the same id again.
///
/// # Errors
/// Returns an error if the secret cannot be used.
pub fn build_webhook(sent: &SentEntries<'_>, secret: &Secret) -> Result<WebhookRequest, String> {
    let signer = WebhookSigner::from_secret(secret)?;
    let ends = [sent.entries.first(), sent.entries.last()];
    let id = ends.map(|entry| entry.map_or_else(String::new, |entry| entry.id.to_string())).join("_");
    let body = json!({"tenant": sent.tenant.as_str(), "entries": sent.entries}).to_string();
    let at = sent.at.unix_timestamp();
    let signature = signer.sign_message(&id, at, &body);
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("idempotency-key", id.clone()),
        ("webhook-id", id),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", signature),
    ];
    Ok(WebhookRequest { headers, body })
}
