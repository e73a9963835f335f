//! What reports of groups say whose rows are in ClickHouse: for groups that lose a report. If ClickHouse does not answer, the
//! reports in the database decide alone, so that a revision or a deletion does not wait for it.

use crate::history::{self, HistoryReport, HistorySearch};
use crate::{GroupId, Result, StoreError, TenantTx};
use time::OffsetDateTime;
use unslide_history::{HistoryFilter, HistoryOrder};
use unslide_model::format_causes;

/// Reports of a group whose texts are compared.
const COMPARED_REPORTS_LIMIT: u32 = 200;

/// The first or the last report in ClickHouse of a group that lost its first or last one.
pub(super) struct MovedEnd {
    pub(super) group: GroupId,
    pub(super) is_first: bool,
    pub(super) received_at: OffsetDateTime,
    pub(super) version: String,
}

/// Returns them for the groups of which one of the reports that left was the first or the last: `times` are those of the reports,
/// `groups` their groups. Returns `None` if ClickHouse does not answer. Without a history no statement is sent.
pub(super) async fn find_ends(
    tx: &mut TenantTx,
    groups: &[GroupId],
    times: &[OffsetDateTime],
) -> Result<Option<Vec<MovedEnd>>> {
    let mut ends = Vec::new();
    if tx.history().is_none() {
        return Ok(Some(ends));
    }
    let (connection, tenant, _) = tx.parts();
    let lost = sqlx::query!(
        r#"SELECT n.id AS "id!: GroupId", coalesce(bool_or(n.seen = o.own_first_seen), false) AS "was_first!",
                  coalesce(bool_or(n.seen = o.own_last_seen), false) AS "was_last!"
           FROM unnest($2::uuid[], $3::timestamptz[]) AS n (id, seen)
           JOIN groups o ON o.tenant = $1 AND o.id = n.id AND n.seen IN (o.own_first_seen, o.own_last_seen)
           GROUP BY n.id"#,
        tenant,
        groups as &[GroupId],
        times
    )
    .fetch_all(connection)
    .await?;
    for row in lost {
        for (is_lost, is_first) in [(row.was_first, true), (row.was_last, false)] {
            if !is_lost {
                continue;
            }
            let order = if is_first { HistoryOrder::OldestFirst } else { HistoryOrder::NewestFirst };
            match list_of_group(tx, row.id, order, 1).await {
                Ok(found) => ends.extend(found.into_iter().map(|report| MovedEnd {
                    group: row.id,
                    is_first,
                    received_at: report.received_at,
                    version: report.version,
                })),
                Err(error) => return tolerate(error).map(|()| None),
            }
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
