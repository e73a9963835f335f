//! Moves rows of reports that were not changed for some days to ClickHouse, and deletes there what is over.
//!
//! The process may die after every step. The intent of a move is stored before ClickHouse gets its rows, and one
//! transaction takes them out of the database. What a move that did not end has left there is deleted later. Every
//! indexer does this. The intent keeps two of them from moving rows of the same day at the same time.

use crate::metrics::Metrics;
use crate::segments::{KeptDays, MoveError};
use std::time::Duration;
use time::{Date, OffsetDateTime, UtcOffset};
use tokio::time::{Instant, timeout};
use unslide_history::History;
use unslide_model::{TenantId, format_causes};
use unslide_runtime::{Host, Shutdown};
use unslide_store::history::{self, BegunMove, DueMove, HistoryExpiry};
use unslide_store::{Store, StoreError, partitions};

/// Timeout for one move. An intent that is older than twice this has no writer.
const MOVE_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum number of rows of one move, which limits its transactions.
const MOVED_ROWS_LIMIT: u32 = 4_000;
/// Maximum size of the rows of one move, as JSON.
const MOVED_BYTES_LIMIT: u64 = 16 << 20;
/// Time after which a round ends, so that other work is not delayed.
const ROUND_LIMIT: Duration = Duration::from_secs(20);
/// Tenants and days that one round looks at.
const DUE_DAYS_LIMIT: u32 = 1_000;
/// Interval between two searches for rows to move, if the last one found few: they read the days' tables. It is shorter if rows
/// move sooner than that.
const SEARCH_INTERVAL: Duration = Duration::from_secs(600);
/// Number of empty tables that one round drops: it locks each.
const DROPPED_TABLES_LIMIT: u32 = 30;
/// Number of rows that one request deletes at ClickHouse.
const DELETED_ROWS_LIMIT: u32 = 2_000;
/// Tenants with rows to delete that one round looks at.
const DELETION_TENANTS_LIMIT: u32 = 200;
/// Interval between two deletions of the bytes of deleted rows: each writes whole parts of the tables again.
const APPLY_INTERVAL: Duration = Duration::from_secs(3_600);
/// Number of reports that one transaction ends.
const EXPIRED_REPORTS_LIMIT: u32 = 1_000;

/// Moves rows to ClickHouse, and deletes them there.
pub struct HistoryMover {
    store: Store,
    history: History,
    after: Duration,
    metrics: Metrics,
    shutdown: Shutdown,
    /// When rows to move were searched last, unless more were left then.
    searched: Option<Instant>,
    /// True once moves have versions above those of all rows at ClickHouse.
    has_versions: bool,
    /// Since when ClickHouse has failed.
    failing_since: Option<OffsetDateTime>,
    /// When the bytes of deleted rows were taken from the disks of ClickHouse last.
    applied: Option<Instant>,
}

impl HistoryMover {
    /// Creates a mover of rows that were not changed for `after_seconds`. Returns `None` if the store has no history.
    pub fn new(store: Store, after_seconds: u32, metrics: Metrics, host: &Host) -> Option<HistoryMover> {
        let history = store.history()?.clone();
        let shutdown = host.shutdown.clone();
        Some(HistoryMover {
            store,
            history,
            after: Duration::from_secs(after_seconds.into()),
            metrics,
            shutdown,
            searched: None,
            has_versions: false,
            failing_since: None,
            applied: None,
        })
    }

    /// Runs one round: abandons the moves of dead processes, deletes what is due, and moves what is due. Returns true if there
    /// is more work than one round does.
    ///
    /// # Errors
    /// Returns the first failure of the round. A failure of one tenant and day does not stop the round for the others.
    pub async fn run_round(&mut self) -> Result<bool, MoveError> {
        let searches = self.is_search_due();
        let done = Box::pin(self.move_and_delete(searches)).await;
        let now = self.store.now();
        match &done {
            // A round that has nothing to send does not show that ClickHouse works again.
            Ok(_) if !searches => {}
            Ok(_) => self.failing_since = None,
            Err(_) => _ = self.failing_since.get_or_insert(now),
        }
        let failing = self.failing_since.map_or(0, |since| (now - since).whole_seconds().max(1));
        self.metrics.history_failing_seconds.set(failing);
        done
    }

    fn is_search_due(&self) -> bool {
        self.searched.is_none_or(|at| at.elapsed() >= SEARCH_INTERVAL.min(self.after))
    }

