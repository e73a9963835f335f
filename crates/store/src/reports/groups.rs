//! Groups of reports with the same fingerprint, kept in step with the reports.

use super::Change;
use super::rollups::{Counted, day};
use super::rows::{GroupRow, name, title};
use crate::{Result, TenantTx, Uuid};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};

/// The id of a group: an app's reports with this fingerprint.
pub(super) fn group_id(app: &str, fingerprint: [u8; 16]) -> Uuid {
    let digest: [u8; 32] = Sha256::new().chain_update(fingerprint).chain_update(app).finalize().into();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(id)
}

/// A report that a group gains or loses.
struct GroupChange<'c> {
    row: GroupRow<'c>,
    version: String,
    received_at: OffsetDateTime,
    sign: i64,
}

/// Counts what is new, and moves what a new revision puts into another group.
pub(super) async fn record(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<()> {
    let mut counted = Vec::new();
    for change in changes {
        let (version, received_at) = (name(&change.arrival.facts.version), change.key.received_at);
        let new = GroupRow::of(&change.arrival.facts);
        let old = change.previous.as_ref().and_then(|previous| Some((previous, previous.group?)));
        if old.map(|(_, id)| id) == new.as_ref().map(|row| row.id) {
            continue;
        }
        if let Some((previous, id)) = old {
            counted.push(leaving(id, &previous.app, &previous.version, received_at));
        }
        counted.extend(new.map(|row| GroupChange { row, version, received_at, sign: 1 }));
    }
    write(tx, &counted).await
}

/// Takes a deleted report out of its group.
pub(super) async fn take_back(tx: &mut TenantTx, report: &Counted) -> Result<()> {
    let Some(id) = report.group else { return Ok(()) };
    write(tx, &[leaving(id, &report.app, &report.version, report.received_at)]).await
}

fn leaving<'c>(id: Uuid, app: &str, version: &str, received_at: OffsetDateTime) -> GroupChange<'c> {
    let row = GroupRow { id, app: app.to_owned(), grouping: None };
    GroupChange { row, version: version.to_owned(), received_at, sign: -1 }
}

/// What becomes of one group.
struct Delta<'c> {
    row: &'c GroupRow<'c>,
    title: Option<String>,
    culprit: Option<String>,
    reports: i64,
    first: (OffsetDateTime, String),
    last: (OffsetDateTime, String),
}

