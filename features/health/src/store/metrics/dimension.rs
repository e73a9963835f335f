//! The dimensions of a metric, by which its values are counted in addition to the total.

use super::versions::CountedPayload;
use super::{MOST_VALUES, OTHER};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use time::Date;
use unslide_health_formats::RequestTiming;
use unslide_proto::event::GatewayEvent;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

unslide_model::words! {
    /// A dimension that a metric is counted by.
    #[derive(PartialOrd, Ord, ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum MetricDimension {
        /// The host of a request.
        Host = "host",
        /// Method, host and path of a request.
        Endpoint = "endpoint",
        /// The status or the error code of a request.
        #[schema(rename = "result")]
        RequestResult = "result",
        /// The protocol of a request.
        Protocol = "protocol",
        /// A fact about the connection of a request: its network, TLS, whether it was used before. A request has several.
        Connection = "connection",
        /// The device model.
        Model = "model",
        /// The operating system and its version.
        OsVersion = "os_version",
        /// A state that the app reported to MetricKit: its domain and its label. Its values are those of the time in the state.
        State = "state",
    }
}

/// App, version, dimension and day.
type DimensionKey = (String, String, MetricDimension, Date);

/// Values that have rows of their own.
#[derive(Default)]
pub(super) struct KnownValues(BTreeMap<DimensionKey, BTreeSet<String>>);

impl MetricDimension {
    /// The dimensions of requests.
    pub const OF_REQUESTS: [MetricDimension; 5] = [
        MetricDimension::Host,
        MetricDimension::Endpoint,
        MetricDimension::RequestResult,
        MetricDimension::Protocol,
        MetricDimension::Connection,
    ];
}

/// Weights of the requests that name a value, and of those that failed.
type ValueWeights = (u64, u64);

impl KnownValues {
    /// Gives new values of a batch rows of their own, as far as the bound allows: first those that are named most often, and
    /// of these first those with the most failures. The order within a payload decides nothing.
    pub(super) fn admit_values(&mut self, counted: &[CountedPayload<'_>]) {
        let mut named: BTreeMap<DimensionKey, BTreeMap<&str, ValueWeights>> = BTreeMap::new();
        for one in counted {
            for (dimension, values) in payload_values(one) {
                let all = named.entry(key(one, dimension)).or_default();
                for (value, (weight, failed)) in values {
                    let sums = all.entry(value).or_default();
                    *sums = (sums.0.saturating_add(weight), sums.1.saturating_add(failed));
                }
            }
        }
        for (key, values) in named {
            let known = self.0.entry(key).or_default();
            let mut new: Vec<_> = values.into_iter().filter(|(value, _)| !known.contains(*value)).collect();
            new.sort_unstable_by_key(|(value, weights)| (Reverse(*weights), *value));
            new.truncate(MOST_VALUES.saturating_sub(known.len()));
            known.extend(new.into_iter().map(|(value, _)| value.to_owned()));
        }
    }

    /// Returns the value that a payload counts for: [`OTHER`] if it has no rows of its own.
    pub(super) fn counted_as<'v>(
        &self,
        counted: &CountedPayload<'_>,
        dimension: MetricDimension,
        value: &'v str,
    ) -> &'v str {
        let known = self.0.get(&key(counted, dimension));
        if known.is_some_and(|known| known.contains(value)) { value } else { OTHER }
    }
}

/// Returns the values that a payload names in each dimension, with their weights.
fn payload_values<'p>(
    counted: &CountedPayload<'p>,
) -> BTreeMap<MetricDimension, BTreeMap<&'p str, ValueWeights>> {
    let mut named: BTreeMap<MetricDimension, BTreeMap<&str, ValueWeights>> = BTreeMap::new();
    let mut add = |dimension, value, failed: bool| {
        let sums = named.entry(dimension).or_default().entry(value).or_default();
        sums.0 = sums.0.saturating_add(counted.weight);
        sums.1 = sums.1.saturating_add(if failed { counted.weight } else { 0 });
    };
    made_on(counted).for_each(|(dimension, value)| add(dimension, value, false));
    for state in &counted.payload.state_samples {
        add(MetricDimension::State, &state.state, false);
    }
    for request in &counted.payload.requests {
        request_values(request).for_each(|(dimension, value)| add(dimension, value, request.failed));
    }
    named
}

