//! The statements about erasures of persons.

use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, OffsetDateTime};
use unslide_model::ContentHash;
use unslide_store::erasure_requests::{ErasureRequest, ErasureState, ErasureTable};
use unslide_store::jobs::{self, FeatureWork, Work};
use unslide_store::persons::{self, PersonKey, PersonKind};
use unslide_store::{Result, TenantTx, Uuid};
use utoipa::ToSchema;

/// The kind of the jobs.
pub const JOB_KIND: &str = "erase_person";
/// Erasures of one tenant that are under way.
pub const MAX_OPEN_ERASURES: i64 = 1_000;
/// The table of requests to erase persons.
pub const PERSON_ERASURES: ErasureTable =
    ErasureTable { name: "person_erasures", of_search: &["next_day"], of_request: &["person_id"] };

/// A person whose data is to be erased.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPersonErasure {
    /// Kind of the id.
    #[schema(value_type = String, example = "user")]
    pub kind: PersonKind,
    /// The id, as the app sends it.
    #[schema(min_length = 1, max_length = 200, example = "u-17")]
    pub id: String,
    /// True only counts what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// The erasure of a person. It does not name the person.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PersonErasure {
    /// Id of the erasure.
    pub id: Uuid,
    /// Kind of the person's id.
    #[schema(value_type = String, example = "user")]
    pub kind: PersonKind,
    /// Keyed hash of the person's id, in hexadecimal. The audit log has the same. Another erasure of the same person has
    /// the same hash.
    #[schema(example = "3b1f4c0d5a6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708")]
    pub person_hash: String,
    /// State of the erasure.
    #[schema(value_type = String, example = "done")]
    pub state: ErasureState,
    /// Rows that were removed so far, by table. A report is removed with its bytes, a capture with its files.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub removed: BTreeMap<String, u64>,
    /// Id of the key that requested it.
    pub requested_by: String,
    /// When it was requested (RFC 3339). Data that arrived later stays.
    #[serde(with = "time::serde::rfc3339")]
    pub requested_at: OffsetDateTime,
    /// When nothing was left (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<OffsetDateTime>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Returns a keyed hash in hexadecimal.
fn encode_hash(hash: Vec<u8>) -> String {
    ContentHash(hash.try_into().unwrap_or_default()).to_string()
}

struct ErasureRow {
    id: Uuid,
    kind: PersonKind,
    person_hash: Vec<u8>,
    state: ErasureState,
    removed: Json<BTreeMap<String, u64>>,
    requested_by: String,
    requested_at: OffsetDateTime,
    finished_at: Option<OffsetDateTime>,
    detail: Option<String>,
}

impl From<ErasureRow> for PersonErasure {
    fn from(row: ErasureRow) -> PersonErasure {
        PersonErasure {
            id: row.id,
            kind: row.kind,
            person_hash: encode_hash(row.person_hash),
            state: row.state,
            removed: row.removed.0,
            requested_by: row.requested_by,
            requested_at: row.requested_at,
            finished_at: row.finished_at,
            detail: row.detail,
        }
    }
}

