//! The columns of a group's state, and how a change turns them into others.

use super::GroupAction;
use super::status::{GroupStatus, GroupUpdate, IgnoreLimits};
use crate::{GroupId, Result, TenantTx, json};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};
use unslide_model::compare_versions;

/// Times in the history, in UTC.
const MINUTE_FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
/// Rows of an app's newest days that its versions are taken from.
const VERSION_ROWS_LIMIT: i64 = 5_000;

/// A group as far as its state goes.
pub(super) struct StateRow {
    pub(super) id: GroupId,
    pub(super) app: String,
    status: GroupStatus,
    resolved_in: Option<String>,
    resolved_after: Option<String>,
    resolved_at: Option<OffsetDateTime>,
    regressed_in: Option<String>,
    regressed_at: Option<OffsetDateTime>,
    ignored_until: Option<OffsetDateTime>,
    ignored_until_reports: Option<i64>,
    ignored_until_devices: Option<i64>,
    ignored_after: Option<String>,
    state_before: Option<Value>,
    assignee: Option<String>,
    ticket_url: Option<String>,
    last_version: String,
    reports: i64,
    devices: i64,
    pub(super) merged_into: Option<GroupId>,
}

/// An entry of a group's history that a change adds.
pub(super) struct HistoryEntry {
    pub(super) action: GroupAction,
    pub(super) text: Option<String>,
}

impl StateRow {
    /// Applies a change, and returns the entries of the history for what it changed. `newest` is the newest
    /// version of the app.
    pub(super) fn apply_update(
        &mut self,
        update: &GroupUpdate,
        newest: Option<&str>,
        now: OffsetDateTime,
    ) -> Vec<HistoryEntry> {
        let before = self.to_json_before();
        let entries = if update.undo {
            self.take_back().into_iter().collect()
        } else {
            self.apply_fields(update, newest, now)
        };
        if !entries.is_empty() {
            self.state_before = Some(before);
        }
        entries
    }

    /// Returns the state for a later [`StateRow::take_back`].
    fn to_json_before(&self) -> Value {
        let mut state = self.to_json();
        state["state_before"] = Value::Null;
        state
    }

    fn apply_fields(
        &mut self,
        update: &GroupUpdate,
        newest: Option<&str>,
        now: OffsetDateTime,
    ) -> Vec<HistoryEntry> {
        let status = match update.status {
            Some(GroupStatus::Resolved) => self.resolve(update, newest, now),
            Some(GroupStatus::Ignored) => self.ignore(update.ignore, newest),
            Some(GroupStatus::Open | GroupStatus::Regressed) if self.status != GroupStatus::Open => {
                self.clear_status(GroupStatus::Open);
                Some(HistoryEntry { action: GroupAction::Reopened, text: None })
            }
            _ => None,
        };
        let assigned = replace_text(&mut self.assignee, update.assignee.as_deref())
            .then(|| HistoryEntry { action: GroupAction::Assigned, text: self.assignee.clone() });
        let linked = replace_text(&mut self.ticket_url, update.ticket_url.as_deref())
            .then(|| HistoryEntry { action: GroupAction::Linked, text: self.ticket_url.clone() });
        [status, assigned, linked].into_iter().flatten().collect()
    }

    /// Gives the group the state before its newest change, if that is known.
    fn take_back(&mut self) -> Option<HistoryEntry> {
        let before = self.state_before.take()?;
        let text = |name: &str| before[name].as_str().map(str::to_owned);
        let time =
            |name: &str| before[name].as_str().and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
        self.status = before["status"].as_str().and_then(GroupStatus::parse)?;
        (self.resolved_in, self.resolved_after) = (text("resolved_in"), text("resolved_after"));
        (self.resolved_at, self.regressed_at) = (time("resolved_at"), time("regressed_at"));
        self.regressed_in = text("regressed_in");
        self.ignored_until = time("ignored_until");
        self.ignored_until_reports = before["ignored_until_reports"].as_i64();
        self.ignored_until_devices = before["ignored_until_devices"].as_i64();
        self.ignored_after = text("ignored_after");
        (self.assignee, self.ticket_url) = (text("assignee"), text("ticket_url"));
        Some(HistoryEntry { action: GroupAction::Undone, text: None })
    }

    fn resolve(
        &mut self,
        update: &GroupUpdate,
        newest: Option<&str>,
        now: OffsetDateTime,
    ) -> Option<HistoryEntry> {
        let after = newest.filter(|_| update.resolved_in_next).map(str::to_owned);
        let is_same = self.status == GroupStatus::Resolved
            && self.resolved_in == update.resolved_in
            && self.resolved_after == after;
        if is_same {
            return None;
        }
        self.clear_status(GroupStatus::Resolved);
        let text = update
            .resolved_in
            .clone()
            .or_else(|| after.as_ref().map(|version| format!("the version after {version}")));
        (self.resolved_in, self.resolved_after) = (update.resolved_in.clone(), after);
        self.resolved_at = Some(now);
        Some(HistoryEntry { action: GroupAction::Resolved, text })
    }

    fn ignore(&mut self, limits: IgnoreLimits, newest: Option<&str>) -> Option<HistoryEntry> {
        let after = newest.filter(|_| limits.until_next_version).map(str::to_owned);
        let has_limits = self.ignored_until.is_some()
            || self.ignored_until_reports.is_some()
            || self.ignored_until_devices.is_some()
            || self.ignored_after.is_some();
        if self.status == GroupStatus::Ignored && !has_limits && limits == IgnoreLimits::default() {
            return None;
        }
        self.clear_status(GroupStatus::Ignored);
        self.ignored_until = limits.until;
        self.ignored_until_reports = limits.more_reports.map(|more| self.reports + i64::from(more));
        self.ignored_until_devices = limits.more_devices.map(|more| self.devices + i64::from(more));
        let text = describe_limits(limits, after.as_deref());
        self.ignored_after = after;
        Some(HistoryEntry { action: GroupAction::Ignored, text })
    }

