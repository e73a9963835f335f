//! Counts of groups by version and period.

use super::{GroupFilter, ListedGroup};
use crate::number::to_row;
use crate::reports::{device_hash, stored_sketch};
use crate::{GroupId, Result, TenantTx};
use sqlx::{Postgres, QueryBuilder};
use std::collections::BTreeMap;
use time::Date;
use unslide_model::DistinctSketch;

/// The reports that a list of groups counts: all of them if nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountScope {
    /// Those of this version.
    pub version: Option<String>,
    /// Those that arrived on this day (UTC) or later.
    pub from_day: Option<Date>,
    /// Those that arrived on this day (UTC) or earlier.
    pub to_day: Option<Date>,
}

impl CountScope {
    /// Returns true if all reports count.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == CountScope::default()
    }

    /// Returns the version as Postgres accepts it.
    pub(super) fn version(&self) -> Option<String> {
        self.version.as_ref().map(|version| version.replace('\0', ""))
    }

    /// Writes a FROM clause with the rows of the group `g`, and of those merged into it, that count: `b` has
    /// their reports.
    pub(super) fn push_rows(&self, query: &mut QueryBuilder<Postgres>) {
        let table = if self.version.is_some() { "group_breakdown_counts" } else { "group_day_counts" };
        query.push(format!(
            " FROM (SELECT b.reports FROM {table} b WHERE b.tenant = g.tenant AND b.group_id = g.id"
        ));
        self.push_conditions(query);
        query.push(format!(
            " UNION ALL SELECT b.reports FROM groups m JOIN {table} b ON b.tenant = m.tenant AND b.group_id = m.id \
             WHERE m.tenant = g.tenant AND m.merged_into = g.id"
        ));
        self.push_conditions(query);
        query.push(") b");
    }

    fn push_conditions(&self, query: &mut QueryBuilder<Postgres>) {
        if let Some(version) = self.version() {
            query.push(" AND b.dimension = 'version' AND b.value = ").push_bind(version);
        }
        for (comparison, day) in [(" AND b.day >= ", self.from_day), (" AND b.day <= ", self.to_day)] {
            if let Some(day) = day {
                query.push(comparison).push_bind(day);
            }
        }
    }

    /// Adds conditions that exclude the groups `g` without any report in the period.
    pub(super) fn push_period(&self, query: &mut QueryBuilder<Postgres>) {
        if let Some(from) = self.from_day {
            query.push(" AND g.last_seen >= ").push_bind(from.midnight().assume_utc());
        }
        if let Some(after) = self.to_day.and_then(Date::next_day) {
            query.push(" AND g.first_seen < ").push_bind(after.midnight().assume_utc());
        }
    }
}

/// Returns the groups, merged or not, with reports of a version; `None` if more than `most` groups have some.
pub(super) async fn groups_of_version(
    tx: &mut TenantTx,
    version: &str,
    most: i64,
) -> Result<Option<Vec<GroupId>>> {
    let (connection, tenant, _) = tx.parts();
    let groups = sqlx::query_scalar!(
        r#"SELECT group_id AS "group_id!: GroupId" FROM (
               (SELECT DISTINCT group_id FROM group_breakdowns
                WHERE tenant = $1 AND dimension = 'version' AND value = $2 ORDER BY group_id LIMIT $3)
               UNION (SELECT DISTINCT group_id FROM group_deltas
                      WHERE tenant = $1 AND version = $2 ORDER BY group_id LIMIT $3)) g
           ORDER BY 1 LIMIT $3"#,
        tenant,
        version,
        most + 1
    )
    .fetch_all(connection)
    .await?;
    Ok((to_row(groups.len() as u64) <= most).then_some(groups))
}

/// Reports and devices of a group.
#[derive(Default)]
struct ScopeCounts {
    reports: i64,
    devices: DistinctSketch,
}

/// Replaces the counts of groups by those of the filter's version and period, if it has one.
pub async fn replace_counts(
    tx: &mut TenantTx,
    filter: &GroupFilter,
    groups: &mut [ListedGroup],
) -> Result<()> {
    let scope = &filter.scope;
    if scope.is_everything() || groups.is_empty() {
        return Ok(());
    }
    let ids: Vec<GroupId> = groups.iter().map(|group| group.id).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT g.target AS "target!: GroupId", d.reports AS "reports!", d.devices, d.device
           FROM (SELECT id AS target, id FROM unnest($2::uuid[]) AS one (id)
                 UNION ALL
                 SELECT merged_into, id FROM groups WHERE tenant = $1 AND merged_into = ANY ($2)) g
           CROSS JOIN LATERAL (
               SELECT reports, devices, device FROM group_day_counts
               WHERE $3::text IS NULL AND tenant = $1 AND group_id = g.id
                 AND ($4::date IS NULL OR day >= $4) AND ($5::date IS NULL OR day <= $5)
               UNION ALL
               SELECT reports, devices, device FROM group_breakdown_counts
               WHERE tenant = $1 AND group_id = g.id AND dimension = 'version' AND value = $3
                 AND ($4::date IS NULL OR day >= $4) AND ($5::date IS NULL OR day <= $5)) d"#,
        tenant,
        &ids as &[GroupId],
        scope.version(),
        scope.from_day,
        scope.to_day
    )
    .fetch_all(connection)
    .await?;
    let mut counts: BTreeMap<GroupId, ScopeCounts> = BTreeMap::new();
    for row in rows {
        let count = counts.entry(row.target).or_default();
        count.reports += row.reports;
        if let Some(devices) = row.devices {
            count.devices.merge(&stored_sketch(&devices)?);
        }
        if let Some(device) = row.device {
            count.devices.add_hash(device_hash(&device));
        }
    }
    for group in groups {
        let count = counts.remove(&group.id).unwrap_or_default();
        let devices = i64::try_from(count.devices.count()).unwrap_or(i64::MAX);
        group.all_reports = Some(group.all_reports.unwrap_or(group.reports));
        group.reports = count.reports;
        // A sketch is not exact, and keeps devices after their reports have left.
        group.affected_devices = devices.min(group.affected_devices).min(count.reports);
    }
    Ok(())
}
