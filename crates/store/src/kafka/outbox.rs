//! Messages for Kafka: written in the transaction that they report, sent by one relay.

use crate::number::to_row32;
use crate::purge;
use crate::tenants::config::{QuotaLimits, TenantStanding};
use crate::{OwnerTx, Result, Store, StoreError};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnection;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use unslide_model::{Clock, DebugId, Owner, Quality, ReportId, TenantId, timestamp};

/// The advisory lock that makes the relay the only one.
const RELAY_LOCK: i64 = 0x756e_736c_6964_6531;

/// Symbols that a request was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NeededSymbols {
    /// The image.
    pub debug_id: DebugId,
    /// The generation that the answer has to come from, or a later one.
    pub generation: u64,
    /// True for a system image.
    pub system: bool,
}

/// A message of the transaction's owner. Messages of one key are sent in the order in which the rows that
/// they report were locked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// The symbols that answer for a debug id have changed.
    SymbolEvent {
        /// The debug id.
        debug_id: DebugId,
        /// Its new generation.
        generation: u64,
        /// The quality of the object that now answers.
        quality: Quality,
        /// The version of the symcache's format.
        symcache_version: u32,
        /// The symbols were deleted.
        deleted: bool,
        /// When, in microseconds since the Unix epoch.
        at_micros: i64,
    },
    /// The tenant has changed.
    TenantConfig {
        /// Grows with each change.
        version: u64,
        /// Whether it is served.
        state: TenantStanding,
        /// Its limits.
        limits: QuotaLimits,
        /// When, in microseconds since the Unix epoch.
        at_micros: i64,
    },
    /// A stored report is to be symbolicated again. The relay adds its body, see
    /// [`crate::requests::sources`].
    Resymbolicate {
        /// The report.
        report_id: ReportId,
        /// Which of those with this id.
        variant: u32,
        /// The revision that the answer will have.
        revision: u32,
        /// The revision that it replaces.
        supersedes: u32,
        /// The symbols that the report needs.
        needs: Vec<NeededSymbols>,
        /// When, in microseconds since the Unix epoch.
        requested_at_micros: i64,
    },
}

impl Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::SymbolEvent { .. } => "symbol_event",
            Message::TenantConfig { .. } => "tenant_config",
            Message::Resymbolicate { .. } => "resymbolicate",
        }
    }
}

/// Returns a time as microseconds since the Unix epoch.
#[must_use]
pub fn to_micros(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}

/// Returns the time from to_microseconds since the Unix epoch, as [`to_micros`] gives them.
#[must_use]
pub fn from_micros(micros: i64) -> OffsetDateTime {
    timestamp::from_micros(micros).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Adds a message to the outbox and returns its number. This transaction must have locked the row that the
/// message reports.
pub async fn append_message(tx: &mut OwnerTx, message: &Message) -> Result<i64> {
    let ids = append_all(tx, std::slice::from_ref(message)).await?;
    ids.into_iter().next().ok_or_else(|| StoreError::corrupt("outbox", "no id for a new row"))
}

/// Puts several messages into the outbox, in their order.
pub async fn append_all(tx: &mut OwnerTx, messages: &[Message]) -> Result<Vec<i64>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let json: std::result::Result<Vec<_>, _> = messages.iter().map(serde_json::to_value).collect();
    let json = json.map_err(|e| StoreError::corrupt("outbox", e))?;
    let kinds: Vec<String> = messages.iter().map(|m| m.kind().to_owned()).collect();
    let (connection, tenant, now) = tx.parts();
    Ok(sqlx::query_scalar!(
        "INSERT INTO outbox (tenant, kind, message, created_at)
         SELECT $1, m.kind, m.message, $2
         FROM unnest($3::text[], $4::jsonb[]) WITH ORDINALITY AS m (kind, message, place) ORDER BY m.place
         RETURNING id",
        tenant,
        now,
        &kinds,
        &json
    )
    .fetch_all(connection)
    .await?)
}

