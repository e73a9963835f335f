//! Ends and texts of reports of groups with rows in ClickHouse: for groups that lose a report. If ClickHouse does not answer, the
//! reports in the database decide alone, so that a revision or a deletion does not wait for it.

use crate::history::{self, HistoryReport, HistorySearch};
use crate::{GroupId, Result, StoreError, TenantTx};
use time::OffsetDateTime;
use unslide_history::{HistoryFilter, HistoryOrder};
use unslide_model::format_causes;

/// Reports of a group of which texts are compared.
const COMPARED_REPORTS_LIMIT: u32 = 200;

/// The first or the last report in ClickHouse of a group that lost its first or last one.
pub(super) struct MovedEnd {
    pub(super) group: GroupId,
    pub(super) is_first: bool,
    pub(super) received_at: OffsetDateTime,
    pub(super) version: String,
}

/// Finds ends of groups in ClickHouse: `lost` are groups, each with true for its first report and false for its last. Returns `None` if
/// ClickHouse does not answer.
pub(super) async fn find_ends(
    tx: &mut TenantTx,
    lost: Vec<(GroupId, bool)>,
) -> Result<Option<Vec<MovedEnd>>> {
    let mut ends = Vec::new();
    for (group, is_first) in lost {
        let order = if is_first { HistoryOrder::OldestFirst } else { HistoryOrder::NewestFirst };
        match list_of_group(tx, group, order, 1).await {
            Ok(found) => ends.extend(found.into_iter().map(|report| MovedEnd {
                group,
                is_first,
                received_at: report.received_at,
                version: report.version,
            })),
            Err(error) => return tolerate(error).map(|()| None),
        }
    }
    Ok(Some(ends))
}

/// Texts of a report, by its group.
pub(super) struct MovedTexts {
    pub(super) group: GroupId,
    pub(super) reason: Option<String>,
    pub(super) title: Option<String>,
}

/// Returns the texts of the newest reports of these groups that are in ClickHouse. Returns none if it does not answer.
pub(super) async fn list_texts(
    tx: &mut TenantTx,
    groups: impl Iterator<Item = GroupId>,
) -> Result<Vec<MovedTexts>> {
    let mut texts = Vec::new();
    if tx.history().is_none() {
        return Ok(texts);
    }
    for group in groups {
        match list_of_group(tx, group, HistoryOrder::NewestFirst, COMPARED_REPORTS_LIMIT).await {
            Ok(found) => texts.extend(found.into_iter().map(|report| MovedTexts {
                group,
                reason: report.reason,
                title: report.title,
            })),
            Err(error) => {
                tolerate(error)?;
                return Ok(Vec::new());
            }
        }
    }
    Ok(texts)
}

async fn list_of_group(
    tx: &mut TenantTx,
    group: GroupId,
    order: HistoryOrder,
    limit: u32,
) -> Result<Vec<HistoryReport>> {
    let filter = HistoryFilter { groups: Some(vec![group.uuid()]), ..HistoryFilter::default() };
    let search = HistorySearch { filter, order, after: None };
    history::find_moved(tx, search, limit, |report| report.group_id == Some(group)).await
}

/// Returns an error unless ClickHouse is its cause.
fn tolerate(error: StoreError) -> Result<()> {
    if !error.is_history() {
        return Err(error);
    }
    tracing::warn!(error = format_causes(&error), "a group is updated without its reports in ClickHouse");
    Ok(())
}
