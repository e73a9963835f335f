//! Resolved and ignored groups that come back.

use crate::events::{StoreEvent, StoredReports};
use crate::groups::{
    Contradiction, Deed, GroupAction, GroupEvent, GroupStatus, IGNORE_TIME_OVER, REPORTS_ACTOR,
    record_actions,
};
use crate::{GroupId, Result, TenantTx, hooks};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::is_newer;

/// A report that came for the first time.
pub(super) struct NewReport {
    /// The group of its own fingerprint.
    pub(super) group: GroupId,
    pub(super) version: String,
    pub(super) received_at: OffsetDateTime,
}

/// A group that is resolved, or ignored until something.
struct SettledRow {
    id: GroupId,
    app: String,
    title: String,
    status: GroupStatus,
    resolved_in: Option<String>,
    resolved_after: Option<String>,
    resolved_at: Option<OffsetDateTime>,
    ignored_until: Option<OffsetDateTime>,
    ignored_until_reports: Option<i64>,
    ignored_until_devices: Option<i64>,
    ignored_after: Option<String>,
    reports: i64,
    devices: i64,
}

impl SettledRow {
    /// Returns true for a report that should not have come: of a version after the one that the bug is
    /// resolved in; if no version was named, of any version once it was resolved.
    fn is_contradicted_by(&self, report: &NewReport) -> bool {
        match self.resolved_in.as_ref().or(self.resolved_after.as_ref()) {
            Some(version) => is_newer(&report.version, version),
            None => self.resolved_at.is_some_and(|at| report.received_at > at),
        }
    }

    /// Returns why an ignored group needs attention again; `None` if it does not.
    fn describe_ignore_end(&self, report: &NewReport, now: OffsetDateTime) -> Option<String> {
        let has_reached = |count: i64, limit: Option<i64>| limit.is_some_and(|limit| count >= limit);
        if has_reached(self.reports, self.ignored_until_reports) {
            Some(format!("{} reports", self.reports))
        } else if has_reached(self.devices, self.ignored_until_devices) {
            Some(format!("{} devices", self.devices))
        } else if self.ignored_after.as_ref().is_some_and(|version| is_newer(&report.version, version)) {
            Some(format!("version {}", report.version))
        } else {
            self.ignored_until.filter(|until| *until <= now).map(|_| IGNORE_TIME_OVER.to_owned())
        }
    }

    /// Returns what a report says of the group, if it says that the group needs attention again.
    fn find_return<'r>(&'r self, report: &'r NewReport, now: OffsetDateTime) -> Option<Return<'r>> {
        let reason = match self.status {
            GroupStatus::Ignored => Some(self.describe_ignore_end(report, now)?),
            _ => None,
        };
        (reason.is_some() || self.is_contradicted_by(report)).then_some(Return { row: self, report, reason })
    }
}

/// A group that comes back, with the report that brings it.
struct Return<'r> {
    row: &'r SettledRow,
    report: &'r NewReport,
    /// Why it is not ignored any more; `None` if it was resolved.
    reason: Option<String>,
}

impl Return<'_> {
    fn status(&self) -> GroupStatus {
        if self.reason.is_some() { GroupStatus::Open } else { GroupStatus::Regressed }
    }

    /// Returns what a feature may judge itself: that the group is resolved, and this report came.
    fn to_contradiction(&self) -> Option<Contradiction> {
        self.reason.is_none().then(|| Contradiction {
            group: self.row.id,
            app: self.row.app.clone(),
            version: self.report.version.clone(),
            received_at: self.report.received_at,
        })
    }

    fn to_deed(&self) -> Deed<'_> {
        let (action, text) = match &self.reason {
            Some(reason) => (GroupAction::IgnoreEnded, reason.as_str()),
            None => (GroupAction::Regressed, self.report.version.as_str()),
        };
        Deed { group: self.row.id, action, text: Some(text), other: None }
    }

    fn to_event(&self) -> GroupEvent {
        let (group, app, title) = (self.row.id, self.row.app.clone(), self.row.title.clone());
        let (version, received_at) = (self.report.version.clone(), self.report.received_at);
        match self.reason.clone() {
            Some(reason) => GroupEvent::Reopened { group, app, title, version, reason, received_at },
            None => GroupEvent::Regressed { group, app, title, version, received_at },
        }
    }
}

