//! The apps and versions that are counted by themselves: not more of them than can be listed.

use super::{MetricArrival, OTHER};
use std::collections::{BTreeMap, BTreeSet};
use time::Date;
use unslide_health_formats::MetricPayload;
use unslide_proto::event::GatewayEvent;
use unslide_store::{Result, TenantTx};

/// Versions of one app and day that are counted by themselves; later ones count as [`OTHER`].
pub const MOST_VERSIONS: usize = 200;
/// Versions of all apps of a tenant and day that are counted separately; later ones count as [`OTHER`] of the
/// app [`OTHER`].
pub const MOST_VERSIONS_OF_TENANT: usize = 5_000;

/// A payload that is counted, with the app and version that it counts for.
pub(super) struct CountedPayload<'a> {
    pub(super) payload: &'a MetricPayload,
    pub(super) app: String,
    pub(super) version: String,
    /// The weight of each of its observations, in thousandths.
    pub(super) weight: u64,
}

type VersionKey = (Date, String, String);

/// How many versions there are of a day, and of one app on it.
#[derive(Default)]
struct VersionCounts {
    of_day: BTreeMap<Date, usize>,
    of_app: BTreeMap<(Date, String), usize>,
}

/// Assigns each payload to the app and version that it counts for, and records the versions that are new.
pub(super) async fn admit<'a>(
    tx: &mut TenantTx,
    kept: &[(&'a MetricArrival, u64)],
) -> Result<Vec<CountedPayload<'a>>> {
    let key = |payload: &MetricPayload| (payload.event_day(), payload.app.clone(), payload.version.clone());
    let named: BTreeSet<VersionKey> = kept.iter().map(|(arrival, _)| key(&arrival.event)).collect();
    let known = known(tx, &named).await?;
    let new: BTreeSet<VersionKey> = named.difference(&known).cloned().collect();
    let mut counts = if new.is_empty() { VersionCounts::default() } else { counts(tx, &new).await? };
    let mut counted_as: BTreeMap<VersionKey, VersionKey> = BTreeMap::new();
    let mut noted: BTreeSet<VersionKey> = BTreeSet::new();
    for version in new {
        let (day, app, _) = &version;
        let of_app = counts.of_app.entry((*day, app.clone())).or_default();
        let of_day = counts.of_day.entry(*day).or_default();
        let counted = if *of_day >= MOST_VERSIONS_OF_TENANT {
            (*day, OTHER.to_owned(), OTHER.to_owned())
        } else if *of_app >= MOST_VERSIONS {
            (*day, app.clone(), OTHER.to_owned())
        } else {
            *of_app += 1;
            *of_day += 1;
            version.clone()
        };
        noted.insert(counted.clone());
        counted_as.insert(version, counted);
    }
    note(tx, &noted).await?;
    let counted = kept.iter().map(|(arrival, weight)| {
        let own = key(&arrival.event);
        let (_, app, version) = counted_as.get(&own).cloned().unwrap_or(own);
        CountedPayload { payload: &arrival.event, app, version, weight: *weight }
    });
    Ok(counted.collect())
}

/// Returns the columns of keys.
fn columns(keys: &BTreeSet<VersionKey>) -> (Vec<Date>, Vec<String>, Vec<String>) {
    let days = keys.iter().map(|key| key.0).collect();
    let apps = keys.iter().map(|key| key.1.clone()).collect();
    (days, apps, keys.iter().map(|key| key.2.clone()).collect())
}

/// Returns those of the versions that exist.
async fn known(tx: &mut TenantTx, named: &BTreeSet<VersionKey>) -> Result<BTreeSet<VersionKey>> {
    let (days, apps, versions) = columns(named);
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT v.day, v.app, v.version
         FROM unnest($2::date[], $3::text[], $4::text[]) AS k (day, app, version)
         JOIN metric_versions v ON v.tenant = $1 AND v.day = k.day AND v.app = k.app AND v.version = k.version",
        tenant,
        &days,
        &apps,
        &versions
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.day, row.app, row.version)).collect())
}

/// Counts the versions of the days of these. At most some thousands a day are read.
async fn counts(tx: &mut TenantTx, new: &BTreeSet<VersionKey>) -> Result<VersionCounts> {
    let days: BTreeSet<Date> = new.iter().map(|key| key.0).collect();
    let days: Vec<Date> = days.into_iter().collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT day, app, count(*) AS "versions!" FROM metric_versions
           WHERE tenant = $1 AND day = ANY($2) GROUP BY day, app"#,
        tenant,
        &days
    )
    .fetch_all(connection)
    .await?;
    let mut counts = VersionCounts::default();
    for row in rows {
        let versions = usize::try_from(row.versions).unwrap_or(usize::MAX);
        *counts.of_day.entry(row.day).or_default() += versions;
        counts.of_app.insert((row.day, row.app), versions);
    }
    Ok(counts)
}

/// Inserts versions, in the order of their keys.
async fn note(tx: &mut TenantTx, noted: &BTreeSet<VersionKey>) -> Result<()> {
    if noted.is_empty() {
        return Ok(());
    }
    let (days, apps, versions) = columns(noted);
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"INSERT INTO metric_versions (tenant, day, app, version)
           SELECT $1, n.day, n.app, n.version FROM unnest($2::date[], $3::text[], $4::text[]) AS n (day, app, version)
           ORDER BY n.day, n.app COLLATE "C", n.version COLLATE "C"
           ON CONFLICT DO NOTHING"#,
        tenant,
        &days,
        &apps,
        &versions
    )
    .execute(connection)
    .await?;
    Ok(())
}
