//! The lists of operations as tables: names and columns, for features that return a list in another form.

use crate::limits::capacity::Capacity;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use utoipa::openapi::OpenApi;

/// Entries of each page that a list is read in for another form.
pub const PAGE_ENTRIES: u32 = 50;

/// The answer to a request.
pub type ListAnswer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Other forms of all lists. Each function and text concerns the tables of [`Lists`].
#[derive(Clone, Copy, Debug)]
pub struct ListForms {
    /// Answers a request to an operation or a page. [`Next`] is the operation; each call of it has the time
    /// of a request.
    pub answer: fn(Arc<Lists>, Request, Next) -> ListAnswer,
    /// Adds the forms to the operations of these lists in the OpenAPI document.
    pub document: fn(&mut OpenApi, &[&'static ListTable]),
    /// The folder of the console with the lists that have a page, such as `/console/files`: each below the name of its
    /// table, with the filters of its page.
    pub folder: &'static str,
    /// The text of the link from a page to its list in the folder.
    pub link: &'static str,
}

/// The lists of operations, also those of features, with the forms that features add.
pub struct Lists {
    pub capacity: Arc<Capacity>,
    pub tables: Vec<&'static ListTable>,
    pub forms: Vec<ListForms>,
}

/// Lets a feature answer a request.
pub async fn delegate_to_feature(
    State((lists, forms)): State<(Arc<Lists>, ListForms)>,
    request: Request,
    next: Next,
) -> Response {
    (forms.answer)(lists, request, next).await
}

/// A list as a table.
#[derive(Debug)]
pub struct ListTable {
    /// The path of its operation.
    pub path: &'static str,
    /// The name of the list, for files and pages of it.
    pub name: &'static str,
    /// True if the operation answers a page at a time.
    pub has_pages: bool,
    /// The columns, with spaces between: `name=/place` with the place in the entry's JSON (RFC 6901), or `name` for
    /// `name=/name`. Programs of clients read them: columns are added at the end, and none is removed.
    pub columns: &'static str,
}

impl ListTable {
    /// Returns true if each entry has an `id`.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.parse_columns().any(|(name, _)| name == "id")
    }

    /// Returns the name and the place of each column.
    pub fn parse_columns(&self) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
        self.columns.split_whitespace().map(|column| match column.split_once('=') {
            Some((name, place)) => (name, place.into()),
            None => (column, format!("/{column}").into()),
        })
    }
}

/// Returns every table: those of this crate and those of features.
pub fn all_tables(
    of_features: impl IntoIterator<Item = &'static [ListTable]>,
) -> impl Iterator<Item = &'static ListTable> {
    LIST_TABLES.iter().chain(of_features.into_iter().flatten())
}

/// The columns of dead letters, of a tenant and of all.
const LETTER_COLUMNS: &str = "id tenant arrived_at reason detail attempt origin_topic=/origin/topic \
    origin_partition=/origin/partition origin_offset=/origin/offset source_index source_count value_bytes \
    replays replayed_at replayed_by replayed_as stage topic status replay_detail";

static LIST_TABLES: [ListTable; 10] = [
    ListTable {
        path: "/v1/reports",
        name: "reports",
        has_pages: true,
        columns: "id variant revision received_at app version build type status device_time os_name \
                  os_version model process reason exception=/summary/exception signal=/summary/signal \
                  top_function=/summary/top_frames/0/function frames=/frames/total \
                  frames_symbolicated=/frames/symbolicated symbols_missing group same_crash_as told_by weight
                  body_dropped like_report",
    },
    ListTable {
        path: "/v1/groups",
        name: "groups",
        has_pages: true,
        columns: "id app kind title culprit status reports all_reports affected_devices first_seen first_version \
                  last_seen last_version resolved_in regressed_in assignee provisional fingerprint short_id resolved_after \
                  ignored_until ignored_until_reports ignored_until_devices ticket_url ignored_after",
    },
    ListTable {
        path: "/v1/apps",
        name: "apps",
        has_pages: true,
        columns: "app versions reports crashes first_day last_day",
    },
    ListTable {
        path: "/v1/apps/{app}/versions",
        name: "versions",
        has_pages: true,
        columns: "version reports crashes devices frames share_symbolicated complete partial none first_day \
                  last_day",
    },
    ListTable {
        path: "/v1/missing-symbols",
        name: "missing-symbols",
        has_pages: true,
        columns: "debug_id name arch system reports apps versions first_seen last_seen",
    },
    ListTable {
        path: "/v1/symbols",
        name: "symbols",
        has_pages: true,
        columns: "debug_id name arch kind status active size symcache_size sha256 created_at reason",
    },
    ListTable { path: "/v1/dead-letters", name: "dead-letters", has_pages: true, columns: LETTER_COLUMNS },
    ListTable {
        path: "/v1/operator/dead-letters",
        name: "operator-dead-letters",
        has_pages: true,
        columns: LETTER_COLUMNS,
    },
    ListTable {
        path: "/v1/keys",
        name: "keys",
        has_pages: true,
        columns: "id name prefix scopes app made_by created_at expires_at revoked_at last_used_at",
    },
    ListTable {
        path: "/v1/audit-log",
        name: "audit-log",
        has_pages: true,
        columns: "id at actor name action subject detail position",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_table_has_a_name_of_its_own_and_names_each_column_once() {
        let mut names = BTreeSet::new();
        for table in &LIST_TABLES {
            assert!(names.insert(table.name), "{}", table.name);
            let columns: BTreeSet<_> = table.parse_columns().map(|(name, _)| name).collect();
            assert_eq!(columns.len(), table.parse_columns().count(), "{}", table.path);
        }
    }
}
