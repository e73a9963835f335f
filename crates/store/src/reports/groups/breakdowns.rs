//! The rows of `group_breakdowns`: reports of groups by version, by device model and by OS version.

use super::{DeviceSketches, GroupChange};
use crate::reports::rollups::utc_day;
use crate::reports::rows::{MadeOn, truncate_name};
use crate::{Result, TenantTx, Uuid};
use std::collections::BTreeMap;
use time::Date;
use unslide_model::DistinctSketch;

/// The dimension that has sketches of devices, too.
const VERSION_DIMENSION: &str = "version";

/// Returns the dimensions of a report, and its value in each.
fn dimension_values(version: &str, made_on: &MadeOn) -> [(&'static str, String); 3] {
    let model = truncate_name(made_on.model.as_deref().unwrap_or_default());
    let os: Vec<&str> =
        [&made_on.os_name, &made_on.os_version].into_iter().flatten().map(String::as_str).collect();
    [
        (VERSION_DIMENSION, version.to_owned()),
        ("model", model),
        ("os_version", truncate_name(os.join(" ").trim())),
    ]
}

/// Adds to what groups count by dimension. The groups' rows are locked.
pub(super) async fn count_breakdowns(
    tx: &mut TenantTx,
    counted: &[GroupChange<'_>],
    sketches: &DeviceSketches,
) -> Result<()> {
    let mut rows: BTreeMap<(Uuid, &str, String, Date), i64> = BTreeMap::new();
    for one in counted {
        for (dimension, value) in dimension_values(&one.version, &one.made_on) {
            *rows.entry((one.row.id, dimension, value, utc_day(one.received_at))).or_default() +=
                one.report_delta();
        }
    }
    let devices_of = |(group, dimension, value, day): &(Uuid, &str, String, Date)| {
        let key = (*dimension == VERSION_DIMENSION).then(|| (*group, value.clone(), *day))?;
        sketches.versions.get(&key).map(DistinctSketch::to_bytes)
    };
    let mut devices: Vec<Option<Vec<u8>>> = Vec::new();
    rows.retain(|key, reports| {
        let gained = devices_of(key);
        let is_changed = *reports != 0 || gained.is_some();
        devices.extend(is_changed.then_some(gained));
        is_changed
    });
    let groups: Vec<Uuid> = rows.keys().map(|key| key.0).collect();
    let dimensions: Vec<String> = rows.keys().map(|key| key.1.to_owned()).collect();
    let values: Vec<String> = rows.keys().map(|key| key.2.clone()).collect();
    let days: Vec<Date> = rows.keys().map(|key| key.3).collect();
    let reports: Vec<i64> = rows.values().copied().collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"INSERT INTO group_breakdowns AS b (tenant, group_id, dimension, value, day, reports, devices)
           SELECT $1, n.group_id, n.dimension, n.value, n.day, n.reports, n.devices
           FROM unnest($2::uuid[], $3::text[], $4::text[], $5::date[], $6::bigint[], $7::bytea[])
                AS n (group_id, dimension, value, day, reports, devices)
           ORDER BY n.group_id, n.dimension COLLATE "C", n.value COLLATE "C", n.day
           ON CONFLICT (tenant, group_id, dimension, value, day) DO UPDATE
           SET reports = b.reports + EXCLUDED.reports, devices = coalesce(EXCLUDED.devices, b.devices)"#,
        tenant,
        &groups,
        &dimensions,
        &values,
        &days,
        &reports,
        &devices as &[Option<Vec<u8>>]
    )
    .execute(&mut *connection)
    .await?;
    if reports.iter().any(|reports| *reports < 0) {
        sqlx::query!(
            "DELETE FROM group_breakdowns
             WHERE tenant = $1 AND group_id = ANY ($2) AND day = ANY ($3) AND reports <= 0",
            tenant,
            &groups,
            &days
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_empty_where_a_report_names_none() {
        let made_on = |model: Option<&str>, os_name: Option<&str>, os_version: Option<&str>| MadeOn {
            device: None,
            model: model.map(str::to_owned),
            os_name: os_name.map(str::to_owned),
            os_version: os_version.map(str::to_owned),
        };
        let of = |made_on| dimension_values("1.2", &made_on).map(|(_, value)| value);
        assert_eq!(
            of(made_on(Some("iPhone16,1"), Some("iOS"), Some("18.1"))),
            ["1.2", "iPhone16,1", "iOS 18.1"]
        );
        assert_eq!(of(made_on(None, None, Some("18.1"))), ["1.2", "", "18.1"]);
        assert_eq!(of(made_on(None, None, None)), ["1.2", "", ""]);
    }
}
