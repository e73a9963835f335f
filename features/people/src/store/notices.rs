//! The statement about notices of sign-outs.

use sha2::{Digest, Sha256};
use time::Duration;
use unslide_store::{Result, TenantTx};

/// How long notices are remembered: longer than one is valid.
pub const NOTICES_KEPT_FOR: Duration = Duration::hours(1);

/// Records a notice of a provider. Returns false if it came before.
pub async fn record_notice(tx: &mut TenantTx, issuer: &str, id: &str) -> Result<bool> {
    let hash = Sha256::new().chain_update(issuer).chain_update([0]).chain_update(id).finalize();
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "INSERT INTO sign_out_notices (tenant, notice_hash, received_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        tenant,
        hash.as_slice(),
        now
    );
    Ok(done.execute(connection).await?.rows_affected() > 0)
}
