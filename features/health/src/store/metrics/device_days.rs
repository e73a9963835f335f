//! Days of devices of which MetricKit tells twice: in the payload of older systems and in the report since iOS 27.

use super::MetricArrival;
use std::collections::BTreeSet;
use time::Date;
use unslide_proto::event::GatewayEvent;
use unslide_store::{Result, TenantTx};

/// Returns what the reports among known payloads have beside the figures of an older payload of the same day, which was counted: each
/// once, with the place of its report.
pub(super) async fn complete(
    tx: &mut TenantTx,
    arrivals: &[&MetricArrival],
    known: &[usize],
) -> Result<Vec<(usize, MetricArrival)>> {
    let mut completing: Vec<(usize, [u8; 16], MetricArrival)> = Vec::new();
    for place in known {
        let arrival = arrivals[*place];
        let Some((day, rest)) = arrival.event.device_day.zip(arrival.event.beside_older_figures()) else {
            continue;
        };
        completing.push((*place, day.key, MetricArrival { event: rest, ..arrival.clone() }));
    }
    if completing.is_empty() {
        return Ok(Vec::new());
    }
    let apps: Vec<String> = completing.iter().map(|(_, _, rest)| rest.event.app.clone()).collect();
    let days: Vec<Date> = completing.iter().map(|(_, _, rest)| rest.event.event_day()).collect();
    let keys: Vec<Vec<u8>> = completing.iter().map(|(_, key, _)| key.to_vec()).collect();
    let (connection, tenant, _) = tx.parts();
    let older = sqlx::query!(
        r#"UPDATE metric_payloads p SET is_metric_report = true
           FROM unnest($2::text[], $3::date[], $4::bytea[]) AS n (app, day, day_key)
           WHERE p.tenant = $1 AND p.day = ANY ($3) AND p.app = n.app AND p.day = n.day AND p.day_key = n.day_key AND NOT p.is_metric_report
           RETURNING p.app, p.day, p.day_key AS "day_key!""#,
        tenant,
        &apps,
        &days,
        &keys
    )
    .fetch_all(connection)
    .await?;
    let mut older: BTreeSet<(String, Date, Vec<u8>)> =
        older.into_iter().map(|row| (row.app, row.day, row.day_key)).collect();
    completing.retain(|(_, key, rest)| {
        older.remove(&(rest.event.app.clone(), rest.event.event_day(), key.to_vec()))
    });
    Ok(completing.into_iter().map(|(place, _, rest)| (place, rest)).collect())
}
