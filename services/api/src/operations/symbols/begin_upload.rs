//! `POST /v1/symbols/uploads`.

use super::upload::check_texts;
use crate::access::{Access, SymbolsWrite};
use crate::input::Json;
use crate::parts::begin;
use crate::problem::{Problem, problems};
use crate::receive::May;
use crate::state::Api;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use unslide_model::{ContentHash, Owner};
use unslide_store::Uuid;
use utoipa::ToSchema;

/// A file that is to come in parts.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUpload {
    /// The file's name, to be shown again.
    #[schema(max_length = 255, example = "Shop.dSYM.zip")]
    pub name: Option<String>,
    /// The app (bundle identifier) that the symbols belong to, to be shown again.
    #[schema(max_length = 255, example = "com.example.shop")]
    pub app: Option<String>,
    /// Bytes of the whole file.
    #[schema(minimum = 1)]
    pub size: u64,
    /// The SHA-256 of the whole file.
    #[schema(value_type = String, min_length = 64, max_length = 64)]
    pub sha256: ContentHash,
}

/// An upload that takes parts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BegunUpload {
    /// The upload's id.
    pub id: Uuid,
    /// True where the same bytes were uploaded before: the id is that upload's, and nothing is to be sent.
    pub existing: bool,
    /// Bytes of each part; the last has the rest.
    pub part_bytes: u64,
    /// The numbers of the parts that have come, from 1 on; empty where `existing`.
    pub parts: Vec<u32>,
}

problems!(Failures: InvalidParameter, InvalidBody, InvalidUpload, BodyTimeout, IncompleteBody, TooLarge, RateLimited, SymbolQuota);

/// Begin an upload in parts, or go on with it
///
/// For large files and bad networks: what has come of a file stays, and only the rest is to be sent
/// again. Asked again for the same file (the same hash, size and app), this tells which parts are there.
/// Send the others with `PUT /v1/symbols/uploads/{id}/parts/{number}`, in any order and as many at once
/// as you like, and then `POST /v1/symbols/uploads/{id}/complete`.
///
/// The tenant's limits hold for the announced size from here on. An upload without a new part for as
/// long as an upload may take is given up, and its parts go.
#[utoipa::path(post, path = "/v1/symbols/uploads", tag = "symbols", operation_id = "begin_upload",
    request_body = NewUpload,
    responses((status = 200, description = "The upload, and what has come of it.", body = BegunUpload), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn begin_upload(
    State(api): State<Api>,
    access: Access<SymbolsWrite>,
    Json(new): Json<NewUpload>,
) -> Result<axum::Json<BegunUpload>, Problem> {
    check_texts(new.name.as_deref(), new.app.as_deref())?;
    let (owner, may) = (Owner::Tenant(access.tenant().clone()), May::of(&api, &access.principal));
    let new = NewUpload { app: access.app(new.app)?, ..new };
    begin(api, owner, may, new).await.map(axum::Json)
}