    async fn move_and_delete(&mut self, searches: bool) -> Result<bool, MoveError> {
        let abandoned = history::abandon_moves(&self.store, self.store.now() - MOVE_TIMEOUT * 2).await?;
        if abandoned > 0 {
            tracing::warn!(moves = abandoned, "gave up moves of dead processes to ClickHouse");
        }
        let deleted = Box::pin(self.delete_rows(searches)).await;
        if !searches {
            return deleted.map(|()| false);
        }
        let moved = match self.skip_versions().await {
            Ok(()) => self.move_due().await,
            Err(error) => Err(error),
        };
        // Also after a failure, so that a ClickHouse that is away is not asked in each round.
        self.searched = Some(Instant::now()).filter(|_| !matches!(moved, Ok(true)));
        deleted?;
        moved
    }

    /// Skips the versions that ClickHouse has of a time after the moment to which the database was restored, if it was.
    async fn skip_versions(&mut self) -> Result<(), MoveError> {
        if self.has_versions {
            return Ok(());
        }
        let newest = self.history.read_newest_version().await?;
        if history::skip_versions(&self.store, newest).await? {
            tracing::warn!(
                version = newest,
                "PostgreSQL was restored to an earlier moment than ClickHouse: moves go on with higher versions"
            );
        }
        self.has_versions = true;
        Ok(())
    }

    /// Moves rows until none is due or the round's time is over. Returns true if more may be due.
    async fn move_due(&self) -> Result<bool, MoveError> {
        let began = Instant::now();
        let changed_before = self.store.now() - self.after;
        let due = history::list_due(&self.store, changed_before, DUE_DAYS_LIMIT).await?;
        let is_full = due.len() >= usize::try_from(DUE_DAYS_LIMIT).unwrap_or(usize::MAX);
        let mut moved_any = false;
        let mut failed = None;
        for DueMove { tenant, day, .. } in due {
            loop {
                if began.elapsed() >= ROUND_LIMIT || self.shutdown.is_begun() {
                    return failed.map_or(Ok(true), Err);
                }
                match Box::pin(self.move_some(&tenant, day, changed_before)).await {
                    Ok(0) => break,
                    Ok(rows) => {
                        moved_any = true;
                        self.metrics.history_moved_rows.inc_by(rows);
                    }
                    // The cell that serves a tenant that is moving does it.
                    Err(MoveError::Store(StoreError::TenantMoving)) => break,
                    Err(trouble) => {
                        tracing::warn!(
                            error = format_causes(&trouble),
                            tenant = %tenant,
                            history.day = %day,
                            "rows could not be moved to ClickHouse and are tried again"
                        );
                        let is_away = matches!(&trouble, MoveError::History(error) if error.is_away());
                        failed = failed.or(Some(trouble));
                        if is_away {
                            return failed.map_or(Ok(false), Err);
                        }
                        break;
                    }
                }
            }
        }
        if !is_full {
            self.drop_empty_days(changed_before).await?;
        }
        failed.map_or(Ok(is_full && moved_any), Err)
    }