/// Returns the values of a request in the dimensions of requests.
pub(super) fn request_values(request: &RequestTiming) -> impl Iterator<Item = (MetricDimension, &str)> {
    let named = [
        (MetricDimension::Host, Some(&request.host)),
        (MetricDimension::Endpoint, request.endpoint.as_ref()),
        (MetricDimension::RequestResult, request.result.as_ref()),
        (MetricDimension::Protocol, request.protocol.as_ref()),
    ];
    let named = named.into_iter().filter_map(|(dimension, value)| Some((dimension, value?.as_str())));
    named.chain(request.connection.iter().map(|fact| (MetricDimension::Connection, *fact)))
}

fn key(counted: &CountedPayload<'_>, dimension: MetricDimension) -> DimensionKey {
    (counted.app.clone(), counted.version.clone(), dimension, counted.payload.event_day())
}

/// Returns the device and the system that a payload names.
pub(super) fn made_on<'p>(
    counted: &CountedPayload<'p>,
) -> impl Iterator<Item = (MetricDimension, &'p str)> + use<'p> {
    let payload = counted.payload;
    let named = [(MetricDimension::Model, &payload.device), (MetricDimension::OsVersion, &payload.os)];
    named.into_iter().filter_map(|(dimension, value)| Some((dimension, value.as_deref()?)))
}

/// Reads the values that already have rows of the payloads' versions, in the dimensions of the payloads.
pub(super) async fn known_values(tx: &mut TenantTx, counted: &[CountedPayload<'_>]) -> Result<KnownValues> {
    let mut keys = BTreeSet::new();
    for one in counted {
        let has_requests = !one.payload.requests.is_empty();
        let of_requests = MetricDimension::OF_REQUESTS.into_iter().filter(|_| has_requests);
        let of_states = (!one.payload.state_samples.is_empty()).then_some(MetricDimension::State);
        let dimensions = of_requests.chain(of_states).chain(made_on(one).map(|(dimension, _)| dimension));
        keys.extend(dimensions.map(|dimension| key(one, dimension)));
    }
    let apps: Vec<String> = keys.iter().map(|key| key.0.clone()).collect();
    let versions: Vec<String> = keys.iter().map(|key| key.1.clone()).collect();
    let dimensions: Vec<String> = keys.iter().map(|key| key.2.to_string()).collect();
    let days: Vec<Date> = keys.iter().map(|key| key.3).collect();
    let keys: Vec<DimensionKey> = keys.into_iter().collect();
    let (connection, tenant, _) = tx.parts();
    // Goes from one value to the next by the table's key, past the metrics of each.
    let rows = sqlx::query!(
        r#"WITH RECURSIVE found AS (
               SELECT k.place, k.app, k.version, k.dimension, k.day, v.value
               FROM unnest($2::text[], $3::text[], $4::text[], $5::date[]) WITH ORDINALITY
                    AS k (app, version, dimension, day, place)
               CROSS JOIN LATERAL (
                   SELECT d.value FROM metric_days d
                   WHERE d.tenant = $1 AND d.app = k.app AND d.version = k.version AND d.dimension = k.dimension
                     AND d.day = k.day
                   ORDER BY d.value LIMIT 1) v
               UNION ALL
               SELECT f.place, f.app, f.version, f.dimension, f.day, v.value
               FROM found f
               CROSS JOIN LATERAL (
                   SELECT d.value FROM metric_days d
                   WHERE d.tenant = $1 AND d.app = f.app AND d.version = f.version AND d.dimension = f.dimension
                     AND d.day = f.day AND d.value > f.value
                   ORDER BY d.value LIMIT 1) v)
           SELECT place AS "place!", value AS "value!" FROM found WHERE value <> $6"#,
        tenant,
        &apps,
        &versions,
        &dimensions,
        &days,
        OTHER
    )
    .fetch_all(connection)
    .await?;
    let mut known = KnownValues::default();
    for row in rows {
        let place = usize::try_from(row.place - 1).ok();
        let Some(key) = place.and_then(|place| keys.get(place)) else { continue };
        known.0.entry(key.clone()).or_default().insert(row.value);
    }
    Ok(known)
}
