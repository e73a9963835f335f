//! The slots of apps: how many keys the input records of an app are spread over, and the rate that decides it.

use crate::column::TenantColumn;
use crate::number::to_row;
use crate::{Result, Store, TenantTx};
use std::collections::{BTreeMap, HashMap};
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;

/// Cost units a second of an app that one slot carries: about half of what a symbolizer of one core does.
pub const SLOT_UNITS_PER_SECOND: u64 = 500;
/// The most slots of an app. A power of two.
const MAX_SLOTS: u16 = 256;
const WINDOW_SECONDS: i64 = 60;
/// How long an app with one slot has a row after its last minute. Senders name apps, so that there may be many.
pub(crate) const SINGLE_SLOT_KEPT_FOR: Duration = Duration::hours(1);

/// Cost units by tenant and app.
pub type UnitsOfApps = BTreeMap<TenantId, BTreeMap<String, u64>>;
/// Slots by tenant and app, of apps with more than one.
pub type SlotsOfApps = HashMap<TenantId, HashMap<String, u16>>;

/// Adds what one process accepted of each app to what all processes accepted in this minute. An app that is above its slots gets
/// more, and never fewer.
pub async fn record_units(store: &Store, counted: &UnitsOfApps) -> Result<()> {
    if counted.is_empty() {
        return Ok(());
    }
    let mut batch = store.batch().await?;
    for (tenant, apps) in counted {
        let tx = batch.enter_tenant(tenant).await?;
        record_tenant_units(tx, apps).await?;
    }
    batch.commit().await
}

async fn record_tenant_units(tx: &mut TenantTx, counted: &BTreeMap<String, u64>) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let seconds = now.unix_timestamp();
    let window =
        OffsetDateTime::from_unix_timestamp(seconds - seconds.rem_euclid(WINDOW_SECONDS)).unwrap_or(now);
    let apps: Vec<&str> = counted.keys().map(String::as_str).collect();
    let units: Vec<i64> = counted.values().map(|units| to_row(*units)).collect();
    let rows = sqlx::query!(
        r#"INSERT INTO app_slots AS s (tenant, app, window_start, units)
           SELECT $1, n.app, $2, n.units FROM unnest($3::text[], $4::bigint[]) AS n (app, units) ORDER BY n.app COLLATE "C"
           ON CONFLICT (tenant, app) DO UPDATE SET
               units = CASE WHEN s.window_start = excluded.window_start THEN s.units ELSE 0 END + excluded.units,
               window_start = excluded.window_start
           RETURNING s.app, s.units, s.slots"#,
        tenant,
        window,
        &apps as &[&str],
        &units
    );
    let rows = rows.fetch_all(&mut *connection).await?;
    for row in rows {
        let slots = count_slots(u64::try_from(row.units).unwrap_or_default());
        if slots > row.slots {
            let grown = sqlx::query!(
                "UPDATE app_slots SET slots = GREATEST(slots, $3) WHERE tenant = $1 AND app = $2",
                tenant,
                row.app,
                slots
            );
            grown.execute(&mut *connection).await?;
            tracing::info!(tenant.id = %tenant, app = row.app, slots, "reports of an app are spread over more partitions");
        }
    }
    Ok(())
}

/// Returns the slots for an app with this number of cost units in a window.
fn count_slots(units: u64) -> i16 {
    let carried = SLOT_UNITS_PER_SECOND * WINDOW_SECONDS.unsigned_abs();
    let needed = units.div_ceil(carried).clamp(1, u64::from(MAX_SLOTS)).next_power_of_two();
    i16::try_from(needed).unwrap_or(1)
}

/// Returns the slots of the apps of all tenants that have more than one.
pub async fn list_slots(store: &Store) -> Result<SlotsOfApps> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!: TenantColumn", app AS "app!", slots AS "slots!" FROM unslide_app_slots() -- refresh"#
    );
    let mut all = SlotsOfApps::new();
    for row in rows.fetch_all(store.pool()).await? {
        let slots = u16::try_from(row.slots).unwrap_or(1);
        all.entry(row.tenant.into()).or_default().insert(row.app, slots);
    }
    Ok(all)
}
