//! `GET /v1/symbols/uploads/{id}`.

use super::SymbolObject;
use crate::access::{Access, SymbolsRead};
use crate::input::{Path, Query, parameter};
use crate::permits::{Resource, Slot};
use crate::problem::{Kind, Problem, problems};
use crate::state::Api;
use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::time::Instant;
use unslide_model::{ContentHash, Owner};
use unslide_store::{Uuid, uploads};
use utoipa::{IntoParams, ToSchema};

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Wait for the final status (`done` or `failed`) for this long at most, such as `30s` or `500ms`;
    /// a bare number counts seconds. At most a minute. The answer comes as soon as there is one.
    #[param(example = "30s", pattern = "^[0-9]{1,6}(ms|s)?$")]
    pub wait: Option<String>,
}

/// An uploaded file and what was found in it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Upload {
    /// Its id.
    pub id: Uuid,
    /// `receiving`, `queued`, `building`, `done` or `failed`. Done means that every object has its
    /// final status, which may be `malformed`.
    #[schema(value_type = String)]
    pub status: uploads::Status,
    /// Why it failed, or what it waits for, a stable word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it failed, or what it waits for, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The file's name, as the client said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// The app that it belongs to, as the client said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The SHA-256 of its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub sha256: Option<ContentHash>,
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When its status changed last.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// What was found in it.
    pub objects: Vec<UploadedObject>,
    /// Members of an archive that were passed over, the first hundred: those that may hold symbols before
    /// links, devices and static libraries. A last one without a path and of the reason `more` stands for
    /// the rest.
    pub skipped: Vec<Skipped>,
}

/// An object of an upload.
#[derive(Debug, Serialize, ToSchema)]
pub struct UploadedObject {
    /// The object.
    #[serde(flatten)]
    pub object: SymbolObject,
    /// Where it lay in the upload.
    pub path: String,
    /// True where the tenant had this very object before: nothing changed.
    pub known: bool,
}

/// A member that was passed over.
#[derive(Debug, Serialize, ToSchema)]
pub struct Skipped {
    /// Its path in the archive.
    pub path: String,
    /// Why, a stable word such as `link`.
    pub reason: String,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Upload {
    /// What the store says of it.
    pub fn of((upload, objects): (uploads::Upload, Vec<uploads::UploadedObject>)) -> Upload {
        let placed = |placed: uploads::UploadedObject| UploadedObject {
            object: placed.object.into(),
            path: placed.path,
            known: placed.known,
        };
        let skipped = |skipped: uploads::Skipped| Skipped {
            path: skipped.path,
            reason: skipped.reason,
            detail: skipped.detail,
        };
        Upload {
            id: upload.id,
            status: upload.status,
            reason: upload.reason,
            detail: upload.detail,
            file_name: upload.file_name,
            app: upload.app,
            size: upload.size,
            sha256: upload.content_hash,
            created_at: upload.created_at,
            updated_at: upload.updated_at,
            objects: objects.into_iter().map(placed).collect(),
            skipped: upload.skipped.into_iter().map(skipped).collect(),
        }
    }
}

problems!(Failures: InvalidParameter, NotFound);

/// See what became of an upload
///
/// With `wait`, answers when the builder is done with it, or when the time is over.
#[utoipa::path(get, path = "/v1/symbols/uploads/{id}", tag = "symbols", operation_id = "get_upload",
    params(("id" = Uuid, Path, description = "The upload's id."), WaitQuery),
    responses((status = 200, description = "The upload as it stands.", body = Upload), Failures),
    security(("key" = ["symbols:read"])))]
pub async fn get_upload(
    State(api): State<Api>,
    access: Access<SymbolsRead>,
    Extension(slot): Extension<Slot>,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<Upload>, Problem> {
    let owner = Owner::Tenant(access.tenant().clone());
    status(&api, &access, &slot, &owner, &id, &query).await
}

/// An owner's upload, as the key sees it, after the wait that is asked for. Who waits is not in work.
///
/// # Errors
/// [`Kind::NotFound`], or [`Kind::InvalidParameter`] for what is no id or no time; where too many wait.
pub async fn status<P>(
    api: &Api,
    access: &Access<P>,
    slot: &Slot,
    owner: &Owner,
    id: &str,
    query: &WaitQuery,
) -> Result<Json<Upload>, Problem> {
    let app = access.principal.app.as_deref();
    let id: Uuid = parameter("id", id)?;
    let longest = Duration::from_secs(api.limits.wait_seconds);
    let wait = query.wait.as_deref().map(read_wait).transpose()?.unwrap_or_default().min(longest);
    let end = Instant::now() + wait;
    let mut permit = None;
    // Heard from before the first look on, so that no change falls between the two.
    let mut news = api.uploads.subscribe(id);
    loop {
        let mut tx = api.owner(owner).await?;
        let found = uploads::get(&mut tx, id).await?;
        tx.rollback().await?;
        let seen = found.filter(|(upload, _)| app.is_none() || upload.app.as_deref() == app);
        let found = seen.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such upload"))?;
        if crate::receive::abandon(api, owner, &found.0).await? {
            continue;
        }
        let left = end.saturating_duration_since(Instant::now());
        if found.0.status.is_final() || left.is_zero() {
            return Ok(Json(Upload::of(found)));
        }
        if permit.is_none() {
            permit = Some(api.permits.take(access.tenant(), Resource::Waits, 1)?);
            slot.release();
        }
        news.changed(left).await;
    }
}

fn read_wait(text: &str) -> Result<Duration, Problem> {
    let (digits, unit): (&str, fn(u64) -> Duration) = match (text.strip_suffix("ms"), text.strip_suffix('s'))
    {
        (Some(digits), _) => (digits, Duration::from_millis),
        (None, Some(digits)) => (digits, Duration::from_secs),
        (None, None) => (text, Duration::from_secs),
    };
    let number = Some(digits).filter(|d| (1..=6).contains(&d.len()) && d.bytes().all(|b| b.is_ascii_digit()));
    let number: Option<u64> = number.and_then(|digits| digits.parse().ok());
    number.map(unit).ok_or_else(|| Problem::new(Kind::InvalidParameter, "wait: a time such as 30s or 500ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_a_unit_or_counts_seconds() {
        for (text, millis) in [("30s", 30_000), ("30", 30_000), ("500ms", 500), ("0", 0)] {
            assert_eq!(read_wait(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in ["", "s", "-1", "1m", "1.5s", "9999999", "+5"] {
            assert_eq!(read_wait(text).unwrap_err().kind(), Kind::InvalidParameter, "{text}");
        }
    }
}
