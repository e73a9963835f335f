//! The rows of `groups` and `group_days`.

use super::counts::CountDeltas;
use super::moved::{self, MovedEnd};
use super::sketches::DeviceSketches;
use super::{Delta, EmptyGroups, GroupChange};
use crate::groups::{refresh_totals, retire_empty};
use crate::reports::rows::truncate_name;
use crate::{GroupId, Result, TenantTx, Uuid, json};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, Duration, OffsetDateTime};
use unslide_model::DistinctSketch;

/// The time after a lost first report, or before a lost last one, in which the next one is looked for first.
const NEAR_END: Duration = Duration::days(8);

/// Returns those of these groups that are merged, and their targets. The caller holds
/// [`crate::groups::lock_out_merges`], so that they do not change until the transaction ends.
pub(super) async fn find_merge_targets(
    tx: &mut TenantTx,
    ids: &[GroupId],
) -> Result<BTreeMap<GroupId, GroupId>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT id AS "id: GroupId", merged_into AS "target!: GroupId" FROM groups
           WHERE tenant = $1 AND id = ANY ($2) AND merged_into IS NOT NULL"#,
        tenant,
        ids as &[GroupId]
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.target)).collect())
}

/// Returns the row of a group as JSON, without its tenant.
fn encode_row(id: &GroupId, delta: &Delta<'_>) -> Value {
    let (grouping, total, own) = (delta.row.grouping, delta.total.as_ref(), delta.own.as_ref());
    json!({
        "id": id,
        "app": delta.row.app,
        "fingerprint": grouping.map_or_else(Uuid::nil, |g| Uuid::from_bytes(g.fingerprint)),
        "kind": grouping.map_or_else(String::new, |g| truncate_name(&g.kind)),
        "title": delta.title.as_deref().unwrap_or_default(),
        "culprit": delta.culprit.as_deref().unwrap_or_default(),
        "provisional": grouping.is_some_and(|g| g.provisional),
        "reports": total.map_or(0, |span| span.reports),
        "first_seen": total.map(|span| json::format_time(span.first.0)),
        "first_version": total.map(|span| &span.first.1),
        "last_seen": total.map(|span| json::format_time(span.last.0)),
        "last_version": total.map(|span| &span.last.1),
        "own_reports": own.map_or(0, |span| span.reports),
        "own_extrapolated": own.map_or(0, |span| span.extrapolated),
        "own_first_seen": own.map(|span| json::format_time(span.first.0)),
        "own_first_version": own.map(|span| &span.first.1),
        "own_last_seen": own.map(|span| json::format_time(span.last.0)),
        "own_last_version": own.map(|span| &span.last.1),
    })
}

