//! The end of a URL that permits one upload: what may be uploaded, and a code that only this service makes.
//!
//! The code is an HMAC with the hash of the key's secret, which never leaves the database. So nothing has to be stored, every
//! process of the api reads it, and it ends when the key does.

use crate::whole_file::FileSender;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use time::{Duration, OffsetDateTime};
use unslide_api::feature::upload::UploadQuota;
use unslide_model::{Owner, TenantId};
use unslide_store::{Result, TenantTx, Uuid};

/// How long a URL is valid. The client puts the files right after it asked for the URLs.
const URL_LIFETIME: Duration = Duration::HOUR;
/// The most characters of the end of a URL.
const MAX_URL_BYTES: usize = 2_048;

/// An upload that a URL permits.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct PermittedUpload {
    pub tenant: TenantId,
    pub key_id: Uuid,
    /// Name of the file in lists of uploads.
    pub name: String,
    app: Option<String>,
    file_bytes: u64,
    symbol_bytes: Option<u64>,
    /// When the URL ends, in seconds since 1970.
    expires_at: i64,
}

impl PermittedUpload {
    /// Permits a file of this name to a sender until some time after `now`.
    pub fn for_sender(
        sender: &FileSender,
        tenant: &TenantId,
        key_id: Uuid,
        name: &str,
        now: OffsetDateTime,
    ) -> PermittedUpload {
        PermittedUpload {
            tenant: tenant.clone(),
            key_id,
            name: name.to_owned(),
            app: sender.app.clone(),
            file_bytes: sender.quota.bytes,
            symbol_bytes: sender.quota.symbol_bytes,
            expires_at: (now + URL_LIFETIME).unix_timestamp(),
        }
    }

    /// Returns the sender that the URL permits.
    pub fn to_sender(&self) -> FileSender {
        FileSender {
            owner: Owner::Tenant(self.tenant.clone()),
            app: self.app.clone(),
            quota: UploadQuota {
                bytes: self.file_bytes,
                symbol_bytes: self.symbol_bytes,
                one_app: self.app.is_some(),
            },
        }
    }

    /// Returns the end of the URL. Returns None if the secret cannot be used.
    pub fn to_url(&self, secret: &[u8]) -> Option<String> {
        let text = serde_json::to_vec(self).ok()?;
        let code = make_code(secret, &text)?.finalize().into_bytes();
        Some(format!("{}.{}", URL_SAFE_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(code)))
    }
}

/// The end of a URL before its code was compared.
pub struct ClaimedUpload {
    text: Vec<u8>,
    code: Vec<u8>,
    pub claim: PermittedUpload,
}

impl ClaimedUpload {
    /// Reads the end of a URL. Returns None if it has another form.
    pub fn from_url(url: &str) -> Option<ClaimedUpload> {
        let (text, code) = url.split_once('.').filter(|_| url.len() <= MAX_URL_BYTES)?;
        let text = URL_SAFE_NO_PAD.decode(text).ok()?;
        let claim = serde_json::from_slice(&text).ok()?;
        Some(ClaimedUpload { code: URL_SAFE_NO_PAD.decode(code).ok()?, text, claim })
    }

    /// Returns the upload if this service made the code, and the URL has not ended.
    pub fn verify(self, secret: &[u8], now: OffsetDateTime) -> Option<PermittedUpload> {
        make_code(secret, &self.text)?.verify_slice(&self.code).ok()?;
        (now.unix_timestamp() < self.claim.expires_at).then_some(self.claim)
    }
}

fn make_code(secret: &[u8], text: &[u8]) -> Option<Hmac<Sha256>> {
    Some(Hmac::<Sha256>::new_from_slice(secret).ok()?.chain_update(text))
}

/// Returns the hash of a key's secret. None if the key has ended, or its tenant may not upload.
pub async fn find_secret(tx: &mut TenantTx, key_id: Uuid) -> Result<Option<Vec<u8>>> {
    let (connection, tenant, now) = tx.parts();
    let secret = sqlx::query_scalar!(
        "SELECT k.secret_hash FROM api_keys k JOIN tenants t ON t.slug = k.tenant AND t.state = 'active'
         WHERE k.tenant = $1 AND k.id = $2 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $3)
           AND 'symbols:write' = ANY (k.scopes)",
        tenant,
        key_id,
        now
    );
    Ok(secret.fetch_optional(connection).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn permitted() -> PermittedUpload {
        let tenant = TenantId::new("acme").unwrap();
        let quota = UploadQuota { bytes: 9, symbol_bytes: None, one_app: true };
        let sender = FileSender {
            owner: Owner::Tenant(tenant.clone()),
            app: Some("com.example.shop".to_owned()),
            quota,
        };
        PermittedUpload::for_sender(&sender, &tenant, Uuid::nil(), "Shop", NOW)
    }

    fn verified(url: &str, secret: &[u8], hours: i64) -> Option<PermittedUpload> {
        ClaimedUpload::from_url(url)?.verify(secret, NOW + Duration::hours(hours))
    }

    #[test]
    fn a_url_permits_its_upload_for_a_while() {
        let url = permitted().to_url(&[7; 32]).unwrap();
        assert_eq!(verified(&url, &[7; 32], 0), Some(permitted()));
        assert_eq!(verified(&url, &[7; 32], 1), None);
        assert_eq!(verified(&url, &[8; 32], 0), None);
    }

    #[test]
    fn a_changed_url_permits_nothing() {
        let url = permitted().to_url(&[7; 32]).unwrap();
        let (_, code) = url.split_once('.').unwrap();
        let other = serde_json::to_vec(&PermittedUpload { file_bytes: 10, ..permitted() }).unwrap();
        assert_eq!(verified(&format!("{}.{code}", URL_SAFE_NO_PAD.encode(other)), &[7; 32], 0), None);
        for wrong in ["", ".", "a.b", &"a".repeat(3_000)] {
            assert!(ClaimedUpload::from_url(wrong).is_none(), "{wrong}");
        }
    }
}
