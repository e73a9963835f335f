//! Live events: what happened to a tenant's reports, groups and symbols, for dashboards that follow it.
//!
//! An event is written in the transaction of its cause. It gets the next number of its tenant. The counter stays locked
//! until that transaction ends: numbers are committed in their order, and a reader skips none.

use crate::column::words;
use crate::groups::GroupEvent;
use crate::purge::in_pages;
use crate::{OwnerTx, Result, Store, StoredReports, TenantTx};
use serde_json::{Value, json};
use std::collections::BTreeMap;
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

/// The number of an event among those of its tenant, from 1. 0 is before all events.
pub type EventNumber = i64;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEvent {
    /// Its number.
    pub number: EventNumber,
    /// The kind of the event: a [`LiveEventKind`], or a word of a feature.
    pub kind: String,
    /// More of it.
    pub data: Value,
}

/// The events after another one.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEvents {
    /// In their order.
    pub events: Vec<LiveEvent>,
    /// The number of the last event that was looked at: the next read begins after it.
    pub reached: EventNumber,
}

/// Returns the number of the tenant's last event.
pub async fn latest(tx: &mut TenantTx) -> Result<EventNumber> {
    let (connection, tenant, _) = tx.parts();
    let last = sqlx::query_scalar!("SELECT last FROM live_event_counters WHERE tenant = $1", tenant);
    Ok(last.fetch_optional(connection).await?.unwrap_or_default())
}

/// Returns the events after the one with this number, at most `limit`. With `app`, only those of that app.
pub async fn after(
    tx: &mut TenantTx,
    number: EventNumber,
    app: Option<&str>,
    limit: u16,
) -> Result<LiveEvents> {
    // A database that was restored counts anew, and the number may lie ahead.
    let latest = latest(tx).await?;
    let (connection, tenant, _) = tx.parts();
    let events = sqlx::query_as!(
        LiveEvent,
        r#"SELECT event AS number, kind, data FROM live_events
           WHERE tenant = $1 AND event > $2 AND event <= $3 AND ($4::text IS NULL OR app = $4)
           ORDER BY event LIMIT $5"#,
        tenant,
        number,
        latest,
        app,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let last = events.last().filter(|_| events.len() >= usize::from(limit));
    let reached = last.map_or(latest, |last| last.number);
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

/// Reports of an app in one transaction.
#[derive(Clone, Copy, Default)]
struct AppReports {
    /// Reports that came for the first time.
    new: u64,
    /// Next revisions.
    revised: u64,
}

/// Makes the events of stored reports: one for each app, and one for each group that is new or came back.
pub(crate) fn of_reports(stored: &StoredReports) -> Vec<NewLiveEvent> {
    let mut apps: BTreeMap<&str, AppReports> = BTreeMap::new();
    for report in &stored.reports {
        let reports = apps.entry(&report.app).or_default();
        *(if report.is_new { &mut reports.new } else { &mut reports.revised }) += 1;
    }
    let events = apps.into_iter().map(|(app, reports)| NewLiveEvent {
        kind: LiveEventKind::ReportsStored,
        data: json!({"app": app, "new": reports.new, "revised": reports.revised}),
        app: Some(app.to_owned()),
    });
    events.chain(stored.groups.iter().map(of_group)).collect()
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
