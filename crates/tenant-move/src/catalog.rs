//! The tables with rows of tenants, as PostgreSQL's catalogue has them.
//!
//! A test of the store holds that each table with a column `tenant` is declared by the core or a feature, so the catalogue names no
//! table that an erasure would not know.

use crate::error::During;
use crate::{CellServers, TenantMoveError};
use serde::Deserialize;
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use std::collections::{BTreeMap, BTreeSet};

/// Tables that stay, each with the reason.
const STAYING: [(&str, &str); 8] = [
    ("outbox", "the old cell sends its messages, and the records that they cause are passed on"),
    ("deferred_ranges", "they are places in the old cell's topics, whose records are passed on"),
    ("tenant_erasures", "it is the proof of the erasure in the old cell"),
    ("partial_uploads", "their parts are in the old bucket: the client begins again"),
    ("upload_parts", "as partial_uploads"),
    ("history_moves", "rows come back from ClickHouse before a move, and the erasure ends the rest"),
    ("history_deletions", "as history_moves"),
    ("history_tenants", "as history_moves"),
];

/// The table that is copied while no row may change: a builder takes a job without regard to its tenant's place.
const JOB_TABLE: &str = "jobs";

/// Expressions that take the lease from a job: its worker is in the old cell.
const JOB_EXPRESSIONS: [(&str, &str); 4] = [
    ("status", "CASE WHEN t.status = 'running' THEN 'queued' ELSE t.status END"),
    ("lease_owner", "NULL::text"),
    ("lease_token", "NULL::uuid"),
    ("lease_until", "NULL::timestamptz"),
];

/// A column that can be written.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MovedColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// True if a sequence numbers it.
    pub identity: bool,
}

/// A table.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MovedTable {
    pub name: String,
    pub columns: Vec<MovedColumn>,
    /// Columns of the primary key, in its order.
    pub key: Vec<String>,
    /// Tables that it refers to, with a tenant's rows.
    parents: Vec<String>,
    /// True if its rows refer to each other.
    pub refers_to_itself: bool,
    /// The column that says which partition a row is in.
    pub partitioned_by: Option<String>,
}

/// Quotes a name of the catalogue.
pub(crate) fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text.
pub(crate) fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl MovedTable {
    /// Returns true for the table that is copied while no row may change.
    pub(crate) fn is_late(&self) -> bool {
        self.name == JOB_TABLE
    }

    /// Returns the name for statements.
    pub(crate) fn quoted(&self) -> String {
        format!("public.{}", quote_name(&self.name))
    }

    /// Returns the columns for an insertion.
    pub(crate) fn column_list(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|column| quote_name(&column.name)).collect();
        names.join(", ")
    }

    /// Returns the values of a row `t` in the order of [`MovedTable::column_list`].
    pub(crate) fn value_list(&self) -> String {
        let value = |column: &MovedColumn| {
            let other =
                JOB_EXPRESSIONS.iter().find(|(name, _)| self.name == JOB_TABLE && *name == column.name);
            let name = quote_name(&column.name);
            other.map_or_else(|| format!("t.{name}"), |(_, value)| format!("{value} AS {name}"))
        };
        self.columns.iter().map(value).collect::<Vec<_>>().join(", ")
    }

    /// Returns the key's columns of a row.
    pub(crate) fn key_list(&self, row: &str) -> String {
        let names: Vec<String> = self.key.iter().map(|name| format!("{row}.{}", quote_name(name))).collect();
        names.join(", ")
    }

    /// Returns the key's columns.
    pub(crate) fn key_names(&self) -> String {
        let names: Vec<String> = self.key.iter().map(|name| quote_name(name)).collect();
        names.join(", ")
    }

    /// Returns the condition that two rows have the same key.
    pub(crate) fn same_key(&self, one: &str, other: &str) -> String {
        let parts = self.key.iter().map(|name| {
            let name = quote_name(name);
            format!("{one}.{name} = {other}.{name}")
        });
        parts.collect::<Vec<_>>().join(" AND ")
    }

    /// Returns the type of a column.
    pub(crate) fn kind_of(&self, name: &str) -> &str {
        self.columns.iter().find(|column| column.name == name).map_or("text", |column| column.kind.as_str())
    }

    /// Returns the statement that inserts the rows of a temporary table, and replaces those that are there.
    pub(crate) fn upsert_from(&self, temporary: &str) -> String {
        let columns = self.column_list();
        let set: Vec<String> = self
            .columns
            .iter()
            .filter(|column| !self.key.contains(&column.name) && !column.identity)
            .map(|column| {
                let name = quote_name(&column.name);
                format!("{name} = EXCLUDED.{name}")
            })
            .collect();
        let action = match set.is_empty() {
            true => "NOTHING".to_owned(),
            // A row of another tenant with the same key is never touched: the numbers of rows differ then.
            false => format!("UPDATE SET {} WHERE t.tenant = EXCLUDED.tenant", set.join(", ")),
        };
        format!(
            "INSERT INTO {} AS t ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM pg_temp.{temporary}
             ON CONFLICT ({}) DO {action}",
            self.quoted(),
            self.key_names()
        )
    }
}

/// The tables that move, each after those that it refers to.
pub(crate) struct Tables {
    pub ordered: Vec<MovedTable>,
}

