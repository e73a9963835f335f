//! The rows of `groups` and `group_days`.

use super::{Delta, EmptyGroups, GroupChange, Span};
use crate::groups::{forget_empty, refresh_totals};
use crate::reports::rows::name;
use crate::{Result, TenantTx, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, OffsetDateTime};

/// The groups among these that are merged, and into which. That this stays so until the transaction ends is what
/// [`crate::groups::lock_out_merges`] is for.
pub(super) async fn targets(tx: &mut TenantTx, ids: &[Uuid]) -> Result<BTreeMap<Uuid, Uuid>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT id, merged_into AS "target!" FROM groups
           WHERE tenant = $1 AND id = ANY ($2) AND merged_into IS NOT NULL"#,
        tenant,
        ids
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.target)).collect())
}

/// The first and the last report of groups, as columns.
#[derive(Default)]
struct SpanColumns {
    reports: Vec<i64>,
    extrapolated: Vec<i64>,
    first: Vec<Option<OffsetDateTime>>,
    first_versions: Vec<Option<String>>,
    last: Vec<Option<OffsetDateTime>>,
    last_versions: Vec<Option<String>>,
}

impl SpanColumns {
    fn of<'s>(spans: impl Iterator<Item = Option<&'s Span>>) -> SpanColumns {
        let mut columns = SpanColumns::default();
        for span in spans {
            columns.reports.push(span.map_or(0, |span| span.reports));
            columns.extrapolated.push(span.map_or(0, |span| span.extrapolated));
            columns.first.push(span.map(|span| span.first.0));
            columns.first_versions.push(span.map(|span| span.first.1.clone()));
            columns.last.push(span.map(|span| span.last.0));
            columns.last_versions.push(span.map(|span| span.last.1.clone()));
        }
        columns
    }
}

/// Adds to what groups count. Returns those that were not there.
pub(super) async fn groups(tx: &mut TenantTx, groups: &BTreeMap<Uuid, Delta<'_>>) -> Result<BTreeSet<Uuid>> {
    let ids: Vec<Uuid> = groups.keys().copied().collect();
    let apps: Vec<String> = groups.values().map(|delta| delta.row.app.clone()).collect();
    let fingerprints: Vec<Uuid> = groups
        .values()
        .map(|delta| delta.row.grouping.map_or_else(Uuid::nil, |g| Uuid::from_bytes(g.fingerprint)))
        .collect();
    let kinds: Vec<String> =
        groups.values().map(|delta| delta.row.grouping.map_or_else(String::new, |g| name(&g.kind))).collect();
    let provisional: Vec<bool> =
        groups.values().map(|delta| delta.row.grouping.is_some_and(|g| g.provisional)).collect();
    let titles: Vec<Option<String>> = groups.values().map(|delta| delta.title.clone()).collect();
    let culprits: Vec<Option<String>> = groups.values().map(|delta| delta.culprit.clone()).collect();
    let total = SpanColumns::of(groups.values().map(|delta| delta.total.as_ref()));
    let own = SpanColumns::of(groups.values().map(|delta| delta.own.as_ref()));
    let (connection, tenant, _) = tx.parts();
    // A report that leaves has no title: that of the others stays. A group that lost its title has its kind instead. What a group without reports was first and last
    // seen with does not count.
    let rows = sqlx::query!(
        r#"INSERT INTO groups AS g (tenant, id, app, fingerprint, kind, title, culprit, provisional,
               reports, first_seen, first_version, last_seen, last_version,
               own_reports, own_first_seen, own_first_version, own_last_seen, own_last_version, own_extrapolated)
           SELECT $1, n.id, n.app, n.fingerprint, n.kind, coalesce(n.title, ''), coalesce(n.culprit, ''), n.provisional,
                  t.reports, t.first_seen, t.first_version, t.last_seen, t.last_version,
                  o.reports, o.first_seen, o.first_version, o.last_seen, o.last_version, o.extrapolated
           FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::boolean[])
                WITH ORDINALITY AS n (id, app, fingerprint, kind, title, culprit, provisional, at)
           JOIN unnest($9::bigint[], $10::timestamptz[], $11::text[], $12::timestamptz[], $13::text[])
                WITH ORDINALITY AS t (reports, first_seen, first_version, last_seen, last_version, at) ON t.at = n.at
           JOIN unnest($14::bigint[], $15::timestamptz[], $16::text[], $17::timestamptz[], $18::text[], $19::bigint[])
                WITH ORDINALITY AS o (reports, first_seen, first_version, last_seen, last_version, extrapolated, at)
                ON o.at = n.at
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
           RETURNING g.id, (g.xmax = '0'::xid) AS "created!""#,
        tenant,
        &ids,
        &apps,
        &fingerprints,
        &kinds,
        &titles as &[Option<String>],
        &culprits as &[Option<String>],
        &provisional,
        &total.reports,
        &total.first as &[Option<OffsetDateTime>],
        &total.first_versions as &[Option<String>],
        &total.last as &[Option<OffsetDateTime>],
        &total.last_versions as &[Option<String>],
        &own.reports,
        &own.first as &[Option<OffsetDateTime>],
        &own.first_versions as &[Option<String>],
        &own.last as &[Option<OffsetDateTime>],
        &own.last_versions as &[Option<String>],
        &own.extrapolated
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().filter(|row| row.created).map(|row| row.id).collect())
}

