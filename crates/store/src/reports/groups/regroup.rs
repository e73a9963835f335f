//! Stored reports that move to another group because the tenant's rules of grouping changed. Nothing else of them
//! changes: there is no new revision and no regression. Features learn that they moved.

use super::{GroupChange, leaving_change, terms, write_keeping};
use crate::cursor::ReportCursor;
use crate::events::{ReportPlace, StoreEvent};
use crate::groups::lock_out_merges;
use crate::groups::rules::{self, RegroupCounts, RegroupStatus, SETTLING_INTERVAL, TenantGroupingRules};
use crate::history;
use crate::hooks;
use crate::number::{from_row32, to_row32};
use crate::reports::RowKey;
use crate::reports::keys::{KeyRow, lock_known};
use crate::reports::pages::list_oldest_reports;
use crate::reports::rows::{GroupRow, GroupTexts, MadeOn, truncate_title};
use crate::{GroupId, Result, TenantTx, Uuid, json};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::{Duration, OffsetDateTime};
use unslide_model::{ReportGrouping, ReportId};

/// A page of stored reports that are to be grouped again.
#[derive(Clone, Debug)]
pub struct RegroupPage {
    /// The rules.
    pub rules: TenantGroupingRules,
    /// The reports, with their variants; empty if all were processed.
    pub reports: Vec<(ReportId, u32)>,
    last: Option<ReportCursor>,
}

/// The next step.
#[derive(Clone, Debug)]
pub enum RegroupStep {
    /// To group a page of reports.
    Page(RegroupPage),
    /// To wait: reports that were on their way when the rules changed may still come.
    Wait(Duration),
    /// Nothing: it is done, or the rules changed again.
    Over,
}

/// Returns the next page of reports for this version of the rules, the oldest first.
pub async fn next(tx: &mut TenantTx, version: u64, limit: u32) -> Result<RegroupStep> {
    let Some(rules) = rules::get(tx).await?.filter(|rules| rules.version == version) else {
        return Ok(RegroupStep::Over);
    };
    let settled = rules.changed_at + SETTLING_INTERVAL;
    match rules.status {
        RegroupStatus::Done => return Ok(RegroupStep::Over),
        RegroupStatus::Settling if tx.now() < settled => return Ok(RegroupStep::Wait(settled - tx.now())),
        _ => {}
    }
    let listed = list_oldest_reports(tx, rules.last_cursor().as_ref(), limit).await?;
    let last = listed.last().map(|report| report.cursor);
    let reports = listed.into_iter().map(|report| (report.report_id, report.variant)).collect();
    Ok(RegroupStep::Page(RegroupPage { rules, reports, last }))
}

/// Returns the titles of groups.
pub async fn read_titles(tx: &mut TenantTx, groups: &[GroupId]) -> Result<BTreeMap<GroupId, String>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT id AS "id: GroupId", title FROM groups WHERE tenant = $1 AND id = ANY ($2)"#,
        tenant,
        groups as &[GroupId]
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(|row| (row.id, row.title)).collect())
}

/// A report that was grouped again.
#[derive(Clone, Debug)]
pub struct Regrouped {
    /// The report.
    pub report_id: ReportId,
    /// Which of those with this id.
    pub variant: u32,
    /// The revision of the body that was read.
    pub revision: u32,
    /// Its group; `None` if the report has neither a reason nor a place of the crash.
    pub grouping: Option<ReportGrouping>,
    /// The search terms of its group.
    pub terms: Vec<String>,
}

/// Moves the reports of a page to their groups and records the progress, so that both happen or neither. A
/// report that was revised or deleted in between is not moved. Returns false if the rules changed or
/// another worker has gone on in between: the caller must roll back then.
pub async fn store_regrouped(tx: &mut TenantTx, page: &RegroupPage, regrouped: &[Regrouped]) -> Result<bool> {
    lock_out_merges(tx).await?;
    let moving = lock_moving_reports(tx, regrouped).await?;
    update_report_groups(tx, &moving).await?;
    let mut counted: Vec<GroupChange<'_>> = Vec::new();
    for one in &moving {
        counted.extend(
            one.from.map(|id| {
                leaving_change(id, &one.app, &one.version, &one.made_on, one.received_at, one.weight)
            }),
        );
        counted.extend(one.arriving_change());
    }
    write_keeping(tx, &counted).await?;
    let left = moving.iter().filter_map(|one| Some((one.from?, &one.texts)));
    let arrived = moving.iter().rev().filter_map(|one| Some((one.to_group_row()?, one.terms)));
    terms::update_terms(tx, arrived, left).await?;
    if !moving.is_empty() {
        let moved: Vec<ReportPlace> = moving.iter().map(Moving::to_place).collect();
        hooks::send_event(StoreEvent::ReportsMoved(tx, &moved)).await?;
    }
    let (looked, read) = (page.reports.len() as u64, regrouped.len() as u64);
    let counts = RegroupCounts { looked, moved: moving.len() as u64, unread: looked.saturating_sub(read) };
    rules::record_progress(tx, &page.rules, page.last.as_ref(), counts).await
}

