//! Deletes a tenant: its state first, then all of its data, page by page, and the proof.
//!
//! The state is set under a lock that every transaction shares which adds rows of the tenant (a trigger
//! enforces that), so that no row is added after it. The rows are deleted table by table as the core and the features
//! declare them. A test compares the declarations with the catalogue, so that no table is forgotten.

use crate::column::{JsonColumn, Nullable, TenantColumn, U64, json_column};
use crate::events::StoreEvent;
use crate::hooks;
use crate::jobs::{self, JobLease, Work};
use crate::number::{to_row, to_row32};
use crate::persons::ErasedRows;
use crate::tables::{RemovalCount, Selection, delete_with_tenant};
use crate::tenants::{self, TenantRecord, TenantStanding};
use crate::{Result, Store, StoreError, TenantTx, audit};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use unslide_model::TenantId;
use utoipa::ToSchema;

/// Numbers by table.
pub type ByTable = BTreeMap<String, u64>;

/// How far the erasing of a deleted tenant is, and the proof that nothing is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Erasure)]
pub struct TenantErasure {
    /// When the tenant was deleted.
    #[serde(with = "time::serde::rfc3339")]
    pub requested_at: OffsetDateTime,
    /// Rows that were removed so far, by table.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub removed: ByTable,
    /// Objects that were removed from object storage so far.
    // A worker that dies between a removal and its count makes this too low, never too high.
    pub objects: u64,
    /// Size of these objects in bytes.
    pub object_bytes: u64,
    /// Counts of remaining data at the end: rows by table, and objects as `object storage`. All are 0. Absent
    /// before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, u64>>)]
    pub remaining: Option<ByTable>,
    /// When nothing was left (RFC 3339); absent before that.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<OffsetDateTime>,
    /// When the second search ended (RFC 3339). It finds data of requests that had begun before the deletion.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub swept_at: Option<OffsetDateTime>,
}

/// Deletes the transaction's tenant: its keys are refused, no more data is written for it, the workers are
/// notified, and a job erases its data. Returns the tenant and the outbox row of the announcement; `None` if
/// there is no such tenant. A tenant that is deleted already stays so.
pub async fn begin_erasure(tx: &mut TenantTx) -> Result<Option<(TenantRecord, Option<i64>)>> {
    let Some(tenant) = tenants::get(tx).await? else { return Ok(None) };
    tx.allow_erasure().await?;
    let deleted = match tenant.state {
        TenantStanding::Deleted => None,
        // Its name may say more than its slug.
        _ => tenants::change_tenant(tx, tenant.id.as_str(), TenantStanding::Deleted, &tenant.limits).await?,
    };
    let (tenant, announced) = match deleted {
        Some((tenant, announced)) => (tenant, Some(announced)),
        None => (tenant, None),
    };
    // One that was deleted in another way gets its job here too.
    if record_erasure(tx).await? || announced.is_some() {
        jobs::add_job(tx, &Work::Erase).await?;
        hooks::send_event(StoreEvent::TenantDeleted(tx)).await?;
    }
    Ok(Some((tenant, announced)))
}

/// Inserts the record of the erasure. Returns false if it exists.
async fn record_erasure(tx: &mut TenantTx) -> Result<bool> {
    let (connection, slug, now) = tx.parts();
    let made = sqlx::query!(
        "INSERT INTO tenant_erasures (tenant, requested_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        slug,
        now
    )
    .execute(connection)
    .await?;
    Ok(made.rows_affected() == 1)
}

json_column!(ByTable);

/// Returns the erasure of the transaction's tenant; `None` if it was not deleted.
pub async fn get(tx: &mut TenantTx) -> Result<Option<TenantErasure>> {
    let (connection, slug, _) = tx.parts();
    Ok(sqlx::query_as!(
        TenantErasure,
        r#"SELECT requested_at, removed AS "removed: JsonColumn<ByTable>", objects AS "objects: U64",
                  object_bytes AS "object_bytes: U64", remaining AS "remaining!: Nullable<JsonColumn<ByTable>>",
                  finished_at, swept_at
           FROM tenant_erasures WHERE tenant = $1"#,
        slug
    )
    .fetch_optional(connection)
    .await?)
}

