//! The reports next to a report in its group.

use super::groups::GroupRows;
use super::row::ReportRow;
use super::statement::windows::DayWindow;
use crate::history::{HistoryReport, HistorySearch, find_moved};
use crate::number::{from_row32, to_row32};
use crate::segments::utc_day;
use crate::{Result, TenantTx, Uuid};
use sqlx::{Postgres, QueryBuilder};
use time::{Date, OffsetDateTime};
use unslide_history::{HistoryOrder, HistoryPlace};
use unslide_model::ReportId;

/// The place of a report in its list.
type Place = (OffsetDateTime, ReportId, u32);

/// The direction in which a neighbour is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Newer,
    Older,
}

/// Returns the reports of a group that arrived right after and right before one of them.
pub async fn find_neighbours(
    tx: &mut TenantTx,
    report: &ReportRow,
) -> Result<(Option<(ReportId, u32)>, Option<(ReportId, u32)>)> {
    let Some(group) = report.group else { return Ok((None, None)) };
    let groups = GroupRows::find_for_group(tx, group).await?;
    let newer = find_neighbour(tx, &groups, report, Side::Newer).await?;
    Ok((newer, find_neighbour(tx, &groups, report, Side::Older).await?))
}

async fn find_neighbour(
    tx: &mut TenantTx,
    groups: &GroupRows,
    report: &ReportRow,
    side: Side,
) -> Result<Option<(ReportId, u32)>> {
    let day = utc_day(report.received_at);
    let days = groups.days.iter().flatten().map(|one| one.day);
    let mut beyond: Vec<Date> = match side {
        Side::Newer => days.take_while(|other| *other > day).collect(),
        Side::Older => days.filter(|other| *other < day).collect(),
    };
    if side == Side::Newer {
        beyond.reverse();
    }
    // The day of the report, and the next one with reports. That of a count may have none any more.
    let near = [day].into_iter().chain(beyond.first().copied()).collect();
    let found = read_neighbour(tx, groups, report, side, DayWindow::for_dates(near)).await?;
    let found = match found {
        None if beyond.len() > 1 => {
            read_neighbour(tx, groups, report, side, DayWindow::for_dates(beyond)).await?
        }
        found => found,
    };
    let moved = match find_moved_neighbour(tx, groups, report, side).await {
        Err(error) if error.is_history() => None,
        moved => moved?,
    };
    let both = found.into_iter().chain(moved);
    let nearest = if side == Side::Newer { both.min() } else { both.max() };
    Ok(nearest.map(|(_, id, variant)| (id, variant)))
}

/// Finds the neighbour among the reports that are in ClickHouse. Without a history no statement is sent.
async fn find_moved_neighbour(
    tx: &mut TenantTx,
    groups: &GroupRows,
    report: &ReportRow,
    side: Side,
) -> Result<Option<Place>> {
    let ReportRow { received_at, report_id, variant, .. } = *report;
    let search = HistorySearch {
        filter: groups.to_history_filter(),
        order: match side {
            Side::Newer => HistoryOrder::OldestFirst,
            Side::Older => HistoryOrder::NewestFirst,
        },
        after: Some(HistoryPlace { received_at, report_id, variant }),
    };
    let is_of_group = |found: &HistoryReport| found.group_id.is_some_and(|id| groups.ids.contains(&id));
    let found = find_moved(tx, search, 1, is_of_group).await?;
    Ok(found.first().map(HistoryReport::position))
}

async fn read_neighbour(
    tx: &mut TenantTx,
    groups: &GroupRows,
    report: &ReportRow,
    side: Side,
    window: DayWindow,
) -> Result<Option<Place>> {
    let (beyond, order) = match side {
        Side::Newer => (">", "ASC"),
        Side::Older => ("<", "DESC"),
    };
    let (connection, tenant, _) = tx.parts();
    // The nearest of each group, by the index, and the nearest of these.
    let by = format!("received_at {order}, report_id {order}, variant {order} LIMIT 1");
    let mut query =
        QueryBuilder::<Postgres>::new("SELECT n.received_at, n.report_id, n.variant FROM unnest(");
    query.push_bind(groups.ids.clone()).push(
        ") AS g (id) CROSS JOIN LATERAL (SELECT received_at, report_id, variant FROM reports r WHERE group_id = g.id AND tenant = ",
    );
    query.push_bind(tenant.to_owned());
    window.push(&mut query, "r");
    query.push(format!(" AND (received_at, report_id, variant) {beyond} ("));
    query.push_bind(report.received_at).push(", ").push_bind(report.report_id.uuid());
    query.push(", ").push_bind(to_row32(report.variant));
    query.push(format!(") ORDER BY {by}) n ORDER BY {by}"));
    let found: Option<(OffsetDateTime, Uuid, i32)> =
        query.build_query_as().persistent(false).fetch_optional(connection).await?;
    Ok(found.map(|(at, id, variant)| (at, ReportId::from_uuid(id), from_row32(variant))))
}
