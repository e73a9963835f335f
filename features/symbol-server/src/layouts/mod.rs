//! Paths on which clients of symbol servers ask for files. One address serves every layout: the path says which it is.

mod path;

pub use path::parse_breakpad_id;

use crate::files::{answer_file, find_for_download, to_header_text};
use crate::names::breakpad;
use crate::{ServerExtension, SymbolServer};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, HeaderValue};
use path::{FileRole, LayoutPath};
use std::sync::Arc;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{Access, Kind, Path, Problem, SymbolsDownload};

/// Returns the routes of this folder. They are no part of the document: their clients have contracts of their own.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .route("/symbol-server/{*path}", get(get_layout_file))
        .route("/debuginfod/{*path}", get(get_debuginfod_file))
}

async fn get_layout_file(
    State(symbolication): State<Arc<Symbolication>>,
    Extension(server): ServerExtension,
    access: Access<SymbolsDownload>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    answer_path(&symbolication, &server, &access, &path, &headers).await
}

/// Clients of debuginfod put `/buildid/…` after the address that they are given.
async fn get_debuginfod_file(
    State(symbolication): State<Arc<Symbolication>>,
    Extension(server): ServerExtension,
    access: Access<SymbolsDownload>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !path.starts_with("buildid/") {
        return Err(no_layout());
    }
    answer_path(&symbolication, &server, &access, &path, &headers).await
}

async fn answer_path(
    symbolication: &Symbolication,
    server: &SymbolServer,
    access: &Access<SymbolsDownload>,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let wanted = LayoutPath::parse(path).ok_or_else(no_layout)?;
    if wanted.role == FileRole::Breakpad {
        let file = find_for_download(&symbolication.storage, server, access, &wanted.debug_id, &[]).await?;
        return breakpad::answer_symbols(symbolication, access.tenant(), &wanted.debug_id, &file.name).await;
    }
    let file =
        find_for_download(&symbolication.storage, server, access, &wanted.debug_id, wanted.role.list_kinds())
            .await?;
    let mut response = answer_file(&symbolication.storage, access, &file, headers).await?;
    // Clients of debuginfod show their progress by these.
    let headers = response.headers_mut();
    headers.insert("x-debuginfod-size", file.size.into());
    let name = HeaderValue::from_str(&to_header_text(&file.name)).map_err(Problem::internal)?;
    headers.insert("x-debuginfod-file", name);
    Ok(response)
}

fn no_layout() -> Problem {
    Problem::new(Kind::NotFound, "the path is no path of a symbol-server layout for Mach-O files")
}
