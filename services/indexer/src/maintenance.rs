//! Periodic work: creates tables ahead, drops old days, requests reports that a replay deferred, folds counts, and
//! moves bodies into segments.

mod deltas;
pub mod input;
pub mod tenants;

use crate::config::Settings;
use crate::history::HistoryMover;
use crate::metrics::Metrics;
use crate::reader::State;
use crate::segments::{BodyMover, MoveError};
use std::time::Duration;
use tenants::TenantWatch;
use time::UtcOffset;
use tokio::time::Instant;
use unslide_model::format_causes;
use unslide_runtime::Shutdown;
use unslide_store::{Store, dead_letters, partitions, reports, requests, segments};

/// Number of requests that one transaction processes.
const REQUEST_PAGE_ENTRIES: u32 = 500;
/// Interval between two runs of retention and of the check for crashes that were reported twice. Both read
/// much data.
const RETENTION_INTERVAL: Duration = Duration::from_secs(600);

/// The parts of maintenance that have state.
pub struct MaintenanceParts {
    pub bodies: BodyMover,
    pub tenants: TenantWatch,
    /// Absent if no rows move to ClickHouse.
    pub history: Option<HistoryMover>,
}

/// Runs until the shutdown begins. Every indexer runs it: each part may be done twice.
pub async fn run(
    store: Store,
    settings: Settings,
    metrics: Metrics,
    logs: Vec<State>,
    parts: MaintenanceParts,
    shutdown: Shutdown,
) {
    let MaintenanceParts { bodies, mut tenants, mut history } = parts;
    let interval = Duration::from_secs(settings.maintenance_seconds);
    let mut pause = Duration::ZERO;
    let (mut rounds, mut looked): (Option<Instant>, Option<Instant>) = (None, None);
    let mut over_fails = false;
    let mut has_more = false;
    loop {
        tokio::select! {
            () = shutdown.wait_until_begun() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let mut waits = true;
        let done = async {
            // A failure of one part does not keep the others from running.
            let caught_up = request_deferred(&store, &logs).await;
            waits = !caught_up.as_ref().is_ok_and(|caught_up| *caught_up);
            // What follows reads the rows of all tenants: logs that are far behind do not make it more frequent.
            if !has_more && rounds.is_some_and(|at| at.elapsed() < interval) {
                return caught_up.map(|_| None);
            }
            rounds = Some(Instant::now());
            let prepared = make_tables(&store, &metrics).await;
            let forgotten = forget_expired(&store, &settings).await;
            let mut over = Ok(());
            if looked.is_none_or(|at| at.elapsed() >= RETENTION_INTERVAL) {
                // Also set after a failure, so that work that is too much for the database is not repeated in
                // each round.
                looked = Some(Instant::now());
                let counted = reports::count_once(&store, REQUEST_PAGE_ENTRIES).await;
                over = bodies.expire_all().await.and(counted.map(drop).map_err(MoveError::from));
                if let Some(history) = &history {
                    over = over.and(expire_history(&store, &bodies, history).await);
                }
                over_fails = over.is_err();
            }
            let folded = deltas::fold_due(&store, &metrics).await;
            let watched = tenants.update_gauges().await;
            let more = bodies.run_round().await;
            // Its failures have a metric of their own, and keep nothing else from running.
            let more_history = match &mut history {
                Some(history) => history.run_round().await.unwrap_or_else(|error| {
                    tracing::warn!(
                        error = format_causes(&error),
                        "the history is not up to date and is tried again"
                    );
                    false
                }),
                None => false,
            };
            let more = more? || more_history;
            caught_up?;
            prepared?;
            forgotten?;
            folded?;
            watched?;
            over.map(|()| Some(more))
        };
        let done = tokio::select! {
            done = done => done,
            // The shutdown interrupts a round at any step, which each part tolerates.
            () = shutdown.wait_until_begun() => return,
        };
        has_more = matches!(done, Ok(Some(true)));
        // Deferred reports are due as soon as the ends of the logs are reached.
        pause = match (has_more, waits) {
            (true, _) => Duration::ZERO,
            (false, true) => Duration::from_secs(1),
            (false, false) => interval,
        };
        match done {
            Ok(None) => {}
            Ok(Some(_)) => metrics.maintenance_failing.set(over_fails.into()),
            Err(error) => {
                metrics.maintenance_failing.set(1);
                tracing::warn!(error = format_causes(&error), "maintenance failed and is tried again");
            }
        }
    }
}

/// Ends reports that are over and have their rows in ClickHouse.
async fn expire_history(store: &Store, bodies: &BodyMover, history: &HistoryMover) -> Result<(), MoveError> {
    let today = store.now().to_offset(UtcOffset::UTC).date();
    history.expire_days(&bodies.list_boundaries(today).await?).await
}

/// Days for which tables are created ahead.
const DAYS_AHEAD: time::Duration = time::Duration::days(7);
/// Age at which dead letters leave the index: the dead-letter topic keeps them as long.
const DEAD_LETTER_RETENTION: time::Duration = time::Duration::days(30);

/// Makes the tables of the days ahead, and updates gauges.
async fn make_tables(store: &Store, metrics: &Metrics) -> Result<(), MoveError> {
    let now = store.clock().now();
    let today = now.to_offset(UtcOffset::UTC).date();
    let made = partitions::ensure_partitions(store, today, today.saturating_add(DAYS_AHEAD)).await?;
    if made > 0 {
        tracing::info!(tables = made, "made tables for the days ahead");
        warn_of_few_locks(store).await?;
    }
    if partitions::begin_key_month(store).await? {
        tracing::info!("began a month of report keys");
    }
    metrics.undeleted_objects.set(segments::count_undeleted(store).await?);
    for (stage, oldest) in dead_letters::oldest_by_stage(store).await? {
        metrics.set_oldest_dead_letter(stage, oldest.map(|at| now - at));
    }
    Ok(())
}

/// Says once a day, with the new tables, if PostgreSQL has too few locks for all of them.
async fn warn_of_few_locks(store: &Store) -> Result<(), MoveError> {
    let capacity = partitions::read_lock_capacity(store).await?;
    if let Some(needed) = capacity.find_needed_setting() {
        tracing::warn!(
            needed,
            set = capacity.for_each_connection,
            statements = capacity.count_statements(),
            "PostgreSQL has too few locks for the stored days: raise max_locks_per_transaction and restart it, before statements fail \
             with \"out of shared memory\""
        );
    }
    Ok(())
}

/// Requests the reports that a replay deferred, once every log was read up to the end that it had at the start. Returns
/// whether they were.
async fn request_deferred(store: &Store, logs: &[State]) -> Result<bool, MoveError> {
    let mut caught_up = true;
    for log in logs {
        caught_up = caught_up && log.caught_up(store).await?;
    }
    if caught_up {
        while requests::ask_pending(store, REQUEST_PAGE_ENTRIES).await? > 0 {}
    }
    Ok(caught_up)
}

/// Deletes ids and notes that no topic can deliver again.
///
/// # Errors
/// Returns the last failure. A failure does not keep the other deletions from running.
async fn forget_expired(store: &Store, settings: &Settings) -> Result<(), MoveError> {
    let now = store.clock().now();
    let remembered = now - time::Duration::days(settings.remember_days.into());
    let mut failed = Ok(());
    for (what, done) in [
        ("keys of reports", partitions::drop_keys(store, remembered).await.map(drop)),
        (
            "dead letters",
            dead_letters::purge_dead_letters(store, now - DEAD_LETTER_RETENTION).await.map(drop),
        ),
    ] {
        if let Err(error) = done {
            tracing::warn!(
                error = format_causes(&error),
                "{what} could not be forgotten and are tried again"
            );
            failed = Err(error.into());
        }
    }
    failed
}
