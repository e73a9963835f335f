//! Sessions that are stored already: later events and memory exceptions complete their ends.

use super::days::{CountedSession, SessionDeltas};
use super::end::SessionEnd;
use super::flags::SessionFlags;
use super::{SessionKey, Told};
use crate::store::hours::counted_hour;
use crate::store::memory_exceptions::MemoryExceptionId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};
use unslide_model::ended::EndReason;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::queries::session::SessionJudgement;
use unslide_store::sql::{EndReasonColumn, JsonColumn, Nullable, json_time};
use unslide_store::{Result, TenantTx};

/// Adds the ends that sessions which were there did not have yet.
pub(super) async fn complete_known(
    tx: &mut TenantTx,
    told: &BTreeMap<SessionKey, Told<'_>>,
    outcomes: &mut [EventOutcome],
    deltas: &mut SessionDeltas,
) -> Result<()> {
    let now = tx.now();
    let ending: Vec<&SessionKey> =
        told.iter().filter(|(_, told)| !told.end.is_open()).map(|(key, _)| key).collect();
    if ending.is_empty() {
        return Ok(());
    }
    let mut changed = Vec::new();
    for known in lock_sessions(tx, &ending).await? {
        let Some(told) = told.get(&known.key) else { continue };
        let end = known.end.clone().completed(told.end.clone());
        if end == known.end {
            continue;
        }
        outcomes[told.completing] = EventOutcome::Completed;
        let (key, end) = known.change_end(end, now, deltas);
        changed.push(ChangedSession { key, end, flags: told.flags.as_ref() });
    }
    write_ends(tx, &changed).await
}

/// Joins sessions with memory exceptions, or parts them again, and adds what changes to the deltas.
pub(in crate::store) async fn set_memory_exceptions(
    tx: &mut TenantTx,
    exceptions: &BTreeMap<SessionKey, Option<MemoryExceptionId>>,
    deltas: &mut SessionDeltas,
) -> Result<()> {
    let now = tx.now();
    let mut changed = Vec::new();
    for known in lock_sessions(tx, &exceptions.keys().collect::<Vec<_>>()).await? {
        let Some(memory_exception) = exceptions.get(&known.key).copied() else { continue };
        let end = SessionEnd { memory_exception, ..known.end.clone() };
        let (key, end) = known.change_end(end, now, deltas);
        changed.push(ChangedSession { key, end, flags: None });
    }
    write_ends(tx, &changed).await
}

/// A session with another end.
struct ChangedSession<'e> {
    key: SessionKey,
    end: SessionEnd,
    /// The flags of the event with the end. They count if no earlier event had some.
    flags: Option<&'e SessionFlags>,
}

/// A session that is stored, and locked.
struct KnownSession {
    key: SessionKey,
    version: String,
    installation: Vec<u8>,
    user: Option<Vec<u8>>,
    started_at: OffsetDateTime,
    weight: i64,
    end: SessionEnd,
}

impl KnownSession {
    /// Counts another end, for the version, the installation and the user that the session was counted for.
    fn change_end(
        self,
        end: SessionEnd,
        now: OffsetDateTime,
        deltas: &mut SessionDeltas,
    ) -> (SessionKey, SessionEnd) {
        let session = CountedSession {
            installation: &self.installation,
            user: self.user.as_deref(),
            weight: self.weight,
        };
        let hour = counted_hour(self.started_at, now);
        let counted_for = (self.key.0.clone(), self.version, self.key.2);
        deltas.change(counted_for, hour, |delta| delta.ended(session, &self.end, &end));
        (self.key, end)
    }
}

/// Locks sessions in the order of their keys. Those that were counted before they came are left out.
async fn lock_sessions(tx: &mut TenantTx, keys: &[&SessionKey]) -> Result<Vec<KnownSession>> {
    let apps: Vec<String> = keys.iter().map(|key| key.0.clone()).collect();
    let ids: Vec<String> = keys.iter().map(|key| key.1.clone()).collect();
    let dates: Vec<Date> = keys.iter().map(|key| key.2).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT s.app, s.session_id, s.day, s.version, s.installation AS "installation!", s.user_hash, s.started_at, s.ended_at, s.foreground,
                  s.weight, s.end_reason AS "end_reason!: Nullable<EndReasonColumn>",
                  s.judgement AS "judgement!: Nullable<JsonColumn<SessionJudgement>>", s.memory_limit, s.memory_exception
           FROM unnest($2::text[], $3::text[], $4::date[]) AS k (app, session_id, day)
           JOIN sessions s ON s.tenant = $1 AND s.day = ANY ($4) AND s.app = k.app AND s.session_id = k.session_id AND s.day = k.day
           WHERE s.installation IS NOT NULL
           ORDER BY s.app COLLATE "C", s.session_id COLLATE "C", s.day FOR UPDATE OF s"#,
        tenant,
        &apps,
        &ids,
        &dates
    )
    .fetch_all(connection)
    .await?;
    let known = rows.into_iter().map(|row| KnownSession {
        key: (row.app, row.session_id, row.day),
        version: row.version,
        installation: row.installation,
        user: row.user_hash,
        started_at: row.started_at,
        weight: row.weight.into(),
        end: SessionEnd {
            at: row.ended_at,
            reason: row.end_reason.into(),
            foreground: row.foreground,
            judgement: row.judgement.into(),
            memory_limit: row.memory_limit,
            memory_exception: row.memory_exception.map(MemoryExceptionId::from_uuid),
        },
    });
    Ok(known.collect())
}

async fn write_ends(tx: &mut TenantTx, changed: &[ChangedSession<'_>]) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let rows = changed.iter().map(|ChangedSession { key: (app, id, day), end, flags }| {
        json!({
            "app": app,
            "session_id": id,
            "day": day.to_string(),
            "ended_at": end.at.map(json_time),
            "end_reason": end.reason.map(EndReason::as_str),
            "foreground": end.foreground,
            "judgement": end.judgement,
            "memory_limit": end.memory_limit,
            "memory_exception": end.memory_exception,
            "flags": flags,
        })
    });
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE sessions s SET ended_at = n.ended_at, end_reason = n.end_reason, foreground = n.foreground,
                judgement = n.judgement, memory_limit = n.memory_limit, memory_exception = n.memory_exception,
                flags = coalesce(s.flags, n.flags)
         FROM jsonb_populate_recordset(NULL::sessions, $2) AS n
         WHERE s.tenant = $1 AND s.day = ANY ($3) AND s.app = n.app AND s.session_id = n.session_id AND s.day = n.day",
        tenant,
        rows.collect::<Value>(),
        &changed.iter().map(|one| one.key.2).collect::<Vec<_>>()
    )
    .execute(connection)
    .await?;
    Ok(())
}
