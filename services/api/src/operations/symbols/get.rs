//! `GET /v1/symbols/{debug_id}`.

use super::sees_symbols;
use crate::operations::prelude::*;
use unslide_model::{DebugId, Quality};
use unslide_store::symbols::{self, ObjectListing};

/// Maximum number of objects in one response.
const MOST_OBJECTS: u32 = 100;

/// Symbols of a debug id: their quality, objects and reports.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Symbols)]
pub struct SymbolsDetail {
    /// The debug id (`LC_UUID`), as in the request.
    #[schema(value_type = String, format = Uuid)]
    pub debug_id: DebugId,
    /// Grows with each change of the answers; 0 if nothing was published yet.
    pub generation: u64,
    /// Quality of the symbols that answer for the debug id.
    #[schema(value_type = String)]
    pub quality: Quality,
    /// The objects with this debug id, the best first, at most 100; `GET /v1/symbols?debug_id=` lists all.
    #[schema(max_items = 100)]
    pub objects: Vec<ObjectListing>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get the symbols of a debug id
#[utoipa::path(get, path = "/symbols/{debug_id}", tag = "symbols", operation_id = "get_symbols",
    params(("debug_id" = String, Path, description = "The debug id (`LC_UUID`), dashed or not, in any case.")),
    responses((status = 200, description = "The objects, and which of them answers.", body = SymbolsDetail), Failures),
    security(("key" = ["symbols:read"]), ("key" = ["symbols:write"])))]
pub async fn get_symbols(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsState>,
    Path(debug_id): Path<DebugId>,
) -> Result<Json<SymbolsDetail>, Problem> {
    let mut tx = storage.owner(&access.symbol_owner()).await?;
    let seen = sees_symbols(&mut tx, access.only_app(), &debug_id).await?;
    let found = symbols::find_symbols(&mut tx, &debug_id, Some(MOST_OBJECTS)).await?.filter(|_| seen);
    let found =
        found.ok_or_else(|| Problem::new(Kind::NotFound, "there are no symbols for this debug id"))?;
    Ok(Json(SymbolsDetail {
        debug_id,
        generation: found.slot.generation,
        quality: found.slot.quality,
        objects: found.objects,
    }))
}
