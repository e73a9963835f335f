//! Conditions on reports, and the part of a statement that they become.

use crate::GroupId;
use sqlx::{Postgres, QueryBuilder};
use time::OffsetDateTime;
use unslide_history::HistoryFilter;
use unslide_model::{DebugId, ReportId};

/// Conditions on reports. A field that is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportFilter {
    /// Bundle identifier.
    pub app: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Build.
    pub build: Option<String>,
    /// Arrived at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Arrived before this time.
    pub to: Option<OffsetDateTime>,
    /// Crash type, such as `mach`.
    pub kind: Option<String>,
    /// `complete`, `partial` or `none`.
    pub status: Option<String>,
    /// It is a crash: the app did not survive it.
    pub fatal: Option<bool>,
    /// It is counted: no other report of the same crash is counted instead of it.
    pub counted: Option<bool>,
    /// An image of the app has no symbols, or every one has.
    pub symbols_missing: Option<bool>,
    /// The machine, such as `iPhone16,1`; empty for reports that name none.
    pub model: Option<String>,
    /// The operating system's version, with or without its name.
    pub os_version: Option<String>,
    /// A frame refers to this image.
    pub debug_id: Option<DebugId>,
    /// It is counted for this group, or for one that is merged into it.
    pub group: Option<GroupId>,
    /// Another report of the same crash, with this id, is counted instead of it.
    pub same_crash_as: Option<ReportId>,
    /// The app's own key with this name has this value, alone or among several with commas between them.
    pub key: Option<(String, String)>,
    /// A report of its group has this text in its title, its reason, or a function or file of its crash, in any case.
    /// Of more than 10,000 such groups those that were seen last count.
    pub text: Option<String>,
}

impl ReportFilter {
    /// Returns the conditions that ClickHouse decides. Every report that matches in PostgreSQL matches them.
    pub(super) fn to_history_filter(&self) -> HistoryFilter {
        HistoryFilter {
            app: self.app.clone(),
            version: self.version.clone(),
            build: self.build.clone(),
            kind: self.kind.clone(),
            status: self.status.clone(),
            model: self.model.clone(),
            os_version: self.os_version.clone(),
            fatal: self.fatal,
            symbols_missing: self.symbols_missing,
            counted: self.counted,
            same_crash_as: self.same_crash_as,
            key: self.key.clone(),
            from: self.from,
            to: self.to,
            ..HistoryFilter::default()
        }
    }

    /// Returns true if an index finds the reports that match, or nearly.
    pub(super) fn is_indexed(&self) -> bool {
        self.split().1 == ReportFilter::default()
    }

    /// Splits conditions into those that an index decides, or nearly, and those that are compared report by report.
    pub(super) fn split(&self) -> (ReportFilter, ReportFilter) {
        let mut compared = self.clone();
        let mut indexed = ReportFilter {
            app: compared.app.take(),
            from: compared.from.take(),
            to: compared.to.take(),
            debug_id: compared.debug_id.take(),
            group: compared.group.take(),
            same_crash_as: compared.same_crash_as.take(),
            text: compared.text.take(),
            ..ReportFilter::default()
        };
        // No index begins with the version.
        if indexed.app.is_some() || indexed.group.is_some() || indexed.debug_id.is_some() {
            indexed.version = compared.version.take();
        }
        (indexed, compared)
    }
}

/// The app's own keys of a report.
const KEYS_COLUMN: &str = "(r.context -> 'keys')";

/// Adds the conditions on the report's own columns. `key` is the table with its time.
pub(super) fn push_filter(query: &mut QueryBuilder<Postgres>, key: &str, filter: &ReportFilter) {
    for (column, value) in [
        ("r.app", &filter.app),
        ("r.version", &filter.version),
        ("r.build", &filter.build),
        ("r.type", &filter.kind),
        ("r.status", &filter.status),
        ("coalesce(r.model, '')", &filter.model),
    ] {
        if let Some(value) = value {
            query.push(" AND ").push(column).push(" = ").push_bind(value.replace('\0', ""));
        }
    }
    if let Some(missing) = filter.symbols_missing {
        query.push(" AND r.symbols_missing = ").push_bind(missing);
    }
    if let Some(value) = &filter.os_version {
        let value = value.replace('\0', "");
        query.push(" AND (r.os_version = ").push_bind(value.clone());
        // As the breakdown of a group names it.
        query.push(" OR btrim(concat_ws(' ', r.os_name, r.os_version)) = ").push_bind(value).push(")");
    }
    if let Some(fatal) = filter.fatal {
        query.push(" AND r.fatal = ").push_bind(fatal);
    }
    if let Some(counted) = filter.counted {
        query.push(" AND (r.same_crash_as IS NULL) = ").push_bind(counted);
    }
    if let Some(counted) = filter.same_crash_as {
        query.push(" AND r.same_crash_as = ").push_bind(counted.uuid());
    }
    if let Some((name, value)) = &filter.key {
        let (name, value) = (name.replace('\0', ""), value.replace('\0', ""));
        query.push(" AND (").push(KEYS_COLUMN).push(" ->> ").push_bind(name.clone()).push(" = ");
        query.push_bind(value.clone()).push(" OR ").push_bind(value).push(" = ANY (string_to_array(");
        query.push(KEYS_COLUMN).push(" ->> ").push_bind(name).push(", ', ')))");
    }
    if let Some(from) = filter.from {
        query.push(" AND ").push(key).push(".received_at >= ").push_bind(from);
    }
    if let Some(to) = filter.to {
        query.push(" AND ").push(key).push(".received_at < ").push_bind(to);
    }
}
