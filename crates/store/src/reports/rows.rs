//! The rows of `reports` and `report_bodies`.

use super::{Change, CrashTeller, FrameTotals, ImageUse, ReportDetails};
use crate::groups;
use crate::history;
use crate::number::{to_row, to_row32};
use crate::reports::RowKey;
use crate::segments::drop_frames;
use crate::{GroupId, Result, StoreError, TenantTx, Uuid, json};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::{FromRow, Row};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::{ReportGrouping, timestamp};

/// Longer values of indexed columns would not fit into an index page.
const NAME_CHARS: usize = 200;
const TEXT_CHARS: usize = 1_000;
const SUMMARY_BYTES: usize = 16 * 1024;
const CONTEXT_BYTES: usize = 8 * 1024;
const DEVICE_BYTES: usize = 32;

/// Fields of the earlier revision that the roll-ups have to take back.
#[derive(Clone, Debug, FromRow)]
pub(super) struct Previous {
    pub(super) app: String,
    pub(super) version: String,
    pub(super) status: String,
    pub(super) fatal: bool,
    #[sqlx(try_from = "i32")]
    pub(super) weight: i64,
    #[sqlx(flatten)]
    pub(super) frames: FrameTotals,
    #[sqlx(rename = "group_id")]
    pub(super) group: Option<GroupId>,
    #[sqlx(flatten)]
    pub(super) texts: GroupTexts,
    #[sqlx(flatten)]
    pub(super) made_on: MadeOn,
    pub(super) same_crash_as: Option<Uuid>,
}

/// The device and the OS of a report, in their stored form.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(super) struct MadeOn {
    pub(super) device: Option<Vec<u8>>,
    pub(super) model: Option<String>,
    pub(super) os_name: Option<String>,
    pub(super) os_version: Option<String>,
}

impl MadeOn {
    pub(super) fn from_details(facts: &ReportDetails) -> MadeOn {
        MadeOn {
            device: device_bytes(facts).map(<[u8]>::to_vec),
            model: truncate_optional(facts.model.as_ref()),
            os_name: truncate_optional(facts.os_name.as_ref()),
            os_version: truncate_optional(facts.os_version.as_ref()),
        }
    }
}

/// Texts that a report added to its group, in their stored form. They may contain personal data.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(super) struct GroupTexts {
    pub(super) reason: Option<String>,
    pub(super) title: Option<String>,
}

impl GroupTexts {
    pub(super) fn from_details(facts: &ReportDetails) -> GroupTexts {
        GroupTexts {
            reason: truncate_optional(facts.reason.as_ref()),
            title: facts.grouping.as_ref().map(|grouping| truncate_title(&grouping.title)),
        }
    }
}

/// The group that a report is counted for.
pub(super) struct GroupRow<'f> {
    pub(super) id: GroupId,
    pub(super) app: String,
    /// `None` of a report that leaves the group.
    pub(super) grouping: Option<&'f ReportGrouping>,
}

