//! Reports of an image: by its waits, or by the days that have it as a system image.

use crate::segments::day_bounds;
use crate::{Result, TenantTx};
use sqlx::{Postgres, QueryBuilder};
use time::OffsetDateTime;
use unslide_model::DebugId;

/// The days and waits by which the reports of an image are found.
#[derive(Clone)]
pub(super) struct ImageReports {
    /// Some have it as an image of their app: by its waits.
    pub(super) waits: bool,
    /// Some may have it as a system image, on these days, as times from and to, in ascending order.
    pub(super) system: Vec<(OffsetDateTime, OffsetDateTime)>,
}

impl ImageReports {
    pub(super) async fn find_for_image(tx: &mut TenantTx, debug_id: DebugId) -> Result<ImageReports> {
        let (connection, tenant, _) = tx.parts();
        let row = sqlx::query!(
            r#"SELECT EXISTS (SELECT FROM waits WHERE tenant = $1 AND debug_id = $2) AS "waits!",
                      ARRAY (SELECT day FROM system_waits WHERE tenant = $1 AND debug_id = $2 ORDER BY day) AS "days!""#,
            tenant,
            debug_id.uuid()
        )
        .fetch_one(connection)
        .await?;
        let mut system: Vec<(OffsetDateTime, OffsetDateTime)> = Vec::new();
        for (from, to) in row.days.into_iter().map(day_bounds) {
            match system.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => system.push((from, to)),
            }
        }
        Ok(ImageReports { waits: row.waits, system })
    }

    /// Adds the rows of `waits` of the image, with their reports. The planner does not know how the two
    /// tables correlate, and would rather hash all reports; the LIMIT of one keeps it to one look-up a row,
    /// in the order of the waits.
    pub(super) fn push_waits(query: &mut QueryBuilder<Postgres>, tenant: &str, debug_id: DebugId) {
        query.push(
            " FROM waits w CROSS JOIN LATERAL (SELECT * FROM reports o WHERE o.tenant = w.tenant \
             AND o.received_at = w.received_at AND o.report_id = w.report_id AND o.variant = w.variant LIMIT 1) r \
             WHERE w.tenant = ",
        );
        query.push_bind(tenant.to_owned()).push(" AND w.debug_id = ").push_bind(debug_id.uuid());
    }

    /// Adds the reports that have it as a system image: only reports of its days are read.
    pub(super) fn push_system(&self, query: &mut QueryBuilder<Postgres>, tenant: &str, debug_id: DebugId) {
        query.push(" FROM reports r WHERE r.tenant = ").push_bind(tenant.to_owned());
        query.push(" AND r.system_images @> ARRAY[").push_bind(debug_id.uuid()).push("] AND (false");
        for (from, to) in &self.system {
            query.push(" OR r.received_at >= ").push_bind(*from);
            query.push(" AND r.received_at < ").push_bind(*to);
        }
        query.push(")");
    }
}
