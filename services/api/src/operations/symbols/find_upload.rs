//! `GET /v1/symbols/uploads/by-content/{sha256}`.

use super::upload_status::{ObjectPage, UploadDetail};
use crate::operations::prelude::*;
use unslide_model::ContentHash;
use unslide_store::uploads;

problems!(Failures: InvalidParameter, NotFound);

/// Find an upload by its bytes
///
/// Returns the existing upload of the same bytes: one that waits, is being built or is done. Ask before an
/// upload, and send only files without one.
#[utoipa::path(get, path = "/symbols/uploads/by-content/{sha256}", tag = "symbols", operation_id = "find_upload",
    params(("sha256" = String, Path, description = "The SHA-256 of the bytes, in hexadecimal."), PageQuery),
    responses((status = 200, description = "The upload and its current status.", body = UploadDetail), Failures),
    security(("key" = ["symbols:read"]), ("key" = ["symbols:write"])))]
pub async fn find_upload(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsState>,
    Path(sha256): Path<ContentHash>,
    Query(page): Query<PageQuery>,
) -> Result<Json<UploadDetail>, Problem> {
    let (owner, app) = (access.symbol_owner(), access.only_app());
    let page = ObjectPage::from_query(&owner, &sha256, &page)?;
    let mut tx = storage.owner(&owner).await?;
    let earlier = uploads::find_valid_upload(&mut tx, &sha256).await?;
    let seen = earlier.filter(|upload| app.is_none() || upload.app.as_deref() == app);
    let found = match seen {
        Some(upload) => {
            let objects = page.list_objects(&mut tx, upload.id).await?;
            Some(UploadDetail::from_upload(upload, objects))
        }
        None => None,
    };
    let found = found.ok_or_else(|| Problem::new(Kind::NotFound, "there is no upload of these bytes"))?;
    Ok(Json(found))
}