impl<'f> GroupRow<'f> {
    pub(super) fn from_details(facts: &'f ReportDetails) -> Option<GroupRow<'f>> {
        Some(GroupRow::new(truncate_name(&facts.app), facts.grouping.as_ref()?))
    }

    /// Makes the row of a report's group in this app, as the report's row names the app.
    pub(super) fn new(app: String, grouping: &'f ReportGrouping) -> GroupRow<'f> {
        GroupRow { id: groups::id_of(&app, grouping.fingerprint), app, grouping: Some(grouping) }
    }
}

/// Returns a text that Postgres accepts, cut to a number of characters.
fn truncate_text(text: &str, chars: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(chars).collect()
}

/// Returns a text that an index can hold too.
pub(super) fn truncate_name(text: &str) -> String {
    truncate_text(text, NAME_CHARS)
}

/// Returns a line for a list.
pub(super) fn truncate_title(text: &str) -> String {
    truncate_text(text, TEXT_CHARS)
}

fn truncate_optional(text: Option<&String>) -> Option<String> {
    text.map(|text| truncate_title(text))
}

/// Returns JSON that Postgres accepts: without NULs, and not over the limit.
fn encode_object(value: &serde_json::Value, limit: usize) -> Box<RawValue> {
    let text = match value.to_string() {
        text if text.len() > limit => r#"{"truncated":true}"#.to_owned(),
        _ if !value.is_object() => "{}".to_owned(),
        text if text.contains("\\u0000") => text.replace("\\u0000", "\\ufffd"),
        text => text,
    };
    RawValue::from_string(text).unwrap_or_default()
}

/// Reads the stored revisions of the reports that have one. Removes reports without a row from `changes`, and
/// returns them.
pub(super) async fn read_previous<'a>(
    tx: &mut TenantTx,
    changes: &mut Vec<Change<'a>>,
) -> Result<Vec<Change<'a>>> {
    let known: Vec<_> = changes.iter().filter(|c| c.key.latest_revision > 0).map(|c| c.key).collect();
    if known.is_empty() {
        return Ok(Vec::new());
    }
    history::bring_back(tx, &known).await?;
    let times: Vec<OffsetDateTime> = known.iter().map(|key| key.received_at).collect();
    let ids: Vec<Uuid> = known.iter().map(|key| key.report_id.uuid()).collect();
    let variants: Vec<i32> = known.iter().map(|key| to_row32(key.variant)).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query(
        "SELECT r.report_id, r.variant, r.app, r.version, r.status, r.fatal, r.weight, r.frames_total,
                r.frames_symbolicated, r.frames_device, r.frames_device_app, r.frames_missing, r.frames_own,
                r.frames_own_symbolicated, r.group_id, r.reason, r.title, r.device, r.model, r.os_name, r.os_version, r.same_crash_as
         FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS k (received_at, report_id, variant)
         CROSS JOIN LATERAL (
             SELECT * FROM reports o
             WHERE o.tenant = $1 AND o.received_at = ANY ($2) AND o.received_at = k.received_at AND o.report_id = k.report_id
               AND o.variant = k.variant
             LIMIT 1) r",
    )
    .bind(tenant)
    .bind(&times)
    .bind(&ids)
    .bind(&variants)
    .fetch_all(connection)
    .await?;
    let mut previous: BTreeMap<RowKey, Previous> = BTreeMap::new();
    for row in &rows {
        previous.insert((row.try_get("report_id")?, row.try_get("variant")?), Previous::from_row(row)?);
    }
    let (mut kept, mut gone) = (Vec::with_capacity(changes.len()), Vec::new());
    for mut change in changes.drain(..) {
        change.previous = previous.remove(&(change.key.report_id.uuid(), to_row32(change.key.variant)));
        if change.key.latest_revision > 0 && change.previous.is_none() {
            gone.push(change);
        } else {
            kept.push(change);
        }
    }
    *changes = kept;
    Ok(gone)
}

#[derive(Serialize)]
struct NewReportRow {
    received_at: String,
    report_id: Uuid,
    variant: u32,
    revision: u32,
    app: String,
    version: String,
    build: String,
    r#type: String,
    fatal: bool,
    status: String,
    device_time: Option<String>,
    device: Option<String>,
    os_name: Option<String>,
    os_version: Option<String>,
    os_build: Option<String>,
    model: Option<String>,
    process: Option<String>,
    reason: Option<String>,
    summary: Box<RawValue>,
    context: Box<RawValue>,
    frames_total: i32,
    frames_symbolicated: i32,
    frames_device: i32,
    frames_device_app: i32,
    frames_missing: i32,
    frames_own: i32,
    frames_own_symbolicated: i32,
    symbols_missing: bool,
    system_images: Vec<Uuid>,
    wanted: Vec<Uuid>,
    group_id: Option<GroupId>,
    title: Option<String>,
    run_id: Option<Uuid>,
    process_identity: Option<Uuid>,
    metric_kit: bool,
    teller: &'static str,
    second_telling: bool,
    weight: i64,
    origin_topic: Option<String>,
    origin_partition: Option<i32>,
    origin_offset: Option<i64>,
    traceparent: Option<String>,
    sender_key: Option<String>,
}

/// Returns a time in the one spelling that Postgres reads without loss; `None` if Postgres cannot hold it.
fn time_text(at: OffsetDateTime) -> Option<String> {
    timestamp::to_storable(at)?.format(&Rfc3339).ok()
}

/// Returns the bytes that identify the device, in their stored form.
pub(super) fn device_bytes(facts: &ReportDetails) -> Option<&[u8]> {
    facts.device.as_deref().map(|bytes| &bytes[..bytes.len().min(DEVICE_BYTES)]).filter(|b| !b.is_empty())
}

