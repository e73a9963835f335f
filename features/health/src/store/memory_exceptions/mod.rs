//! Memory exceptions of MetricKit: the system says that it ended an app for lack of memory. Each is joined with the session that
//! it is about, whichever of the two came first, and then replaces the end that was inferred.

mod check;
mod decision;

pub use check::{CountedEnds, ExceptionJoin, MemoryEndCheck, check_memory_ends, find_join};
pub use decision::{JoinOutcome, MemoryExceptionId};

use super::sessions::{SessionDeltas, SessionKey, add_deltas, set_memory_exceptions};
use decision::{ExceptionId, Pair, decide};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, Duration, OffsetDateTime};
use unslide_store::sql::{json_time, to_row32};
use unslide_store::{MemoryException, Result, StoreEvent, StoredReport, TenantTx};

/// Time after the last sign of life of a run for which an end still belongs to it.
const LAST_SIGN_TOLERANCE: Duration = Duration::minutes(2);
/// Exceptions beside a new one that are decided again: they may fit the same session.
const NEIGHBOUR_WINDOW: Duration = Duration::DAY;
/// The maximum number of exceptions that one transaction decides, those nearest to the first.
const DECIDED_LIMIT: i64 = 1_000;

/// Records the memory exceptions among stored reports, and forgets those of deleted reports.
pub(super) async fn act_on_event(event: &mut StoreEvent<'_>) -> Result<()> {
    match event {
        StoreEvent::ReportsStored(tx, stored) => {
            let told: Vec<(&StoredReport, &MemoryException)> = stored
                .reports
                .iter()
                .filter_map(|report| Some((report, report.memory_exception.as_ref()?)))
                .collect();
            if told.is_empty() {
                return Ok(());
            }
            record(tx, &told).await
        }
        StoreEvent::ReportDeleted(tx, report) => {
            let place = report.place;
            forget(tx, (MemoryExceptionId::from_uuid(place.id.uuid()), to_row32(place.variant))).await
        }
        _ => Ok(()),
    }
}

/// Lets a transaction join runs that it is about to store, before any session is locked. Until its end no exception of their apps is stored.
/// Returns false if no exception is near one of the runs: such transactions store their sessions beside each other. Those with an exception
/// come one after the other, because each may change the join of the one before.
pub(super) async fn prepare_joins(tx: &mut TenantTx, runs: &[RunPeriod]) -> Result<bool> {
    if runs.is_empty() {
        return Ok(false);
    }
    let apps: BTreeSet<&str> = runs.iter().map(|run| run.app.as_str()).collect();
    lock_apps(tx, EXCEPTIONS, &apps, LockMode::Shared).await?;
    if !is_near_exception(tx, runs).await? {
        return Ok(false);
    }
    lock_apps(tx, JOINS, &apps, LockMode::Exclusive).await?;
    Ok(true)
}

/// What is locked of an app. The names are those that programs lock beside each other.
const EXCEPTIONS: &str = "memory exceptions of";
const JOINS: &str = "joins of memory exceptions of";

/// Who may store exceptions of an app at the same time: many transactions with sessions keep exceptions out, and one with exceptions
/// keeps out all others. Otherwise two that store the parts of one join would not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockMode {
    Shared,
    Exclusive,
}

/// Locks the exceptions of apps or their joins, before any session.
async fn lock_apps(tx: &mut TenantTx, what: &str, apps: &BTreeSet<&str>, mode: LockMode) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    // In the order of the apps.
    let names: Vec<String> = apps.iter().map(|app| format!("{what} {tenant}/{app}")).collect();
    let statement = match mode {
        LockMode::Shared => {
            "SELECT pg_advisory_xact_lock_shared(hashtextextended(n.name, 0)) FROM unnest($1::text[]) AS n (name)"
        }
        LockMode::Exclusive => {
            "SELECT pg_advisory_xact_lock(hashtextextended(n.name, 0)) FROM unnest($1::text[]) AS n (name)"
        }
    };
    sqlx::query(statement).bind(names).execute(connection).await?;
    Ok(())
}