async fn write(tx: &mut TenantTx, counted: &[GroupChange<'_>]) -> Result<()> {
    if counted.is_empty() {
        return Ok(());
    }
    let mut groups: BTreeMap<Uuid, Delta<'_>> = BTreeMap::new();
    let mut days: BTreeMap<(Uuid, Date, String), i64> = BTreeMap::new();
    for one in counted {
        let seen = (one.received_at, one.version.clone());
        let delta = groups.entry(one.row.id).or_insert_with(|| Delta {
            row: &one.row,
            title: None,
            culprit: None,
            reports: 0,
            first: seen.clone(),
            last: seen.clone(),
        });
        if let Some(grouping) = one.row.grouping {
            delta.row = &one.row;
            let smallest = |known: &mut Option<String>, text: &str| {
                let text = title(text);
                *known = Some(known.take().map_or_else(|| text.clone(), |known| known.min(text.clone())));
            };
            smallest(&mut delta.title, &grouping.title);
            smallest(&mut delta.culprit, &grouping.culprit);
        }
        delta.reports += one.sign;
        delta.first = delta.first.clone().min(seen.clone());
        delta.last = delta.last.clone().max(seen);
        *days.entry((one.row.id, day(one.received_at), one.version.clone())).or_default() += one.sign;
    }
    write_groups(tx, &groups).await?;
    let leaving: Vec<&GroupChange<'_>> = counted.iter().filter(|one| one.sign < 0).collect();
    if !leaving.is_empty() {
        look_again(tx, &leaving).await?;
    }
    write_days(tx, &days).await
}

/// Forgets groups whose last report has left, and looks for the first and the last report of those that the
/// leaving one was the first or the last of: whether it was ever counted there must not show.
async fn look_again(tx: &mut TenantTx, leaving: &[&GroupChange<'_>]) -> Result<()> {
    let ids: Vec<Uuid> = leaving.iter().map(|one| one.row.id).collect();
    let times: Vec<OffsetDateTime> = leaving.iter().map(|one| one.received_at).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM groups WHERE tenant = $1 AND id = ANY ($2) AND reports <= 0", tenant, &ids)
        .execute(&mut *connection)
        .await?;
    // Where retention has removed all others, what is known stays.
    sqlx::query!(
        r#"UPDATE groups g
           SET first_seen = coalesce(f.received_at, g.first_seen), first_version = coalesce(f.version, g.first_version),
               last_seen = coalesce(l.received_at, g.last_seen), last_version = coalesce(l.version, g.last_version)
           FROM (SELECT DISTINCT n.id FROM unnest($2::uuid[], $3::timestamptz[]) AS n (id, seen)
                 JOIN groups o ON o.tenant = $1 AND o.id = n.id AND n.seen IN (o.first_seen, o.last_seen)) c
           LEFT JOIN LATERAL (SELECT r.received_at, r.version FROM reports r WHERE r.tenant = $1 AND r.group_id = c.id
                              ORDER BY r.received_at, r.version COLLATE "C" LIMIT 1) f ON true
           LEFT JOIN LATERAL (SELECT r.received_at, r.version FROM reports r WHERE r.tenant = $1 AND r.group_id = c.id
                              ORDER BY r.received_at DESC, r.version COLLATE "C" DESC LIMIT 1) l ON true
           WHERE g.tenant = $1 AND g.id = c.id"#,
        tenant,
        &ids,
        &times
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn write_groups(tx: &mut TenantTx, groups: &BTreeMap<Uuid, Delta<'_>>) -> Result<()> {
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
    let reports: Vec<i64> = groups.values().map(|delta| delta.reports).collect();
    let first: Vec<OffsetDateTime> = groups.values().map(|delta| delta.first.0).collect();
    let first_versions: Vec<String> = groups.values().map(|delta| delta.first.1.clone()).collect();
    let last: Vec<OffsetDateTime> = groups.values().map(|delta| delta.last.0).collect();
    let last_versions: Vec<String> = groups.values().map(|delta| delta.last.1.clone()).collect();
    let (connection, tenant, _) = tx.parts();
    // A report that leaves has no title: that of the others stays.
    sqlx::query!(
        r#"INSERT INTO groups AS g (tenant, id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen,
                                    first_version, last_seen, last_version)
           SELECT $1, n.id, n.app, n.fingerprint, n.kind, coalesce(n.title, ''), coalesce(n.culprit, ''), n.provisional,
                  n.reports, n.first_seen, n.first_version, n.last_seen, n.last_version
           FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::boolean[],
                       $9::bigint[], $10::timestamptz[], $11::text[], $12::timestamptz[], $13::text[])
                AS n (id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen, first_version,
                      last_seen, last_version)
           ORDER BY n.id
           ON CONFLICT (tenant, id) DO UPDATE
           SET reports = g.reports + EXCLUDED.reports,
               title = CASE WHEN EXCLUDED.kind = '' THEN g.title
                            ELSE least(g.title COLLATE "C", EXCLUDED.title COLLATE "C") END,
               culprit = CASE WHEN EXCLUDED.kind = '' THEN g.culprit
                              ELSE least(g.culprit COLLATE "C", EXCLUDED.culprit COLLATE "C") END,
               (first_seen, first_version) = (SELECT f.seen, f.version
                   FROM (VALUES (g.first_seen, g.first_version), (EXCLUDED.first_seen, EXCLUDED.first_version))
                        AS f (seen, version)
                   ORDER BY f.seen, f.version COLLATE "C" LIMIT 1),
               (last_seen, last_version) = (SELECT l.seen, l.version
                   FROM (VALUES (g.last_seen, g.last_version), (EXCLUDED.last_seen, EXCLUDED.last_version))
                        AS l (seen, version)
                   ORDER BY l.seen DESC, l.version COLLATE "C" DESC LIMIT 1)"#,
        tenant,
        &ids,
        &apps,
        &fingerprints,
        &kinds,
        &titles as &[Option<String>],
        &culprits as &[Option<String>],
        &provisional,
        &reports,
        &first,
        &first_versions,
        &last,
        &last_versions
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn write_days(tx: &mut TenantTx, days: &BTreeMap<(Uuid, Date, String), i64>) -> Result<()> {
    let groups: Vec<Uuid> = days.keys().map(|key| key.0).collect();
    let dates: Vec<Date> = days.keys().map(|key| key.1).collect();
    let versions: Vec<String> = days.keys().map(|key| key.2.clone()).collect();
    let reports: Vec<i64> = days.values().copied().collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"INSERT INTO group_days AS d (tenant, group_id, day, version, reports)
           SELECT $1, n.group_id, n.day, n.version, n.reports
           FROM unnest($2::uuid[], $3::date[], $4::text[], $5::bigint[]) AS n (group_id, day, version, reports)
           ORDER BY n.group_id, n.day, n.version COLLATE "C"
           ON CONFLICT (tenant, group_id, day, version) DO UPDATE SET reports = d.reports + EXCLUDED.reports"#,
        tenant,
        &groups,
        &dates,
        &versions,
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
