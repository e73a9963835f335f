//! `DELETE /v1/symbols/{debug_id}`.

use crate::operations::prelude::*;
use http::StatusCode;
use unslide_model::DebugId;
use unslide_store::{audit, symbols};

problems!(Failures: InvalidParameter, NotFound);

/// Delete the symbols of a debug id
///
/// Deletes all its objects, and the workers stop using them. Reports keep their present names.
#[utoipa::path(delete, path = "/symbols/{debug_id}", tag = "symbols", operation_id = "delete_symbols",
    params(("debug_id" = String, Path, description = "The debug id (`LC_UUID`), dashed or not, in any case.")),
    responses((status = 204, description = "The symbols are deleted."), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn delete_symbols(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<SymbolsWrite>,
    Path(debug_id): Path<DebugId>,
) -> Result<StatusCode, Problem> {
    let owner = access.symbol_owner();
    let mut tx = symbolication.storage.owner(&owner).await?;
    let none = || Problem::new(Kind::NotFound, "there are no symbols for this debug id");
    if let Some(own) = access.only_app() {
        let apps = symbols::list_apps(&mut tx, &[debug_id]).await?;
        if !apps.contains(&(debug_id, Some(own.to_owned()))) {
            return Err(none());
        }
        if apps.len() > 1 {
            return Err(Problem::new(
                Kind::InsufficientScope,
                "these symbols were uploaded for other apps too",
            ));
        }
    }
    let deleted = symbols::delete_symbols(&mut tx, &debug_id).await?.ok_or_else(none)?;
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"objects": deleted.objects});
    audit::append_entry(&mut tx, &actor, "symbols.delete", &debug_id.to_string(), &detail).await?;
    tx.commit().await?;
    symbolication.symcaches.delete_symbols(owner.own(debug_id), deleted.generation);
    Ok(StatusCode::NO_CONTENT)
}