async fn record(tx: &mut TenantTx, told: &[(&StoredReport, &MemoryException)]) -> Result<()> {
    let apps = told.iter().map(|(report, _)| report.app.as_str()).collect();
    lock_apps(tx, EXCEPTIONS, &apps, LockMode::Exclusive).await?;
    let rows = told.iter().map(|(report, exception)| {
        let run = exception.run_id.map(|run| run.to_string());
        json!({
            "report_id": report.id.uuid(),
            "variant": report.variant,
            "app": report.app,
            "version": exception.version,
            "device": exception.model,
            "pid": exception.process_id.and_then(|pid| i32::try_from(pid).ok()),
            "at": json_time(exception.at),
            "names_session": run.is_some(),
            "session_id": run,
            "received_at": json_time(exception.received_at),
            "sender_key": exception.sender_key.map(|key| key.to_string()),
        })
    });
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO memory_exceptions (tenant, report_id, variant, app, version, device, pid, at, names_session, session_id,
                                        outcome, received_at, sender_key)
         SELECT $1, n.report_id, n.variant, n.app, n.version, n.device, n.pid, n.at, n.names_session, n.session_id, 'none',
                n.received_at, n.sender_key
         FROM jsonb_populate_recordset(NULL::memory_exceptions, $2) AS n
         ON CONFLICT (tenant, report_id, variant) DO NOTHING",
        tenant,
        rows.collect::<Value>()
    )
    .execute(connection)
    .await?;
    let near: Vec<RunPeriod> = told
        .iter()
        .map(|(report, exception)| RunPeriod {
            app: report.app.clone(),
            version: exception.version.clone(),
            device: exception.model.clone(),
            session: exception.run_id.map(|run| run.to_string()),
            first: exception.at,
            last: exception.at,
        })
        .collect();
    let mut deltas = SessionDeltas::default();
    join_exceptions(tx, &near, &mut deltas).await?;
    add_deltas(tx, &deltas).await
}

/// Forgets an exception. The end of its session is again the one that was inferred.
async fn forget(tx: &mut TenantTx, exception: ExceptionId) -> Result<()> {
    let (report, variant) = (exception.0.uuid(), exception.1);
    let (connection, tenant, _) = tx.parts();
    let app = sqlx::query_scalar!(
        "SELECT app FROM memory_exceptions WHERE tenant = $1 AND report_id = $2 AND variant = $3",
        tenant,
        report,
        variant
    )
    .fetch_optional(connection)
    .await?;
    let Some(app) = app else { return Ok(()) };
    lock_apps(tx, EXCEPTIONS, &BTreeSet::from([app.as_str()]), LockMode::Exclusive).await?;
    let (connection, tenant, _) = tx.parts();
    let gone = sqlx::query!(
        r#"DELETE FROM memory_exceptions WHERE tenant = $1 AND report_id = $2 AND variant = $3
           RETURNING session_id, session_day, outcome"#,
        tenant,
        report,
        variant
    )
    .fetch_optional(connection)
    .await?;
    let joined = gone.filter(|gone| gone.outcome == JoinOutcome::Joined.as_str());
    let Some((session, day)) = joined.and_then(|gone| gone.session_id.zip(gone.session_day)) else {
        return Ok(());
    };
    let mut deltas = SessionDeltas::default();
    set_memory_exceptions(tx, &BTreeMap::from([((app, session, day), None)]), &mut deltas).await?;
    add_deltas(tx, &deltas).await
}

/// A run, or the moment of an exception: what may be joined with it is found by this.
pub(super) struct RunPeriod {
    pub(super) app: String,
    pub(super) version: String,
    /// The code of the device model.
    pub(super) device: Option<String>,
    /// The session, if it is known.
    pub(super) session: Option<String>,
    pub(super) first: OffsetDateTime,
    pub(super) last: OffsetDateTime,
}