fn build_row(change: &Change<'_>) -> Result<NewReportRow> {
    let (key, arrival, facts) = (&change.key, change.arrival, &change.arrival.facts);
    let received_at = time_text(key.received_at)
        .ok_or_else(|| StoreError::corrupt("report_keys", format!("received_at {}", key.received_at)))?;
    let mut system_images: Vec<Uuid> =
        arrival.images.iter().filter(|i| i.system).map(|i| i.debug_id.uuid()).collect();
    system_images.sort_unstable();
    let texts = GroupTexts::from_details(facts);
    Ok(NewReportRow {
        received_at,
        report_id: key.report_id.uuid(),
        variant: key.variant,
        revision: arrival.revision,
        app: truncate_name(&facts.app),
        version: truncate_name(&facts.version),
        build: truncate_name(&facts.build),
        r#type: truncate_name(&facts.kind),
        fatal: facts.is_fatal(),
        status: truncate_name(&facts.status),
        device_time: facts.device_time.and_then(time_text),
        device: device_bytes(facts).map(json::format_bytes),
        os_name: truncate_optional(facts.os_name.as_ref()),
        os_version: truncate_optional(facts.os_version.as_ref()),
        os_build: truncate_optional(facts.os_build.as_ref()),
        model: truncate_optional(facts.model.as_ref()),
        process: truncate_optional(facts.process.as_ref()),
        reason: texts.reason,
        summary: encode_object(&facts.summary, SUMMARY_BYTES),
        context: encode_object(&facts.context, CONTEXT_BYTES),
        frames_total: to_row32(facts.frames.total),
        frames_symbolicated: to_row32(facts.frames.symbolicated),
        frames_device: to_row32(facts.frames.device),
        frames_device_app: to_row32(facts.frames.device_app),
        frames_missing: to_row32(facts.frames.missing),
        frames_own: to_row32(facts.frames.own),
        frames_own_symbolicated: to_row32(facts.frames.own_symbolicated),
        symbols_missing: arrival.images.iter().any(ImageUse::lacks_symbols),
        system_images,
        wanted: change.wanted_images().map(|image| image.debug_id.uuid()).collect(),
        group_id: GroupRow::from_details(facts).map(|group| group.id).filter(|_| change.is_counted()),
        title: texts.title,
        run_id: facts.run_id,
        process_identity: facts.process_identity,
        metric_kit: facts.metric_kit,
        teller: facts.teller().as_str(),
        second_telling: facts.is_second_handler || facts.teller() != CrashTeller::Handler,
        weight: change.weight(),
        origin_topic: arrival.origin.as_ref().map(|o| truncate_name(&o.topic)),
        origin_partition: arrival.origin.as_ref().map(|o| o.partition),
        origin_offset: arrival.origin.as_ref().map(|o| o.offset),
        traceparent: truncate_optional(arrival.traceparent.as_ref()),
        sender_key: facts.sender_key.map(|key| key.to_string()),
    })
}

/// Writes the reports and their bodies, each in the place of the revision before.
pub(super) async fn write_reports(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let rows: Vec<NewReportRow> = changes.iter().map(build_row).collect::<Result<_>>()?;
    let rows = serde_json::to_string(&rows).map_err(|e| StoreError::corrupt("reports", e))?;
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO reports AS t (tenant, received_at, report_id, variant, revision, app, version, build, type, fatal, status,
             device_time, device, os_name, os_version, os_build, model, process, reason, summary, context, frames_total,
             frames_symbolicated, frames_device, frames_device_app, frames_missing, frames_own, frames_own_symbolicated, symbols_missing, system_images, wanted,
             group_id, title, run_id, process_identity, metric_kit, weight, origin_topic, origin_partition, origin_offset, traceparent,
             sender_key, teller, second_telling, stored_at)
         SELECT $1, r.received_at, r.report_id, r.variant, r.revision, r.app, r.version, r.build, r.type, r.fatal, r.status,
             r.device_time, r.device, r.os_name, r.os_version, r.os_build, r.model, r.process, r.reason, r.summary, r.context,
             r.frames_total, r.frames_symbolicated, r.frames_device, r.frames_device_app, r.frames_missing, r.frames_own,
             r.frames_own_symbolicated,
             r.symbols_missing, r.system_images, r.wanted, r.group_id, r.title, r.run_id, r.process_identity,
             r.metric_kit, r.weight, r.origin_topic, r.origin_partition, r.origin_offset, r.traceparent, r.sender_key, r.teller,
             r.second_telling, $3
         FROM json_to_recordset($2::text::json) AS r (received_at timestamptz, report_id uuid, variant integer, revision integer,
             app text, version text, build text, type text, fatal boolean, status text, device_time timestamptz, device bytea,
             os_name text, os_version text, os_build text, model text, process text, reason text, summary jsonb, context jsonb,
             frames_total integer, frames_symbolicated integer, frames_device integer, frames_device_app integer,
             frames_missing integer, frames_own integer, frames_own_symbolicated integer, symbols_missing boolean, system_images uuid[], wanted uuid[],
             group_id uuid, title text, run_id uuid, process_identity uuid, metric_kit boolean, weight integer, origin_topic text,
             origin_partition integer, origin_offset bigint, traceparent text, sender_key text,
             teller text, second_telling boolean)
         ON CONFLICT (tenant, received_at, report_id, variant) DO UPDATE
         SET revision = EXCLUDED.revision, app = EXCLUDED.app, version = EXCLUDED.version, build = EXCLUDED.build,
             type = EXCLUDED.type, fatal = EXCLUDED.fatal, status = EXCLUDED.status, device_time = EXCLUDED.device_time,
             device = EXCLUDED.device, os_name = EXCLUDED.os_name, os_version = EXCLUDED.os_version,
             os_build = EXCLUDED.os_build, model = EXCLUDED.model, process = EXCLUDED.process,
             reason = EXCLUDED.reason, summary = EXCLUDED.summary,
             context = CASE WHEN t.context ? 'changes'
                 THEN EXCLUDED.context || jsonb_build_object('changes',
                     unslide_add_changes(t.context -> 'changes', EXCLUDED.context -> 'changes'))
                 ELSE EXCLUDED.context END,
             frames_total = EXCLUDED.frames_total,
             frames_symbolicated = EXCLUDED.frames_symbolicated, frames_device = EXCLUDED.frames_device,
             frames_device_app = EXCLUDED.frames_device_app, frames_missing = EXCLUDED.frames_missing,
             frames_own = EXCLUDED.frames_own, frames_own_symbolicated = EXCLUDED.frames_own_symbolicated,
             symbols_missing = EXCLUDED.symbols_missing, system_images = EXCLUDED.system_images, group_id = EXCLUDED.group_id,
             title = EXCLUDED.title,
             origin_topic = coalesce(t.origin_topic, EXCLUDED.origin_topic),
             origin_partition = coalesce(t.origin_partition, EXCLUDED.origin_partition),
             origin_offset = coalesce(t.origin_offset, EXCLUDED.origin_offset),
             sender_key = coalesce(t.sender_key, EXCLUDED.sender_key),
             traceparent = EXCLUDED.traceparent, stored_at = EXCLUDED.stored_at,
             body_kept = nullif(t.body_kept, false), kept_bodies = NULL, like_report = NULL, like_variant = NULL",
        tenant,
        rows,
        now
    )
    .execute(connection)
    .await?;
    write_bodies(tx, changes).await
}

