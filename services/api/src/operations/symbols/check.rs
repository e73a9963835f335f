//! `POST /v1/symbols/check` and `POST /v1/system/symbols/check`.

use crate::operations::prelude::*;
use crate::requests::input::Json;
use unslide_model::{DebugId, Quality};
use unslide_store::symbols;

/// Maximum number of debug ids in one request.
const CHECKED_IDS_LIMIT: usize = 1_000;

/// Debug ids of a build to check.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// Debug ids, dashed or not, in any case.
    #[schema(min_items = 1, max_items = 1000, example = json!(["0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"]))]
    pub debug_ids: Vec<String>,
}

/// Readiness of the symbols of each debug id.
#[derive(Debug, Serialize, ToSchema)]
pub struct Checked {
    /// True if every debug id is `ready`.
    pub ready: bool,
    /// Each debug id, in the order of the request.
    pub items: Vec<CheckedId>,
}

/// Status of one debug id's symbols.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckedId {
    /// The debug id (`LC_UUID`), as in the request.
    #[schema(value_type = String, format = Uuid)]
    pub debug_id: DebugId,
    /// `ready`, `building`, `missing`, `malformed`, `unsupported` or `too_complex`.
    #[schema(value_type = String)]
    pub status: symbols::SymbolReadiness,
    /// The names and lines that built symbols give: `exports`, `symtab`, `dwarf` or `dwarf_symtab`. Absent if there are
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub quality: Option<Quality>,
}

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// Check whether symbols are ready
///
/// For a build pipeline: returns for each debug id whether its symbols are ready, being built or missing.
#[utoipa::path(post, path = "/symbols/check", tag = "symbols", operation_id = "check_symbols",
    request_body = CheckRequest,
    responses((status = 200, description = "Each debug id's status.", body = Checked), Failures),
    security(("key" = ["symbols:read"]), ("key" = ["symbols:write"])))]
pub async fn check_symbols(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsState>,
    Json(request): Json<CheckRequest>,
) -> Result<axum::Json<Checked>, Problem> {
    if !(1..=CHECKED_IDS_LIMIT).contains(&request.debug_ids.len()) {
        return Err(Problem::new(Kind::InvalidBody, format!("debug_ids: 1 to {CHECKED_IDS_LIMIT}")));
    }
    let read = |id: &String| parse_parameter::<DebugId>(&format!("debug_ids: {id:.40}"), id);
    let debug_ids: Vec<DebugId> = request.debug_ids.iter().map(read).collect::<Result<_, _>>()?;
    let mut tx = storage.owner(&access.symbol_owner()).await?;
    let mut checked = symbols::check_readiness(&mut tx, &debug_ids).await?;
    let mut qualities = symbols::find_qualities(&mut tx, &debug_ids).await?;
    if let Some(own) = &access.principal.app {
        let apps = symbols::list_apps(&mut tx, &debug_ids).await?;
        for (debug_id, status) in &mut checked {
            if !apps.contains(&(*debug_id, Some(own.clone()))) {
                *status = symbols::SymbolReadiness::Missing;
                qualities.remove(debug_id);
            }
        }
    }
    let ready = checked.iter().all(|(_, status)| *status == symbols::SymbolReadiness::Ready);
    let items = checked.into_iter().map(|(debug_id, status)| CheckedId {
        debug_id,
        status,
        quality: qualities.get(&debug_id).copied(),
    });
    Ok(axum::Json(Checked { ready, items: items.collect() }))
}
