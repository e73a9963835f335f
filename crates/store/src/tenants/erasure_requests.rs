//! Requests to erase what a tenant has of a person or a public key, and how far each is. Each is searched for
//! twice: the second search finds data that was being stored at the time of the request.

use crate::column::words;
use crate::hooks;
use crate::number::to_row;
use crate::persons::ErasedRows;
use crate::{Announcement, OwnerTx, Result, TenantTx, Uuid};
use sqlx::{AssertSqlSafe, Row};
use time::{Duration, OffsetDateTime};
use utoipa::ToSchema;

/// Time from the request to the second search. Transactions that had begun before the request have ended by then.
const SECOND_SEARCH_DELAY: Duration = Duration::MINUTE;

words! {
    /// State of a request to erase data.
    #[derive(ToSchema)]
    pub enum ErasureState {
        /// The first search runs.
        Searching = "searching",
        /// The first search has ended. A second one finds data that was being stored at the time of the request.
        SearchingAgain = "searching_again",
        /// Nothing is left.
        Done = "done",
        /// It was given up; `detail` says why. Request it again.
        Failed = "failed",
    }
}

/// A table of requests. It has the columns `tenant`, `id`, `state`, `requested_at`, `finished_at`, `removed` and `detail`.
#[derive(Clone, Copy, Debug)]
pub struct ErasureTable {
    /// Its name in the database.
    pub name: &'static str,
    /// Columns that are forgotten with the end of each search.
    pub of_search: &'static [&'static str],
    /// Columns that are forgotten with the end of the erasure.
    pub of_request: &'static [&'static str],
}

/// A request in its table.
#[derive(Clone, Copy, Debug)]
pub struct ErasureRequest {
    /// The table.
    pub table: ErasureTable,
    /// Id of the request.
    pub id: Uuid,
}

/// The step that follows the end of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEnd {
    /// The second search, after this time.
    SearchAgain(Duration),
    /// Nothing: the erasure is done.
    Done,
}

impl ErasureRequest {
    /// Adds to the numbers of rows that were removed, by table.
    pub async fn count_removed(self, tx: &mut TenantTx, removed: &[ErasedRows]) -> Result<()> {
        let (connection, tenant, _) = tx.parts();
        for ErasedRows { table, rows } in removed.iter().filter(|removed| removed.rows > 0) {
            let statement = format!(
                "UPDATE {} SET removed =
                     jsonb_set(removed, ARRAY[$3], to_jsonb(coalesce((removed ->> $3)::bigint, 0) + $4::bigint))
                 WHERE tenant = $1 AND id = $2",
                self.table.name
            );
            let counted = sqlx::query(AssertSqlSafe(statement)).bind(tenant).bind(self.id);
            counted.bind(*table).bind(to_row(*rows)).execute(&mut *connection).await?;
        }
        Ok(())
    }

    /// Ends the search, the second one with a word to features that have copies of texts. Returns None if the request is not open.
    pub async fn end_search(self, tx: &mut TenantTx) -> Result<Option<SearchEnd>> {
        let of_search = self.table.of_search.iter().map(|column| format!(", {column} = NULL"));
        let of_request = self
            .table
            .of_request
            .iter()
            .map(|column| format!(", {column} = CASE state WHEN 'searching' THEN {column} END"));
        let statement = format!(
            "UPDATE {} SET state = CASE state WHEN 'searching' THEN 'searching_again' ELSE 'done' END,
                 finished_at = CASE state WHEN 'searching_again' THEN $3::timestamptz END{}
             WHERE tenant = $1 AND id = $2 AND state LIKE 'searching%'
             RETURNING state = 'done', requested_at",
            self.table.name,
            of_search.chain(of_request).collect::<String>()
        );
        let (connection, tenant, now) = tx.parts();
        let ended = sqlx::query(AssertSqlSafe(statement)).bind(tenant).bind(self.id).bind(now);
        let Some(row) = ended.fetch_optional(connection).await? else { return Ok(None) };
        if row.get::<bool, _>(0) {
            hooks::announce_to_features(tx, &[Announcement::texts_removed()]).await?;
            return Ok(Some(SearchEnd::Done));
        }
        let pause = row.get::<OffsetDateTime, _>(1) + SECOND_SEARCH_DELAY - now;
        Ok(Some(SearchEnd::SearchAgain(pause.max(Duration::ZERO))))
    }

    /// Records that the request was given up.
    pub async fn fail(self, tx: &mut OwnerTx, detail: &str) -> Result<()> {
        let forgotten = self.table.of_search.iter().chain(self.table.of_request);
        let statement = format!(
            "UPDATE {} SET state = 'failed', detail = $3{}
             WHERE tenant = $1 AND id = $2 AND state LIKE 'searching%'",
            self.table.name,
            forgotten.map(|column| format!(", {column} = NULL")).collect::<String>()
        );
        let (connection, tenant, _) = tx.parts();
        let failed = sqlx::query(AssertSqlSafe(statement)).bind(tenant).bind(self.id).bind(detail);
        failed.execute(connection).await?;
        Ok(())
    }
}
