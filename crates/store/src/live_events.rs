//! Live events: what happened to a tenant's reports, groups and symbols, for dashboards that follow it.
//!
//! An event is written in the transaction of its cause. Its position begins with that transaction's number, and a reader
//! goes only as far as no transaction runs any more: an event that is committed late is not skipped.

use crate::column::words;
use crate::groups::GroupEvent;
use crate::purge::in_pages;
use crate::{OwnerTx, Result, Store, TenantTx};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use time::Duration;

/// How long events are kept.
const KEPT: Duration = Duration::DAY;

words! {
    /// What happened.
    pub enum LiveEventKind {
        /// A group has its first report.
        GroupCreated = "group_created",
        /// A resolved group came back.
        GroupRegressed = "group_regressed",
        /// Reports of an app were stored.
        ReportsStored = "reports_stored",
        /// A rule's condition was fulfilled.
        AlertRaised = "alert_raised",
        /// The symbols of a debug id are there.
        SymbolsReady = "symbols_ready",
    }
}

/// An event that is to be written.
pub(crate) struct NewLiveEvent {
    pub(crate) kind: LiveEventKind,
    /// `None` where it is of no app.
    pub(crate) app: Option<String>,
    pub(crate) data: Value,
}

/// Where an event stands among those of its tenant, as text `TRANSACTION-NUMBER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventPosition {
    transaction: i64,
    number: i64,
}

impl fmt::Display for EventPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.transaction, self.number)
    }
}

/// A text that is no [`EventPosition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id of an event is two numbers with a dash between, such as 1042-7")]
pub struct EventPositionError;

impl FromStr for EventPosition {
    type Err = EventPositionError;

    fn from_str(text: &str) -> Result<EventPosition, EventPositionError> {
        let number = |digits: &str| {
            let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            digits.and_then(|digits| digits.parse().ok()).ok_or(EventPositionError)
        };
        let (transaction, rest) = text.split_once('-').ok_or(EventPositionError)?;
        Ok(EventPosition { transaction: number(transaction)?, number: number(rest)? })
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEvent {
    /// Its position.
    pub position: EventPosition,
    /// What happened.
    pub kind: LiveEventKind,
    /// More of it.
    pub data: Value,
}

/// The events after a position.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEvents {
    /// In their order.
    pub events: Vec<LiveEvent>,
    /// Where to go on.
    pub reached: EventPosition,
}

/// The position behind all events that no running transaction can come before.
pub async fn latest(tx: &mut TenantTx) -> Result<EventPosition> {
    let next =
        sqlx::query_scalar!(r#"SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS "next!""#)
            .fetch_one(tx.parts().0)
            .await?;
    Ok(EventPosition { transaction: next - 1, number: i64::MAX })
}

/// The events after a position, at most `limit`. With `app`, only those of that app.
pub async fn after(
    tx: &mut TenantTx,
    position: EventPosition,
    app: Option<&str>,
    limit: u16,
) -> Result<LiveEvents> {
    let latest = latest(tx).await?;
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT transaction, number, kind AS "kind: LiveEventKind", data FROM live_events
           WHERE tenant = $1 AND (transaction, number) > ($2, $3) AND transaction <= $4
             AND ($5::text IS NULL OR app = $5)
           ORDER BY transaction, number LIMIT $6"#,
        tenant,
        position.transaction,
        position.number,
        latest.transaction,
        app,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let events: Vec<LiveEvent> = rows
        .into_iter()
        .map(|row| LiveEvent {
            position: EventPosition { transaction: row.transaction, number: row.number },
            kind: row.kind,
            data: row.data,
        })
        .collect();
    let last = events.last().filter(|_| events.len() >= usize::from(limit));
    // A database that was restored counts its transactions anew, and a position may lie ahead.
    let reached = last.map_or(latest, |last| last.position);
    Ok(LiveEvents { events, reached })
}

/// Notes events in the transaction of their causes.
pub(crate) async fn note(tx: &mut OwnerTx, events: &[NewLiveEvent]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let kinds: Vec<String> = events.iter().map(|event| event.kind.as_str().to_owned()).collect();
    let apps: Vec<Option<String>> = events.iter().map(|event| event.app.clone()).collect();
    let data: Vec<Value> = events.iter().map(|event| event.data.clone()).collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO live_events (tenant, kind, app, data, occurred_at)
         SELECT $1, n.kind, n.app, n.data, $2
         FROM unnest($3::text[], $4::text[], $5::jsonb[]) AS n (kind, app, data)",
        tenant,
        now,
        &kinds,
        &apps as &[Option<String>],
        &data
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Reports of an app that a transaction stores: those that came for the first time, and next revisions.
pub(crate) type StoredByApp = BTreeMap<String, (u64, u64)>;

/// What the storing of reports is to tell.
pub(crate) fn of_reports(stored: StoredByApp, groups: &[GroupEvent]) -> Vec<NewLiveEvent> {
    let stored = stored.into_iter().map(|(app, (new, revised))| NewLiveEvent {
        kind: LiveEventKind::ReportsStored,
        data: json!({"app": app, "new": new, "revised": revised}),
        app: Some(app),
    });
    stored.chain(groups.iter().map(of_group)).collect()
}

fn of_group(event: &GroupEvent) -> NewLiveEvent {
    match event {
        GroupEvent::Created { group, app, title, version, provisional, .. } => NewLiveEvent {
            kind: LiveEventKind::GroupCreated,
            app: Some(app.clone()),
            data: json!({"app": app, "group": group, "title": title, "version": version, "provisional": provisional}),
        },
        GroupEvent::Regressed { group, app, title, version, .. } => NewLiveEvent {
            kind: LiveEventKind::GroupRegressed,
            app: Some(app.clone()),
            data: json!({"app": app, "group": group, "title": title, "version": version}),
        },
    }
}

/// Forgets events that are a day old. Returns their number.
pub async fn purge(store: &Store) -> Result<u64> {
    let before = store.now() - KEPT;
    in_pages(|rows| {
        sqlx::query_scalar!(r#"SELECT unslide_live_events_purge($1, $2) AS "gone!""#, before, rows)
            .fetch_one(store.pool())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        let position = EventPosition { transaction: 1042, number: i64::MAX };
        assert_eq!(position.to_string().parse(), Ok(position));
        for text in ["", "7", "-", "1-", "-1-2", "1-+2", "1-2-3", "99999999999999999999-1"] {
            assert_eq!(text.parse::<EventPosition>(), Err(EventPositionError), "{text}");
        }
    }
}
