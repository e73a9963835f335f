//! The statements about ID tokens with which people sign out at their provider.

use sha2::{Digest, Sha256};
use time::Duration;
use unslide_store::{Result, TenantTx};

/// The most bytes of a token that is kept. It goes into an address.
const TOKEN_BYTES_LIMIT: usize = 6_000;

/// Keeps an ID token for the sign-out of a session that lasts this long. Returns false if it is too long for an address.
pub async fn add_sign_out_hint(
    tx: &mut TenantTx,
    reference: &[u8; 32],
    id_token: &str,
    lifetime: Duration,
) -> Result<bool> {
    if id_token.len() > TOKEN_BYTES_LIMIT {
        return Ok(false);
    }
    let hash = Sha256::digest(reference);
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO sign_out_hints (tenant, hint_hash, id_token, ends_at) VALUES ($1, $2, $3, $4)",
        tenant,
        hash.as_slice(),
        id_token,
        now + lifetime
    )
    .execute(connection)
    .await?;
    Ok(true)
}

/// Takes an ID token out: it is given once.
pub async fn take_sign_out_hint(tx: &mut TenantTx, reference: &[u8; 32]) -> Result<Option<String>> {
    let hash = Sha256::digest(reference);
    let (connection, tenant, now) = tx.parts();
    let token = sqlx::query_scalar!(
        "DELETE FROM sign_out_hints WHERE tenant = $1 AND hint_hash = $2 AND ends_at > $3 RETURNING id_token",
        tenant,
        hash.as_slice(),
        now
    );
    Ok(token.fetch_optional(connection).await?)
}
