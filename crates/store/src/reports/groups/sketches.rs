//! The devices of groups by day, and by version and day, as sketches.

use super::counts::CountKey;
use crate::{GroupId, Result, StoreError, TenantTx};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use time::Date;
use unslide_model::DistinctSketch;

/// Sketches of the days and versions that gain devices.
#[derive(Default)]
pub(super) struct DeviceSketches {
    pub(super) days: BTreeMap<(GroupId, Date), DistinctSketch>,
    pub(super) versions: BTreeMap<(GroupId, String, Date), DistinctSketch>,
}

impl DeviceSketches {
    /// Adds the devices of gained reports to the stored sketches. The groups' rows are locked, so that no other transaction
    /// changes the same sketches.
    pub(super) async fn load_with_devices<'k>(
        tx: &mut TenantTx,
        counted: impl Iterator<Item = &'k CountKey>,
    ) -> Result<DeviceSketches> {
        let mut sketches = DeviceSketches::default();
        for key in counted {
            let Some(device) = &key.device else { continue };
            let hash = device_hash(device);
            sketches.days.entry((key.group, key.day())).or_default().add_hash(hash);
            sketches.versions.entry((key.group, key.version.clone(), key.day())).or_default().add_hash(hash);
        }
        if !sketches.days.is_empty() {
            sketches.merge_stored(tx).await?;
        }
        Ok(sketches)
    }

    async fn merge_stored(&mut self, tx: &mut TenantTx) -> Result<()> {
        let groups: Vec<GroupId> = self.days.keys().map(|key| key.0).collect();
        let days: Vec<Date> = self.days.keys().map(|key| key.1).collect();
        let version_groups: Vec<GroupId> = self.versions.keys().map(|key| key.0).collect();
        let versions: Vec<String> = self.versions.keys().map(|key| key.1.clone()).collect();
        let version_days: Vec<Date> = self.versions.keys().map(|key| key.2).collect();
        let (connection, tenant, _) = tx.parts();
        let rows = sqlx::query!(
            r#"SELECT d.group_id AS "group_id!: GroupId", NULL AS version, d.day AS "day!", d.devices AS "devices!"
               FROM unnest($2::uuid[], $3::date[]) AS n (group_id, day)
               JOIN group_days d ON d.tenant = $1 AND d.group_id = n.group_id AND d.day = n.day
               WHERE d.devices IS NOT NULL
               UNION ALL
               SELECT b.group_id, b.value, b.day, b.devices
               FROM unnest($4::uuid[], $5::text[], $6::date[]) AS n (group_id, value, day)
               JOIN group_breakdowns b ON b.tenant = $1 AND b.group_id = n.group_id AND b.dimension = 'version'
                                      AND b.value = n.value AND b.day = n.day
               WHERE b.devices IS NOT NULL"#,
            tenant,
            &groups as &[GroupId],
            &days,
            &version_groups as &[GroupId],
            &versions,
            &version_days
        )
        .fetch_all(connection)
        .await?;
        for row in rows {
            let known = match row.version {
                None => self.days.get_mut(&(row.group_id, row.day)),
                Some(version) => self.versions.get_mut(&(row.group_id, version, row.day)),
            };
            if let Some(known) = known {
                known.merge(&stored_sketch(&row.devices)?);
            }
        }
        Ok(())
    }
}

/// Returns bits of a device's bytes that are as good as random.
pub(crate) fn device_hash(device: &[u8]) -> u64 {
    let digest: [u8; 32] = Sha256::digest(device).into();
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// Reads a sketch of a row.
pub(crate) fn stored_sketch(bytes: &[u8]) -> Result<DistinctSketch> {
    DistinctSketch::from_bytes(bytes)
        .ok_or_else(|| StoreError::corrupt("group_days", "a sketch that no program of ours writes"))
}
