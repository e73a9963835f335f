//! Metric payloads of apps: each is counted once, however often it comes, in the same transaction, by app,
//! version, day and metric, and of these by host, device model and OS version. Hours are counted beside days.

mod days;
mod device_days;
mod dimension;
mod ends;
mod hours;
mod session_figures;
mod sums;
mod versions;

pub use dimension::MetricDimension;
pub use sums::read_sketch;
pub use versions::{MOST_VERSIONS, MOST_VERSIONS_OF_TENANT};

use days::PayloadSums;
use serde_json::{Value, json};
use session_figures::list_figures;
use std::collections::{BTreeMap, BTreeSet};
use time::Date;
use unslide_health_formats::MetricPayload;
use unslide_model::AppSignal;
use unslide_proto::event::{EventArrival, GatewayEvent};
use unslide_store::app_signals::{self, SignalDrops};
use unslide_store::gateway_events::{EventOutcome, is_too_old};
use unslide_store::persons::{self, ArrivedPerson, PersonKey, PersonKind};
use unslide_store::sql::{json_bytes, json_time};
use unslide_store::{Result, TenantTx};

/// Hosts of one app, version and day that are counted separately, and as many of each other dimension; others count as
/// [`OTHER`].
pub const MOST_VALUES: usize = 200;
/// The values beyond [`MOST_VALUES`], and the versions beyond [`MOST_VERSIONS`].
pub const OTHER: &str = "(other)";

/// A metric payload that came from the topic.
pub type MetricArrival = EventArrival<MetricPayload>;

/// App, id and day: what a payload is found by.
type PayloadKey = (String, String, Date);

/// Stores a tenant's metric payloads in the order of their offsets, and returns the outcome of each.
/// Partitions of the days have to exist (see [`unslide_store::partitions`]); payloads before the day `keep_from` are
/// not stored.
///
/// Rows are locked in one order everywhere: payloads by their keys, then counts of days and of hours by theirs.
pub async fn store(
    tx: &mut TenantTx,
    arrivals: &[&MetricArrival],
    keep_from: Date,
) -> Result<Vec<EventOutcome>> {
    let mut outcomes = vec![EventOutcome::Duplicate; arrivals.len()];
    let erased = persons::find_erased(tx, &list_persons(arrivals)).await?;
    let mut first: BTreeMap<PayloadKey, usize> = BTreeMap::new();
    for (place, arrival) in arrivals.iter().enumerate() {
        let (payload, day) = (&arrival.event, arrival.event.event_day());
        if erased.contains(&place) {
            outcomes[place] = EventOutcome::Deleted;
        } else if is_too_old(&arrival.event, arrival.received_at, keep_from) {
            outcomes[place] = EventOutcome::Expired;
        } else {
            first.entry((payload.app.clone(), payload.id.clone(), day)).or_insert(place);
        }
    }
    if first.is_empty() {
        return Ok(outcomes);
    }
    let (weights, drops) = weigh(tx, arrivals, &mut first, &mut outcomes).await?;
    let candidates: Vec<&MetricArrival> = first.values().map(|place| arrivals[*place]).collect();
    let new = insert_new(tx, &candidates).await?;
    let weight = |place: &usize| weights.get(place).copied().unwrap_or_default();
    let mut kept = Vec::new();
    for (key, place) in &first {
        if new.contains(key) {
            outcomes[*place] = EventOutcome::New;
            kept.push((arrivals[*place], weight(place)));
        }
    }
    let known: Vec<usize> =
        first.into_iter().filter(|(key, _)| !new.contains(key)).map(|(_, place)| place).collect();
    let completing = device_days::complete(tx, arrivals, &known).await?;
    for (place, rest) in &completing {
        outcomes[*place] = EventOutcome::Completed;
        kept.push((rest, weight(place)));
    }
    let counted = versions::admit(tx, &kept).await?;
    let mut known = dimension::known_values(tx, &counted).await?;
    known.admit_values(&counted);
    let mut sums = PayloadSums::new(known, tx.now());
    counted.iter().for_each(|payload| sums.add(payload));
    let (days, hours) = sums.finish();
    days::add(tx, &days).await?;
    hours::add(tx, &hours).await?;
    ends::add(tx, &counted).await?;
    app_signals::count_dropped(tx, &drops).await?;
    Ok(outcomes)
}

/// Returns the sessions that payloads name.
fn list_persons(arrivals: &[&MetricArrival]) -> Vec<ArrivedPerson> {
    let persons = arrivals.iter().enumerate().filter_map(|(place, arrival)| {
        let key = PersonKey::from_id(PersonKind::Session, arrival.event.session.as_ref()?);
        Some(ArrivedPerson { place, key, received_at: arrival.received_at })
    });
    persons.collect()
}

/// Returns the weight of each payload's observations, by its index. Removes and counts the payloads that are
/// not kept.
async fn weigh(
    tx: &mut TenantTx,
    arrivals: &[&MetricArrival],
    first: &mut BTreeMap<PayloadKey, usize>,
    outcomes: &mut [EventOutcome],
) -> Result<(BTreeMap<usize, u64>, SignalDrops)> {
    let apps: BTreeSet<&str> = first.values().map(|place| arrivals[*place].event.app.as_str()).collect();
    let signals = app_signals::read_for_apps(tx, &apps).await?;
    let (mut weights, mut drops) = (BTreeMap::new(), SignalDrops::new());
    first.retain(|(app, ..), place| {
        let payload = &arrivals[*place].event;
        if signals.for_app(app).metrics {
            weights.insert(*place, payload.weight);
            return true;
        }
        outcomes[*place] = EventOutcome::SwitchedOff;
        *drops.entry((app.clone(), AppSignal::Metrics)).or_default() += 1;
        false
    });
    Ok((weights, drops))
}

/// Inserts the payloads that are not there yet, by their id and by the day that they tell of, in the order of their keys, and returns their keys.
async fn insert_new(tx: &mut TenantTx, arrivals: &[&MetricArrival]) -> Result<BTreeSet<PayloadKey>> {
    let rows = arrivals.iter().map(|arrival| {
        let payload = &arrival.event;
        json!({
            "app": payload.app,
            "payload_id": payload.id,
            "day": payload.event_day().to_string(),
            "version": payload.version,
            "build": payload.build,
            "os": payload.os,
            "device": payload.device,
            "session_id": payload.session,
            "figures": payload.session.as_ref().map(|_| list_figures(payload)),
            "measured_at": json_time(payload.measured_at),
            "received_at": json_time(arrival.received_at),
            "day_key": payload.device_day.map(|day| json_bytes(&day.key)),
            "is_metric_report": payload.device_day.is_some_and(|day| day.is_report),
        })
    });
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "INSERT INTO metric_payloads (tenant, app, payload_id, day, version, build, os, device, session_id, figures,
                                      measured_at, received_at, day_key, is_metric_report)
         SELECT $1, n.app, n.payload_id, n.day, n.version, n.build, n.os, n.device, n.session_id, n.figures,
                n.measured_at, n.received_at, n.day_key, n.is_metric_report
         FROM jsonb_populate_recordset(NULL::metric_payloads, $2) AS n
         ON CONFLICT DO NOTHING
         RETURNING app, payload_id, day",
        tenant,
        rows.collect::<Value>()
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.app, row.payload_id, row.day)).collect())
}