/// A row of an exception with a session that fits it, if one does.
struct PairRow {
    report_id: MemoryExceptionId,
    variant: i32,
    app: String,
    outcome: String,
    joined_session: Option<String>,
    joined_day: Option<Date>,
    names_session: bool,
    session_id: Option<String>,
    day: Option<Date>,
    same_pid: Option<bool>,
}

/// Decides again which exceptions near these runs belong to which session, and adds what changes to the deltas. The joins of their
/// apps must be locked.
pub(super) async fn join_exceptions(
    tx: &mut TenantTx,
    near: &[RunPeriod],
    deltas: &mut SessionDeltas,
) -> Result<()> {
    let rows = list_pairs(tx, near).await?;
    let pairs: Vec<Pair> = rows
        .iter()
        .map(|row| Pair {
            exception: (row.report_id, row.variant),
            session: row.session_id.clone().zip(row.day).map(|(id, day)| (row.app.clone(), id, day)),
            names_session: row.names_session,
            same_pid: row.same_pid == Some(true),
        })
        .collect();
    let decided = decide(&pairs);
    let mut changed = Vec::new();
    let mut sessions: BTreeMap<SessionKey, Option<MemoryExceptionId>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for row in &rows {
        let id = (row.report_id, row.variant);
        let Some((outcome, session)) = decided.get(&id).filter(|_| seen.insert(id)) else { continue };
        let before =
            row.joined_session.clone().zip(row.joined_day).map(|(id, day)| (row.app.clone(), id, day));
        let before = before.filter(|_| row.outcome == JoinOutcome::Joined.as_str());
        if row.outcome == outcome.as_str() && before == *session {
            continue;
        }
        if let Some(before) = before {
            sessions.entry(before).or_default();
        }
        if let Some(session) = session {
            sessions.insert(session.clone(), Some(row.report_id));
        }
        changed.push(json!({
            "report_id": row.report_id,
            "variant": row.variant,
            "outcome": outcome.as_str(),
            "session_id": session.as_ref().map(|session| &session.1),
            "session_day": session.as_ref().map(|session| session.2.to_string()),
        }));
    }
    if changed.is_empty() {
        return Ok(());
    }
    set_memory_exceptions(tx, &sessions, deltas).await?;
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE memory_exceptions e SET outcome = n.outcome, session_day = n.session_day,
                session_id = CASE WHEN e.names_session THEN e.session_id ELSE n.session_id END
         FROM jsonb_populate_recordset(NULL::memory_exceptions, $2) AS n
         WHERE e.tenant = $1 AND e.report_id = n.report_id AND e.variant = n.variant",
        tenant,
        Value::Array(changed)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The columns of runs, each with the time in which exceptions are near it.
struct NearColumns {
    apps: Vec<String>,
    versions: Vec<String>,
    devices: Vec<Option<String>>,
    sessions: Vec<Option<String>>,
    first: Vec<OffsetDateTime>,
    last: Vec<OffsetDateTime>,
}

impl NearColumns {
    fn from_runs(near: &[RunPeriod]) -> NearColumns {
        NearColumns {
            apps: near.iter().map(|run| run.app.clone()).collect(),
            versions: near.iter().map(|run| run.version.clone()).collect(),
            devices: near.iter().map(|run| run.device.clone()).collect(),
            sessions: near.iter().map(|run| run.session.clone()).collect(),
            first: near
                .iter()
                .map(|run| run.first.checked_sub(NEIGHBOUR_WINDOW).unwrap_or(run.first))
                .collect(),
            last: near.iter().map(|run| run.last.checked_add(NEIGHBOUR_WINDOW).unwrap_or(run.last)).collect(),
        }
    }
}

/// Returns true if an exception is near one of the runs.
async fn is_near_exception(tx: &mut TenantTx, near: &[RunPeriod]) -> Result<bool> {
    let near = NearColumns::from_runs(near);
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
                   AS n (app, version, device, session_id, first, last)
               WHERE EXISTS (SELECT FROM memory_exceptions e
                             WHERE e.tenant = $1 AND e.app = n.app AND e.version = n.version AND e.device = n.device
                               AND e.at BETWEEN n.first AND n.last)
                  OR EXISTS (SELECT FROM memory_exceptions e
                             WHERE e.tenant = $1 AND e.app = n.app AND e.session_id = n.session_id)) AS "found!""#,
        tenant,
        &near.apps,
        &near.versions,
        &near.devices as &[Option<String>],
        &near.sessions as &[Option<String>],
        &near.first,
        &near.last
    )
    .fetch_one(connection)
    .await?)
}

