//! Conditions on moved reports.

use crate::statement::{Parameter, Statement};
use std::fmt::Write;
use time::OffsetDateTime;
use unslide_model::{DebugId, ReportId};
use uuid::Uuid;

/// Conditions on reports. A field that is `None` does not matter. Every report that fulfils the same conditions in PostgreSQL
/// fulfils them here; some others may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Bundle identifier.
    pub app: Option<String>,
    /// Version of the app.
    pub version: Option<String>,
    /// Build of the app.
    pub build: Option<String>,
    /// Crash type, such as `mach`.
    pub kind: Option<String>,
    /// `complete`, `partial` or `none`.
    pub status: Option<String>,
    /// The machine; empty for reports that name none.
    pub model: Option<String>,
    /// The operating system's version, with or without its name.
    pub os_version: Option<String>,
    /// It is a crash.
    pub fatal: Option<bool>,
    /// An image of the app has no symbols, or every one has.
    pub symbols_missing: Option<bool>,
    /// No other report of the same crash is counted instead of it.
    pub counted: Option<bool>,
    /// Another report of the same crash, with this id, is counted instead of it.
    pub same_crash_as: Option<ReportId>,
    /// Its group is one of these. An empty list matches no report.
    pub groups: Option<Vec<Uuid>>,
    /// It came from this device.
    pub device: Option<Vec<u8>>,
    /// It is of one of these runs of the app. An empty list matches no report.
    pub runs: Option<Vec<Uuid>>,
    /// The process that ended.
    pub process_identity: Option<Uuid>,
    /// The public key that it came with.
    pub sender_key: Option<String>,
    /// A frame of it lies in this image of the system.
    pub system_image: Option<DebugId>,
    /// The app's own key with this name has this value, alone or among several with commas between them.
    pub key: Option<(String, String)>,
    /// Arrived at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Arrived before this time.
    pub to: Option<OffsetDateTime>,
}

impl HistoryFilter {
    /// Adds the conditions to a statement that has a `WHERE` already.
    pub(crate) fn push_to(&self, statement: &mut Statement) {
        for (text, name, value) in [
            (" AND app = {app:String}", "app", &self.app),
            (" AND app_version = {app_version:String}", "app_version", &self.version),
            (" AND build = {build:String}", "build", &self.build),
            (" AND type = {type:String}", "type", &self.kind),
            (" AND status = {status:String}", "status", &self.status),
            (" AND model = {model:String}", "model", &self.model),
            (
                " AND (os_version = {os_version:String} \
                 OR trimBoth(concat(os_name, ' ', os_version)) = {os_version:String})",
                "os_version",
                &self.os_version,
            ),
            (" AND sender_key = {sender_key:String}", "sender_key", &self.sender_key),
        ] {
            if let Some(value) = value {
                statement.push_with(text, name, Parameter::from_text(value));
            }
        }
        for (value, if_true, if_false) in [
            (self.fatal, " AND fatal", " AND NOT fatal"),
            (self.symbols_missing, " AND symbols_missing", " AND NOT symbols_missing"),
            (self.counted, " AND same_crash_as IS NULL", " AND same_crash_as IS NOT NULL"),
        ] {
            if let Some(value) = value {
                statement.push(if value { if_true } else { if_false });
            }
        }
        for (text, name, value) in [
            (
                " AND same_crash_as = {same_crash_as:UUID}",
                "same_crash_as",
                self.same_crash_as.map(ReportId::uuid),
            ),
            (" AND process_identity = {process_identity:UUID}", "process_identity", self.process_identity),
        ] {
            if let Some(value) = value {
                statement.push_with(text, name, Parameter::from_id(value));
            }
        }
        for (column, ids) in [("group_id", &self.groups), ("run_id", &self.runs)] {
            if let Some(ids) = ids {
                statement.push_ids(column, ids);
            }
        }
        if let Some(device) = &self.device {
            statement.push_with(
                " AND device = {device:String}",
                "device",
                Parameter::from_text(&write_bytes(device)),
            );
        }
        if let Some(image) = self.system_image {
            let value = Parameter::from_id(image);
            statement.push_with(" AND has(system_images, {system_image:UUID})", "system_image", value);
        }
        if let Some((name, value)) = &self.key {
            statement.push(
                " AND (keys[{key_name:String}] = {key_value:String} \
                 OR has(splitByString(', ', keys[{key_name:String}]), {key_value:String}))",
            );
            statement.bind("key_name", Parameter::from_text(name));
            statement.bind("key_value", Parameter::from_text(value));
        }
        if let Some(from) = self.from {
            let text = " AND received_at >= {from:DateTime64(6, 'UTC')}";
            statement.push_with(text, "from", Parameter::from_time(from));
        }
        if let Some(to) = self.to {
            let text = " AND received_at < {to:DateTime64(6, 'UTC')}";
            statement.push_with(text, "to", Parameter::from_time(to));
        }
    }
}

/// Writes bytes as PostgreSQL's JSON has them.
fn write_bytes(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("\\x"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_a_part_of_the_text() {
        let hostile = "'; DROP TABLE reports -- {app:String}";
        let filter = HistoryFilter {
            app: Some(hostile.into()),
            version: Some(hostile.into()),
            build: Some(hostile.into()),
            kind: Some(hostile.into()),
            status: Some(hostile.into()),
            model: Some(hostile.into()),
            os_version: Some(hostile.into()),
            sender_key: Some(hostile.into()),
            key: Some((hostile.into(), hostile.into())),
            device: Some(hostile.as_bytes().to_vec()),
            ..HistoryFilter::default()
        };
        let mut statement = Statement::new("SELECT 1 WHERE true");
        filter.push_to(&mut statement);
        assert!(!statement.text().contains("DROP"), "{}", statement.text());
    }

    #[test]
    fn an_empty_list_of_groups_matches_nothing() {
        let filter = HistoryFilter { groups: Some(Vec::new()), ..HistoryFilter::default() };
        let mut statement = Statement::new("SELECT 1 WHERE true");
        filter.push_to(&mut statement);
        assert_eq!(statement.text(), "SELECT 1 WHERE true AND false");
    }
}