/// Waits until the relay has sent a message of the tenant. Returns false if that took longer than `at_most`.
pub async fn wait_sent(store: &Store, tenant: &TenantId, id: i64, at_most: Duration) -> Result<bool> {
    let end = tokio::time::Instant::now() + at_most;
    loop {
        let mut tx = store.tenant(tenant).await?;
        let (connection, slug, _) = tx.parts();
        let sent = sqlx::query_scalar!(
            r#"SELECT sent_at IS NOT NULL AS "sent!" FROM outbox WHERE tenant = $1 AND id = $2"#,
            slug,
            id
        )
        .fetch_optional(connection)
        .await?;
        tx.rollback().await?;
        // A missing row was sent and purged.
        if sent.unwrap_or(true) {
            return Ok(true);
        }
        if tokio::time::Instant::now() >= end {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Deletes messages that were sent before `before`. Returns their number.
pub async fn purge_messages(store: &Store, before: OffsetDateTime) -> Result<u64> {
    purge::rows_before(store, "outbox", before).await
}

/// Counts the messages, of all owners, that are set aside: for metrics.
pub async fn set_aside(store: &Store) -> Result<i64> {
    Ok(sqlx::query_scalar!(r#"SELECT unslide_outbox_aside() AS "messages!""#).fetch_one(store.pool()).await?)
}

/// A message that waits to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsent {
    /// Its number.
    pub id: i64,
    /// The owner of the message.
    pub owner: Owner,
    /// The message.
    pub message: Message,
    /// When it was written.
    pub created_at: OffsetDateTime,
}

impl Unsent {
    /// Returns the tenant of the message.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for a message of the system.
    pub fn tenant(&self) -> Result<&TenantId> {
        self.owner.tenant().ok_or_else(|| StoreError::corrupt("outbox", "the system has no such message"))
    }
}

/// The one reader of the outbox: it holds a lock of the database for as long as it lives.
pub struct Relay {
    /// Not from the pool any more: when it closes, the lock is free.
    connection: PgConnection,
    clock: Arc<dyn Clock>,
}

impl Relay {
    /// Becomes the relay; `None` if another process is the relay. Messages that were set aside are tried
    /// again, because this program may be another version.
    pub async fn acquire(store: &Store) -> Result<Option<Relay>> {
        let mut connection = store.pool().acquire().await?.detach();
        let locked = sqlx::query_scalar!(r#"SELECT pg_try_advisory_lock($1) AS "locked!""#, RELAY_LOCK)
            .fetch_one(&mut connection)
            .await?;
        if !locked {
            return Ok(None);
        }
        let mut relay = Relay { connection, clock: store.clock().clone() };
        let back = sqlx::query_scalar!(r#"SELECT unslide_outbox_take_back() AS "back!""#)
            .fetch_one(&mut relay.connection)
            .await?;
        if back > 0 {
            tracing::info!(messages = back, "messages that were set aside are tried again");
        }
        Ok(Some(relay))
    }

    /// Returns the next messages: first the state of tenants, then of symbols, then the tenants' requests by
    /// turns; each of these in a tenant's own order. It returns them again until [`Relay::record_sent`] is called
    /// for them. A message that cannot be read is set aside, and the others go on.
    ///
    /// # Errors
    /// Returns an error if the database fails: the relay has to be acquired again.
    pub async fn next(&mut self, limit: u32) -> Result<Vec<Unsent>> {
        let rows = sqlx::query!(
            r#"SELECT id AS "id!", tenant AS "tenant!", message AS "message!", created_at AS "created_at!"
               FROM unslide_outbox_unsent($1)"#,
            to_row32(limit)
        )
        .fetch_all(&mut self.connection)
        .await?;
        let mut unsent = Vec::with_capacity(rows.len());
        for row in rows {
            let owner = Owner::from_name(&row.tenant).map_err(|e| e.to_string());
            let message = serde_json::from_value(row.message).map_err(|e| e.to_string());
            match owner.and_then(|owner| Ok((owner, message?))) {
                Ok((owner, message)) => {
                    unsent.push(Unsent { id: row.id, owner, message, created_at: row.created_at });
                }
                Err(reason) => self.set_aside(row.id, &reason).await?,
            }
        }
        Ok(unsent)
    }

    /// Leaves a message out that this program cannot send, until there is another relay. It is kept.
    pub async fn set_aside(&mut self, id: i64, reason: &str) -> Result<()> {
        tracing::error!(outbox.id = id, reason, "a message cannot be sent and is set aside");
        let reason: String = reason.chars().filter(|c| *c != '\0').take(2_000).collect();
        sqlx::query!("SELECT unslide_outbox_set_aside($1, $2, $3)", id, reason, self.clock.now())
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    /// Records that the broker has these messages.
    ///
    /// # Errors
    /// Returns an error if the database fails: they will be sent a second time, which readers tolerate.
    pub async fn record_sent(&mut self, ids: &[i64], at: OffsetDateTime) -> Result<()> {
        sqlx::query!("SELECT unslide_outbox_sent($1, $2)", ids, at).execute(&mut self.connection).await?;
        Ok(())
    }
}
