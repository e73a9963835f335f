//! The end of a URL that permits uploads: the tenant, the name of the file, and a token.
//!
//! All URLs of one answer have the same token. Only its hash is stored, with the key that asked for the URLs: who reads the
//! database cannot make one. What may be uploaded follows from that key and its tenant at the time of the upload.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::Duration;
use unslide_api::entropy::{read_token, write_token};
use unslide_model::TenantId;
use unslide_store::{Result, TenantTx, Uuid};

/// How long a URL is valid. The client puts the files right after it asked for the URLs.
const URL_LIFETIME: Duration = Duration::HOUR;
/// The most characters of the end of a URL.
const MAX_URL_BYTES: usize = 2_048;

/// The end of a URL, before its token was looked up.
#[derive(Debug, PartialEq)]
pub struct UploadUrl {
    pub file: UrlFile,
    token: [u8; 32],
}

/// The file that a URL is for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct UrlFile {
    pub tenant: TenantId,
    /// Name of the file in lists of uploads.
    pub name: String,
}

impl UploadUrl {
    /// Makes the end of a URL for a file.
    pub fn new(file: UrlFile, token: [u8; 32]) -> UploadUrl {
        UploadUrl { file, token }
    }

    /// Reads the end of a URL. Returns None if it has another form.
    pub fn parse(text: &str) -> Option<UploadUrl> {
        let (file, token) = text.split_once('.').filter(|_| text.len() <= MAX_URL_BYTES)?;
        let file = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(file).ok()?).ok()?;
        Some(UploadUrl { file, token: read_token(token)? })
    }

    /// Returns the text of the end of a URL. Returns None if the file has no JSON.
    pub fn to_text(&self) -> Option<String> {
        let file = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&self.file).ok()?);
        Some(format!("{file}.{}", write_token(&self.token)))
    }

    /// Returns the hash by which the token is stored.
    pub fn hash_token(&self) -> Vec<u8> {
        hash_token(&self.token)
    }
}

fn hash_token(token: &[u8; 32]) -> Vec<u8> {
    Sha256::digest(token).to_vec()
}

/// Records a token of the tenant, which ends in an hour or with the key.
pub async fn add_token(tx: &mut TenantTx, token: &[u8; 32], key_id: Uuid) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO uploader_urls (tenant, token_hash, key_id, expires_at) VALUES ($1, $2, $3, $4)",
        tenant,
        hash_token(token),
        key_id,
        now + URL_LIFETIME
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The key that asked for a URL.
#[derive(Debug)]
pub struct UrlKey {
    /// The app that it is for.
    pub app: Option<String>,
}

/// Returns the key of a token. Returns None if the token or its key has ended, or the tenant may not upload.
pub async fn find_key(tx: &mut TenantTx, token_hash: &[u8]) -> Result<Option<UrlKey>> {
    let (connection, tenant, now) = tx.parts();
    let key = sqlx::query_as!(
        UrlKey,
        "SELECT k.apps[1] AS app FROM uploader_urls u
         JOIN keys k ON k.tenant = u.tenant AND k.id = u.key_id
         JOIN tenants t ON t.slug = k.tenant AND t.state = 'active'
         WHERE u.tenant = $1 AND u.token_hash = $2 AND u.expires_at > $3 AND k.revoked_at IS NULL
           AND (k.expires_at IS NULL OR k.expires_at > $3) AND 'symbols:write' = ANY (k.scopes)",
        tenant,
        token_hash,
        now
    );
    Ok(key.fetch_optional(connection).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_back_and_its_token_is_stored_as_a_hash() {
        let file = UrlFile { tenant: TenantId::new("acme").unwrap(), name: "Shop".to_owned() };
        let url = UploadUrl::new(file, [7; 32]);
        let text = url.to_text().unwrap();
        assert_eq!(UploadUrl::parse(&text).as_ref(), Some(&url));
        assert!(url.hash_token() != [7; 32] && url.hash_token().len() == 32);
        let cut = text.get(..text.len() - 1).unwrap();
        for wrong in ["", ".", "a.b", cut, &format!("{text}0"), &"a".repeat(3_000)] {
            assert_eq!(UploadUrl::parse(wrong), None, "{wrong}");
        }
    }
}
