//! The rows of `group_breakdowns`: reports of groups by version, by device model and by OS version.

use super::counts::{CountDeltas, CountKey};
use super::sketches::DeviceSketches;
use crate::reports::rows::{MadeOn, truncate_name};
use crate::{GroupId, Result, TenantTx};
use std::collections::BTreeMap;
use time::Date;
use unslide_model::DistinctSketch;

/// The dimension that has sketches of devices, too.
const VERSION_DIMENSION: &str = "version";

/// Returns the model and the operating system that a report was made on.
pub(super) fn describe_hardware(made_on: &MadeOn) -> (String, String) {
    let model = truncate_name(made_on.model.as_deref().unwrap_or_default());
    let os: Vec<&str> =
        [&made_on.os_name, &made_on.os_version].into_iter().flatten().map(String::as_str).collect();
    (model, truncate_name(os.join(" ").trim()))
}

/// Returns the dimensions of reports, and their value in each.
fn dimension_values(key: &CountKey) -> [(&'static str, &str); 3] {
    [(VERSION_DIMENSION, &key.version), ("model", &key.model), ("os_version", &key.os_version)]
}

/// Adds to what groups count by dimension. The groups' rows are locked.
pub(super) async fn write_breakdowns(
    tx: &mut TenantTx,
    counts: &CountDeltas,
    sketches: &DeviceSketches,
) -> Result<()> {
    let mut rows: BTreeMap<(GroupId, &str, &str, Date), i64> = BTreeMap::new();
    for (key, reports) in counts {
        for (dimension, value) in dimension_values(key) {
            *rows.entry((key.group, dimension, value, key.day())).or_default() += reports;
        }
    }
    let devices_of = |(group, dimension, value, day): &(GroupId, &str, &str, Date)| {
        let key = (*dimension == VERSION_DIMENSION).then(|| (*group, (*value).to_owned(), *day))?;
        sketches.versions.get(&key).map(DistinctSketch::to_bytes)
    };
    let mut devices: Vec<Option<Vec<u8>>> = Vec::new();
    rows.retain(|key, reports| {
        let gained = devices_of(key);
        let is_changed = *reports != 0 || gained.is_some();
        devices.extend(is_changed.then_some(gained));
        is_changed
    });
    let groups: Vec<GroupId> = rows.keys().map(|key| key.0).collect();
    let dimensions: Vec<String> = rows.keys().map(|key| key.1.to_owned()).collect();
    let values: Vec<String> = rows.keys().map(|key| key.2.to_owned()).collect();
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
        &groups as &[GroupId],
        &dimensions,
        &values,
        &days,
        &reports,
        &devices as &[Option<Vec<u8>>]
    )
    .execute(&mut *connection)
    .await?;
    if reports.iter().any(|reports| *reports <= 0) {
        sqlx::query!(
            "DELETE FROM group_breakdowns
             WHERE tenant = $1 AND group_id = ANY ($2) AND day = ANY ($3) AND reports <= 0",
            tenant,
            &groups as &[GroupId],
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
        let of = |made_on| describe_hardware(&made_on);
        let pair = |model: &str, os: &str| (model.to_owned(), os.to_owned());
        let full = made_on(Some("iPhone16,1"), Some("iOS"), Some("18.1"));
        assert_eq!(of(full), pair("iPhone16,1", "iOS 18.1"));
        assert_eq!(of(made_on(None, None, Some("18.1"))), pair("", "18.1"));
        assert_eq!(of(made_on(None, None, None)), pair("", ""));
    }
}
