//! `POST /v1/person-erasures`: erases what the tenant has of a person.

use super::{EVERY_APP, PATH};
use crate::search::count_removal;
use crate::store::{self, MAX_OPEN_ERASURES, NewPersonErasure, PersonErasure};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    AcceptedResponse, Access, JsonBody, Kind, Problem, TenantAdmin, is_text, problems,
};
use unslide_store::audit;
use unslide_store::tables::RemovalCount;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// Erase a person
///
/// Deletes everything of a user, an installation or a session that arrived before this request: reports with their bytes,
/// sessions, metric payloads and captures. A builder does it; `GET /v1/person-erasures/{id}` shows what was removed. No
/// replay brings it back, and data that arrives later is stored. A `user` is found in sessions, and in reports under the
/// usual names in `user`, such as `id`, `user_id` or `email`. An `installation` is the id that sessions name, or
/// `device_app_hash` of reports. With `dry_run` nothing happens, and the answer is what would be removed. A key for one app is
/// refused.
#[utoipa::path(post, path = "/v1/person-erasures", tag = "person-erasure", operation_id = "erase_person",
    request_body = NewPersonErasure,
    responses(
        (status = 200, description = "A dry run: what the erasure would remove.", body = RemovalCount),
        (status = 202, description = "The erasure has begun.",
            headers(("location" = String, description = "The path of the erasure.")), body = PersonErasure), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn erase_person(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewPersonErasure>,
) -> Result<Response, Problem> {
    Ok(match request_erasure(&storage, &access, new).await? {
        RequestedErasure::Counted(count) => Json(count).into_response(),
        RequestedErasure::Begun(erasure) => {
            let location = Some(format!("{PATH}/{}", erasure.id));
            AcceptedResponse { body: *erasure, location }.into_response()
        }
    })
}

/// The outcome of a request for an erasure.
pub enum RequestedErasure {
    /// A dry run: this would be removed.
    Counted(RemovalCount),
    /// The erasure has begun.
    Begun(Box<PersonErasure>),
}

/// Counts what an erasure would remove, or begins it.
///
/// # Errors
/// The failures that the operation documents.
pub async fn request_erasure(
    storage: &Storage,
    access: &Access<TenantAdmin>,
    new: NewPersonErasure,
) -> Result<RequestedErasure, Problem> {
    access.require_every_app(EVERY_APP)?;
    if !is_text(&new.id, 200) {
        return Err(Problem::new(Kind::InvalidBody, "id: 1 to 200 bytes, no control characters"));
    }
    let actor = access.principal.key_id.to_string();
    let mut tx = storage.tenant(access.tenant()).await?;
    if new.dry_run {
        return Ok(RequestedErasure::Counted(count_removal(&mut tx, new.kind, &new.id).await?));
    }
    let Some(erasure) = store::begin_erasure(&mut tx, &new, &actor).await? else {
        let detail =
            format!("{MAX_OPEN_ERASURES} erasures are under way; wait until a builder has done some of them");
        return Err(Problem::new(Kind::LimitReached, detail));
    };
    let detail = serde_json::json!({"kind": erasure.kind, "erasure": erasure.id});
    audit::append_entry(&mut tx, &actor, "person.erase", &erasure.person_hash, &detail).await?;
    tx.commit().await?;
    Ok(RequestedErasure::Begun(Box::new(erasure)))
}
