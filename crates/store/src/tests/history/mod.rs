//! Rows of reports that move to ClickHouse and back, on the real engine.

mod bringing_back;
mod erasing;
mod moving;
mod outage;
mod reading;

use crate::history::{self, BegunMove};
use crate::reports::Arrival;
use crate::tests::database::{Database, acme, arrival, start};
use crate::tests::reports::segments::move_all;
use sqlx::Row;
use std::ops::Deref;
use time::{Date, Duration};
use unslide_history::{History, HistoryFilter, HistoryOrder, HistorySettings, HistoryVersion};
use unslide_model::Secret;
use unslide_testkit::servers;

/// A database and a history of one test.
pub struct Past {
    database: Database,
    pub history: History,
}

impl Deref for Past {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

/// A history in a database of its own, on the server that tests share.
pub async fn create_history() -> History {
    let variable = |name: &str| std::env::var(format!("UNSLIDE_TEST_CLICKHOUSE_{name}")).ok();
    let settings = HistorySettings {
        url: Some(servers::clickhouse()),
        user: variable("USER").unwrap_or_else(|| "default".into()),
        password: Secret::new(variable("PASSWORD").unwrap_or_default()),
        database: servers::unique("past").replace('-', "_"),
        cluster: variable("CLUSTER"),
        ..HistorySettings::default()
    };
    let history = History::new(&settings).unwrap();
    history.create_schema().await.unwrap();
    history
}

pub fn today() -> Date {
    start().date()
}

impl Past {
    pub async fn new() -> Past {
        let mut database = Database::new().await;
        let history = create_history().await;
        database.store = database.store.clone().with_history(Some(history.clone()));
        Past { database, history }
    }

    /// Stores the reports, moves their bodies to a segment, and lets 40 days pass.
    pub async fn with_old_reports(arrivals: &[Arrival]) -> Past {
        let past = Past::new().await;
        past.store(arrivals).await;
        move_all(&past, "old").await;
        past.wait(Duration::days(40));
        past
    }

    /// Reports number 1 to `count` of before, in ClickHouse.
    pub async fn with_moved(count: u8) -> Past {
        let past = Past::with_old_reports(&(1..=count).map(arrival).collect::<Vec<_>>()).await;
        assert_eq!(past.move_rows().await, u64::from(count));
        past
    }

    pub async fn begin_move(&self) -> Option<BegunMove> {
        let mut tx = self.store.tenant(&acme()).await.unwrap();
        let before = self.clock_now() - Duration::days(7);
        let begun = history::begin_move(&mut tx, today(), before, 100, 1 << 20).await.unwrap();
        tx.commit().await.unwrap();
        begun
    }

    pub async fn insert(&self, begun: &BegunMove) {
        self.history.insert(&acme(), begun.token, &begun.to_history_rows()).await.unwrap();
    }

    pub async fn finish_move(&self, begun: &BegunMove) -> Option<u64> {
        let mut tx = self.store.tenant(&acme()).await.unwrap();
        let moved = history::finish_move(&mut tx, begun).await.unwrap();
        tx.commit().await.unwrap();
        moved
    }

    /// Moves all rows that may move. Returns their number.
    pub async fn move_rows(&self) -> u64 {
        let mut moved = 0;
        while let Some(begun) = self.begin_move().await {
            self.insert(&begun).await;
            let ended = self.finish_move(&begun).await.unwrap();
            if ended == 0 {
                break;
            }
            moved += ended;
        }
        moved
    }

    /// Deletes what is queued. Returns how much that was.
    pub async fn delete_queued(&self) -> usize {
        let mut tx = self.store.tenant(&acme()).await.unwrap();
        let due = history::lock_deletions(&mut tx, 1_000).await.unwrap();
        let versions: Vec<HistoryVersion> = due.iter().map(|row| row.version).collect();
        self.history.delete(&acme(), &versions).await.unwrap();
        history::forget_deletions(&mut tx, &due).await.unwrap();
        tx.commit().await.unwrap();
        due.len()
    }

    /// The newest versions that ClickHouse has of acme's reports.
    pub async fn versions(&self) -> Vec<HistoryVersion> {
        let every = HistoryFilter::default();
        self.history.find_versions(&acme(), &every, None, HistoryOrder::OldestFirst, 1_000).await.unwrap()
    }

    /// How many rows are in the database and how many keys name one in ClickHouse. Fails if a report has both or neither.
    pub async fn places(&self) -> (i64, i64) {
        let rows = self
            .rows(
                "SELECT k.history_version IS NOT NULL, r.report_id IS NOT NULL FROM report_keys k
                 LEFT JOIN reports r ON r.tenant = k.tenant AND r.received_at = k.received_at AND r.report_id = k.report_id
                                    AND r.variant = k.variant
                 WHERE k.deleted_at IS NULL",
            )
            .await;
        let (mut stored, mut moved) = (0, 0);
        for row in rows {
            let (is_moved, is_stored): (bool, bool) = (row.get(0), row.get(1));
            assert_ne!(is_moved, is_stored, "a report has its row in one place");
            stored += i64::from(is_stored);
            moved += i64::from(is_moved);
        }
        (stored, moved)
    }

    /// The rows of `reports` as text.
    pub async fn stored_rows(&self) -> Vec<String> {
        let rows = self.rows("SELECT r::text FROM reports r ORDER BY received_at, report_id, variant").await;
        rows.iter().map(|row| row.get(0)).collect()
    }
}
