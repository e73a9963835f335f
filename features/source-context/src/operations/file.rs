//! `GET /v1/symbols/{debug_id}/source`: a source file of a source map.

use crate::source_map::load_source;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, Query, SymbolsDownload, problems};
use unslide_model::DebugId;
use utoipa::IntoParams;

/// The path of a source file.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SourceFileQuery {
    /// The path of the source, after `sourceRoot`, as frames of reports have it.
    #[param(max_length = 1024, example = "src/cart.ts")]
    pub path: String,
}

problems!(Failures: InvalidParameter, NotFound, TooLarge);

/// Download a source file of a source map
///
/// The text of a source in `sourcesContent`, as an attachment. The audit log has the download once an hour for each key.
#[utoipa::path(get, path = "/v1/symbols/{debug_id}/source", tag = "source-context", operation_id = "get_source_file",
    params(("debug_id" = String, Path, description = "The debug id of the source map."), SourceFileQuery),
    responses((status = 200, description = "The text.", content((String = "text/plain"))), Failures),
    security(("key" = ["symbols:download"])))]
pub async fn get_source_file(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsDownload>,
    Path(debug_id): Path<DebugId>,
    Query(query): Query<SourceFileQuery>,
) -> Result<Response, Problem> {
    let source = load_source(&storage, &access, debug_id, query.path.clone()).await?;
    let disposition = format!("attachment; filename=\"{}\"", plain_file_name(&query.path));
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'".to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, source).into_response())
}

/// Returns the name of a file with characters that a header can hold.
fn plain_file_name(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._- ".contains(c) { c } else { '_' };
    let name: String = name.chars().map(kept).take(100).collect();
    if name.is_empty() { "source".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_fits_a_header() {
        assert_eq!(plain_file_name("webpack:///src/a\"b\r\n.ts"), "a_b__.ts");
        assert_eq!(plain_file_name("src/"), "source");
    }
}
