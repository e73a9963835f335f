//! `GET /v1/symbols/{debug_id}/file`: a file of symbols.

use crate::ServerExtension;
use crate::files::{DSYM_KINDS, EXECUTABLE_KINDS, answer_file, find_for_download};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, Query, SymbolsDownload, problems};
use unslide_api::routes;
use unslide_model::DebugId;
use utoipa::IntoParams;

/// Returns the routes of this file.
pub fn routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(get_symbol_file))
}

/// The kind of file that a client wants.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SymbolFileKind {
    /// A file with debug information: the DWARF file of a dSYM.
    Dsym,
    /// A program or library, as a device runs it.
    Executable,
}

#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SymbolFileQuery {
    /// Kind of the file; without it the best of any kind.
    #[param(value_type = Option<String>, example = "dsym")]
    pub kind: Option<SymbolFileKind>,
}

problems!(Failures: InvalidParameter, NotFound, RateLimited);

/// Download a file of symbols
///
/// One architecture of an uploaded file: a thin Mach-O file with this `LC_UUID`, not the bundle and not the fat file. The
/// answer has an `ETag`, and `Range` asks for a part. The audit log has each download once an hour for each key. A tenant may
/// download 20 files a second, 1,200 at once, and 16 at the same time. An answer that is cut off ends with an error of the
/// connection.
#[utoipa::path(get, path = "/v1/symbols/{debug_id}/file", tag = "symbol-server", operation_id = "get_symbol_file",
    params(
        ("debug_id" = String, Path, description = "The debug id (`LC_UUID`), dashed or not, in any case."),
        SymbolFileQuery),
    responses(
        (status = 200, description = "The bytes.", content((Vec<u8> = "application/octet-stream"))),
        (status = 206, description = "The bytes of the range.", content((Vec<u8> = "application/octet-stream"))),
        (status = 304, description = "The client has the file with this `If-None-Match`."), Failures),
    security(("key" = ["symbols:download"])))]
pub async fn get_symbol_file(
    State(storage): State<Arc<Storage>>,
    Extension(server): ServerExtension,
    access: Access<SymbolsDownload>,
    Path(debug_id): Path<DebugId>,
    Query(query): Query<SymbolFileQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kinds = match query.kind {
        None => &[][..],
        Some(SymbolFileKind::Dsym) => DSYM_KINDS,
        Some(SymbolFileKind::Executable) => EXECUTABLE_KINDS,
    };
    let file = find_for_download(&storage, &server, &access, &debug_id, kinds).await?;
    answer_file(&storage, &access, &file, &headers).await
}