    /// Sets a status without anything that belongs to another one. The version that brought it back last stays.
    fn clear_status(&mut self, status: GroupStatus) {
        self.status = status;
        (self.resolved_in, self.resolved_after, self.resolved_at) = (None, None, None);
        (self.ignored_until, self.ignored_until_reports, self.ignored_until_devices) = (None, None, None);
        self.ignored_after = None;
    }

    /// Returns the row for [`write_states`].
    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "status": self.status.as_str(),
            "resolved_in": self.resolved_in,
            "resolved_after": self.resolved_after,
            "resolved_at": self.resolved_at.map(json::format_time),
            "regressed_in": self.regressed_in,
            "regressed_at": self.regressed_at.map(json::format_time),
            "ignored_until": self.ignored_until.map(json::format_time),
            "ignored_until_reports": self.ignored_until_reports,
            "ignored_until_devices": self.ignored_until_devices,
            "ignored_after": self.ignored_after,
            "state_before": self.state_before,
            "assignee": self.assignee,
            "ticket_url": self.ticket_url,
        })
    }
}

/// Sets a text that is empty for none, and returns true if it changed. `None` changes nothing.
fn replace_text(text: &mut Option<String>, new: Option<&str>) -> bool {
    let Some(new) = new.filter(|new| *new != text.as_deref().unwrap_or_default()) else { return false };
    *text = Some(new.to_owned()).filter(|new| !new.is_empty());
    true
}

/// Describes what ends an ignored state; `None` if nothing does.
fn describe_limits(limits: IgnoreLimits, after: Option<&str>) -> Option<String> {
    let more = |number: Option<u32>, one: &str, many: &str| {
        number.map(|number| format!("{number} more {}", if number == 1 { one } else { many }))
    };
    let parts = [
        limits.until.and_then(|until| until.to_offset(UtcOffset::UTC).format(MINUTE_FORMAT).ok()),
        more(limits.more_reports, "report", "reports"),
        more(limits.more_devices, "device", "devices"),
        after.map(|version| format!("a version after {version}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" or "))
}

/// Locks groups, in the order of their ids.
pub(super) async fn lock_states(
    tx: &mut TenantTx,
    ids: &[GroupId],
    app: Option<&str>,
) -> Result<Vec<StateRow>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        StateRow,
        r#"SELECT id AS "id: GroupId", app, status AS "status: GroupStatus", resolved_in, resolved_after, resolved_at, regressed_in,
                  regressed_at, ignored_until, ignored_until_reports, ignored_until_devices, ignored_after, state_before,
                  assignee, ticket_url, last_version, reports, devices, merged_into AS "merged_into: GroupId"
           FROM groups WHERE tenant = $1 AND id = ANY ($2) AND ($3::text IS NULL OR app = $3) ORDER BY id FOR UPDATE"#,
        tenant,
        ids as &[GroupId],
        app
    )
    .fetch_all(connection)
    .await?)
}

/// Writes the states of groups that are locked.
pub(super) async fn write_states(tx: &mut TenantTx, rows: Vec<Value>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE groups g
         SET status = n.status, resolved_in = n.resolved_in, resolved_after = n.resolved_after, resolved_at = n.resolved_at,
             regressed_in = n.regressed_in, regressed_at = n.regressed_at, ignored_until = n.ignored_until,
             ignored_until_reports = n.ignored_until_reports, ignored_until_devices = n.ignored_until_devices,
             ignored_after = n.ignored_after, state_before = n.state_before, assignee = n.assignee, ticket_url = n.ticket_url
         FROM jsonb_populate_recordset(NULL::groups, $2) AS n WHERE g.tenant = $1 AND g.id = n.id",
        tenant,
        Value::from(rows)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the newest version of each of these groups' apps. An app without any version is left out.
pub(super) async fn newest_versions<'r>(
    tx: &mut TenantTx,
    rows: impl Iterator<Item = &'r StateRow>,
) -> Result<BTreeMap<String, String>> {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows {
        known.entry(row.app.clone()).or_default().insert(row.last_version.clone());
    }
    let apps: Vec<String> = known.keys().cloned().collect();
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query!(
        r#"SELECT DISTINCT n.app AS "app!", d.version AS "version!"
           FROM unnest($2::text[]) AS n (app)
           CROSS JOIN LATERAL (SELECT version FROM app_days WHERE tenant = $1 AND app = n.app
                               ORDER BY day DESC, version DESC LIMIT $3) d"#,
        tenant,
        &apps,
        VERSION_ROWS_LIMIT
    )
    .fetch_all(connection)
    .await?;
    for row in found {
        known.entry(row.app).or_default().insert(row.version);
    }
    let newest = known.into_iter().filter_map(|(app, versions)| {
        let named = versions.into_iter().filter(|version| !version.is_empty());
        Some((app, named.max_by(|one, other| compare_versions(one, other))?))
    });
    Ok(newest.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn limits_of_an_ignored_state_are_described() {
        let until = Some(datetime!(2026-11-30 09:00 UTC));
        let all =
            IgnoreLimits { until, more_reports: Some(1), more_devices: Some(20), until_next_version: false };
        let text = describe_limits(all, Some("2.0"));
        assert_eq!(
            text.as_deref(),
            Some("2026-11-30 09:00 UTC or 1 more report or 20 more devices or a version after 2.0")
        );
        assert_eq!(describe_limits(IgnoreLimits::default(), None), None);
    }
}