/// Adds to what groups count. Returns those that were not there.
pub(super) async fn write_groups(
    tx: &mut TenantTx,
    groups: &BTreeMap<GroupId, Delta<'_>>,
) -> Result<BTreeSet<GroupId>> {
    let (connection, tenant, _) = tx.parts();
    // A report that leaves has no title: that of the others stays. A group that lost its title has its kind
    // instead. The first and last report of a group without reports do not count.
    let rows = sqlx::query!(
        r#"INSERT INTO groups AS g (tenant, id, app, fingerprint, kind, title, culprit, provisional,
               reports, first_seen, first_version, last_seen, last_version,
               own_reports, own_first_seen, own_first_version, own_last_seen, own_last_version, own_extrapolated)
           SELECT $1, n.id, n.app, n.fingerprint, n.kind, n.title, n.culprit, n.provisional,
                  n.reports, n.first_seen, n.first_version, n.last_seen, n.last_version,
                  n.own_reports, n.own_first_seen, n.own_first_version, n.own_last_seen, n.own_last_version,
                  n.own_extrapolated
           FROM jsonb_populate_recordset(NULL::groups, $2) AS n
           ORDER BY n.id
           ON CONFLICT (tenant, id) DO UPDATE
           SET reports = g.reports + EXCLUDED.reports,
               own_reports = g.own_reports + EXCLUDED.own_reports,
               own_extrapolated = g.own_extrapolated + EXCLUDED.own_extrapolated,
               title = CASE WHEN EXCLUDED.kind = '' THEN g.title
                            ELSE least(nullif(g.title, g.kind) COLLATE "C", EXCLUDED.title COLLATE "C") END,
               culprit = CASE WHEN EXCLUDED.kind = '' THEN g.culprit
                              ELSE greatest(g.culprit COLLATE "C", EXCLUDED.culprit COLLATE "C") END,
               (first_seen, first_version) = (SELECT f.seen, f.version
                   FROM (VALUES (g.first_seen, g.first_version, g.reports > 0),
                                (EXCLUDED.first_seen, EXCLUDED.first_version, true)) AS f (seen, version, counts)
                   WHERE f.counts ORDER BY f.seen, f.version COLLATE "C" LIMIT 1),
               (last_seen, last_version) = (SELECT l.seen, l.version
                   FROM (VALUES (g.last_seen, g.last_version, g.reports > 0),
                                (EXCLUDED.last_seen, EXCLUDED.last_version, true)) AS l (seen, version, counts)
                   WHERE l.counts ORDER BY l.seen DESC, l.version COLLATE "C" DESC LIMIT 1),
               (own_first_seen, own_first_version) = (SELECT f.seen, f.version
                   FROM (VALUES (g.own_first_seen, g.own_first_version),
                                (EXCLUDED.own_first_seen, EXCLUDED.own_first_version)) AS f (seen, version)
                   WHERE f.seen IS NOT NULL ORDER BY f.seen, f.version COLLATE "C" LIMIT 1),
               (own_last_seen, own_last_version) = (SELECT l.seen, l.version
                   FROM (VALUES (g.own_last_seen, g.own_last_version),
                                (EXCLUDED.own_last_seen, EXCLUDED.own_last_version)) AS l (seen, version)
                   WHERE l.seen IS NOT NULL ORDER BY l.seen DESC, l.version COLLATE "C" DESC LIMIT 1)
           RETURNING g.id AS "id: GroupId", (g.xmax = '0'::xid) AS "created!""#,
        tenant,
        groups.iter().map(|(id, delta)| encode_row(id, delta)).collect::<Value>()
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().filter(|row| row.created).map(|row| row.id).collect())
}

/// Finds the first and the last report of groups again if the leaving report was the first or the last of
/// them: whether it was ever counted there must not show. `empty` says what happens to groups that lost their
/// last report.
pub(super) async fn look_again(
    tx: &mut TenantTx,
    leaving: &[&GroupChange<'_>],
    targets: &BTreeMap<GroupId, GroupId>,
    empty: EmptyGroups,
) -> Result<()> {
    let ids: Vec<GroupId> = leaving.iter().map(|one| one.row.id).collect();
    let times: Vec<OffsetDateTime> = leaving.iter().map(|one| one.received_at).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE groups SET own_first_seen = NULL, own_first_version = NULL, own_last_seen = NULL, own_last_version = NULL
         WHERE tenant = $1 AND id = ANY ($2) AND own_reports <= 0",
        tenant,
        &ids as &[GroupId]
    )
    .execute(&mut *connection)
    .await?;
    // If ClickHouse does not answer, the known values stay, as if retention had removed all others.
    let lost = read_lost_ends(tx, &ids, &times).await?;
    let ends = lost.iter().flat_map(|one| [(one.id, true, one.was_first), (one.id, false, one.was_last)]);
    let ends = ends.filter(|(_, _, is_lost)| *is_lost).map(|(group, is_first, _)| (group, is_first));
    if let Some(moved) = Box::pin(moved::find_ends(tx, ends.collect())).await? {
        let lost = find_ends_again(tx, lost).await?;
        write_moved_ends(tx, &moved, &lost).await?;
    }
    let targets: Vec<GroupId> = ids.iter().filter_map(|id| targets.get(id).copied()).collect();
    let touched = [ids, targets].concat();
    refresh_totals(tx, &touched).await?;
    match empty {
        EmptyGroups::Retire => retire_empty(tx, &touched).await,
        EmptyGroups::Keep => Ok(()),
    }
}

