//! The lists that can be exported.

use crate::feature::ApiFeature;
use std::borrow::Cow;

/// A list as a table.
#[derive(Debug)]
pub struct ExportTable {
    /// The path of its operation.
    pub path: &'static str,
    /// What a file of it is called.
    pub name: &'static str,
    /// Whether the operation answers a page at a time.
    pub has_pages: bool,
    /// The columns of its CSV, with spaces between: `name=/place` with the place in the entry's JSON (RFC 6901), or `name`
    /// for `name=/name`. Programs of clients read them: columns are added at the end, and none is removed.
    pub columns: &'static str,
}

impl ExportTable {
    /// Whether each entry has an `id`.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.columns().any(|(name, _)| name == "id")
    }

    /// The CSV's columns: name and place.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
        self.columns.split_whitespace().map(|column| match column.split_once('=') {
            Some((name, place)) => (name, place.into()),
            None => (column, format!("/{column}").into()),
        })
    }
}

/// Every table: those of this crate and those of features.
pub fn tables(features: &[ApiFeature]) -> impl Iterator<Item = &'static ExportTable> {
    TABLES.iter().chain(features.iter().flat_map(|feature| feature.exports))
}

/// The table of the operation at a path, or of the console's page of the same name.
pub fn table(features: &[ApiFeature], path: &str) -> Option<&'static ExportTable> {
    let page = path.strip_prefix("/console/export/");
    tables(features).find(|table| page.map_or(table.path == path, |page| table.name == page))
}

/// The columns of dead letters, of a tenant and of all.
const LETTER_COLUMNS: &str = "id tenant arrived_at reason detail attempt origin_topic=/origin/topic \
    origin_partition=/origin/partition origin_offset=/origin/offset source_index source_count value_bytes \
    replays replayed_at replayed_by replayed_as";

static TABLES: [ExportTable; 12] = [
    ExportTable {
        path: "/v1/reports",
        name: "reports",
        has_pages: true,
        columns: "id variant revision received_at app version build type status device_time os_name \
                  os_version model process reason exception=/summary/exception signal=/summary/signal \
                  top_function=/summary/top_frames/0/function frames=/frames/total \
                  frames_symbolicated=/frames/symbolicated symbols_missing group same_crash_as weight",
    },
    ExportTable {
        path: "/v1/groups",
        name: "groups",
        has_pages: true,
        columns: "id app kind title culprit status reports all_reports affected_devices first_seen first_version \
                  last_seen last_version resolved_in regressed_in assignee provisional fingerprint",
    },
    ExportTable {
        path: "/v1/apps",
        name: "apps",
        has_pages: true,
        columns: "app versions reports crashes first_day last_day",
    },
    ExportTable {
        path: "/v1/apps/{app}/versions",
        name: "versions",
        has_pages: true,
        columns: "version reports crashes devices frames share_symbolicated complete partial none first_day \
                  last_day",
    },
    ExportTable {
        path: "/v1/apps/{app}/health",
        name: "health",
        has_pages: false,
        columns: "day sessions crashed_sessions crash_free_sessions out_of_memory_rate \
                  background_out_of_memory_rate installations crashed_installations \
                  crash_free_installations users crashed_users crash_free_users",
    },
    ExportTable {
        path: "/v1/missing-symbols",
        name: "missing-symbols",
        has_pages: true,
        columns: "debug_id name arch system reports apps versions first_seen last_seen",
    },
    ExportTable {
        path: "/v1/symbols",
        name: "symbols",
        has_pages: true,
        columns: "debug_id name arch kind status active size symcache_size sha256 created_at reason",
    },
    ExportTable {
        path: "/v1/captures",
        name: "captures",
        has_pages: true,
        columns: "id app version session_id kind layout state reason detail size received_at analysed_at",
    },
    ExportTable { path: "/v1/dead-letters", name: "dead-letters", has_pages: true, columns: LETTER_COLUMNS },
    ExportTable {
        path: "/v1/operator/dead-letters",
        name: "operator-dead-letters",
        has_pages: true,
        columns: LETTER_COLUMNS,
    },
    ExportTable {
        path: "/v1/keys",
        name: "keys",
        has_pages: true,
        columns: "id name prefix scopes app made_by created_at expires_at revoked_at last_used_at",
    },
    ExportTable {
        path: "/v1/audit-log",
        name: "audit-log",
        has_pages: true,
        columns: "id at actor name action subject detail",
    },
];
