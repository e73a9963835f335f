//! `GET /v1/symbols/uploads/by-content/{sha256}`.

use super::upload_status::Upload;
use crate::access::{Access, SymbolsRead};
use crate::input::{Path, parameter};
use crate::problem::{Kind, Problem, problems};
use crate::receive::same_bytes;
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use unslide_model::{ContentHash, Owner};
use unslide_store::uploads;

problems!(Failures: InvalidParameter, NotFound);

/// Find an upload by its bytes
///
/// The upload that the same bytes would be pointed to if they were sent now: one that waits, is being
/// built or is done. A client asks before it sends, and sends nothing that is there.
#[utoipa::path(get, path = "/v1/symbols/uploads/by-content/{sha256}", tag = "symbols", operation_id = "find_upload",
    params(("sha256" = String, Path, description = "The SHA-256 of the bytes, in hexadecimal.")),
    responses((status = 200, description = "The upload as it stands.", body = Upload), Failures),
    security(("key" = ["symbols:read"])))]
pub async fn find_upload(
    State(api): State<Api>,
    access: Access<SymbolsRead>,
    Path(sha256): Path<String>,
) -> Result<Json<Upload>, Problem> {
    find(&api, &Owner::Tenant(access.tenant().clone()), access.principal.app.as_deref(), &sha256).await
}

/// An owner's upload of these bytes, as a key for `app` sees it.
///
/// # Errors
/// [`Kind::NotFound`], or [`Kind::InvalidParameter`] for what is no hash.
pub async fn find(
    api: &Api,
    owner: &Owner,
    app: Option<&str>,
    sha256: &str,
) -> Result<Json<Upload>, Problem> {
    let sha256: ContentHash = parameter("sha256", sha256)?;
    let mut tx = api.owner(owner).await?;
    let earlier = same_bytes(&mut tx, &sha256).await?;
    let seen = earlier.filter(|upload| app.is_none() || upload.app.as_deref() == app);
    let found = match seen {
        Some(upload) => uploads::get(&mut tx, upload.id).await?,
        None => None,
    };
    tx.rollback().await?;
    let found = found.ok_or_else(|| Problem::new(Kind::NotFound, "there is no upload of these bytes"))?;
    Ok(Json(Upload::of(found)))
}
