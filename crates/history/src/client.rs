//! Requests to ClickHouse.

use crate::check::{FoundPolicy, judge_policies};
use crate::connection::Connection;
use crate::rows::{FoundRow, FoundVersion, ROW_COLUMNS, VERSION_COLUMNS};
use crate::schema::{INSERT, SchemaNames};
use crate::statement::{Parameter, Statement, write_time};
use crate::{
    FIND_ROWS_LIMIT, HistoryCheck, HistoryError, HistoryFilter, HistoryOrder, HistoryPlace, HistoryPolicies,
    HistoryResult, HistoryRow, HistorySettings, HistoryVersion, INSERT_ROWS_LIMIT,
};
use serde::de::DeserializeOwned;
use std::fmt::Display;
use time::OffsetDateTime;
use unslide_model::TenantId;

/// Seconds that a statement on all servers of a cluster waits for them.
const CLUSTER_TIMEOUT_SECONDS: &str = "60";
/// Maximum number of bytes of the documents of one insert.
const INSERT_BYTES_LIMIT: usize = 256 << 20;
/// Number of places in one statement: a server takes 128 KiB of each parameter.
const STATEMENT_PLACES: usize = 1_000;

/// The exception of a server that denies a right.
const ACCESS_DENIED: u32 = 497;

/// The client of the ClickHouse that has old rows. Clones share connections.
#[derive(Clone)]
pub struct History {
    connection: Connection,
    names: SchemaNames,
    user: String,
}

impl History {
    /// Makes a client. It connects with the first request.
    ///
    /// # Errors
    /// Returns [`HistoryError::Settings`] if the settings have no URL or are invalid.
    pub fn new(settings: &HistorySettings) -> HistoryResult<History> {
        let names = SchemaNames::from_settings(settings)?;
        Ok(History { connection: Connection::new(settings)?, names, user: settings.user.clone() })
    }

    /// Creates the database, the tables and the row policies. Those that are there stay.
    ///
    /// # Errors
    /// The server is away, or the user lacks a right; the error names it.
    pub async fn create_schema(&self) -> HistoryResult<()> {
        if !self.has_database().await? {
            self.run_everywhere(&self.names.create_database()).await?;
        }
        for statement in self.names.create_tables() {
            self.run_everywhere(&statement).await?;
        }
        if self.has_access_control().await? {
            for statement in self.names.create_policies() {
                self.run_everywhere(&statement).await?;
            }
        }
        Ok(())
    }

    /// Asks the server for its version, the schema and the policies.
    ///
    /// # Errors
    /// The server is away, or refuses the login.
    pub async fn check(&self) -> HistoryResult<HistoryCheck> {
        let statement = Statement::new("SELECT version()");
        let (version,): (String,) = self.read_system_row(&statement).await?;
        Ok(HistoryCheck {
            version,
            has_schema: self.has_schema().await?,
            policies: self.check_policies().await?,
            cluster_problem: self.check_cluster().await?,
        })
    }

