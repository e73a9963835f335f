//! Reports of a person: of a device, of a user, or of runs of an app.

use super::images::push_behind;
use super::statement::moved::MovedReports;
use super::statement::sources::{PushSelect, RowSource, read_sources};
use super::statement::windows::DayWindow;
use crate::persons::PersonHash;
use crate::{Result, TenantTx, Uuid};
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Postgres, QueryBuilder};
use unslide_history::{HistoryFilter, HistoryPlace};

/// The way in which reports of a person are found, each by an index.
pub(crate) enum PersonRows {
    /// By the device.
    Device(PersonHash),
    /// By the user that they name.
    User(PersonHash),
}

/// Reads what a statement says of the newest reports of a person, at most `limit`: `push_select` adds it. They are the table `newest`,
/// with all columns of `reports`.
pub(crate) async fn read_person_rows<T>(
    tx: &mut TenantTx,
    person: &PersonRows,
    limit: i64,
    push_select: PushSelect<'_>,
) -> Result<Vec<T>>
where
    T: for<'r> FromRow<'r, PgRow>,
{
    let tenant = tx.parts().1.to_owned();
    let push_rows = Box::new(|query: &mut QueryBuilder<Postgres>, _: &DayWindow, table: &str| match person {
        PersonRows::Device(hash) => {
            query.push(format!("SELECT r.* FROM {table} r WHERE r.tenant = ")).push_bind(tenant.clone());
            query.push(" AND r.device = ").push_bind(hash.to_vec());
            query.push(format!(
                " ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT {limit}"
            ));
        }
        PersonRows::User(hash) => {
            query.push("SELECT r.* FROM (");
            push_users(query, &tenant, hash, limit);
            // The LIMIT of one keeps each report to one look-up, in the order of the user's rows.
            query.push(format!(") u CROSS JOIN LATERAL (SELECT * FROM {table} o WHERE o.tenant = "));
            query.push_bind(tenant.clone()).push(
                " AND o.received_at = u.received_at AND o.report_id = u.report_id AND o.variant = u.variant LIMIT 1) r",
            );
        }
    });
    let moved = match person {
        PersonRows::Device(hash) => MovedReports::for_filter(
            HistoryFilter { device: Some(hash.to_vec()), ..HistoryFilter::default() },
            None,
        ),
        PersonRows::User(hash) => {
            let push_keys = |query: &mut QueryBuilder<Postgres>, after: Option<&HistoryPlace>, most: i64| {
                query.push("SELECT k.received_at, k.report_id, k.variant, k.history_version FROM (");
                push_users(query, &tenant, hash, limit);
                query.push(
                    ") u JOIN report_keys k ON k.report_id = u.report_id AND k.variant = u.variant \
                         WHERE k.history_version IS NOT NULL AND k.deleted_at IS NULL AND k.tenant = ",
                );
                query.push_bind(tenant.clone());
                push_behind(query, "k", after);
                query.push(" ORDER BY k.received_at DESC, k.report_id DESC, k.variant DESC LIMIT ");
                query.push_bind(most);
            };
            MovedReports::for_keys(Box::new(push_keys), None)
        }
    };
    let source = RowSource {
        moved: vec![moved],
        ..RowSource::new("newest", limit, DayWindow::everything(), push_rows)
    };
    Ok(read_sources(tx, &mut [source], push_select).await?.rows)
}

fn push_users(query: &mut QueryBuilder<Postgres>, tenant: &str, hash: &PersonHash, limit: i64) {
    query.push("SELECT received_at, report_id, variant FROM report_users WHERE tenant = ");
    query.push_bind(tenant.to_owned()).push(" AND user_hash = ").push_bind(hash.to_vec());
    query.push(format!(" ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT {limit}"));
}

/// Reads what a statement says of the newest crashes and the newest other reports of each of these runs, at most `limit` of each:
/// they are the table `newest`, with all columns of `reports` and the run's `place` in the list, from 1.
pub(crate) async fn list_of_runs<T>(
    tx: &mut TenantTx,
    runs: &[Uuid],
    limit: i64,
    push_select: PushSelect<'_>,
) -> Result<Vec<T>>
where
    T: for<'r> FromRow<'r, PgRow>,
{
    let tenant = tx.parts().1.to_owned();
    let push_rows = Box::new(|query: &mut QueryBuilder<Postgres>, _: &DayWindow, table: &str| {
        query.push("SELECT o.*, n.place FROM unnest(").push_bind(runs.to_vec());
        // The order of the index: crashes and other reports.
        query.push(format!(
            ") WITH ORDINALITY AS n (run, place) CROSS JOIN (VALUES (true), (false)) AS c (is_crash)
             CROSS JOIN LATERAL (SELECT r.* FROM {table} r WHERE r.run_id = n.run AND (r.fatal AND NOT r.metric_kit) = c.is_crash
                 AND r.tenant = "
        ));
        query
            .push_bind(tenant.clone())
            .push(format!(" ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT {limit}) o"));
    });
    let most = limit.saturating_mul(2).saturating_mul(i64::try_from(runs.len()).unwrap_or(i64::MAX)).max(1);
    let filter = HistoryFilter { runs: Some(runs.to_vec()), ..HistoryFilter::default() };
    let moved = vec![MovedReports::for_filter(filter, None)];
    let source = RowSource { moved, ..RowSource::new("newest", most, DayWindow::everything(), push_rows) };
    Ok(read_sources(tx, &mut [source], push_select).await?.rows)
}