/// The first and the last report of a group that lost one of them.
struct LostEnds {
    id: GroupId,
    was_first: bool,
    was_last: bool,
    first_seen: OffsetDateTime,
    last_seen: OffsetDateTime,
}

/// Returns those of these groups that lost their first or last report: the one that arrived at the time beside the group.
async fn read_lost_ends(
    tx: &mut TenantTx,
    ids: &[GroupId],
    times: &[OffsetDateTime],
) -> Result<Vec<LostEnds>> {
    let (connection, tenant, _) = tx.parts();
    let lost = sqlx::query_as!(
        LostEnds,
        r#"SELECT o.id AS "id: GroupId", bool_or(n.seen = o.own_first_seen) AS "was_first!",
                  bool_or(n.seen = o.own_last_seen) AS "was_last!", o.own_first_seen AS "first_seen!", o.own_last_seen AS "last_seen!"
           FROM unnest($2::uuid[], $3::timestamptz[]) AS n (id, seen)
           JOIN groups o ON o.tenant = $1 AND o.id = n.id AND n.seen IN (o.own_first_seen, o.own_last_seen)
           GROUP BY o.tenant, o.id"#,
        tenant,
        ids as &[GroupId],
        times
    );
    Ok(lost.fetch_all(connection).await?)
}

/// Finds the first and the last report of groups that lost them again. If retention has removed all others, the known values stay. The
/// first report stays if only the last leaves: retention may have removed the first. Returns the groups of which none was found.
async fn find_ends_again(tx: &mut TenantTx, mut lost: Vec<LostEnds>) -> Result<Vec<LostEnds>> {
    // The next report is near in most groups: only few days are planned and locked for it.
    for near in [Some(NEAR_END), None] {
        let (Some(first), Some(last)) =
            (lost.iter().map(|one| one.first_seen).min(), lost.iter().map(|one| one.last_seen).max())
        else {
            return Ok(lost);
        };
        let first_until = near.map_or(last, |near| first.saturating_add(near).min(last));
        let last_from = near.map_or(first, |near| last.saturating_sub(near).max(first));
        let (connection, tenant, _) = tx.parts();
        let found = sqlx::query!(
            r#"UPDATE groups g
               SET own_first_seen = coalesce(f.received_at, g.own_first_seen),
                   own_first_version = coalesce(f.version, g.own_first_version),
                   own_last_seen = coalesce(l.received_at, g.own_last_seen),
                   own_last_version = coalesce(l.version, g.own_last_version)
               FROM unnest($2::uuid[], $3::boolean[], $4::boolean[]) AS c (id, was_first, was_last)
               LEFT JOIN LATERAL (SELECT r.received_at, r.version FROM reports r
                                  WHERE c.was_first AND r.tenant = $1 AND r.group_id = c.id
                                    AND r.received_at >= $5 AND r.received_at <= $6
                                  ORDER BY r.received_at, r.version COLLATE "C" LIMIT 1) f ON true
               LEFT JOIN LATERAL (SELECT r.received_at, r.version FROM reports r
                                  WHERE c.was_last AND r.tenant = $1 AND r.group_id = c.id
                                    AND r.received_at >= $7 AND r.received_at <= $8
                                  ORDER BY r.received_at DESC, r.version COLLATE "C" DESC LIMIT 1) l ON true
               WHERE g.tenant = $1 AND g.id = c.id
               RETURNING g.id AS "id: GroupId", f.received_at IS NOT NULL AS "has_first!", l.received_at IS NOT NULL AS "has_last!""#,
            tenant,
            &lost.iter().map(|one| one.id).collect::<Vec<_>>() as &[GroupId],
            &lost.iter().map(|one| one.was_first).collect::<Vec<_>>(),
            &lost.iter().map(|one| one.was_last).collect::<Vec<_>>(),
            first,
            first_until,
            last_from,
            last
        )
        .fetch_all(connection)
        .await?;
        for one in &mut lost {
            let Some(row) = found.iter().find(|row| row.id == one.id) else { continue };
            one.was_first &= !row.has_first;
            one.was_last &= !row.has_last;
        }
        lost.retain(|one| one.was_first || one.was_last);
    }
    Ok(lost)
}

