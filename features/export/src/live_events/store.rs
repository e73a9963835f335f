//! The rows of live events: what happened to a tenant's reports, groups and symbols.
//!
//! An event is written in the transaction of its cause. It gets the next number of its tenant. The counter stays locked
//! until that transaction ends: numbers are committed in their order, and a reader skips none.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::Duration;
use unslide_store::groups::GroupEvent;
use unslide_store::slots::PublishedSymbols;
use unslide_store::tables::OwnedTable;
use unslide_store::{
    Announcement, OwnerTx, Result, StoreEvent, StoreHook, StoredReports, TEXTS_REMOVED, TenantTx,
};

/// Writes events in the transactions of their causes.
pub const EVENT_HOOK: StoreHook = StoreHook {
    tables: &[OwnedTable::new("live_event_counters"), OwnedTable::kept_for("live_events", EVENT_RETENTION)],
    on_event: Some(|event| Box::pin(write_for_event(event))),
    ..StoreHook::new(crate::NAME)
};

async fn write_for_event(event: &mut StoreEvent<'_>) -> Result<()> {
    match event {
        StoreEvent::ReportsStored(tx, stored) => append_events(tx, &events_for_reports(stored)).await,
        StoreEvent::SymbolsPublished(tx, symbols) => append_events(tx, &[event_for_symbols(symbols)]).await,
        StoreEvent::Announced(tx, announced) => {
            if announced.iter().any(|one| one.kind == TEXTS_REMOVED) {
                remove_titles(tx).await?;
            }
            append_events(tx, &events_for_announcements(announced)).await
        }
        _ => Ok(()),
    }
}

fn event_for_symbols(symbols: &PublishedSymbols) -> NewLiveEvent {
    let PublishedSymbols { debug_id, generation, quality, .. } = symbols;
    let data = json!({"debug_id": debug_id, "generation": generation, "quality": quality});
    NewLiveEvent { kind: "symbols_ready", app: None, data }
}

/// Removes the titles of groups from the tenant's events.
async fn remove_titles(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE live_events SET data = data - 'title' - 'headline'
         WHERE tenant = $1 AND (data ? 'title' OR data ? 'headline')",
        tenant
    )
    .execute(connection)
    .await?;
    Ok(())
}

fn events_for_announcements(announcements: &[Announcement]) -> Vec<NewLiveEvent> {
    let events = announcements.iter().cloned();
    events.map(|Announcement { kind, app, data }| NewLiveEvent { kind, app, data }).collect()
}

/// How long events are kept.
const EVENT_RETENTION: Duration = Duration::DAY;

/// An event that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewLiveEvent {
    /// A word for what happened.
    pub kind: &'static str,
    /// None for an event of no app.
    pub app: Option<String>,
    /// More of it, as clients read it.
    pub data: Value,
}

/// The number of an event among those of its tenant, from 1. 0 is before all events.
pub type EventNumber = i64;

/// An event as clients read it.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEvent {
    /// Its number, which a client sends to go on after it.
    pub number: EventNumber,
    /// A word for what happened.
    pub kind: String,
    /// More of it, as clients read it.
    pub data: Value,
}

/// The events after another one.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEvents {
    /// The events in the order of their numbers.
    pub events: Vec<LiveEvent>,
    /// The number of the last event that was read: the next read begins after it.
    pub reached: EventNumber,
}

/// Returns the number of the tenant's last event.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn latest_number(tx: &mut TenantTx) -> Result<EventNumber> {
    let (connection, tenant, _) = tx.parts();
    let last = sqlx::query_scalar!("SELECT last FROM live_event_counters WHERE tenant = $1", tenant);
    Ok(last.fetch_optional(connection).await?.unwrap_or_default())
}

/// Returns the events after the one with this number, at most `limit`. With `app`, only those of that app.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn events_after(
    tx: &mut TenantTx,
    number: EventNumber,
    app: Option<&str>,
    limit: u16,
) -> Result<LiveEvents> {
    // A restored database counts from an earlier number, so the number may lie ahead.
    let latest = latest_number(tx).await?;
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

/// Writes events in the transaction of their causes.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn append_events(tx: &mut OwnerTx, events: &[NewLiveEvent]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let kinds: Vec<String> = events.iter().map(|event| event.kind.to_owned()).collect();
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
    revised: u64,
}

/// Makes the events of stored reports: one for each app, and one for each group that is new or came back.
fn events_for_reports(stored: &StoredReports) -> Vec<NewLiveEvent> {
    let mut apps: BTreeMap<&str, AppReports> = BTreeMap::new();
    for report in &stored.reports {
        let reports = apps.entry(&report.app).or_default();
        match report.is_new {
            true => reports.new += 1,
            false => reports.revised += 1,
        }
    }
    let events = apps.into_iter().map(|(app, reports)| NewLiveEvent {
        kind: "reports_stored",
        data: json!({"app": app, "new": reports.new, "revised": reports.revised}),
        app: Some(app.to_owned()),
    });
    events.chain(stored.groups.iter().map(event_for_group)).collect()
}

fn event_for_group(event: &GroupEvent) -> NewLiveEvent {
    match event {
        GroupEvent::Created { group, app, title, version, provisional, .. } => NewLiveEvent {
            kind: "group_created",
            app: Some(app.clone()),
            data: json!({"app": app, "group": group, "title": title, "version": version, "provisional": provisional}),
        },
        GroupEvent::Regressed { group, app, title, version, .. } => NewLiveEvent {
            kind: "group_regressed",
            app: Some(app.clone()),
            data: json!({"app": app, "group": group, "title": title, "version": version}),
        },
        GroupEvent::Reopened { group, app, title, version, reason, .. } => NewLiveEvent {
            kind: "group_reopened",
            app: Some(app.clone()),
            data: json!({"app": app, "group": group, "title": title, "version": version, "reason": reason}),
        },
    }
}
