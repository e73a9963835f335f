//! Resolved groups that come back.

use crate::groups::versions::is_newer;
use crate::groups::{Deed, GroupAction, GroupEvent, REPORTS_ACTOR, record_actions};
use crate::{Result, TenantTx, Uuid};
use std::collections::BTreeMap;
use time::OffsetDateTime;

/// A report that came for the first time.
pub(super) struct NewReport {
    /// The group of its own fingerprint.
    pub(super) group: Uuid,
    pub(super) version: String,
    pub(super) received_at: OffsetDateTime,
}

/// A group that is resolved, and in what.
struct ResolvedRow {
    id: Uuid,
    app: String,
    title: String,
    resolved_in: Option<String>,
    resolved_at: Option<OffsetDateTime>,
}

impl ResolvedRow {
    /// Returns true for a report that should not have come: of a version after the one that the bug is
    /// resolved in; if no version was named, of any version once it was resolved.
    fn is_contradicted_by(&self, report: &NewReport) -> bool {
        match &self.resolved_in {
            Some(version) => is_newer(&report.version, version),
            None => self.resolved_at.is_some_and(|at| report.received_at > at),
        }
    }
}

/// Reopens resolved groups that new reports are counted for, and records it. The groups' rows must be locked.
pub(super) async fn reopen_regressed(
    tx: &mut TenantTx,
    mut reports: Vec<NewReport>,
    targets: &BTreeMap<Uuid, Uuid>,
) -> Result<Vec<GroupEvent>> {
    if reports.is_empty() {
        return Ok(Vec::new());
    }
    for report in &mut reports {
        report.group = targets.get(&report.group).copied().unwrap_or(report.group);
    }
    let resolved = find_resolved(tx, reports.iter().map(|report| report.group).collect()).await?;
    let regressed: Vec<(&ResolvedRow, &NewReport)> = resolved
        .iter()
        .filter_map(|row| {
            let of_group = reports.iter().filter(|report| report.group == row.id);
            let first = of_group
                .filter(|report| row.is_contradicted_by(report))
                .min_by_key(|report| (report.received_at, &report.version));
            Some((row, first?))
        })
        .collect();
    if regressed.is_empty() {
        return Ok(Vec::new());
    }
    mark_regressed(tx, &regressed).await?;
    let deeds: Vec<Deed<'_>> = regressed
        .iter()
        .map(|(row, report)| {
            let text = Some(report.version.as_str());
            Deed { group: row.id, action: GroupAction::Regressed, text, other: None }
        })
        .collect();
    record_actions(tx, REPORTS_ACTOR, &deeds).await?;
    let events = regressed.into_iter().map(|(row, report)| GroupEvent::Regressed {
        group: row.id,
        app: row.app.clone(),
        title: row.title.clone(),
        version: report.version.clone(),
        received_at: report.received_at,
    });
    Ok(events.collect())
}

async fn find_resolved(tx: &mut TenantTx, groups: Vec<Uuid>) -> Result<Vec<ResolvedRow>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        ResolvedRow,
        "SELECT id, app, title, resolved_in, resolved_at FROM groups
         WHERE tenant = $1 AND id = ANY ($2) AND status = 'resolved' ORDER BY id",
        tenant,
        &groups
    )
    .fetch_all(connection)
    .await?)
}

async fn mark_regressed(tx: &mut TenantTx, regressed: &[(&ResolvedRow, &NewReport)]) -> Result<()> {
    let ids: Vec<Uuid> = regressed.iter().map(|(row, _)| row.id).collect();
    let versions: Vec<String> = regressed.iter().map(|(_, report)| report.version.clone()).collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE groups g SET status = 'regressed', regressed_in = n.version, regressed_at = $4
         FROM unnest($2::uuid[], $3::text[]) AS n (id, version) WHERE g.tenant = $1 AND g.id = n.id",
        tenant,
        &ids,
        &versions,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