/// Looks for the first and the last report of groups that the leaving one was the first or the last of: whether it
/// was ever counted there must not show. What becomes of groups whose last report has left is said by `empty`.
pub(super) async fn look_again(
    tx: &mut TenantTx,
    leaving: &[&GroupChange<'_>],
    targets: &BTreeMap<Uuid, Uuid>,
    empty: EmptyGroups,
) -> Result<()> {
    let ids: Vec<Uuid> = leaving.iter().map(|one| one.row.id).collect();
    let times: Vec<OffsetDateTime> = leaving.iter().map(|one| one.received_at).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE groups SET own_first_seen = NULL, own_first_version = NULL, own_last_seen = NULL, own_last_version = NULL
         WHERE tenant = $1 AND id = ANY ($2) AND own_reports <= 0",
        tenant,
        &ids
    )
    .execute(&mut *connection)
    .await?;
    // Where retention has removed all others, what is known stays. What was first seen stays where only the last report
    // leaves: retention may have removed the first.
    sqlx::query!(
        r#"UPDATE groups g
           SET own_first_seen = coalesce(f.received_at, g.own_first_seen),
               own_first_version = coalesce(f.version, g.own_first_version),
               own_last_seen = coalesce(l.received_at, g.own_last_seen),
               own_last_version = coalesce(l.version, g.own_last_version)
           FROM (SELECT n.id, bool_or(n.seen = o.own_first_seen) AS was_first, bool_or(n.seen = o.own_last_seen) AS was_last
                 FROM unnest($2::uuid[], $3::timestamptz[]) AS n (id, seen)
                 JOIN groups o ON o.tenant = $1 AND o.id = n.id AND n.seen IN (o.own_first_seen, o.own_last_seen)
                 GROUP BY n.id) c
           LEFT JOIN LATERAL (SELECT r.received_at, r.version FROM reports r
                              WHERE c.was_first AND r.tenant = $1 AND r.group_id = c.id
                              ORDER BY r.received_at, r.version COLLATE "C" LIMIT 1) f ON true
           LEFT JOIN LATERAL (SELECT r.received_at, r.version FROM reports r
                              WHERE c.was_last AND r.tenant = $1 AND r.group_id = c.id
                              ORDER BY r.received_at DESC, r.version COLLATE "C" DESC LIMIT 1) l ON true
           WHERE g.tenant = $1 AND g.id = c.id"#,
        tenant,
        &ids,
        &times
    )
    .execute(connection)
    .await?;
    let targets: Vec<Uuid> = ids.iter().filter_map(|id| targets.get(id).copied()).collect();
    let touched = [ids, targets].concat();
    refresh_totals(tx, &touched).await?;
    match empty {
        EmptyGroups::Forget => forget_empty(tx, &touched).await,
        EmptyGroups::Keep => Ok(()),
    }
}

/// Adds to what groups count by day.
pub(super) async fn days(tx: &mut TenantTx, days: &BTreeMap<(Uuid, Date), i64>) -> Result<()> {
    let groups: Vec<Uuid> = days.keys().map(|key| key.0).collect();
    let dates: Vec<Date> = days.keys().map(|key| key.1).collect();
    let reports: Vec<i64> = days.values().copied().collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"INSERT INTO group_days AS d (tenant, group_id, day, reports)
           SELECT $1, n.group_id, n.day, n.reports
           FROM unnest($2::uuid[], $3::date[], $4::bigint[]) AS n (group_id, day, reports)
           ORDER BY n.group_id, n.day
           ON CONFLICT (tenant, group_id, day) DO UPDATE SET reports = d.reports + EXCLUDED.reports"#,
        tenant,
        &groups,
        &dates,
        &reports
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM group_days WHERE tenant = $1 AND group_id = ANY ($2) AND day = ANY ($3) AND reports <= 0",
        tenant,
        &groups,
        &dates
    )
    .execute(connection)
    .await?;
    Ok(())
}