    /// Inserts rows of a tenant as one insert. Sent again with the same token and the same rows, it is stored once.
    ///
    /// A reader that has asked ClickHouse before the insert ended does not know the rows. If they leave PostgreSQL before it
    /// asks there, it has to look again.
    ///
    /// # Errors
    /// The server is away, and may have stored the rows; or it refuses them. There are more than [`INSERT_ROWS_LIMIT`] rows, or their
    /// documents are too large.
    pub async fn insert(
        &self,
        tenant: &TenantId,
        token: impl Display + Copy,
        rows: &[HistoryRow],
    ) -> HistoryResult<()> {
        let bytes: usize = rows.iter().map(|row| row.row.len()).sum();
        if rows.len() > INSERT_ROWS_LIMIT || bytes > INSERT_BYTES_LIMIT {
            let rows = rows.len();
            return Err(HistoryError::TooLarge(format!("one insert of {rows} rows and {bytes} bytes")));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let token = token.to_string();
        let mut settings = vec![
            ("insert_deduplicate", "1"),
            ("insert_deduplication_token", &token),
            // The answer says that the rows are stored.
            ("async_insert", "0"),
            // Rows of one move may be of many months.
            ("max_partitions_per_insert_block", "0"),
        ];
        if self.names.cluster.is_some() {
            // Most replicas have the rows when the answer comes, because PostgreSQL deletes them then.
            settings.extend([("distributed_foreground_insert", "1"), ("insert_quorum", "auto")]);
        }
        let statement = Statement::new(INSERT);
        self.connection.insert(&self.names.database, &statement, &settings, write_rows(tenant, rows)).await
    }

    /// Reads the newest version of each of these rows, in no order. Rows that are not there are left out.
    ///
    /// # Errors
    /// The server is away or refuses the request, or the rows are too large for one answer.
    pub async fn read(&self, tenant: &TenantId, places: &[HistoryPlace]) -> HistoryResult<Vec<HistoryRow>> {
        let mut rows = Vec::with_capacity(places.len().min(STATEMENT_PLACES));
        for places in places.chunks(STATEMENT_PLACES) {
            let mut statement = Statement::new(ROW_COLUMNS);
            push_places(&mut statement, tenant, places);
            statement.push(" ORDER BY version DESC LIMIT 1 BY received_at, report_id, variant");
            let found: Vec<FoundRow> = self.connection.read_rows(self.database(), &statement).await?;
            for row in found {
                rows.push(row.into_row()?);
            }
        }
        Ok(rows)
    }

    /// Finds reports in their order, after a place if one is given: the newest version of each that fulfils the filter. If as
    /// many as `limit` are found, there may be more after the last of them.
    ///
    /// PostgreSQL has to confirm them and to decide the filter once more: a version may be outdated, and its report then fulfils the
    /// filter no longer.
    ///
    /// # Errors
    /// As [`History::read`].
    pub async fn find(
        &self,
        tenant: &TenantId,
        filter: &HistoryFilter,
        after: Option<HistoryPlace>,
        order: HistoryOrder,
        limit: u32,
    ) -> HistoryResult<Vec<HistoryRow>> {
        // Their places first: documents are read of rows that are found only.
        let found = self.find_versions(tenant, filter, after, order, limit).await?;
        let places: Vec<HistoryPlace> = found.iter().map(|version| version.place).collect();
        let mut rows = self.read(tenant, &places).await?;
        rows.sort_by_key(HistoryRow::place);
        if order == HistoryOrder::NewestFirst {
            rows.reverse();
        }
        Ok(rows)
    }

    /// Finds reports as [`History::find`] does, without their documents.
    ///
    /// # Errors
    /// As [`History::read`].
    pub async fn find_versions(
        &self,
        tenant: &TenantId,
        filter: &HistoryFilter,
        after: Option<HistoryPlace>,
        order: HistoryOrder,
        limit: u32,
    ) -> HistoryResult<Vec<HistoryVersion>> {
        let mut statement = Statement::new(VERSION_COLUMNS);
        push_tenant(&mut statement, tenant);
        filter.push_to(&mut statement);
        push_after(&mut statement, after, order);
        let limit = Parameter::from_number(limit.min(FIND_ROWS_LIMIT));
        statement.push_with(" LIMIT {limit:UInt32}", "limit", limit);
        let found: Vec<FoundVersion> = self.connection.read_rows(self.database(), &statement).await?;
        found.into_iter().map(FoundVersion::into_version).collect()
    }

    /// Returns the greatest version of all rows of all tenants; 0 if there is none.
    ///
    /// # Errors
    /// As [`History::read`].
    pub async fn read_newest_version(&self) -> HistoryResult<u32> {
        let statement = Statement::new("SELECT max(version) FROM reports");
        let rows: Vec<(u32,)> = self.connection.read_rows(self.database(), &statement).await?;
        rows.first().map(|(version,)| *version).ok_or_else(|| HistoryError::unreadable("the row"))
    }

    /// Deletes these versions of rows: no earlier and no later ones. Their bytes are on the disk until [`History::apply_deletions`].
    ///
    /// # Errors
    /// The server is away, and may delete them nevertheless; or it refuses the request.
    pub async fn delete(&self, tenant: &TenantId, versions: &[HistoryVersion]) -> HistoryResult<()> {
        for some in versions.chunks(STATEMENT_PLACES) {
            let mut statement = self.names.begin_deletion();
            let places: Vec<HistoryPlace> = some.iter().map(|version| version.place).collect();
            push_places(&mut statement, tenant, &places);
            let text = " AND (received_at, report_id, variant, version) IN \
                        {versions:Array(Tuple(DateTime64(6, 'UTC'), UUID, UInt32, UInt32))}";
            statement.push_with(text, "versions", Parameter::from_versions(some));
            self.run_everywhere(&statement).await?;
        }
        Ok(())
    }

    /// Deletes the rows of a tenant that arrived before a time.
    ///
    /// # Errors
    /// As [`History::delete`].
    pub async fn delete_before(&self, tenant: &TenantId, before: OffsetDateTime) -> HistoryResult<()> {
        let mut statement = self.names.begin_deletion();
        push_tenant(&mut statement, tenant);
        let text = " AND received_at < {before:DateTime64(6, 'UTC')}";
        statement.push_with(text, "before", Parameter::from_time(before));
        self.run_everywhere(&statement).await
    }

    /// Deletes all rows of a tenant.
    ///
    /// # Errors
    /// As [`History::delete`].
    pub async fn delete_tenant(&self, tenant: &TenantId) -> HistoryResult<()> {
        let mut statement = self.names.begin_deletion();
        push_tenant(&mut statement, tenant);
        self.run_everywhere(&statement).await
    }

    /// Takes the bytes of deleted rows from the disk, also of rows that another process deleted. A deletion only marks its rows
    /// until then, or until their part is merged. Returns false if there were none.
    ///
    /// # Errors
    /// As [`History::delete`].
    pub async fn apply_deletions(&self) -> HistoryResult<bool> {
        let (parts,): (u64,) = self.read_system_row(&self.names.count_deleted()).await?;
        if parts > 0 {
            self.run_everywhere(&self.names.apply_deletions()).await?;
        }
        Ok(parts > 0)
    }

    fn database(&self) -> Option<&str> {
        Some(&self.names.database)
    }

    async fn has_database(&self) -> HistoryResult<bool> {
        let mut statement = Statement::new("SELECT count() FROM system.databases WHERE ");
        let database = Parameter::from_text(&self.names.database);
        statement.push_with("name = {database:String}", "database", database);
        let (found,): (u64,) = self.read_system_row(&statement).await?;
        Ok(found > 0)
    }

    async fn has_schema(&self) -> HistoryResult<bool> {
        let mut statement = Statement::new(
            "SELECT countIf(name = 'reports'), countIf(name = 'reports_shard') FROM system.tables WHERE ",
        );
        let database = Parameter::from_text(&self.names.database);
        statement.push_with("database = {database:String}", "database", database);
        let (tables, shards): (u64, u64) = self.read_system_row(&statement).await?;
        Ok(tables > 0 && (self.names.cluster.is_none() || shards > 0))
    }

    /// Returns true unless the server says that it keeps no users and policies that statements make.
    async fn has_access_control(&self) -> HistoryResult<bool> {
        let statement =
            Statement::new("SELECT count() FROM system.user_directories WHERE type != 'users_xml'");
        match self.read_system_row::<(u64,)>(&statement).await {
            Ok((directories,)) => Ok(directories > 0),
            // A server that denies it has them.
            Err(error) if error.has_code(ACCESS_DENIED) => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn check_policies(&self) -> HistoryResult<HistoryPolicies> {
        if !self.has_access_control().await? {
            return Ok(HistoryPolicies::NoAccessControl);
        }
        let mut statement = Statement::new(
            "SELECT short_name, table, ifNull(select_filter, '1') AS select_filter, is_restrictive, apply_to_all, \
             apply_to_except FROM system.row_policies WHERE ",
        );
        let database = Parameter::from_text(&self.names.database);
        statement.push_with("database = {database:String}", "database", database);
        match self.connection.read_rows::<FoundPolicy>(None, &statement).await {
            Ok(found) => Ok(judge_policies(&self.names, &self.user, &found)),
            Err(error) if error.has_code(ACCESS_DENIED) => Ok(HistoryPolicies::Open(format!(
                "the policies cannot be read: GRANT SHOW ROW POLICIES ON *.* TO {}",
                self.user
            ))),
            Err(error) => Err(error),
        }
    }

    /// Checks that each row is written to one replica of its shard, which gives it to the others.
    async fn check_cluster(&self) -> HistoryResult<Option<String>> {
        let Some(cluster) = &self.names.cluster else { return Ok(None) };
        let mut statement = Statement::new(
            "SELECT count() AS replicas, countIf(internal_replication = 0) AS unreplicated FROM system.clusters WHERE ",
        );
        statement.push_with("cluster = {cluster:String}", "cluster", Parameter::from_text(cluster));
        let (replicas, unreplicated): (u64, u64) = self.read_system_row(&statement).await?;
        Ok(match (replicas, unreplicated) {
            (0, _) => Some(format!("the server knows no cluster {cluster}")),
            (_, 0) => None,
            _ => Some(format!(
                "a shard of the cluster {cluster} lacks internal_replication: rows would be stored twice"
            )),
        })
    }

    /// Reads the one row of a statement on tables of the server itself.
    async fn read_system_row<T: DeserializeOwned>(&self, statement: &Statement) -> HistoryResult<T> {
        let rows = self.connection.read_rows(None, statement).await?;
        rows.into_iter().next().ok_or_else(|| HistoryError::unreadable("the row"))
    }

    /// Runs a statement without rows, on each server of the cluster if its text says so.
    async fn run_everywhere(&self, statement: &Statement) -> HistoryResult<()> {
        // One replica has deleted the rows when the answer comes; the others follow.
        let mut settings = vec![("lightweight_deletes_sync", "1"), ("mutations_sync", "1")];
        if self.names.cluster.is_some() {
            settings.push(("distributed_ddl_task_timeout", CLUSTER_TIMEOUT_SECONDS));
            // A replica that is away runs it when it is back.
            settings.push(("distributed_ddl_output_mode", "none_only_active"));
        }
        self.connection.run(None, statement, &settings).await
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Writes rows as lines of JSON, in the order of the insert's columns.
fn write_rows(tenant: &TenantId, rows: &[HistoryRow]) -> Vec<u8> {
    let mut lines = Vec::new();
    for HistoryRow { received_at, report_id, variant, version, row } in rows {
        let line = (tenant.as_str(), write_time(*received_at), report_id, variant, version, row);
        // Texts and numbers are always written.
        if let Ok(line) = serde_json::to_vec(&line) {
            lines.extend_from_slice(&line);
            lines.push(b'\n');
        }
    }
    lines
}

/// Adds the condition on the tenant, without which no statement reads or deletes a row.
fn push_tenant(statement: &mut Statement, tenant: &TenantId) {
    statement.push_with("tenant = {tenant:String}", "tenant", Parameter::from_text(tenant.as_str()));
}

/// Adds the conditions on the tenant and these rows. The times alone are there to leave out months.
fn push_places(statement: &mut Statement, tenant: &TenantId, places: &[HistoryPlace]) {
    push_tenant(statement, tenant);
    let times = || places.iter().map(|place| place.received_at);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        statement.push(" AND false");
        return;
    };
    let text = " AND received_at >= {first:DateTime64(6, 'UTC')}";
    statement.push_with(text, "first", Parameter::from_time(first));
    let text = " AND received_at <= {last:DateTime64(6, 'UTC')}";
    statement.push_with(text, "last", Parameter::from_time(last));
    let text =
        " AND (received_at, report_id, variant) IN {places:Array(Tuple(DateTime64(6, 'UTC'), UUID, UInt32))}";
    statement.push_with(text, "places", Parameter::from_places(places));
}

/// Adds the condition on the place, the order, and the choice of one version of each report. The server compares UUIDs by their second
/// half first; as bytes they have PostgreSQL's order.
fn push_after(statement: &mut Statement, after: Option<HistoryPlace>, order: HistoryOrder) {
    let (condition, end) = match order {
        HistoryOrder::NewestFirst => (
            " AND received_at <= {after_time:DateTime64(6, 'UTC')} AND (received_at, UUIDToNum(report_id), variant) < \
             ({after_time:DateTime64(6, 'UTC')}, UUIDToNum({after_id:UUID}), {after_variant:UInt32})",
            " ORDER BY received_at DESC, UUIDToNum(report_id) DESC, variant DESC, version DESC \
             LIMIT 1 BY received_at, report_id, variant",
        ),
        HistoryOrder::OldestFirst => (
            " AND received_at >= {after_time:DateTime64(6, 'UTC')} AND (received_at, UUIDToNum(report_id), variant) > \
             ({after_time:DateTime64(6, 'UTC')}, UUIDToNum({after_id:UUID}), {after_variant:UInt32})",
            " ORDER BY received_at, UUIDToNum(report_id), variant, version DESC \
             LIMIT 1 BY received_at, report_id, variant",
        ),
    };
    if let Some(HistoryPlace { received_at, report_id, variant }) = after {
        statement.push(condition);
        statement.bind("after_time", Parameter::from_time(received_at));
        statement.bind("after_id", Parameter::from_id(report_id));
        statement.bind("after_variant", Parameter::from_number(variant));
    }
    statement.push(end);
}