async fn write_bodies(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let times: Vec<OffsetDateTime> = changes.iter().map(|c| c.key.received_at).collect();
    let ids: Vec<Uuid> = changes.iter().map(|c| c.key.report_id.uuid()).collect();
    let variants: Vec<i32> = changes.iter().map(|c| to_row32(c.key.variant)).collect();
    let revisions: Vec<i32> = changes.iter().map(|c| to_row32(c.arrival.revision)).collect();
    let sizes: Vec<i64> = changes.iter().map(|c| to_row(c.arrival.size)).collect();
    let bodies: Vec<&[u8]> = changes.iter().map(|c| c.arrival.body.as_slice()).collect();
    sqlx::query!(
        "INSERT INTO report_bodies (tenant, received_at, report_id, variant, revision, size, body, stored_at)
         SELECT $1, b.received_at, b.report_id, b.variant, b.revision, b.size, b.body, $8
         FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[], $5::integer[], $6::bigint[], $7::bytea[])
              AS b (received_at, report_id, variant, revision, size, body)
         ON CONFLICT (tenant, received_at, report_id, variant) DO UPDATE
         SET revision = EXCLUDED.revision, size = EXCLUDED.size, body = EXCLUDED.body, stored_at = EXCLUDED.stored_at",
        tenant,
        &times,
        &ids,
        &variants,
        &revisions,
        &sizes,
        &bodies as &[&[u8]],
        now
    )
    .execute(connection)
    .await?;
    // The body of the revision before may be in a segment.
    drop_frames(tx, &times, &ids, &variants).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_missing_where_an_image_of_the_app_has_none_or_those_of_a_stripped_binary() {
        let app = ImageUse {
            debug_id: "0f1e2d3c4b5a69788796a5b4c3d2e1f0".parse().unwrap(),
            name: "Shop".into(),
            arch: "arm64".into(),
            system: false,
            found: true,
            stripped: false,
            failed: false,
            seen_generation: 1,
        };
        for (image, lacks) in [
            (app.clone(), false),
            (ImageUse { stripped: true, ..app.clone() }, true),
            (ImageUse { found: false, ..app.clone() }, true),
            (ImageUse { found: false, failed: true, ..app.clone() }, false),
            (ImageUse { found: false, system: true, ..app.clone() }, false),
        ] {
            assert_eq!(image.lacks_symbols(), lacks, "{image:?}");
        }
    }

    #[test]
    fn nuls_and_lengths_that_postgres_refuses_do_not_reach_it() {
        assert_eq!(truncate_name("a\0b"), "ab");
        assert_eq!(truncate_name(&"é".repeat(500)).chars().count(), NAME_CHARS);
        for (value, text) in [
            (serde_json::json!({"a": "x\0y"}), r#"{"a":"x\ufffdy"}"#),
            (serde_json::json!([1]), "{}"),
            (serde_json::json!("\0"), "{}"),
            (serde_json::json!({"a": "x".repeat(SUMMARY_BYTES)}), r#"{"truncated":true}"#),
        ] {
            assert_eq!(encode_object(&value, SUMMARY_BYTES).get(), text);
        }
    }
}
