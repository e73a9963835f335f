//! Reports of one person: found by the users that they name, by their device, or by the run of the app.

use super::{Arrival, Change};
use crate::history::{self, HistoryReport, HistorySearch};
use crate::number::{from_row32, to_row32};
use crate::persons::{ArrivedPerson, PersonHash, PersonKey, PersonKind};
use crate::reports::RowKey;
use crate::segments::day_bounds;
use crate::{Result, TenantTx, Uuid};
use time::{Date, OffsetDateTime};
use unslide_history::{HistoryFilter, HistoryOrder};
use unslide_model::ReportId;

/// The way in which reports of a person are found.
#[derive(Clone, Copy, Debug)]
pub enum PersonReports<'t> {
    /// Those that name a user.
    User(PersonHash),
    /// Those of a device that arrived on a day.
    Installation(PersonHash, Date),
    /// Those of runs of an app.
    Sessions(&'t [Uuid]),
}

/// Returns the persons that a report belongs to. `place` is its index in its batch.
pub(super) fn list_persons(place: usize, arrival: &Arrival) -> impl Iterator<Item = ArrivedPerson> {
    let facts = &arrival.facts;
    let device = facts.device.as_deref().and_then(|device| PersonHash::try_from(device).ok());
    let device = device.map(|hash| PersonKey { kind: PersonKind::Installation, hash });
    let session = facts.run_id.map(|id| PersonKey::from_id(PersonKind::Session, &id.to_string()));
    let users = facts.users.iter().map(|hash| PersonKey { kind: PersonKind::User, hash: *hash });
    let received_at = arrival.received_at;
    device.into_iter().chain(session).chain(users).map(move |key| ArrivedPerson { place, key, received_at })
}

/// Inserts the users that new reports name.
pub(super) async fn record_users(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<()> {
    let new = changes.iter().filter(|change| change.previous.is_none());
    let users: Vec<_> =
        new.flat_map(|change| change.arrival.facts.users.iter().map(|user| (change.key, user))).collect();
    if users.is_empty() {
        return Ok(());
    }
    let times: Vec<OffsetDateTime> = users.iter().map(|(key, _)| key.received_at).collect();
    let ids: Vec<Uuid> = users.iter().map(|(key, _)| key.report_id.uuid()).collect();
    let variants: Vec<i32> = users.iter().map(|(key, _)| to_row32(key.variant)).collect();
    let hashes: Vec<&[u8]> = users.iter().map(|(_, hash)| hash.as_slice()).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO report_users (tenant, received_at, report_id, variant, user_hash)
         SELECT $1, u.received_at, u.report_id, u.variant, u.user_hash
         FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[], $5::bytea[])
              AS u (received_at, report_id, variant, user_hash)
         ON CONFLICT DO NOTHING",
        tenant,
        &times,
        &ids,
        &variants,
        &hashes as &[&[u8]]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Lists stored reports of a person that arrived before a time, at most `limit`, each with its variant.
pub async fn list_person_reports(
    tx: &mut TenantTx,
    search: PersonReports<'_>,
    received_before: OffsetDateTime,
    limit: u32,
) -> Result<Vec<(ReportId, u32)>> {
    let most = limit;
    let (connection, tenant, _) = tx.parts();
    let limit = i64::from(limit);
    let mut found: Vec<RowKey> = match search {
        PersonReports::User(hash) => sqlx::query!(
            "SELECT u.report_id, u.variant FROM report_users u
             WHERE u.tenant = $1 AND u.user_hash = $2 AND u.received_at < $3
               AND (EXISTS (SELECT FROM reports r WHERE r.tenant = $1 AND r.received_at = u.received_at
                                                    AND r.report_id = u.report_id AND r.variant = u.variant)
                    OR EXISTS (SELECT FROM report_keys k WHERE k.tenant = $1 AND k.report_id = u.report_id AND k.variant = u.variant
                                                           AND k.history_version IS NOT NULL))
             ORDER BY u.received_at, u.report_id, u.variant LIMIT $4",
            tenant,
            hash.as_slice(),
            received_before,
            limit
        )
        .fetch_all(connection)
        .await?
        .into_iter()
        .map(|row| (row.report_id, row.variant))
        .collect(),
        PersonReports::Installation(hash, day) => {
            let (begin, end) = day_bounds(day);
            sqlx::query!(
                "SELECT report_id, variant FROM reports
                 WHERE tenant = $1 AND received_at >= $2 AND received_at < $3 AND device = $4 AND received_at < $5
                 ORDER BY received_at, report_id, variant LIMIT $6",
                tenant,
                begin,
                end,
                hash.as_slice(),
                received_before,
                limit
            )
            .fetch_all(connection)
            .await?
            .into_iter()
            .map(|row| (row.report_id, row.variant))
            .collect()
        }
        PersonReports::Sessions(ids) => sqlx::query!(
            "SELECT report_id, variant FROM reports
             WHERE tenant = $1 AND run_id = ANY ($2) AND received_at < $3 LIMIT $4",
            tenant,
            ids,
            received_before,
            limit
        )
        .fetch_all(connection)
        .await?
        .into_iter()
        .map(|row| (row.report_id, row.variant))
        .collect(),
    };
    let left = most.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
    if left > 0 {
        found.extend(list_moved_of_person(tx, search, received_before, left).await?);
    }
    Ok(found.into_iter().map(|(id, variant)| (ReportId::from_uuid(id), from_row32(variant))).collect())
}

/// Lists those of a person that are in ClickHouse. The users that reports name are in the database.
async fn list_moved_of_person(
    tx: &mut TenantTx,
    search: PersonReports<'_>,
    received_before: OffsetDateTime,
    limit: u32,
) -> Result<Vec<RowKey>> {
    let filter = match search {
        PersonReports::User(_) => return Ok(Vec::new()),
        PersonReports::Installation(hash, day) => {
            let (begin, end) = day_bounds(day);
            let device = Some(hash.as_slice().to_vec());
            let to = Some(end.min(received_before));
            HistoryFilter { from: Some(begin), to, device, ..HistoryFilter::default() }
        }
        PersonReports::Sessions(ids) => {
            HistoryFilter { to: Some(received_before), runs: Some(ids.to_vec()), ..HistoryFilter::default() }
        }
    };
    let is_theirs = |report: &HistoryReport| {
        report.received_at < received_before
            && match search {
                PersonReports::User(_) => false,
                PersonReports::Installation(hash, _) => report.device.as_deref() == Some(hash.as_slice()),
                PersonReports::Sessions(ids) => report.run_id.is_some_and(|run| ids.contains(&run)),
            }
    };
    let search = HistorySearch { filter, order: HistoryOrder::OldestFirst, after: None };
    let moved = history::find_moved(tx, search, limit, is_theirs).await?;
    Ok(moved.into_iter().map(|report| (report.report_id.uuid(), to_row32(report.variant))).collect())
}
