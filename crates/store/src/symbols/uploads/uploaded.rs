//! The objects that were found in an upload.

use crate::objects::{ObjectRow, query_objects};
use crate::{OwnerTx, Result, UploadId};
use serde::Serialize;
use std::collections::HashMap;
use unslide_model::ContentHash;
use utoipa::ToSchema;

/// An object of an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UploadedObject)]
pub struct UploadObject {
    /// The object that was found in the upload.
    #[serde(flatten)]
    pub object: ObjectRow,
    /// Path of the file within the upload.
    pub path: String,
    /// True if the tenant already had exactly this object, so that nothing changed.
    pub known: bool,
}

/// Lists the objects of an upload, ordered by path, from the one after `after` (its path and its hash) on;
/// all of them without a limit.
pub async fn list_objects(
    tx: &mut OwnerTx,
    id: UploadId,
    after: Option<(&str, &ContentHash)>,
    limit: Option<u32>,
) -> Result<Vec<UploadObject>> {
    let (connection, tenant, _) = tx.parts();
    let places = sqlx::query!(
        "SELECT content_hash, path, known FROM upload_objects
         WHERE tenant = $1 AND upload_id = $2
           AND ($3::text IS NULL OR (path, content_hash) > ($3, $4::bytea))
         ORDER BY path, content_hash LIMIT $5",
        tenant,
        id as UploadId,
        after.map(|(path, _)| path),
        after.map(|(_, hash)| hash.0.to_vec()),
        limit.map(i64::from)
    )
    .fetch_all(&mut *connection)
    .await?;
    let hashes: Vec<Vec<u8>> = places.iter().map(|place| place.content_hash.clone()).collect();
    let objects = query_objects!("WHERE tenant = $1 AND content_hash = ANY ($2)", tenant, &hashes)
        .fetch_all(connection)
        .await?;
    // An archive may hold many thousands.
    let objects: HashMap<&[u8], &ObjectRow> =
        objects.iter().map(|object| (object.content_hash.0.as_slice(), object)).collect();
    let placed = places.into_iter().filter_map(|place| {
        let object = ObjectRow::clone(objects.get(place.content_hash.as_slice())?);
        Some(UploadObject { object, path: place.path, known: place.known })
    });
    Ok(placed.collect())
}
