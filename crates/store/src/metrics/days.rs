//! What metric payloads say, by app, version, day, metric and host.

use super::versions::CountedPayload;
use super::{MOST_HOSTS, OTHER};
use crate::{Result, StoreError, TenantTx};
use std::collections::{BTreeMap, BTreeSet};
use time::Date;
use unslide_model::QuantileSketch;
use unslide_signals::event::GatewayEvent;
use unslide_signals::metrics::{MetricName, RequestTiming, WEIGHT_UNIT};

/// Rows that one statement adds to.
const ROWS_AT_ONCE: usize = 2_000;
/// Hosts of one payload that are counted by themselves.
const MOST_HOSTS_OF_PAYLOAD: usize = 20;

/// App, version and day.
type DayOfVersion = (String, String, Date);
/// App, version, day, metric and host.
type RowKey = (String, String, Date, &'static str, String);
/// The hosts that have rows of their own.
pub(super) type KnownHosts = BTreeMap<DayOfVersion, BTreeSet<String>>;

/// What a batch adds to one row.
#[derive(Default)]
pub(super) struct RowSums {
    /// In thousandths, as weights are.
    weight: u64,
    failed: u64,
    /// What each payload added to the weight, squared.
    squares: f64,
    sketch: QuantileSketch,
}

impl RowSums {
    fn merge(&mut self, payload: &RowSums) {
        self.weight = self.weight.saturating_add(payload.weight);
        self.failed = self.failed.saturating_add(payload.failed);
        self.squares += observations(payload.weight) * observations(payload.weight);
        self.sketch.merge(&payload.sketch);
    }
}

/// Observations of a weight.
#[expect(clippy::cast_precision_loss, reason = "exact below nine billions, and a figure for people")]
fn observations(weight: u64) -> f64 {
    weight as f64 / WEIGHT_UNIT as f64
}

/// Adds up payloads.
pub(super) struct PayloadSums {
    rows: BTreeMap<RowKey, RowSums>,
    hosts: KnownHosts,
}

impl PayloadSums {
    /// Nothing yet; these hosts have rows.
    pub(super) fn new(hosts: KnownHosts) -> PayloadSums {
        PayloadSums { rows: BTreeMap::new(), hosts }
    }

    /// Adds what one payload says.
    pub(super) fn add(&mut self, counted: &CountedPayload<'_>) {
        let payload = counted.payload;
        // All that one payload adds to a row counts as one for the squares.
        let mut own: BTreeMap<(MetricName, String), RowSums> = BTreeMap::new();
        let mut named = BTreeSet::new();
        for sample in &payload.samples {
            let weight = counted.weight.saturating_mul(sample.count.into());
            let row = own.entry((sample.metric, String::new())).or_default();
            row.weight = row.weight.saturating_add(weight);
            row.sketch.add(sample.value, weight);
        }
        for request in &payload.requests {
            let by_itself = named.contains(&*request.host) || named.len() < MOST_HOSTS_OF_PAYLOAD;
            let host = match by_itself {
                true => self.counted_as(counted, &request.host),
                false => OTHER.to_owned(),
            };
            named.extend(by_itself.then_some(&*request.host));
            for host in [String::new(), host] {
                add_request(&mut own, request, &host, counted.weight);
            }
        }
        for ((metric, host), sums) in own {
            let key = (counted.app.clone(), counted.version.clone(), payload.day(), metric.as_str(), host);
            self.rows.entry(key).or_default().merge(&sums);
        }
    }

    /// The host that a request counts for: not more of them than can be listed.
    fn counted_as(&mut self, counted: &CountedPayload<'_>, host: &str) -> String {
        let key = (counted.app.clone(), counted.version.clone(), counted.payload.day());
        let known = self.hosts.entry(key).or_default();
        if !known.contains(host) {
            if known.len() >= MOST_HOSTS {
                return OTHER.to_owned();
            }
            known.insert(host.to_owned());
        }
        host.to_owned()
    }

    /// What is to be added to each row.
    pub(super) fn finish(self) -> BTreeMap<RowKey, RowSums> {
        self.rows
    }
}

/// Every request counts, and each phase whose time is known.
fn add_request(
    own: &mut BTreeMap<(MetricName, String), RowSums>,
    request: &RequestTiming,
    host: &str,
    weight: u64,
) {
    let all = own.entry((MetricName::Requests, host.to_owned())).or_default();
    all.weight = all.weight.saturating_add(weight);
    if request.failed {
        all.failed = all.failed.saturating_add(weight);
    }
    for (metric, value) in MetricName::REQUEST_PHASES.into_iter().zip(request.phases) {
        let Some(value) = value else { continue };
        let row = own.entry((metric, host.to_owned())).or_default();
        row.weight = row.weight.saturating_add(weight);
        row.sketch.add(value, weight);
    }
}

/// A sketch of a row.
pub(crate) fn sketch(bytes: &[u8]) -> Result<QuantileSketch> {
    QuantileSketch::from_bytes(bytes)
        .ok_or_else(|| StoreError::corrupt("metric_days", "a sketch that no program of ours writes"))
}

/// The hosts that the payloads' versions have rows of already.
pub(super) async fn known_hosts(tx: &mut TenantTx, counted: &[CountedPayload<'_>]) -> Result<KnownHosts> {
    let with_requests = counted.iter().filter(|counted| !counted.payload.requests.is_empty());
    let keys: BTreeSet<DayOfVersion> =
        with_requests.map(|one| (one.app.clone(), one.version.clone(), one.payload.day())).collect();
    if keys.is_empty() {
        return Ok(KnownHosts::new());
    }
    let apps: Vec<String> = keys.iter().map(|key| key.0.clone()).collect();
    let versions: Vec<String> = keys.iter().map(|key| key.1.clone()).collect();
    let days: Vec<Date> = keys.iter().map(|key| key.2).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT d.app, d.version, d.day, d.host
         FROM unnest($2::text[], $3::text[], $4::date[]) AS k (app, version, day)
         JOIN metric_days d ON d.tenant = $1 AND d.app = k.app AND d.version = k.version AND d.day = k.day
         WHERE d.host <> '' AND d.host <> $6 AND d.metric = $5",
        tenant,
        &apps,
        &versions,
        &days,
        MetricName::Requests.as_str(),
        OTHER
    )
    .fetch_all(connection)
    .await?;
    let mut known = KnownHosts::new();
    for row in rows {
        known.entry((row.app, row.version, row.day)).or_default().insert(row.host);
    }
    Ok(known)
}

/// Adds to the rows, in the order of their keys.
pub(super) async fn add(tx: &mut TenantTx, sums: &BTreeMap<RowKey, RowSums>) -> Result<()> {
    let rows: Vec<(&RowKey, &RowSums)> = sums.iter().collect();
    for part in rows.chunks(ROWS_AT_ONCE) {
        add_part(tx, part).await?;
    }
    Ok(())
}

async fn add_part(tx: &mut TenantTx, sums: &[(&RowKey, &RowSums)]) -> Result<()> {
    let columns = RowColumns::of(sums.iter().map(|(key, _)| *key));
    let observed: Vec<f64> = sums.iter().map(|(_, row)| observations(row.weight)).collect();
    let failed: Vec<f64> = sums.iter().map(|(_, row)| observations(row.failed)).collect();
    let squares: Vec<f64> = sums.iter().map(|(_, row)| row.squares).collect();
    let (connection, tenant, _) = tx.parts();
    // Locks the rows and gives their sketches, those of a new row empty.
    let rows = sqlx::query!(
        r#"INSERT INTO metric_days AS d (tenant, app, version, day, metric, host, observations, failed, squares, sketch)
           SELECT $1, n.*, $10
           FROM unnest($2::text[], $3::text[], $4::date[], $5::text[], $6::text[], $7::float8[], $8::float8[],
                       $9::float8[]) AS n (app, version, day, metric, host, observations, failed, squares)
           ORDER BY n.app COLLATE "C", n.version COLLATE "C", n.day, n.metric COLLATE "C", n.host COLLATE "C"
           ON CONFLICT (tenant, app, version, day, metric, host) DO UPDATE
           SET observations = d.observations + EXCLUDED.observations, failed = d.failed + EXCLUDED.failed,
               squares = d.squares + EXCLUDED.squares
           RETURNING app, version, day, metric, host, sketch"#,
        tenant,
        &columns.apps,
        &columns.versions,
        &columns.days,
        &columns.metrics,
        &columns.hosts,
        &observed,
        &failed,
        &squares,
        QuantileSketch::default().to_bytes()
    )
    .fetch_all(connection)
    .await?;
    let mut merged = Vec::new();
    for row in rows {
        let metric = MetricName::parse(&row.metric)
            .ok_or_else(|| StoreError::corrupt("metric_days", "a metric that no program of ours knows"))?;
        let key = (row.app, row.version, row.day, metric.as_str(), row.host);
        let Ok(at) = sums.binary_search_by_key(&&key, |(key, _)| *key) else { continue };
        let added = sums[at].1;
        let mut whole = sketch(&row.sketch)?;
        whole.merge(&added.sketch);
        merged.push((key, whole.to_bytes()));
    }
    write_sketches(tx, merged).await
}

async fn write_sketches(tx: &mut TenantTx, merged: Vec<(RowKey, Vec<u8>)>) -> Result<()> {
    let columns = RowColumns::of(merged.iter().map(|(key, _)| key));
    let sketches: Vec<Vec<u8>> = merged.into_iter().map(|(_, sketch)| sketch).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE metric_days d SET sketch = n.sketch
         FROM unnest($2::text[], $3::text[], $4::date[], $5::text[], $6::text[], $7::bytea[])
              AS n (app, version, day, metric, host, sketch)
         WHERE d.tenant = $1 AND d.app = n.app AND d.version = n.version AND d.day = n.day AND d.metric = n.metric
           AND d.host = n.host",
        tenant,
        &columns.apps,
        &columns.versions,
        &columns.days,
        &columns.metrics,
        &columns.hosts,
        &sketches
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The keys of rows as columns.
#[derive(Default)]
struct RowColumns {
    apps: Vec<String>,
    versions: Vec<String>,
    days: Vec<Date>,
    metrics: Vec<String>,
    hosts: Vec<String>,
}

impl RowColumns {
    fn of<'k>(keys: impl Iterator<Item = &'k RowKey>) -> RowColumns {
        let mut columns = RowColumns::default();
        for (app, version, day, metric, host) in keys {
            columns.apps.push(app.clone());
            columns.versions.push(version.clone());
            columns.days.push(*day);
            columns.metrics.push((*metric).to_owned());
            columns.hosts.push(host.clone());
        }
        columns
    }
}
