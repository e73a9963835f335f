//! `/console/suggestions`: names for the fields of the bar, as they are typed.

use crate::prelude::*;
use unslide_store::queries::names;

/// Maximum number of names in an answer.
const SUGGESTIONS_LIMIT: u32 = 20;
/// Longer texts are part of no name.
const TYPED_BYTES: usize = 200;

/// Answers with the names of apps or versions that contain a text.
pub async fn suggest_names(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Json<Vec<String>>, Problem> {
    let access = &signed.access;
    let app = access.restrict_app(state.get_text("app"))?;
    let text = state.get_text("text").unwrap_or_default().replace('\0', "");
    if text.len() > TYPED_BYTES {
        return Ok(Json(Vec::new()));
    }
    let mut tx = storage.tenant(access.tenant()).await?;
    let names = match state.get("field") {
        Some("app") => names::find_apps(&mut tx, access.only_app(), &text, SUGGESTIONS_LIMIT).await?,
        Some("version") => {
            let found = names::find_versions(&mut tx, app.as_deref(), &text, SUGGESTIONS_LIMIT).await?;
            let mut versions: Vec<String> = Vec::new();
            for name in found {
                // Several apps may have the same version.
                if !versions.contains(&name.version) {
                    versions.push(name.version);
                }
            }
            versions
        }
        _ => return Err(Problem::new(Kind::InvalidParameter, "field: app or version")),
    };
    Ok(Json(names))
}