    /// Drops tables of days of which all rows have moved, so that years of days do not take the locks of every statement.
    async fn drop_empty_days(&self, changed_before: OffsetDateTime) -> Result<(), MoveError> {
        let before = changed_before.to_offset(UtcOffset::UTC).date();
        match partitions::drop_empty(&self.store, before, DROPPED_TABLES_LIMIT).await {
            Ok(0) => {}
            Ok(dropped) => {
                tracing::info!(tables = dropped, "dropped the empty tables of days that have moved");
            }
            // Readers held them; the next round tries again.
            Err(error) if error.is_retriable() && !error.is_outage() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Moves some rows of a tenant and day. Returns their number.
    async fn move_some(
        &self,
        tenant: &TenantId,
        day: Date,
        changed_before: OffsetDateTime,
    ) -> Result<u64, MoveError> {
        let mut tx = self.store.tenant(tenant).await?;
        let begun =
            history::begin_move(&mut tx, day, changed_before, MOVED_ROWS_LIMIT, MOVED_BYTES_LIMIT).await?;
        tx.commit().await?;
        let Some(begun) = begun else { return Ok(0) };
        let moved = timeout(MOVE_TIMEOUT, self.send_rows(tenant, &begun)).await;
        let moved = moved.unwrap_or_else(|_| Err(MoveError::SlowHistory));
        if let Err(trouble) = &moved {
            self.give_up(tenant, &begun, trouble).await;
        }
        moved
    }

    /// Inserts the rows of a move at ClickHouse, and takes them out of the database.
    async fn send_rows(&self, tenant: &TenantId, begun: &BegunMove) -> Result<u64, MoveError> {
        self.history.insert(tenant, begun.token, &begun.to_history_rows()).await?;
        let mut tx = self.store.tenant(tenant).await?;
        let moved = history::finish_move(&mut tx, begun).await?;
        let moved = moved.ok_or(MoveError::FencedHistory(begun.day))?;
        tx.commit().await?;
        Ok(moved)
    }

    /// Gives a move up at once after a failure, instead of when it is old. It stays if ClickHouse did not answer, because the
    /// rows may still reach it.
    async fn give_up(&self, tenant: &TenantId, begun: &BegunMove, trouble: &MoveError) {
        let stays = match trouble {
            MoveError::SlowHistory | MoveError::FencedHistory(_) => true,
            MoveError::History(error) => error.is_away(),
            _ => false,
        };
        if stays {
            return;
        }
        let given_up = async {
            let mut tx = self.store.tenant(tenant).await?;
            history::give_up_move(&mut tx, begun).await?;
            tx.commit().await
        };
        if let Err(error) = given_up.await {
            tracing::debug!(error = format_causes(&error), "a move could not be given up");
        }
    }

    /// Deletes the rows at ClickHouse that no key names any more, and from time to time the bytes of all deleted rows.
    async fn delete_rows(&mut self, searches: bool) -> Result<(), MoveError> {
        self.delete_queued().await?;
        // A ClickHouse that is away is not asked in each round.
        if searches && self.applied.is_none_or(|at| at.elapsed() >= APPLY_INTERVAL) {
            self.history.apply_deletions().await?;
            self.applied = Some(Instant::now());
        }
        Ok(())
    }

    /// Deletes the rows at ClickHouse that no key names any more.
    async fn delete_queued(&self) -> Result<(), MoveError> {
        for waiting in history::list_deletion_tenants(&self.store, DELETION_TENANTS_LIMIT).await? {
            loop {
                if self.shutdown.is_begun() {
                    return Ok(());
                }
                let mut tx = self.store.tenant(&waiting.tenant).await?;
                let due = history::lock_deletions(&mut tx, DELETED_ROWS_LIMIT).await?;
                if due.is_empty() {
                    break;
                }
                let versions: Vec<_> = due.iter().map(|row| row.version).collect();
                self.history.delete(&waiting.tenant, &versions).await?;
                history::forget_deletions(&mut tx, &due).await?;
                tx.commit().await?;
            }
        }
        Ok(())
    }

    /// Ends the reports of each tenant that arrived before its first kept day, and deletes their rows at ClickHouse.
    ///
    /// # Errors
    /// Returns the first failure. A failure for one tenant does not stop the deletion for the others.
    pub async fn expire_days(&self, kept: &[KeptDays]) -> Result<(), MoveError> {
        let mut failed = None;
        for KeptDays { tenant, reports, .. } in kept {
            match Box::pin(self.expire_tenant(tenant, *reports)).await {
                Ok(()) | Err(MoveError::Store(StoreError::TenantMoving)) => {}
                Err(MoveError::Store(error)) if error.is_outage() => return Err(error.into()),
                Err(trouble) => {
                    tracing::warn!(
                        error = format_causes(&trouble),
                        tenant = %tenant,
                        "rows that are over cannot be deleted at ClickHouse and are tried again"
                    );
                    failed = failed.or(Some(trouble));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn expire_tenant(&self, tenant: &TenantId, before: Date) -> Result<(), MoveError> {
        while !self.shutdown.is_begun() {
            let mut tx = self.store.tenant(tenant).await?;
            let expired = history::expire_moved(&mut tx, before, EXPIRED_REPORTS_LIMIT).await?;
            if expired > 0 {
                tx.commit().await?;
                continue;
            }
            let expiry = history::read_expiry(&mut tx, before).await?;
            tx.rollback().await?;
            if expiry == HistoryExpiry::Due {
                self.history.delete_before(tenant, before.midnight().assume_utc()).await?;
                let mut tx = self.store.tenant(tenant).await?;
                history::record_expiry(&mut tx, before).await?;
                tx.commit().await?;
            }
            break;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