/// A report that moves to another group.
struct Moving<'m> {
    report_id: Uuid,
    variant: i32,
    received_at: OffsetDateTime,
    app: String,
    version: String,
    made_on: MadeOn,
    weight: i64,
    texts: GroupTexts,
    from: Option<GroupId>,
    grouping: Option<&'m ReportGrouping>,
    terms: &'m Vec<String>,
}

impl<'m> Moving<'m> {
    fn to_place(&self) -> ReportPlace {
        let (id, variant) = (ReportId::from_uuid(self.report_id), from_row32(self.variant));
        ReportPlace { id, variant, received_at: self.received_at }
    }

    fn to_group_row(&self) -> Option<GroupRow<'m>> {
        self.grouping.map(|grouping| GroupRow::new(self.app.clone(), grouping))
    }

    fn arriving_change(&self) -> Option<GroupChange<'m>> {
        Some(GroupChange {
            row: self.to_group_row()?,
            version: self.version.clone(),
            made_on: self.made_on.clone(),
            received_at: self.received_at,
            from: self.from,
            to: None,
            sign: 1,
            weight: self.weight,
        })
    }
}

/// Returns, under lock, the reports that still have the revision that was read and move to another group.
async fn lock_moving_reports<'m>(tx: &mut TenantTx, regrouped: &'m [Regrouped]) -> Result<Vec<Moving<'m>>> {
    let mut by_report: BTreeMap<RowKey, &Regrouped> = BTreeMap::new();
    for one in regrouped {
        by_report.insert((one.report_id.uuid(), to_row32(one.variant)), one);
    }
    let wanted: Vec<RowKey> = by_report.keys().copied().collect();
    let keys = lock_known(tx, &wanted).await?;
    let moved: Vec<_> =
        keys.iter().filter(|key| key.history_version.is_some()).map(KeyRow::row_key).collect();
    let document = match moved.is_empty() {
        true => "[]".to_owned(),
        false => history::read_moved_locked(tx, &moved).await?,
    };
    let times: Vec<OffsetDateTime> = keys.iter().map(|key| key.received_at).collect();
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = keys.iter().map(KeyRow::row_key).unzip();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"WITH moved AS MATERIALIZED (SELECT * FROM unslide_moved_reports($5::text::jsonb))
           SELECT r.received_at AS "received_at!", r.report_id AS "report_id!", r.variant AS "variant!",
                  r.revision AS "revision!", r.app AS "app!", r.version AS "version!", r.group_id AS "group_id: GroupId", r.reason, r.title,
                  r.weight AS "weight!", r.device, r.model, r.os_name, r.os_version
           FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS k (received_at, report_id, variant)
           CROSS JOIN LATERAL (
               SELECT * FROM (
                   (SELECT * FROM reports o
                    WHERE o.tenant = $1 AND o.received_at = ANY ($2) AND o.received_at = k.received_at AND o.report_id = k.report_id
                      AND o.variant = k.variant LIMIT 1)
                   UNION ALL
                   SELECT * FROM moved m WHERE m.tenant = $1 AND m.received_at = k.received_at AND m.report_id = k.report_id
                                           AND m.variant = k.variant) o
               WHERE o.same_crash_as IS NULL
               LIMIT 1) r
           ORDER BY r.report_id, r.variant"#,
        tenant,
        &times,
        &ids,
        &variants,
        document
    )
    .fetch_all(connection)
    .await?;
    let moving = rows.into_iter().filter_map(|row| {
        let read = by_report.get(&(row.report_id, row.variant))?;
        let one = Moving {
            report_id: row.report_id,
            variant: row.variant,
            received_at: row.received_at,
            app: row.app,
            version: row.version,
            made_on: MadeOn {
                device: row.device,
                model: row.model,
                os_name: row.os_name,
                os_version: row.os_version,
            },
            weight: row.weight.into(),
            texts: GroupTexts { reason: row.reason, title: row.title },
            from: row.group_id,
            grouping: read.grouping.as_ref(),
            terms: &read.terms,
        };
        let moves = one.to_group_row().map(|row| row.id) != one.from;
        (moves && from_row32(row.revision) == read.revision).then_some(one)
    });
    let moving: Vec<Moving<'m>> = moving.collect();
    // The others stay where they are.
    let back = moving.iter().map(|one| (one.report_id, one.variant)).filter(|report| moved.contains(report));
    history::bring_back_reports(tx, back.collect()).await?;
    Ok(moving)
}

/// Writes the groups and their titles into the reports' rows.
async fn update_report_groups(tx: &mut TenantTx, moving: &[Moving<'_>]) -> Result<()> {
    let rows = moving.iter().map(|one| {
        json!({
            "received_at": json::format_time(one.received_at),
            "report_id": one.report_id,
            "variant": one.variant,
            "group_id": one.to_group_row().map(|row| row.id),
            "title": one.grouping.map(|grouping| truncate_title(&grouping.title)),
        })
    });
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE reports r SET group_id = k.group_id, title = k.title
         FROM jsonb_populate_recordset(NULL::reports, $2) AS k
         WHERE r.tenant = $1 AND r.received_at = ANY ($3) AND r.received_at = k.received_at AND r.report_id = k.report_id
           AND r.variant = k.variant",
        tenant,
        rows.collect::<Value>(),
        &moving.iter().map(|one| one.received_at).collect::<Vec<_>>()
    )
    .execute(connection)
    .await?;
    Ok(())
}
