//! `POST /v1/symbol-sources/{name}/test`.

use super::{EVERY_APP, no_source};
use crate::fetching::SourceAnswer;
use crate::{SymbolSourcesExtension, store};
use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Charge, JsonBody, Kind, Path, Problem, TenantAdmin, problems};
use unslide_model::DebugId;
use unslide_store::symbol_lookups::LookupOutcome;
use utoipa::ToSchema;

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, RateLimited);

/// Units of a test, as many as those of ten reports.
const TEST_UNITS: usize = 10;

/// The symbols to ask for.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SymbolSourceQuestion {
    /// Debug id of the image; absent: the one that a report wanted last.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub debug_id: Option<DebugId>,
}

/// A test of a source: what was asked for, and what was answered.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SymbolSourceTest {
    /// True if the source has answered, with or without a file.
    pub ok: bool,
    /// `found`, `not_found` or `failed`.
    pub outcome: LookupOutcome,
    /// The debug id that was asked for.
    #[schema(value_type = String, format = Uuid)]
    pub debug_id: DebugId,
    /// The path of its file, behind the address.
    #[schema(example = "0f/1e2d3c4b5a69788796a5b4c3d2e1f0/debuginfo")]
    pub path: String,
    /// The status of the answer; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 200)]
    pub status: Option<u16>,
    /// The size of the file in bytes, if the source names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What the answer means, or why there is none.
    #[schema(example = "The source has a file for the debug id")]
    pub answer: String,
}

/// Test a symbol source
///
/// Asks the source for one debug id, and returns what it answers. The file is not read and not taken: the builder does that for images that
/// reports wait for.
#[utoipa::path(post, path = "/v1/symbol-sources/{name}/test", tag = "symbol-sources", operation_id = "test_symbol_source",
    params(("name" = String, Path, description = "The source's name.", max_length = 40)),
    request_body = SymbolSourceQuestion,
    responses((status = 200, description = "What was asked for and answered.", body = SymbolSourceTest), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn test_symbol_source(
    State(storage): State<Arc<Storage>>,
    Extension(sources): SymbolSourcesExtension,
    access: Access<TenantAdmin>,
    Path(name): Path<String>,
    JsonBody(question): JsonBody<SymbolSourceQuestion>,
) -> Result<Json<SymbolSourceTest>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let tenant = access.tenant();
    Charge::for_reports(&storage.capacity, tenant, access.principal.limits.units_per_second)?
        .charge_reports(TEST_UNITS)?;
    let mut tx = storage.tenant(tenant).await?;
    let (rows, newest) = (store::list_sources(&mut tx).await?, store::find_newest_missing(&mut tx).await?);
    let at = tx.now();
    // The next step waits for the source, and must not hold a connection.
    tx.rollback();
    let row = rows.into_iter().find(|row| row.name == name).ok_or_else(no_source)?;
    let nothing =
        || Problem::new(Kind::InvalidBody, "debug_id: no report waits for symbols; name the one to ask for");
    let debug_id = question.debug_id.or(newest).ok_or_else(nothing)?;
    let (outcome, status, size, answer) = match sources.ask_source(tenant, &row, &debug_id, at).await {
        Ok(SourceAnswer::Found(download)) => {
            let text = "The source has a file for the debug id".to_owned();
            (LookupOutcome::Found, Some(200), download.size(), text)
        }
        Ok(SourceAnswer::NotFound) => {
            let text = "The source answers, and has no file for the debug id".to_owned();
            (LookupOutcome::NotFound, None, None, text)
        }
        Err(failure) => (LookupOutcome::Failed, failure.status, None, failure.text),
    };
    let path = row.layout.path_of_id(&debug_id);
    let ok = outcome != LookupOutcome::Failed;
    Ok(Json(SymbolSourceTest { ok, outcome, debug_id, path, status, size, answer }))
}
