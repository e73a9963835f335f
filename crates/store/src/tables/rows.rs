//! The statements about rows of declared tables: which rows of a table a selection has, and what happens to them.
//!
//! The statements are made from the declarations, so that the macros do not check them. A test tries each against the
//! migrated schema.

use super::{FeatureFile, KeyColumn, OwnedTable, RowAge, RowFiles};
use crate::key_erasures::KeyRange;
use crate::persons::{ErasedRows, ErasedSessions, PersonDay, PersonKind, PersonSession};
use crate::segments::{condemn_objects, day_bounds};
use crate::{Result, TenantTx};
use serde_json::Value;
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Row};
use time::Date;

/// Has the planner look each row of a page up by its key, for the rest of the transaction. It would rather read all rows of
/// a table.
const LOOK_UP_BY_KEY: &str =
    "SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)";

type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

/// Rows that are counted of each table; a table that has more counts as this many.
pub(crate) const COUNT_LIMIT: u32 = 100_000;

/// Rows of the transaction's tenant.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'s> {
    /// All rows, without those that outlive their tenant.
    Tenant,
    /// Rows before the first kept day of the tenant.
    Expired {
        /// The first kept day.
        first_kept: Date,
    },
    /// Rows of sessions.
    Sessions(ErasedSessions<'s>),
    /// Rows that came with a public key in a range of time.
    Key(&'s KeyRange),
}

impl Selection<'_> {
    /// Returns the condition of the selected rows of a table `t`, with parameters from `$2` on. Returns None if the table has
    /// no such rows, or has them as a part of reports.
    fn condition(self, table: &OwnedTable) -> Option<String> {
        if table.is_part_of_report && !matches!(self, Selection::Tenant) {
            return None;
        }
        match self {
            Selection::Tenant => match table.outlives {
                None => Some("true".to_owned()),
                Some(rows) => Some(format!("NOT ({})", rows.condition?)),
            },
            Selection::Expired { .. } => {
                let age = table.day.or(table.received_at).filter(|_| table.age == RowAge::Retention)?;
                Some(format!("t.{age} < $2"))
            }
            Selection::Sessions(_) => {
                let (session, app, received_at) = (table.session?, table.app?, table.received_at?);
                Some(format!(
                    "t.{session} = ANY ($2) AND ($3::text[] IS NULL OR t.{app} = ANY ($3)) AND t.{received_at} < $4"
                ))
            }
            Selection::Key(_) => {
                let (key, version, received_at) = (table.sender_key?, table.version?, table.received_at?);
                Some(format!(
                    "t.{key} = $2 AND t.{received_at} >= $3 AND t.{received_at} < $4
                     AND ($5::text IS NULL OR t.{version} = $5)"
                ))
            }
        }
    }

    /// Adds the parameters of [`Selection::condition`].
    fn bind<'q>(self, table: &OwnedTable, query: PgQuery<'q>) -> PgQuery<'q> {
        match self {
            Selection::Tenant => query,
            Selection::Expired { first_kept } if table.day.is_some() => query.bind(first_kept),
            Selection::Expired { first_kept } => query.bind(day_bounds(first_kept).0),
            Selection::Sessions(sessions) => query
                .bind(sessions.ids.to_vec())
                .bind(sessions.apps.map(<[String]>::to_vec))
                .bind(sessions.received_before),
            Selection::Key(range) => query
                .bind(range.key.to_string())
                .bind(range.begin)
                .bind(range.end)
                .bind(range.version.clone()),
        }
    }

    /// Deletes the selected rows of all tables, at most `limit` of each, and condemns their objects. Returns the number of
    /// rows by table, without tables that have none.
    ///
    /// # Errors
    /// A row names no object keys.
    pub async fn delete_rows(self, tx: &mut TenantTx, limit: Option<u32>) -> Result<Vec<ErasedRows>> {
        let (connection, _, _) = tx.parts();
        sqlx::query(LOOK_UP_BY_KEY).execute(connection).await?;
        let mut deleted = Vec::new();
        for table in tx.tables() {
            let Some(condition) = self.condition(table) else { continue };
            let statement = delete_statement(table, &condition, limit);
            let (connection, tenant, _) = tx.parts();
            let query = self.bind(table, sqlx::query(AssertSqlSafe(statement)).bind(tenant));
            let rows = query.fetch_all(connection).await?;
            if let Some(files) = table.files {
                let owner = tx.tenant()?;
                let mut keys = Vec::new();
                for row in &rows {
                    let named = (files.list)(&owner, row.get::<Value, _>(0))?;
                    keys.extend(named.into_iter().map(|file| file.key));
                }
                condemn_objects(tx, &keys).await?;
            }
            if !rows.is_empty() {
                deleted.push(ErasedRows { table: table.name, rows: rows.len() as u64 });
            }
        }
        Ok(deleted)
    }

    /// Counts the selected rows by table, up to [`COUNT_LIMIT`] of each, without tables that have none. Deletes none.
    ///
    /// # Errors
    /// The database fails.
    pub async fn count_rows(self, tx: &mut TenantTx) -> Result<Vec<ErasedRows>> {
        let mut counted = Vec::new();
        for table in tx.tables() {
            counted.extend(self.count_in_table(tx, table).await?.filter(|counted| counted.rows > 0));
        }
        Ok(counted)
    }

    /// Counts the selected rows of one table. Returns None if the table has no such rows by its declaration.
    pub(crate) async fn count_in_table(
        self,
        tx: &mut TenantTx,
        table: &OwnedTable,
    ) -> Result<Option<ErasedRows>> {
        let Some(condition) = self.condition(table) else { return Ok(None) };
        let statement = format!(
            "SELECT count(*) FROM (SELECT FROM {} t WHERE t.tenant = $1 AND {condition} LIMIT {COUNT_LIMIT}) c",
            table.name
        );
        let (connection, tenant, _) = tx.parts();
        let query = self.bind(table, sqlx::query(AssertSqlSafe(statement)).bind(tenant));
        let rows: i64 = query.fetch_one(connection).await?.get(0);
        Ok(Some(ErasedRows { table: table.name, rows: rows.unsigned_abs() }))
    }
}

