//! `GET /v1/apps/{app}/signals`.

use crate::operations::prelude::*;
use crate::operations::reports::get::has_copy;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};
use unslide_model::ContentHash;
use unslide_store::app_settings;
use unslide_store::app_signals::SignalSettings;

/// How much an app keeps of each signal.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppSignals {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// How much is kept of each signal.
    pub signals: SignalSettings,
}

problems!(Failures: NotFound);

/// Get the signals that an app keeps
///
/// For SDKs and gateways: do not send signals that are switched off, and send only a part of those that are sampled. A
/// client that samples sets `sampled` (of a report, `report.sampled`). It decides by a hash of the session's id, so that
/// all signals of a session are kept or dropped together. The service samples events without `sampled`, except files.
/// Repeat the request from time to time, with `If-None-Match`.
#[utoipa::path(get, path = "/v1/apps/{app}/signals", tag = "apps", operation_id = "get_signals",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop"),
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of the copy that the client has.")),
    responses(
        (status = 200, description = "How much is kept of each signal.",
            headers(("etag" = String, description = "Changes with the answer.")), body = AppSignals),
        (status = 304, description = "The client's copy is the present one."), Failures),
    security(("key" = ["reports:write"])))]
pub async fn get_signals(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsWrite>,
    Path(app): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    access.restrict_app(Some(app.clone()))?;
    let app = app.replace('\0', "");
    let mut tx = storage.tenant(access.tenant()).await?;
    let signals = app_settings::get(&mut tx, &app).await?.signals;
    let body = serde_json::to_vec(&AppSignals { app, signals }).map_err(Problem::internal)?;
    let tag = format!("\"{}\"", ContentHash(Sha256::digest(&body).into()));
    let etag = [(header::ETAG, HeaderValue::from_str(&tag).map_err(Problem::internal)?)];
    if has_copy(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, etag).into_response());
    }
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok((etag, json, body).into_response())
}