impl Tables {
    /// Reads the catalogue of a cell.
    pub(crate) async fn read(
        cell: &CellServers,
        connection: &mut PgConnection,
    ) -> Result<Tables, TenantMoveError> {
        let rows: Vec<String> = sqlx::query_scalar(
            "SELECT jsonb_build_object(
                 'name', c.relname,
                 'columns', (SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
                                                                'identity', a.attidentity <> '') ORDER BY a.attnum)
                             FROM pg_attribute a
                             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''),
                 'key', (SELECT coalesce(jsonb_agg(a.attname ORDER BY k.place), '[]')
                         FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
                         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
                         WHERE i.indrelid = c.oid AND i.indisprimary AND k.place <= i.indnkeyatts),
                 'parents', (SELECT coalesce(jsonb_agg(DISTINCT p.relname), '[]')
                             FROM pg_constraint f JOIN pg_class p ON p.oid = f.confrelid
                             WHERE f.conrelid = c.oid AND f.contype = 'f' AND p.relname <> 'tenants' AND p.oid <> c.oid),
                 'refers_to_itself', EXISTS (SELECT FROM pg_constraint f
                                             WHERE f.conrelid = c.oid AND f.confrelid = c.oid AND f.contype = 'f'),
                 'partitioned_by', (SELECT a.attname FROM pg_partitioned_table p
                                    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
                                    WHERE p.partrelid = c.oid))::text
             FROM pg_class c
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
               AND EXISTS (SELECT FROM pg_attribute a
                           WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped)
             ORDER BY c.relname",
        )
        .fetch_all(connection)
        .await
        .during(&cell.name, "reading the catalogue")?;
        let mut tables = Vec::new();
        for row in rows {
            let table: MovedTable = serde_json::from_str(&row).map_err(|error| {
                TenantMoveError::Other(format!("the catalogue of {}: {error}", cell.name))
            })?;
            if !STAYING.iter().any(|(name, _)| *name == table.name) {
                tables.push(table);
            }
        }
        Tables::arrange(tables)
    }

    /// Puts each table after those that it refers to.
    fn arrange(mut left: Vec<MovedTable>) -> Result<Tables, TenantMoveError> {
        let mut ordered: Vec<MovedTable> = Vec::new();
        while !left.is_empty() {
            let waiting: BTreeSet<String> = left.iter().map(|table| table.name.clone()).collect();
            let (next, rest): (Vec<MovedTable>, Vec<MovedTable>) = left
                .into_iter()
                .partition(|table| !table.parents.iter().any(|parent| waiting.contains(parent)));
            if next.is_empty() {
                let names: Vec<String> = rest.into_iter().map(|table| table.name).collect();
                return Err(TenantMoveError::Other(format!(
                    "these tables refer to each other, so there is no order to copy them: {}",
                    names.join(", ")
                )));
            }
            ordered.extend(next);
            left = rest;
        }
        Ok(Tables { ordered })
    }

    /// Returns the tables that are copied before the rows are frozen.
    pub(crate) fn early(&self) -> impl Iterator<Item = &MovedTable> {
        self.ordered.iter().filter(|table| !table.is_late())
    }

    /// Returns the names of [`Tables::early`].
    pub(crate) fn early_names(&self) -> BTreeSet<String> {
        self.early().map(|table| table.name.clone()).collect()
    }
}

/// Counts the tenant's rows of each table, up to `limit` each.
pub(crate) async fn count_rows<'t>(
    cell: &CellServers,
    connection: &mut PgConnection,
    tenant: &str,
    tables: impl Iterator<Item = &'t MovedTable>,
    limit: Option<u64>,
) -> Result<BTreeMap<String, u64>, TenantMoveError> {
    let who = quote_text(tenant);
    let limit = limit.map_or_else(String::new, |limit| format!(" LIMIT {limit}"));
    let counts: Vec<String> = tables
        .map(|table| {
            format!(
                "SELECT {}, count(*) FROM (SELECT FROM {} t WHERE t.tenant = {who}{limit}) s",
                quote_text(&table.name),
                table.quoted()
            )
        })
        .collect();
    if counts.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<(String, i64)> = sqlx::query_as(AssertSqlSafe(counts.join(" UNION ALL ")))
        .fetch_all(connection)
        .await
        .during(&cell.name, "counting rows")?;
    Ok(rows.into_iter().map(|(table, rows)| (table, u64::try_from(rows).unwrap_or_default())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, parents: &[&str]) -> MovedTable {
        MovedTable {
            name: name.to_owned(),
            columns: Vec::new(),
            key: Vec::new(),
            parents: parents.iter().map(|&parent| parent.to_owned()).collect(),
            refers_to_itself: false,
            partitioned_by: None,
        }
    }

    #[test]
    fn a_table_comes_after_those_that_it_refers_to() {
        let tables =
            Tables::arrange(vec![table("c", &["b"]), table("b", &["a"]), table("a", &[]), table("d", &[])])
                .unwrap();
        let names: Vec<&str> = tables.ordered.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["a", "d", "b", "c"]);
        assert!(Tables::arrange(vec![table("a", &["b"]), table("b", &["a"])]).is_err());
    }
}
