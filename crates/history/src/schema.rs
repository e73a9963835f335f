//! The tables in ClickHouse, as statements. SchemaNames are those of the settings, which are checked.

use crate::settings::is_name;
use crate::statement::Statement;
use crate::{HistoryError, HistoryResult, HistorySettings};

/// The table that is read and inserted into.
pub(crate) const TABLE: &str = "reports";
/// The table of one shard, below [`TABLE`], if there is a cluster.
pub(crate) const SHARD_TABLE: &str = "reports_shard";

/// The insert of rows, each a line of JSON.
pub(crate) const INSERT: &str =
    "INSERT INTO reports (tenant, received_at, report_id, variant, version, row) FORMAT JSONCompactEachRow";

/// The policy with which the user of the service reads all rows.
pub(crate) const SERVICE_POLICY: &str = "unslide_service";
/// The policy with which all other users read none, whatever the server does with users without a policy.
pub(crate) const OTHERS_POLICY: &str = "unslide_others";

/// Columns that are stored and those that are made of the document, which only filters use.
///
/// The document is what PostgreSQL's `to_jsonb` writes. Missing texts are empty, and a missing UUID is null or zero.
const TABLE_COLUMNS: &str = "\
    tenant LowCardinality(String), \
    received_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)), \
    report_id UUID, \
    variant UInt32 CODEC(ZSTD(1)), \
    version UInt32 CODEC(ZSTD(1)), \
    row String CODEC(ZSTD(3)), \
    app LowCardinality(String) MATERIALIZED JSONExtractString(row, 'app'), \
    app_version LowCardinality(String) MATERIALIZED JSONExtractString(row, 'version'), \
    build LowCardinality(String) MATERIALIZED JSONExtractString(row, 'build'), \
    type LowCardinality(String) MATERIALIZED JSONExtractString(row, 'type'), \
    status LowCardinality(String) MATERIALIZED JSONExtractString(row, 'status'), \
    model LowCardinality(String) MATERIALIZED JSONExtractString(row, 'model'), \
    os_name LowCardinality(String) MATERIALIZED JSONExtractString(row, 'os_name'), \
    os_version LowCardinality(String) MATERIALIZED JSONExtractString(row, 'os_version'), \
    sender_key LowCardinality(String) MATERIALIZED JSONExtractString(row, 'sender_key'), \
    fatal Bool MATERIALIZED JSONExtractBool(row, 'fatal'), \
    symbols_missing Bool MATERIALIZED JSONExtractBool(row, 'symbols_missing'), \
    group_id UUID MATERIALIZED JSONExtract(row, 'group_id', 'UUID') CODEC(ZSTD(1)), \
    same_crash_as Nullable(UUID) MATERIALIZED JSONExtract(row, 'same_crash_as', 'Nullable(UUID)') CODEC(ZSTD(1)), \
    run_id UUID MATERIALIZED JSONExtract(row, 'run_id', 'UUID') CODEC(ZSTD(1)), \
    process_identity UUID MATERIALIZED JSONExtract(row, 'process_identity', 'UUID') CODEC(ZSTD(1)), \
    device String MATERIALIZED JSONExtractString(row, 'device') CODEC(ZSTD(1)), \
    system_images Array(UUID) MATERIALIZED JSONExtract(row, 'system_images', 'Array(UUID)') CODEC(ZSTD(1)), \
    keys Map(String, String) MATERIALIZED JSONExtract(row, 'context', 'keys', 'Map(String, String)') CODEC(ZSTD(3)), \
    INDEX group_index group_id TYPE bloom_filter GRANULARITY 4, \
    INDEX device_index device TYPE bloom_filter GRANULARITY 4, \
    INDEX run_index run_id TYPE bloom_filter GRANULARITY 4, \
    INDEX process_index process_identity TYPE bloom_filter GRANULARITY 4, \
    INDEX same_crash_index same_crash_as TYPE bloom_filter GRANULARITY 4, \
    INDEX image_index system_images TYPE bloom_filter GRANULARITY 4";

/// Months and not days: a page reads the newest rows of each partition, and years have few months. The order is that of
/// lists, so that a page without an index ends at its last row.
const ORDER: &str = "PARTITION BY toYYYYMM(received_at) PRIMARY KEY (tenant, received_at) ORDER BY (tenant, received_at, report_id, variant)";

/// A row that is inserted is deleted from PostgreSQL: it has to be on the disk. An insert that is sent twice is stored once
/// also without a replicated log.
const TABLE_SETTINGS: &str =
    "SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, non_replicated_deduplication_window = 1000";

/// SchemaNames of the schema, checked so that they may be part of a statement.
#[derive(Clone, Debug)]
pub(crate) struct SchemaNames {
    pub(crate) database: String,
    pub(crate) cluster: Option<String>,
}

impl SchemaNames {
    pub(crate) fn from_settings(settings: &HistorySettings) -> HistoryResult<SchemaNames> {
        let HistorySettings { database, cluster, .. } = settings;
        for (field, name) in [("database", Some(database)), ("cluster", cluster.as_ref())] {
            if name.is_some_and(|name| !is_name(name)) {
                return Err(HistoryError::Settings { field, reason: "is not a name".into() });
            }
        }
        Ok(SchemaNames { database: database.clone(), cluster: cluster.clone() })
    }

    /// Returns the clause that has a statement run on each server of the cluster.
    pub(crate) fn on_cluster(&self) -> String {
        self.cluster.as_ref().map(|cluster| format!(" ON CLUSTER `{cluster}`")).unwrap_or_default()
    }

