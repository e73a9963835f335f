//! `POST /v1/owners`: a file of owners.

use super::{NAME_BYTES, refuse_app, require_app};
use crate::store::{self, NewOwnersFile, StoredOwnersFile};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Storage;
use unslide_api::feature::intake::read_body;
use unslide_api::feature::operation::{Access, Kind, Problem, Query, Reservation, check_texts, problems};
use unslide_api::feature::upload::{Chunks, SymbolsWrite, UploadQuota, check_symbol_quota};
use unslide_owners_formats::{MAX_OWNERS_BYTES, OwnersDialect, OwnersFile};
use unslide_store::{audit, usage};
use utoipa::IntoParams;

/// The app and the version of a file.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OwnersUploadQuery {
    /// Bundle identifier of the app. A key for one app may leave it out.
    #[param(max_length = 255, example = "com.example.shop")]
    pub app: Option<String>,
    /// The version whose groups it is for; for all versions without a file of their own if absent.
    #[param(max_length = 255, example = "4.2.0")]
    pub version: Option<String>,
    /// `github` or `gitlab`: the rules by which it is read; `github` if absent.
    #[param(example = "github")]
    pub dialect: Option<String>,
}

problems!(Failures: InvalidParameter, InvalidUpload, IncompleteBody, BodyTimeout, TooLarge, LimitReached, SymbolQuota);

/// Upload a CODEOWNERS file
///
/// It replaces the file of the same app and version; the same bytes again change nothing. It counts against `symbol_bytes`. A file has at most 3 MB and 50,000 lines with a pattern. Lines that are
/// invalid are skipped, as GitHub and GitLab skip them, and listed in the answer with their numbers. The owners of the app's
/// groups are then looked for again, which takes some seconds or minutes. An app keeps the files of its 30 newest versions.
#[utoipa::path(post, path = "/v1/owners", tag = "owners", operation_id = "upload_owners",
    params(OwnersUploadQuery),
    request_body(description = "The file.", content((Vec<u8> = "application/octet-stream"))),
    responses((status = 200, description = "The file as it was read.", body = StoredOwnersFile), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn upload_owners(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    Query(query): Query<OwnersUploadQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<StoredOwnersFile>, Problem> {
    let app = require_app(&access, query.app)?;
    check_texts(Kind::InvalidParameter, NAME_BYTES, [("version", query.version.as_deref())])?;
    let dialect = match query.dialect.as_deref() {
        None => OwnersDialect::GitHub,
        Some(word) => OwnersDialect::parse(word)
            .ok_or_else(|| Problem::new(Kind::InvalidParameter, "dialect: github or gitlab"))?,
    };
    let capacity = &storage.capacity;
    let permit = capacity.permits.uploads.try_acquire(access.tenant(), 1)?;
    let chunks = Chunks::new(&headers, body, MAX_OWNERS_BYTES as u64, capacity.limits.client_pace())?;
    let mut reserved = Reservation::new(&capacity.permits.bodies, access.tenant(), 0)?;
    let time = Duration::from_secs(capacity.limits.upload_seconds);
    let body = tokio::time::timeout(time, chunks.collect_body(&mut reserved)).await;
    let body = body.unwrap_or_else(|_| Err(Problem::body_timeout(time)))?;
    let version = query.version.unwrap_or_default();
    let new = read_body(capacity, access.tenant(), body, move |body| {
        let _reserved = reserved;
        let refuse = |problem: String| Problem::new(Kind::InvalidUpload, problem);
        let file = OwnersFile::parse(&body, dialect).map_err(|error| refuse(error.to_string()))?;
        let content = String::from_utf8(body.to_vec()).map_err(|error| refuse(error.to_string()))?;
        if content.contains('\0') {
            return Err(refuse("the file has a zero byte: it is no text".to_owned()));
        }
        Ok(NewOwnersFile {
            app,
            version,
            dialect: dialect.to_string(),
            content,
            rules: file.count_rules() as u64,
            problems: file.problems,
        })
    })
    .await?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let used = usage::hold_symbols(&mut tx).await?;
    let replaced = match store::find_same_version(&mut tx, &new).await? {
        Some((stored, true)) => return Ok(Json(stored)),
        Some((replaced, false)) => replaced.size,
        None => 0,
    };
    if let Some(limit) = UploadQuota::from_access(capacity, &access).symbol_bytes {
        let added = (new.content.len() as u64).saturating_sub(replaced);
        check_symbol_quota(capacity, used, added, limit)?;
    }
    let stored = store::store_file(&mut tx, &new).await?.ok_or_else(|| refuse_app(&new.app))?;
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"app": stored.app, "version": stored.version, "rules": stored.rules});
    audit::append_entry(&mut tx, &actor, "owners.upload", &stored.id.to_string(), &detail).await?;
    tx.commit().await?;
    drop(permit);
    Ok(Json(stored))
}