/// Writes first and last reports in ClickHouse into the rows of groups that lost theirs, unless one in the database is farther out.
/// `lost` are the groups of which the database has none.
async fn write_moved_ends(tx: &mut TenantTx, moved: &[MovedEnd], lost: &[LostEnds]) -> Result<()> {
    for is_first in [true, false] {
        let ends: Vec<&MovedEnd> = moved.iter().filter(|end| end.is_first == is_first).collect();
        if ends.is_empty() {
            continue;
        }
        let is_alone = |end: &&MovedEnd| {
            lost.iter().any(|one| one.id == end.group && if is_first { one.was_first } else { one.was_last })
        };
        let groups: Vec<GroupId> = ends.iter().map(|end| end.group).collect();
        let times: Vec<OffsetDateTime> = ends.iter().map(|end| end.received_at).collect();
        let versions: Vec<String> = ends.iter().map(|end| end.version.clone()).collect();
        let alone: Vec<bool> = ends.iter().map(is_alone).collect();
        let (connection, tenant, _) = tx.parts();
        sqlx::query!(
            "UPDATE groups g
             SET own_first_seen = CASE WHEN $6 THEN n.seen ELSE g.own_first_seen END,
                 own_first_version = CASE WHEN $6 THEN n.version ELSE g.own_first_version END,
                 own_last_seen = CASE WHEN $6 THEN g.own_last_seen ELSE n.seen END,
                 own_last_version = CASE WHEN $6 THEN g.own_last_version ELSE n.version END
             FROM unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::boolean[]) AS n (id, seen, version, alone)
             WHERE g.tenant = $1 AND g.id = n.id
               AND (n.alone OR CASE WHEN $6 THEN n.seen < g.own_first_seen ELSE n.seen > g.own_last_seen END)",
            tenant,
            &groups as &[GroupId],
            &times,
            &versions,
            &alone,
            is_first
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Adds to what groups count by day. The groups' rows are locked.
pub(super) async fn write_days(
    tx: &mut TenantTx,
    counts: &CountDeltas,
    sketches: &DeviceSketches,
) -> Result<()> {
    let mut days: BTreeMap<(GroupId, Date), i64> = BTreeMap::new();
    for (key, reports) in counts {
        *days.entry((key.group, key.day())).or_default() += reports;
    }
    days.retain(|key, reports| *reports != 0 || sketches.days.contains_key(key));
    let groups: Vec<GroupId> = days.keys().map(|key| key.0).collect();
    let dates: Vec<Date> = days.keys().map(|key| key.1).collect();
    let reports: Vec<i64> = days.values().copied().collect();
    let devices: Vec<Option<Vec<u8>>> =
        days.keys().map(|key| sketches.days.get(key).map(DistinctSketch::to_bytes)).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"INSERT INTO group_days AS d (tenant, group_id, day, reports, devices)
           SELECT $1, n.group_id, n.day, n.reports, n.devices
           FROM unnest($2::uuid[], $3::date[], $4::bigint[], $5::bytea[]) AS n (group_id, day, reports, devices)
           ORDER BY n.group_id, n.day
           ON CONFLICT (tenant, group_id, day) DO UPDATE
           SET reports = d.reports + EXCLUDED.reports, devices = coalesce(EXCLUDED.devices, d.devices)"#,
        tenant,
        &groups as &[GroupId],
        &dates,
        &reports,
        &devices as &[Option<Vec<u8>>]
    )
    .execute(&mut *connection)
    .await?;
    if reports.iter().any(|reports| *reports <= 0) {
        sqlx::query!(
            "DELETE FROM group_days WHERE tenant = $1 AND group_id = ANY ($2) AND day = ANY ($3) AND reports <= 0",
            tenant,
            &groups as &[GroupId],
            &dates
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}