/// Deletes up to `limit` rows of the transaction's tenant from the first table that has some, and records
/// their number. Returns None once only rows are left that a worker still holds (see [`rows_left`]). Commit, and call again.
///
/// The tables are emptied from the last one in the order of locks to the first, so that none goes with the row that it refers
/// to and each is counted. `emptied` is the number of tables that have nothing left; begin with 0.
///
/// # Errors
/// Returns an error if the tenant is not deleted, or the database fails.
pub async fn erase_rows(tx: &mut TenantTx, emptied: &mut usize, limit: u32) -> Result<Option<ErasedRows>> {
    tx.allow_erasure().await?;
    if tenants::get(tx).await?.is_none_or(|tenant| tenant.state != TenantStanding::Deleted) {
        return Err(StoreError::corrupt("tenants", "only the data of a deleted tenant is erased"));
    }
    record_erasure(tx).await?;
    for table in tx.tables().into_iter().rev().skip(*emptied) {
        let rows = delete_with_tenant(tx, table, limit).await?;
        if rows == 0 {
            *emptied += 1;
            continue;
        }
        let (connection, slug, _) = tx.parts();
        sqlx::query!(
            "UPDATE tenant_erasures
             SET removed = jsonb_set(removed, ARRAY[$2], to_jsonb(coalesce((removed ->> $2)::bigint, 0) + $3::bigint))
             WHERE tenant = $1",
            slug,
            table.name,
            to_row(rows)
        )
        .execute(connection)
        .await?;
        return Ok(Some(ErasedRows { table: table.name, rows }));
    }
    Ok(None)
}

/// Counts objects that were removed from object storage.
pub async fn record_objects(tx: &mut TenantTx, count: u64, bytes: u64) -> Result<()> {
    let (connection, slug, _) = tx.parts();
    sqlx::query!(
        "UPDATE tenant_erasures SET objects = objects + $2, object_bytes = object_bytes + $3 WHERE tenant = $1",
        slug,
        to_row(count),
        to_row(bytes)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the rows of the transaction's tenant by table: every table that has tenants' rows, without those
/// that outlive their tenant (the audit log, the erasure itself, the announcement of the deletion).
pub async fn rows_left(tx: &mut TenantTx) -> Result<ByTable> {
    let mut left = ByTable::new();
    for table in tx.tables() {
        let counted = Selection::Tenant.count_in_table(tx, table).await?;
        left.extend(counted.map(|counted| (counted.table.to_owned(), counted.rows)));
    }
    Ok(left)
}

/// Counts what a deletion of the transaction's tenant would remove, and deletes nothing.
pub async fn count_removal(tx: &mut TenantTx) -> Result<RemovalCount> {
    let mut count = RemovalCount::begin();
    for table in tx.tables() {
        if count.is_over() {
            break;
        }
        let counted = Selection::Tenant.count_in_table(tx, table).await?;
        count.add_rows(counted.as_slice());
    }
    Ok(count)
}

/// Ends the job: the remaining rows are counted in this transaction, and an audit entry lists the removed
/// rows. Returns false if something remains and nothing was ended: go on.
///
/// # Errors
/// [`StoreError::LeaseLost`]; or the database fails.
pub async fn finish_erasure(tx: &mut TenantTx, job: &JobLease, objects_left: u64) -> Result<bool> {
    tx.allow_erasure().await?;
    let mut left = rows_left(tx).await?;
    left.insert("object storage".to_owned(), objects_left);
    if left.values().any(|rows| *rows > 0) {
        return Ok(false);
    }
    let Some(erasure) = get(tx).await? else { return Ok(false) };
    let remaining = serde_json::to_value(&left).map_err(|e| StoreError::corrupt("tenant_erasures", e))?;
    let (connection, slug, now) = tx.parts();
    let slug = slug.to_owned();
    sqlx::query!(
        "UPDATE tenant_erasures
         SET remaining = $2, finished_at = coalesce(finished_at, $3),
             swept_at = CASE WHEN finished_at IS NULL THEN swept_at ELSE $3 END
         WHERE tenant = $1",
        slug,
        remaining,
        now
    )
    .execute(connection)
    .await?;
    let action = if erasure.finished_at.is_none() { "tenant.erased" } else { "tenant.swept" };
    let detail = json!({
        "removed": erasure.removed, "objects": erasure.objects, "object_bytes": erasure.object_bytes, "remaining": left,
    });
    audit::append_entry(tx, "builder", action, &slug, &detail).await?;
    jobs::complete_job(tx, job).await?;
    Ok(true)
}

/// Adds a job for deleted tenants that no job erases, and for those that were finished
/// before `finished_before` and not looked at again: an upload that had begun before the deletion
/// may have ended after it, and its receiver died. Returns their number.
pub async fn resume_erasures(store: &Store, finished_before: OffsetDateTime, limit: u32) -> Result<u64> {
    let due = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_erasures_due($1, $2)"#,
        finished_before,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    let mut added = 0;
    for tenant in due.into_iter().map(TenantId::from) {
        let mut tx = store.tenant(&tenant).await?;
        tx.allow_erasure().await?;
        record_erasure(&mut tx).await?;
        jobs::add_job(&mut tx, &Work::Erase).await?;
        tx.commit().await?;
        added += 1;
    }
    Ok(added)
}