/// Deletes rows of a table of the transaction's tenant, which is deleted, at most `limit`. Rows that outlive it stay, and those
/// that are in use. Returns the number of rows.
pub(crate) async fn delete_with_tenant(tx: &mut TenantTx, table: &OwnedTable, limit: u32) -> Result<u64> {
    let Some(mut condition) = Selection::Tenant.condition(table) else { return Ok(0) };
    if let Some(in_use) = table.in_use {
        condition.push_str(&format!(" AND NOT ({in_use})"));
    }
    let statement = if table.key.is_empty() {
        let name = table.name;
        format!(
            "DELETE FROM {name} t WHERE t.tenant = $1 AND t.ctid = ANY (ARRAY(
                 SELECT t.ctid FROM {name} t WHERE t.tenant = $1 AND {condition} LIMIT {limit}))"
        )
    } else {
        delete_statement(&OwnedTable { files: None, ..*table }, &condition, Some(limit))
    };
    let (connection, tenant, now) = tx.parts();
    sqlx::query(LOOK_UP_BY_KEY).execute(&mut *connection).await?;
    let query = sqlx::query(AssertSqlSafe(statement)).bind(tenant);
    let query = if table.in_use.is_some() { query.bind(now) } else { query };
    Ok(query.execute(connection).await?.rows_affected())
}

