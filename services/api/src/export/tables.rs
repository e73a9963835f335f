//! The lists that can be exported, and the columns of their CSV: name and place in the entry's JSON (RFC 6901). Programs
//! of clients read them: columns are added at the end, and none is taken away.

/// A list as a table.
#[derive(Debug)]
pub struct ExportTable {
    /// The path of its operation.
    pub path: &'static str,
    /// Whether the operation answers a page at a time.
    pub has_pages: bool,
    /// Whether each entry has an `id`.
    pub has_ids: bool,
    /// What a file of it is called.
    pub name: &'static str,
    /// The CSV's columns.
    pub columns: &'static [(&'static str, &'static str)],
}

/// The table of the operation at a path, or of the console's page of the same name.
pub fn table(path: &str) -> Option<&'static ExportTable> {
    let page = path.strip_prefix("/console/export/");
    TABLES.iter().find(|table| page.map_or(table.path == path, |page| table.name == page))
}

pub(super) const TABLES: [ExportTable; 6] = [
    ExportTable {
        path: "/v1/reports",
        has_pages: true,
        has_ids: true,
        name: "reports",
        columns: &[
            ("id", "/id"),
            ("variant", "/variant"),
            ("revision", "/revision"),
            ("received_at", "/received_at"),
            ("app", "/app"),
            ("version", "/version"),
            ("build", "/build"),
            ("type", "/type"),
            ("status", "/status"),
            ("device_time", "/device_time"),
            ("os_name", "/os_name"),
            ("os_version", "/os_version"),
            ("model", "/model"),
            ("process", "/process"),
            ("reason", "/reason"),
            ("exception", "/summary/exception"),
            ("signal", "/summary/signal"),
            ("top_function", "/summary/top_frames/0/function"),
            ("frames", "/frames/total"),
            ("frames_symbolicated", "/frames/symbolicated"),
            ("symbols_missing", "/symbols_missing"),
            ("group", "/group"),
            ("same_crash_as", "/same_crash_as"),
        ],
    },
    ExportTable {
        path: "/v1/groups",
        has_pages: true,
        has_ids: true,
        name: "groups",
        columns: &[
            ("id", "/id"),
            ("app", "/app"),
            ("kind", "/kind"),
            ("title", "/title"),
            ("culprit", "/culprit"),
            ("status", "/status"),
            ("reports", "/reports"),
            ("affected_devices", "/affected_devices"),
            ("first_seen", "/first_seen"),
            ("first_version", "/first_version"),
            ("last_seen", "/last_seen"),
            ("last_version", "/last_version"),
            ("resolved_in", "/resolved_in"),
            ("regressed_in", "/regressed_in"),
            ("assignee", "/assignee"),
            ("provisional", "/provisional"),
            ("fingerprint", "/fingerprint"),
        ],
    },
    ExportTable {
        path: "/v1/apps",
        has_pages: true,
        has_ids: false,
        name: "apps",
        columns: &[
            ("app", "/app"),
            ("versions", "/versions"),
            ("reports", "/reports"),
            ("first_day", "/first_day"),
            ("last_day", "/last_day"),
        ],
    },
    ExportTable {
        path: "/v1/apps/{app}/versions",
        has_pages: true,
        has_ids: false,
        name: "versions",
        columns: &[
            ("version", "/version"),
            ("reports", "/reports"),
            ("devices", "/devices"),
            ("frames", "/frames"),
            ("share_symbolicated", "/share_symbolicated"),
            ("complete", "/complete"),
            ("partial", "/partial"),
            ("none", "/none"),
            ("first_day", "/first_day"),
            ("last_day", "/last_day"),
        ],
    },
    ExportTable {
        path: "/v1/apps/{app}/health",
        has_pages: false,
        has_ids: false,
        name: "health",
        columns: &[
            ("day", "/day"),
            ("sessions", "/sessions"),
            ("crashed_sessions", "/crashed_sessions"),
            ("crash_free_sessions", "/crash_free_sessions"),
            ("out_of_memory_rate", "/out_of_memory_rate"),
            ("background_out_of_memory_rate", "/background_out_of_memory_rate"),
            ("installations", "/installations"),
            ("crashed_installations", "/crashed_installations"),
            ("crash_free_installations", "/crash_free_installations"),
        ],
    },
    ExportTable {
        path: "/v1/missing-symbols",
        has_pages: true,
        has_ids: false,
        name: "missing-symbols",
        columns: &[
            ("debug_id", "/debug_id"),
            ("name", "/name"),
            ("arch", "/arch"),
            ("system", "/system"),
            ("reports", "/reports"),
            ("apps", "/apps"),
            ("versions", "/versions"),
            ("first_seen", "/first_seen"),
            ("last_seen", "/last_seen"),
        ],
    },
];
