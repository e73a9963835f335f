//! Reports of an image: by its waits, or by the days that have it as a system image.

use super::statement::moved::MovedReports;
use crate::number::to_row32;
use crate::segments::day_bounds;
use crate::{Result, TenantTx};
use sqlx::{Postgres, QueryBuilder};
use time::OffsetDateTime;
use unslide_history::{HistoryFilter, HistoryPlace};
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
    pub(super) fn push_waits(
        query: &mut QueryBuilder<Postgres>,
        tenant: &str,
        debug_id: DebugId,
        table: &str,
    ) {
        query.push(format!(
            " FROM waits w CROSS JOIN LATERAL (SELECT * FROM {table} o WHERE o.tenant = w.tenant \
             AND o.received_at = w.received_at AND o.report_id = w.report_id AND o.variant = w.variant LIMIT 1) r \
             WHERE w.tenant = "
        ));
        query.push_bind(tenant.to_owned()).push(" AND w.debug_id = ").push_bind(debug_id.uuid());
    }

    /// Adds the reports that have it as a system image: only reports of its days are read.
    pub(super) fn push_system(
        &self,
        query: &mut QueryBuilder<Postgres>,
        tenant: &str,
        debug_id: DebugId,
        table: &str,
    ) {
        query.push(format!(" FROM {table} r WHERE r.tenant = ")).push_bind(tenant.to_owned());
        query.push(" AND r.system_images @> ARRAY[").push_bind(debug_id.uuid()).push("] AND (false");
        for (from, to) in &self.system {
            query.push(" OR r.received_at >= ").push_bind(*from);
            query.push(" AND r.received_at < ").push_bind(*to);
        }
        query.push(")");
    }

    /// Returns the searches for such reports in ClickHouse, which decides these conditions.
    pub(super) fn list_searches<'s>(
        &self,
        tenant: &'s str,
        debug_id: DebugId,
        filter: &HistoryFilter,
        after: Option<HistoryPlace>,
    ) -> Vec<MovedReports<'s>> {
        let mut searches = Vec::new();
        if self.waits {
            let push_keys =
                move |query: &mut QueryBuilder<Postgres>, after: Option<&HistoryPlace>, limit: i64| {
                    push_waiting_keys(query, tenant, debug_id, after, limit);
                };
            searches.push(MovedReports::for_keys(Box::new(push_keys), after));
        }
        if !self.system.is_empty() {
            let filter = HistoryFilter { system_image: Some(debug_id), ..filter.clone() };
            searches.push(MovedReports::for_filter(filter, after));
        }
        searches
    }
}

/// Adds a statement that lists the keys of reports that wait for an image and are in ClickHouse.
fn push_waiting_keys(
    query: &mut QueryBuilder<Postgres>,
    tenant: &str,
    debug_id: DebugId,
    after: Option<&HistoryPlace>,
    limit: i64,
) {
    query.push(
        "SELECT k.received_at, k.report_id, k.variant, k.history_version FROM waits w \
         JOIN report_keys k ON k.tenant = w.tenant AND k.report_id = w.report_id AND k.variant = w.variant \
         WHERE k.history_version IS NOT NULL AND k.deleted_at IS NULL AND w.tenant = ",
    );
    query.push_bind(tenant.to_owned()).push(" AND w.debug_id = ").push_bind(debug_id.uuid());
    push_behind(query, "w", after);
    query.push(" ORDER BY w.received_at DESC, w.report_id DESC, w.variant DESC LIMIT ").push_bind(limit);
}

/// Restricts a query to the rows behind a place, in the order of lists.
pub(crate) fn push_behind(query: &mut QueryBuilder<Postgres>, key: &str, after: Option<&HistoryPlace>) {
    if let Some(after) = after {
        query.push(format!(" AND ({key}.received_at, {key}.report_id, {key}.variant) < ("));
        query.push_bind(after.received_at).push(", ").push_bind(after.report_id.uuid());
        query.push(", ").push_bind(to_row32(after.variant)).push(")");
    }
}
