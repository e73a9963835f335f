//! Ends of apps by cause, as payloads of MetricKit count them.

use super::versions::CountedPayload;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use unslide_health_formats::WEIGHT_UNIT;
use unslide_proto::event::GatewayEvent;
use unslide_store::{Result, TenantTx};

/// Adds the ends that new payloads count, in the order of the keys of their rows.
pub(super) async fn add(tx: &mut TenantTx, counted: &[CountedPayload<'_>]) -> Result<()> {
    let mut sums: BTreeMap<_, u64> = BTreeMap::new();
    for one in counted {
        for ends in &one.payload.ends {
            let day = one.payload.event_day();
            let key = (&one.app, day, &one.version, ends.foreground, ends.cause.as_str());
            *sums.entry(key).or_default() += u64::from(ends.count).saturating_mul(one.weight);
        }
    }
    if sums.is_empty() {
        return Ok(());
    }
    let rows = sums.iter().map(|((app, day, version, foreground, cause), weight)| {
        json!({"app": app, "day": day.to_string(), "version": version, "foreground": foreground, "cause": cause,
               "ends": weight / WEIGHT_UNIT})
    });
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"INSERT INTO app_ends AS e (tenant, app, day, version, foreground, cause, ends)
           SELECT $1, n.app, n.day, n.version, n.foreground, n.cause, n.ends
           FROM jsonb_populate_recordset(NULL::app_ends, $2) AS n
           ORDER BY n.app COLLATE "C", n.day, n.version COLLATE "C", n.foreground, n.cause COLLATE "C"
           ON CONFLICT (tenant, app, day, version, foreground, cause) DO UPDATE SET ends = e.ends + EXCLUDED.ends"#,
        tenant,
        rows.collect::<Value>()
    )
    .execute(connection)
    .await?;
    Ok(())
}
