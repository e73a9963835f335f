//! `POST /v1/source-bundles`: a bundle of the source files that the symbols of a debug id name.

use crate::receive::store_bundle;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Kind, Problem, Query, Reservation, check_texts, problems};
use unslide_api::feature::sources::{SourceBundleUpload, StoredSources};
use unslide_api::feature::upload::{Chunks, SymbolsWrite, UploadQuota, run_detached};
use unslide_source_context_formats::MAX_BUNDLE_BYTES;
use utoipa::{IntoParams, ToSchema};

/// The remark on a bundle that is not stored.
const DISABLED_DETAIL: &str =
    "the tenant keeps no source files, so the bundle was not stored; PUT /v1/sources turns that on";

/// The app of the uploaded bundle.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BundleQuery {
    /// The app (bundle identifier) that the files belong to. Keys for another app do not see them.
    #[param(max_length = 255, example = "com.example.shop")]
    pub app: Option<String>,
}

/// The end of an uploaded bundle.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedBundle {
    /// True if the bundle is stored. False if the tenant keeps no source files.
    pub stored: bool,
    /// Number of source files in it, if it is stored.
    pub files: u32,
    /// The reason why it is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'static str>,
}

problems!(Failures: InvalidParameter, InvalidUpload, IncompleteBody, BodyTimeout, TooLarge, SymbolQuota);

/// Upload source files
///
/// Takes a bundle of the source files that a dSYM names, in the form of Sentry's clients: `SYSB`, a version, and a zip archive
/// with `manifest.json`, which names the debug id. It replaces the bundle of the same debug id and app. A bundle has at most
/// 32 MiB and 20,000 files of 2 MiB, 256 MiB together; a path has at most 1,024 bytes. It counts against `symbol_bytes`.
#[utoipa::path(post, path = "/v1/source-bundles", tag = "source-context", operation_id = "upload_source_bundle",
    params(BundleQuery),
    request_body(description = "The bundle.", content((Vec<u8> = "application/octet-stream"))),
    responses((status = 200, description = "The bundle is stored, or the tenant keeps none.", body = AcceptedBundle), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn upload_source_bundle(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    Query(query): Query<BundleQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<AcceptedBundle>, Problem> {
    let app = access.restrict_app(query.app)?;
    check_texts(Kind::InvalidParameter, 255, [("app", app.as_deref())])?;
    let permit = storage.capacity.permits.uploads.try_acquire(access.tenant(), 1)?;
    let symbol_bytes = UploadQuota::from_access(&storage.capacity, &access).symbol_bytes;
    let tenant = access.tenant().clone();
    let chunks = Chunks::new(&headers, body, MAX_BUNDLE_BYTES, storage.capacity.limits.client_pace())?;
    let time = Duration::from_secs(storage.capacity.limits.upload_seconds);
    let work = run_detached(Box::pin(async move {
        let _permit = permit;
        let mut reservation = Reservation::new(&storage.capacity.permits.bodies, &tenant, 0)?;
        let stored = async {
            let bytes = chunks.collect_body(&mut reservation).await?;
            let upload = SourceBundleUpload { tenant, app, symbol_bytes, bytes, reservation };
            store_bundle(storage, upload).await
        };
        tokio::time::timeout(time, stored).await.unwrap_or_else(|_| Err(Problem::body_timeout(time)))
    }));
    let accepted = match work.await? {
        StoredSources::Stored(files) => AcceptedBundle { stored: true, files, detail: None },
        StoredSources::Disabled => AcceptedBundle { stored: false, files: 0, detail: Some(DISABLED_DETAIL) },
    };
    Ok(Json(accepted))
}
