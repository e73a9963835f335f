//! Recipients of mail: the addresses that a tenant's alerts may go to, and how many mails a day.
//!
//! A recipient outside the operator's domains gets one mail with a link, and alerts once it has confirmed
//! there. The link holds 256 random bits, of which only a SHA-256 is kept.

use super::messages::SEND_LEASE_TIMEOUT;
use super::rules::{AlertRecipient, RecipientStatus};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use time::{Duration, Time};
use unslide_api::feature::tenant_turns::retry_pause;
use unslide_model::TenantId;
use unslide_store::sql::TenantColumn;
use unslide_store::{Result, Store, TenantTx};

/// How long a recipient may take to confirm. After that the next alert sends another link.
pub const LINK_LIFETIME: Duration = Duration::days(7);
/// Between two confirmation mails to one recipient that a tenant asks for.
const ASK_INTERVAL: Duration = Duration::DAY;
/// Attempts to send one confirmation mail.
const MAX_ASK_ATTEMPTS: i32 = 5;
/// Recipients of a tenant that have not confirmed.
pub const MAX_UNCONFIRMED: i64 = 1_000;

/// The 256 random bits in the link of a confirmation mail.
pub type ConfirmationToken = [u8; 32];

/// A confirmation mail that this process sends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedConfirmation {
    attempt: i32,
}

/// The recipient that a link belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedRecipient {
    /// The tenant that named it.
    pub tenant: TenantId,
    pub recipient: AlertRecipient,
}

/// Returns the statuses of those of these addresses that are known. Addresses are in lower case.
pub async fn read_statuses(
    tx: &mut TenantTx,
    addresses: &[String],
) -> Result<BTreeMap<String, RecipientStatus>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT address, status AS "status: RecipientStatus" FROM alert_recipients
           WHERE tenant = $1 AND address = ANY ($2)"#,
        tenant,
        addresses
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.address, row.status)).collect())
}

/// Requests a confirmation mail to each of these addresses that has not answered and was not asked for a day.
/// Returns false, and asks none, if too many of the tenant's recipients have not confirmed.
pub async fn request_confirmations(tx: &mut TenantTx, addresses: &[String]) -> Result<bool> {
    if addresses.is_empty() {
        return Ok(true);
    }
    let (connection, tenant, now) = tx.parts();
    let others = sqlx::query_scalar!(
        r#"SELECT count(*) AS "others!" FROM alert_recipients
           WHERE tenant = $1 AND status = 'waiting_for_confirmation' AND address <> ALL ($2)"#,
        tenant,
        addresses
    )
    .fetch_one(&mut *connection)
    .await?;
    if others.saturating_add_unsigned(addresses.len() as u64) > MAX_UNCONFIRMED {
        return Ok(false);
    }
    sqlx::query!(
        "INSERT INTO alert_recipients AS r (tenant, address, status, ask_at, asked_at)
         SELECT DISTINCT $1, n.address, 'waiting_for_confirmation', $3::timestamptz, $3::timestamptz
         FROM unnest($2::text[]) AS n (address) ORDER BY n.address
         ON CONFLICT (tenant, address) DO UPDATE SET ask_at = EXCLUDED.ask_at, asked_at = EXCLUDED.asked_at, attempts = 0
         WHERE r.status = 'waiting_for_confirmation' AND r.asked_at < $4",
        tenant,
        addresses,
        now,
        now - ASK_INTERVAL
    )
    .execute(connection)
    .await?;
    Ok(true)
}

/// Returns recipients of all tenants that a confirmation mail is to be sent to now, one of each tenant.
pub async fn confirmations_due(store: &Store, limit: u16) -> Result<Vec<(TenantId, String)>> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!: TenantColumn", address AS "address!"
           FROM unslide_alert_confirmations_due($1, $2)"#,
        store.now(),
        i32::from(limit)
    )
    .fetch_all(store.pool())
    .await?;
    Ok(rows.into_iter().map(|row| (row.tenant.into(), row.address)).collect())
}