/// Inserts an erasure with its job, and records the person: data that arrived before is not stored any more. Returns
/// None if the tenant has [`MAX_OPEN_ERASURES`] under way.
pub async fn begin_erasure(
    tx: &mut TenantTx,
    new: &NewPersonErasure,
    actor: &str,
) -> Result<Option<PersonErasure>> {
    let now = tx.now();
    let key = PersonKey::from_id(new.kind, &new.id);
    let hashes = persons::record_erased(tx, &BTreeSet::from([key]), now).await?;
    let hash = hashes.into_iter().next().unwrap_or_default();
    let (connection, tenant, now) = tx.parts();
    let row = sqlx::query_as!(
        ErasureRow,
        r#"INSERT INTO person_erasures (id, tenant, kind, person_id, person_hash, requested_by, requested_at, state)
           SELECT unslide_uuid($2), $1, $3, $4, $5, $6, $2, 'searching'
           WHERE (SELECT count(*) FROM person_erasures WHERE tenant = $1 AND state LIKE 'searching%') < $7
           RETURNING id, kind AS "kind: PersonKind", person_hash, state AS "state: ErasureState",
                     removed AS "removed: Json<BTreeMap<String, u64>>", requested_by, requested_at, finished_at, detail"#,
        tenant,
        now,
        new.kind.as_str(),
        new.id,
        hash,
        actor,
        MAX_OPEN_ERASURES
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    jobs::add_job(tx, &erasure_work(row.id)).await?;
    Ok(Some(row.into()))
}

/// Returns erasures of the transaction's tenant, the newest first, after a position.
pub async fn list_erasures(
    tx: &mut TenantTx,
    after: Option<(OffsetDateTime, Uuid)>,
    limit: u32,
) -> Result<Vec<PersonErasure>> {
    let (connection, tenant, _) = tx.parts();
    let (at, id) = after.unzip();
    let rows = sqlx::query_as!(
        ErasureRow,
        r#"SELECT id, kind AS "kind: PersonKind", person_hash, state AS "state: ErasureState",
                  removed AS "removed: Json<BTreeMap<String, u64>>", requested_by, requested_at, finished_at, detail
           FROM person_erasures
           WHERE tenant = $1 AND ($2::timestamptz IS NULL OR (requested_at, id) < ($2, $3::uuid))
           ORDER BY requested_at DESC, id DESC LIMIT $4"#,
        tenant,
        at,
        id,
        i64::from(limit)
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(PersonErasure::from).collect())
}

/// Returns an erasure of the transaction's tenant.
pub async fn get_erasure(tx: &mut TenantTx, id: Uuid) -> Result<Option<PersonErasure>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        ErasureRow,
        r#"SELECT id, kind AS "kind: PersonKind", person_hash, state AS "state: ErasureState",
                  removed AS "removed: Json<BTreeMap<String, u64>>", requested_by, requested_at, finished_at, detail
           FROM person_erasures WHERE tenant = $1 AND id = $2"#,
        tenant,
        id
    );
    Ok(row.fetch_optional(connection).await?.map(PersonErasure::from))
}

/// An erasure that a job works on.
#[derive(Clone, Debug)]
pub struct OpenErasure {
    /// Id of the erasure.
    pub id: Uuid,
    /// Kind of the person's id.
    pub kind: PersonKind,
    /// The person's id.
    pub person_id: String,
    /// Data that arrived later stays.
    pub requested_at: OffsetDateTime,
    /// The day to go on with; None at the beginning of a search.
    pub next_day: Option<Date>,
}

impl OpenErasure {
    /// Returns its request.
    #[must_use]
    pub fn request(&self) -> ErasureRequest {
        ErasureRequest { table: PERSON_ERASURES, id: self.id }
    }
}

/// Returns an erasure that is not over.
pub async fn find_open(tx: &mut TenantTx, id: Uuid) -> Result<Option<OpenErasure>> {
    let (connection, tenant, _) = tx.parts();
    let open = sqlx::query_as!(
        OpenErasure,
        r#"SELECT id, kind AS "kind: PersonKind", person_id AS "person_id!", requested_at, next_day
           FROM person_erasures WHERE tenant = $1 AND id = $2 AND state IN ('searching', 'searching_again')"#,
        tenant,
        id
    );
    Ok(open.fetch_optional(connection).await?)
}

/// Sets the day that the search goes on with.
pub async fn set_next_day(tx: &mut TenantTx, id: Uuid, next_day: Date) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE person_erasures SET next_day = $3 WHERE tenant = $1 AND id = $2",
        tenant,
        id,
        next_day
    )
    .execute(connection)
    .await?;
    Ok(())
}

fn erasure_work(erasure: Uuid) -> Work {
    Work::Feature(FeatureWork::on_row(JOB_KIND, "erasure", erasure))
}