    /// Returns the table that has the parts.
    pub(crate) fn parts_table(&self) -> &'static str {
        if self.cluster.is_some() { SHARD_TABLE } else { TABLE }
    }

    /// Returns the tables that a user could read.
    pub(crate) fn tables(&self) -> Vec<&'static str> {
        if self.cluster.is_some() { vec![SHARD_TABLE, TABLE] } else { vec![TABLE] }
    }

    pub(crate) fn create_database(&self) -> Statement {
        Statement::with_names(format!(
            "CREATE DATABASE IF NOT EXISTS `{}`{}",
            self.database,
            self.on_cluster()
        ))
    }

    /// Returns the statements that create the tables. The sorting key is longer than the primary key: rows of the same microsecond
    /// are few, and ids in memory are dear.
    pub(crate) fn create_tables(&self) -> Vec<Statement> {
        let SchemaNames { database, .. } = self;
        let on_cluster = self.on_cluster();
        let Some(cluster) = &self.cluster else {
            let engine = format!("ENGINE = ReplacingMergeTree(version) {ORDER} {TABLE_SETTINGS}");
            let text = format!("CREATE TABLE IF NOT EXISTS `{database}`.{TABLE} ({TABLE_COLUMNS}) {engine}");
            return vec![Statement::with_names(text)];
        };
        // A path without the table's UUID: a server that joins later gets the same one.
        let engine = format!(
            "ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{{database}}/{{table}}/{{shard}}', '{{replica}}', version) \
             {ORDER} {TABLE_SETTINGS}"
        );
        let shard = format!(
            "CREATE TABLE IF NOT EXISTS `{database}`.{SHARD_TABLE}{on_cluster} ({TABLE_COLUMNS}) {engine}"
        );
        // All versions of a report lie in one shard, and the reports of a large tenant in all of them.
        let table = format!(
            "CREATE TABLE IF NOT EXISTS `{database}`.{TABLE}{on_cluster} AS `{database}`.{SHARD_TABLE} \
             ENGINE = Distributed(`{cluster}`, `{database}`, {SHARD_TABLE}, sipHash64(tenant, report_id))"
        );
        vec![Statement::with_names(shard), Statement::with_names(table)]
    }

    /// Returns the statements that create the row policies, for the user that runs them.
    pub(crate) fn create_policies(&self) -> Vec<Statement> {
        let SchemaNames { database, .. } = self;
        let on_cluster = self.on_cluster();
        let policy = |table: &str, name: &str, filter: u8, to: &str| {
            Statement::with_names(format!(
                "CREATE ROW POLICY OR REPLACE {name}{on_cluster} ON `{database}`.{table} FOR SELECT USING {filter} TO {to}"
            ))
        };
        let of_table = |table: &&'static str| {
            [
                policy(table, SERVICE_POLICY, 1, "CURRENT_USER"),
                policy(table, OTHERS_POLICY, 0, "ALL EXCEPT CURRENT_USER"),
            ]
        };
        self.tables().iter().flat_map(of_table).collect()
    }

    /// Begins a deletion from all shards.
    pub(crate) fn begin_deletion(&self) -> Statement {
        let (database, table) = (&self.database, self.parts_table());
        Statement::with_names(format!("DELETE FROM `{database}`.{table}{} WHERE ", self.on_cluster()))
    }

    /// Returns the statement that counts the parts with deleted rows of which the bytes are on a disk.
    pub(crate) fn count_deleted(&self) -> Statement {
        let (database, table) = (&self.database, self.parts_table());
        let parts = match &self.cluster {
            None => "system.parts".to_owned(),
            Some(cluster) => format!("clusterAllReplicas(`{cluster}`, system.parts)"),
        };
        // A replica that is away is looked at when it is back.
        Statement::with_names(format!(
            "SELECT count() FROM {parts} WHERE database = '{database}' AND table = '{table}' AND active \
             AND has_lightweight_delete SETTINGS skip_unavailable_shards = 1"
        ))
    }

    /// Returns the statement that takes the bytes of deleted rows from the disk.
    pub(crate) fn apply_deletions(&self) -> Statement {
        let (database, table) = (&self.database, self.parts_table());
        Statement::with_names(format!(
            "ALTER TABLE `{database}`.{table}{} APPLY DELETED MASK",
            self.on_cluster()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cluster: Option<&str>) -> SchemaNames {
        let settings = HistorySettings { cluster: cluster.map(str::to_owned), ..HistorySettings::default() };
        SchemaNames::from_settings(&settings).unwrap()
    }

    #[test]
    fn a_cluster_has_replicated_shards_below_one_table() {
        let texts: Vec<String> =
            names(Some("all")).create_tables().iter().map(|one| one.text().to_owned()).collect();
        assert!(texts[0].contains("`unslide`.reports_shard ON CLUSTER `all`"), "{}", texts[0]);
        assert!(texts[0].contains("/clickhouse/tables/{database}/{table}/{shard}', '{replica}', version)"));
        assert!(
            texts[1].contains("Distributed(`all`, `unslide`, reports_shard, sipHash64(tenant, report_id))")
        );
        assert_eq!(names(Some("all")).create_policies().len(), 4);
        assert!(names(Some("all")).begin_deletion().text().contains("reports_shard ON CLUSTER `all`"));
        assert!(
            names(Some("all")).count_deleted().text().contains("clusterAllReplicas(`all`, system.parts)")
        );
        let one = names(None).create_tables();
        assert!(one.len() == 1 && !one[0].text().contains("CLUSTER"));
    }

    #[test]
    fn a_name_cannot_end_its_quotes() {
        let settings = HistorySettings { database: "a` x".into(), ..HistorySettings::default() };
        assert!(matches!(
            SchemaNames::from_settings(&settings),
            Err(HistoryError::Settings { field: "database", .. })
        ));
    }
}
