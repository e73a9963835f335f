//! `GET /v1/symbols/uploads/{id}`.

use crate::limits::slot::RequestSlot;
use crate::operations::prelude::*;
use crate::requests::wait::{LONGEST_WAIT, Wait};
use axum::Extension;
use time::OffsetDateTime;
use unslide_model::{ContentHash, Owner};
use unslide_store::uploads::{self, SkippedMember, UploadObject};
use unslide_store::{OwnerTx, UploadId};

/// Time to wait, and the page of objects to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Wait for the final status (`done` or `failed`) for this long at most, such as `30s` or `500ms`; a bare
    /// number counts seconds. At most a minute. The answer comes as soon as the status is final.
    #[param(example = "30s", pattern = "^[0-9]{1,6}(ms|s)?$")]
    pub wait: Option<String>,
    /// Objects a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

/// An uploaded file and what was found in it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Upload)]
pub struct UploadDetail {
    /// Id of the upload, as in the answer to it.
    #[schema(value_type = Uuid)]
    pub id: UploadId,
    /// `receiving`, `queued`, `building`, `done` or `failed`. Done means that every object has its
    /// final status, which may be `malformed`.
    #[schema(value_type = String)]
    pub status: uploads::UploadStatus,
    /// Why it failed, or what it waits for, a stable word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it failed, or what it waits for, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Name of the file, as the client sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// The app that it belongs to, as the client named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Size of the file in bytes; absent until all of it is received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The SHA-256 of its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub sha256: Option<ContentHash>,
    /// When the upload began (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When its status changed last.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// A page of what was found in it, by path.
    pub objects: Vec<UploadObject>,
    /// Cursor of the next page of objects; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Members of an archive that were skipped, the first hundred: those that may hold symbols before links,
    /// devices and static libraries. If there are more, a last entry without a path has the reason `more`.
    #[schema(max_items = 101)]
    pub skipped: Vec<SkippedMember>,
}

/// The page of an upload's objects that a client asks for.
pub struct ObjectPage {
    list: List,
    after: Option<(String, ContentHash)>,
    limit: u32,
}

impl ObjectPage {
    /// Reads the page parameters for an owner's upload, which `upload` names.
    ///
    /// # Errors
    /// [`Kind::InvalidParameter`].
    pub fn from_query(
        owner: &Owner,
        upload: &impl std::fmt::Debug,
        page: &PageQuery,
    ) -> Result<ObjectPage, Problem> {
        let list = List::for_operation(owner, "upload_objects", upload);
        let read = |position: &str| {
            let (hash, path) = position.split_once('.')?;
            Some((path.to_owned(), hash.parse().ok()?))
        };
        Ok(ObjectPage { list, after: page.read_cursor(list, read)?, limit: page.check_limit()? })
    }

    /// Returns the page of an upload's objects.
    pub async fn list_objects(&self, tx: &mut OwnerTx, id: UploadId) -> Result<Page<UploadObject>, Problem> {
        let after = self.after.as_ref().map(|(path, hash)| (path.as_str(), hash));
        let found = uploads::uploaded::list_objects(tx, id, after, Some(self.limit + 1)).await?;
        let position = |last: &UploadObject| format!("{}.{}", last.object.content_hash, last.path);
        Ok(Page::from_rows(found, self.limit, self.list, position))
    }
}

impl UploadDetail {
    /// Combines the upload in the store with its objects.
    pub fn from_upload(upload: uploads::SymbolUpload, objects: Page<UploadObject>) -> UploadDetail {
        UploadDetail {
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
            objects: objects.items,
            next_cursor: objects.next_cursor,
            skipped: upload.skipped,
        }
    }
}

problems!(Failures: InvalidParameter, NotFound);

/// Get the status of an upload
///
/// With `wait`, answers when the builder is done with it, or when the time is over. Its objects come in
/// pages.
#[utoipa::path(get, path = "/symbols/uploads/{id}", tag = "symbols", operation_id = "get_upload",
    params(("id" = Uuid, Path, description = "The upload's id."), WaitQuery),
    responses((status = 200, description = "The upload and its current status.", body = UploadDetail), Failures),
    security(("key" = ["symbols:read"]), ("key" = ["symbols:write"])))]
pub async fn get_upload(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsState>,
    Extension(slot): Extension<RequestSlot>,
    Path(id): Path<UploadId>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<UploadDetail>, Problem> {
    let (owner, app) = (access.symbol_owner(), access.only_app());
    let page = PageQuery { limit: query.limit, cursor: query.cursor.clone() };
    let page = ObjectPage::from_query(&owner, &id, &page)?;
    let mut wait = Wait::new(slot, query.wait.as_deref(), LONGEST_WAIT)?;
    loop {
        let mut tx = storage.owner(&owner).await?;
        let found = uploads::find_upload(&mut tx, id).await?;
        let seen = found.filter(|upload| app.is_none() || upload.app.as_deref() == app);
        // During the wait, the objects are not read.
        let objects = match &seen {
            Some(upload) if upload.status.is_final() || wait.is_over() => {
                Some(page.list_objects(&mut tx, id).await?)
            }
            _ => None,
        };
        tx.rollback();
        let upload = seen.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such upload"))?;
        if crate::uploads::receive::abandon_if_stale(&storage, &owner, &upload).await? {
            continue;
        }
        if let Some(objects) = objects {
            return Ok(Json(UploadDetail::from_upload(upload, objects)));
        }
        wait.wait_for_check(&storage.capacity, access.tenant()).await?;
    }
}