/// Lists the exceptions near runs, each with the sessions that fit it: the one that it names, or else those of its app, version and
/// device model that did not end by themselves, ran at its time, and are of no other process.
async fn list_pairs(tx: &mut TenantTx, near: &[RunPeriod]) -> Result<Vec<PairRow>> {
    let near = NearColumns::from_runs(near);
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        PairRow,
        r#"WITH near AS (
               SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
                   AS n (app, version, device, session_id, first, last)),
           found AS (
               SELECT e.report_id, e.variant FROM near n
               JOIN memory_exceptions e ON e.tenant = $1 AND e.app = n.app AND e.version = n.version AND e.device = n.device
                                       AND e.at BETWEEN n.first AND n.last
               UNION
               SELECT e.report_id, e.variant FROM near n
               JOIN memory_exceptions e ON e.tenant = $1 AND e.app = n.app AND e.session_id = n.session_id
               LIMIT $9)
           SELECT e.report_id AS "report_id!: MemoryExceptionId", e.variant AS "variant!", e.app AS "app!", e.outcome AS "outcome!",
                  e.session_id AS joined_session, e.session_day AS joined_day, e.names_session AS "names_session!",
                  s.session_id AS "session_id?", s.day AS "day?", s.same_pid AS "same_pid?"
           FROM found f
           JOIN memory_exceptions e ON e.tenant = $1 AND e.report_id = f.report_id AND e.variant = f.variant
           LEFT JOIN LATERAL (
               (SELECT s.session_id, s.day, false AS same_pid FROM sessions s
                WHERE e.names_session AND s.tenant = $1 AND s.app = e.app AND s.session_id = e.session_id
                  AND s.day BETWEEN (e.at AT TIME ZONE 'UTC')::date - 7 AND (e.at AT TIME ZONE 'UTC')::date + 1
                  AND s.installation IS NOT NULL AND s.end_reason IS DISTINCT FROM 'crashed'
                ORDER BY s.day DESC LIMIT 1)
               UNION ALL
               (SELECT s.session_id, s.day, s.pid = e.pid FROM sessions s
                WHERE NOT e.names_session AND s.tenant = $1 AND s.app = e.app AND s.version = e.version AND s.device = e.device
                  AND s.day BETWEEN (e.at AT TIME ZONE 'UTC')::date - 7 AND (e.at AT TIME ZONE 'UTC')::date
                  AND s.judgement IS NOT NULL AND s.end_reason NOT IN ('exited', 'crashed')
                  AND s.started_at BETWEEN e.at - interval '7 days' AND e.at
                  AND coalesce(s.ended_at, s.started_at + interval '1 day') >= e.at - make_interval(secs => $8)
                  AND (s.pid = e.pid) IS NOT FALSE
                ORDER BY (s.pid = e.pid) IS TRUE DESC, s.started_at DESC LIMIT 50)) s ON true
           ORDER BY e.report_id, e.variant"#,
        tenant,
        &near.apps,
        &near.versions,
        &near.devices as &[Option<String>],
        &near.sessions as &[Option<String>],
        &near.first,
        &near.last,
        LAST_SIGN_TOLERANCE.as_seconds_f64(),
        DECIDED_LIMIT
    )
    .fetch_all(connection)
    .await?)
}
