//! `GET /v1/symbols/{debug_id}`.

use super::{ListedObject, sees_symbols};
use crate::access::{Access, SymbolsRead};
use crate::input::{Path, parameter};
use crate::problem::{Kind, Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use unslide_model::{DebugId, Owner, Quality};
use unslide_store::symbols;
use utoipa::ToSchema;

/// What is known of a debug id's symbols.
#[derive(Debug, Serialize, ToSchema)]
pub struct Symbols {
    /// The debug id.
    #[schema(value_type = String, format = Uuid)]
    pub debug_id: DebugId,
    /// Grows with each change of the answers; 0 where nothing was published yet.
    pub generation: u64,
    /// What the symbols that answer offer.
    #[schema(value_type = String)]
    pub quality: Quality,
    /// Every object with this debug id, the best first.
    pub objects: Vec<ListedObject>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Look at the symbols of a debug id
#[utoipa::path(get, path = "/v1/symbols/{debug_id}", tag = "symbols", operation_id = "get_symbols",
    params(("debug_id" = String, Path, description = "The debug id (`LC_UUID`), dashed or not, in any case.")),
    responses((status = 200, description = "The objects, and which of them answers.", body = Symbols), Failures),
    security(("key" = ["symbols:read"])))]
pub async fn get_symbols(
    State(api): State<Api>,
    access: Access<SymbolsRead>,
    Path(debug_id): Path<String>,
) -> Result<Json<Symbols>, Problem> {
    look(&api, &Owner::Tenant(access.tenant().clone()), access.principal.app.as_deref(), &debug_id).await
}

/// An owner's symbols for a debug id, as a key for `app` sees them.
///
/// # Errors
/// [`Kind::NotFound`], or [`Kind::InvalidParameter`] for what is no debug id.
pub async fn look(
    api: &Api,
    owner: &Owner,
    app: Option<&str>,
    debug_id: &str,
) -> Result<Json<Symbols>, Problem> {
    let debug_id: DebugId = parameter("debug_id", debug_id)?;
    let mut tx = api.owner(owner).await?;
    let seen = sees_symbols(&mut tx, app, &debug_id).await?;
    let found = symbols::get(&mut tx, &debug_id).await?.filter(|_| seen);
    tx.rollback().await?;
    let found =
        found.ok_or_else(|| Problem::new(Kind::NotFound, "there are no symbols for this debug id"))?;
    Ok(Json(Symbols {
        debug_id,
        generation: found.slot.generation,
        quality: found.slot.quality,
        objects: found.objects.into_iter().map(ListedObject::from).collect(),
    }))
}