/// Opens resolved groups that new reports contradict, and ignored groups that have what they are ignored until,
/// and records it. The groups' rows must be locked, and count these reports.
pub(super) async fn reopen_settled(
    tx: &mut TenantTx,
    mut reports: Vec<NewReport>,
    targets: &BTreeMap<GroupId, GroupId>,
) -> Result<Vec<GroupEvent>> {
    if reports.is_empty() {
        return Ok(Vec::new());
    }
    for report in &mut reports {
        report.group = targets.get(&report.group).copied().unwrap_or(report.group);
    }
    let settled = find_settled(tx, reports.iter().map(|report| report.group).collect()).await?;
    let now = tx.now();
    let returns: Vec<Return<'_>> = settled
        .iter()
        .filter_map(|row| {
            let of_group = reports.iter().filter(|report| report.group == row.id);
            of_group
                .filter_map(|report| row.find_return(report, now))
                .min_by_key(|found| (found.report.received_at, &found.report.version))
        })
        .collect();
    let contradictions: Vec<Contradiction> = returns.iter().filter_map(Return::to_contradiction).collect();
    let mut kept = BTreeSet::new();
    if !contradictions.is_empty() {
        hooks::send_event(StoreEvent::GroupsContradicted(tx, &contradictions, &mut kept)).await?;
    }
    let is_kept = |found: &Return<'_>| found.reason.is_none() && kept.contains(&found.row.id);
    record_returns(tx, returns.into_iter().filter(|found| !is_kept(found)).collect()).await
}

/// Opens a group of which a feature has judged that it came back, with the report that contradicted that it is resolved. The transaction
/// does nothing after it. Returns false if the group is not resolved any more, and then does nothing.
///
/// # Errors
/// Returns an error if the database or a feature fails.
pub async fn return_group(tx: &mut TenantTx, found: &Contradiction) -> Result<bool> {
    let rows = lock_settled(tx, found.group).await?;
    // It comes back now. Of an event that is as old as the report, nobody would be told.
    let report = NewReport { group: found.group, version: found.version.clone(), received_at: tx.now() };
    let is_resolved = |row: &&SettledRow| row.status == GroupStatus::Resolved;
    let returns = rows.iter().filter(is_resolved).map(|row| Return { row, report: &report, reason: None });
    let events = record_returns(tx, returns.collect()).await?;
    if events.is_empty() {
        return Ok(false);
    }
    hooks::send_event(StoreEvent::GroupsChanged(tx, &events)).await?;
    let stored = StoredReports { reports: Vec::new(), groups: events };
    hooks::send_event(StoreEvent::ReportsStored(tx, &stored)).await?;
    Ok(true)
}

async fn record_returns(tx: &mut TenantTx, returns: Vec<Return<'_>>) -> Result<Vec<GroupEvent>> {
    if returns.is_empty() {
        return Ok(Vec::new());
    }
    mark_returned(tx, &returns).await?;
    let deeds: Vec<Deed<'_>> = returns.iter().map(Return::to_deed).collect();
    record_actions(tx, REPORTS_ACTOR, &deeds).await?;
    Ok(returns.iter().map(Return::to_event).collect())
}

/// Locks a group that is not merged into another one, and returns its row if it is resolved or ignored until something.
async fn lock_settled(tx: &mut TenantTx, group: GroupId) -> Result<Vec<SettledRow>> {
    let (connection, tenant, _) = tx.parts();
    let locked = sqlx::query_scalar!(
        r#"SELECT id AS "id: GroupId" FROM groups WHERE tenant = $1 AND id = $2 AND merged_into IS NULL FOR UPDATE"#,
        tenant,
        group as GroupId
    );
    match locked.fetch_optional(connection).await? {
        Some(group) => find_settled(tx, vec![group]).await,
        None => Ok(Vec::new()),
    }
}

async fn find_settled(tx: &mut TenantTx, groups: Vec<GroupId>) -> Result<Vec<SettledRow>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        SettledRow,
        r#"SELECT id AS "id: GroupId", app, title, status AS "status: GroupStatus", resolved_in, resolved_after, resolved_at,
                  ignored_until, ignored_until_reports, ignored_until_devices, ignored_after, reports, devices
           FROM groups
           WHERE tenant = $1 AND id = ANY ($2)
             AND (status = 'resolved' OR status = 'ignored' AND (ignored_until IS NOT NULL
                  OR ignored_until_reports IS NOT NULL OR ignored_until_devices IS NOT NULL
                  OR ignored_after IS NOT NULL))
           ORDER BY id"#,
        tenant,
        &groups as &[GroupId]
    )
    .fetch_all(connection)
    .await?)
}

async fn mark_returned(tx: &mut TenantTx, returns: &[Return<'_>]) -> Result<()> {
    let ids: Vec<GroupId> = returns.iter().map(|found| found.row.id).collect();
    let statuses: Vec<String> = returns.iter().map(|found| found.status().as_str().to_owned()).collect();
    let versions: Vec<String> = returns.iter().map(|found| found.report.version.clone()).collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE groups g
         SET status = n.status,
             regressed_in = CASE n.status WHEN 'regressed' THEN n.version ELSE g.regressed_in END,
             regressed_at = CASE n.status WHEN 'regressed' THEN $5::timestamptz ELSE g.regressed_at END,
             ignored_until = NULL, ignored_until_reports = NULL, ignored_until_devices = NULL, ignored_after = NULL,
             state_before = NULL
         FROM unnest($2::uuid[], $3::text[], $4::text[]) AS n (id, status, version)
         WHERE g.tenant = $1 AND g.id = n.id",
        tenant,
        &ids as &[GroupId],
        &statuses,
        &versions,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