/// Returns the statement that deletes rows of a table `t` that fulfil a condition. It returns what the keys of their objects
/// are made of.
///
/// The rows are locked in the order in which all writers lock them. A row that was changed while the statement waited for it
/// is checked again.
fn delete_statement(table: &OwnedTable, condition: &str, limit: Option<u32>) -> String {
    let name = table.name;
    let list = |write: &dyn Fn(KeyColumn) -> String, between: &str| {
        table.key.iter().map(|column| write(*column)).collect::<Vec<_>>().join(between)
    };
    let columns = list(&|column| format!("t.{}", column.name()), ", ");
    let same = |other: &str| list(&|column| format!("t.{0} = {other}.{0}", column.name()), " AND ");
    let lock_order = list(&KeyColumn::lock_order, ", ");
    let first = limit.map(|limit| {
        // Partitions by day have no index by which the oldest rows are found.
        let oldest = match (table.age, table.day, table.received_at) {
            (RowAge::Retention, None, Some(received_at)) => format!("ORDER BY t.{received_at}"),
            _ => String::new(),
        };
        let rows = format!(
            "SELECT {columns} FROM {name} t WHERE t.tenant = $1 AND {condition} {oldest} LIMIT {limit}"
        );
        format!("JOIN ({rows}) f ON {}", same("f"))
    });
    let returned = table.files.map_or_else(|| "NULL::jsonb".to_owned(), RowFiles::row_as_json);
    format!(
        "WITH locked AS (
             SELECT {columns} FROM {name} t {} WHERE t.tenant = $1 AND {condition} ORDER BY {lock_order} FOR UPDATE OF t)
         DELETE FROM {name} t USING locked l WHERE t.tenant = $1 AND {} RETURNING {returned}",
        first.unwrap_or_default(),
        same("l")
    )
}

/// Deletes rows of features that are older than the first kept day of their tenant, at most `limit` of each table. Their
/// files are condemned. Days that no tenant keeps go with their tables (see [`drop_before`](crate::partitions::drop_before)).
/// Returns the number of rows.
pub async fn expire_features(tx: &mut TenantTx, first_kept: Date, limit: u32) -> Result<u64> {
    let expired = Selection::Expired { first_kept }.delete_rows(tx, Some(limit)).await?;
    Ok(expired.iter().map(|table| table.rows).sum())
}

/// Lists the sessions of a user or an installation that began on a day, of all tables that have both.
pub async fn list_person_sessions(tx: &mut TenantTx, person: PersonDay) -> Result<Vec<PersonSession>> {
    let mut sessions = Vec::new();
    for table in tx.tables() {
        let column = match person.key.kind {
            PersonKind::User => table.user,
            PersonKind::Installation => table.installation,
            PersonKind::Session => None,
        };
        let (Some(column), Some(day), Some(session)) = (column, table.day, table.session) else { continue };
        let (Some(app), Some(received_at)) = (table.app, table.received_at) else { continue };
        let statement = format!(
            "SELECT {app}, {session} FROM {}
             WHERE tenant = $1 AND {day} = $2 AND {received_at} < $3 AND {column} = $4
             ORDER BY {app}, {session} LIMIT $5",
            table.name
        );
        let (connection, tenant, _) = tx.parts();
        let rows: Vec<(String, String)> = sqlx::query_as(AssertSqlSafe(statement))
            .bind(tenant)
            .bind(person.day)
            .bind(person.received_before)
            .bind(person.key.hash)
            .bind(i64::from(person.limit))
            .fetch_all(connection)
            .await?;
        sessions.extend(rows.into_iter().map(|(app, id)| PersonSession { app, id }));
    }
    Ok(sessions)
}

/// Lists the files of features that rows of the transaction's tenant name.
///
/// # Errors
/// A row names no object keys.
pub async fn feature_files(tx: &mut TenantTx) -> Result<Vec<FeatureFile>> {
    let owner = tx.tenant()?;
    let mut named = Vec::new();
    for table in tx.tables() {
        let Some(files) = table.files else { continue };
        let statement = format!("SELECT {} FROM {} t WHERE t.tenant = $1", files.row_as_json(), table.name);
        let (connection, tenant, _) = tx.parts();
        let rows: Vec<Value> =
            sqlx::query_scalar(AssertSqlSafe(statement)).bind(tenant).fetch_all(connection).await?;
        for row in rows {
            named.extend((files.list)(&owner, row)?);
        }
    }
    Ok(named)
}