/// Takes a confirmation mail that is due, with a new link in place of the one before: commit before it is
/// sent. Returns None if it is not due any more. Postpones it to the next day if the tenant's mails of this
/// day are used up.
pub async fn claim_confirmation(
    tx: &mut TenantTx,
    address: &str,
    token: &ConfirmationToken,
    mails_per_day: u32,
) -> Result<Option<ClaimedConfirmation>> {
    let may_send = take_mails(tx, 1, mails_per_day).await?;
    let hash = Sha256::digest(token);
    let (connection, tenant, now) = tx.parts();
    let next =
        if may_send { now + SEND_LEASE_TIMEOUT } else { (now + Duration::DAY).replace_time(Time::MIDNIGHT) };
    let claimed = sqlx::query_as!(
        ClaimedConfirmation,
        r#"UPDATE alert_recipients
           SET token_hash = CASE WHEN $6 THEN $3 ELSE token_hash END, asked_at = $4,
               attempts = attempts + CASE WHEN $6 THEN 1 ELSE 0 END, ask_at = $5
           WHERE tenant = $1 AND address = $2 AND ask_at <= $4
           RETURNING attempts AS attempt"#,
        tenant,
        address,
        hash.as_slice(),
        now,
        next,
        may_send
    )
    .fetch_optional(connection)
    .await?;
    if claimed.is_none() && may_send {
        return_mails(tx, 1).await?;
    }
    Ok(claimed.filter(|_| may_send))
}

/// Records how an attempt to send a confirmation mail ended. One that failed is repeated, up to [`MAX_ASK_ATTEMPTS`].
pub async fn finish_confirmation(
    tx: &mut TenantTx,
    address: &str,
    claimed: ClaimedConfirmation,
    is_sent: bool,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let is_over = is_sent || claimed.attempt >= MAX_ASK_ATTEMPTS;
    sqlx::query!(
        "UPDATE alert_recipients SET ask_at = $4
         WHERE tenant = $1 AND address = $2 AND attempts = $3 AND status = 'waiting_for_confirmation'",
        tenant,
        address,
        claimed.attempt,
        (!is_over).then(|| now + retry_pause(claimed.attempt))
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the recipient that a link belongs to, if the link is still valid.
pub async fn find_by_link(store: &Store, token: &ConfirmationToken) -> Result<Option<LinkedRecipient>> {
    let hash = Sha256::digest(token);
    let row = sqlx::query!(
        r#"SELECT tenant AS "tenant!: TenantColumn", address AS "address!", status AS "status!: RecipientStatus"
           FROM unslide_alert_recipient($1, $2)"#,
        hash.as_slice(),
        store.now() - LINK_LIFETIME
    )
    .fetch_optional(store.pool())
    .await?;
    Ok(row.map(|row| LinkedRecipient {
        tenant: row.tenant.into(),
        recipient: AlertRecipient { address: row.address, status: row.status },
    }))
}

/// Records that a recipient takes alerts, or refuses them. One in a domain that the operator allows has no row before. Messages that wait for a confirmation are then
/// sent at once.
pub async fn set_accepted(tx: &mut TenantTx, address: &str, accepted: bool) -> Result<()> {
    let status = if accepted { RecipientStatus::Confirmed } else { RecipientStatus::Refused };
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO alert_recipients (tenant, address, status, asked_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant, address) DO UPDATE SET status = EXCLUDED.status, ask_at = NULL",
        tenant,
        address,
        status.as_str(),
        now
    )
    .execute(&mut *connection)
    .await?;
    if accepted {
        // One that is being sent may be sent twice, with the same id.
        sqlx::query!(
            "UPDATE alert_messages m SET due_at = $2 FROM alert_rules r
             WHERE m.tenant = $1 AND m.status = 'waiting' AND m.due_at > $2
               AND r.tenant = $1 AND r.id = m.rule AND r.channel = 'mail'",
            tenant,
            now
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Counts mails that are about to be sent. Returns false, and counts none, if there would be more than
/// `per_day` on this day (UTC).
pub async fn take_mails(tx: &mut TenantTx, mails: u32, per_day: u32) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let taken = sqlx::query!(
        "INSERT INTO alert_mail_counts AS c (tenant, day, mails)
         SELECT $1, $2, $3::bigint WHERE $3::bigint <= $4
         ON CONFLICT (tenant) DO UPDATE
         SET day = EXCLUDED.day, mails = EXCLUDED.mails + CASE WHEN c.day < EXCLUDED.day THEN 0 ELSE c.mails END
         WHERE c.day < EXCLUDED.day OR c.mails + EXCLUDED.mails <= $4",
        tenant,
        now.date(),
        i64::from(mails),
        i64::from(per_day)
    )
    .execute(connection)
    .await?;
    Ok(taken.rows_affected() > 0)
}

/// Takes mails out of the count that the mail server did not take.
pub async fn return_mails(tx: &mut TenantTx, mails: u32) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE alert_mail_counts SET mails = greatest(mails - $3, 0) WHERE tenant = $1 AND day = $2",
        tenant,
        now.date(),
        i64::from(mails)
    )
    .execute(connection)
    .await?;
    Ok(())
}
