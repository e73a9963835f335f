//! `PUT /v1/builds/commit`: keeps the commit that builds were made of.

use crate::commits::{NewBuildCommit, check_commit};
use crate::store;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, parse_parameter, problems};
use unslide_api::feature::site::SymbolsWrite;
use unslide_model::DebugId;
use unslide_store::symbols;
use utoipa::ToSchema;

/// The most debug ids of a request.
const DEBUG_IDS_LIMIT: usize = 500;

/// The builds of which a commit is kept.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct KeptCommit {
    /// Number of builds, each debug id once.
    #[schema(minimum = 1, maximum = 500)]
    pub builds: usize,
}

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// Set the commit of builds
///
/// Keeps the commit that builds were made of, by their debug ids, in place of one that was named before. The builds may be uploaded later;
/// a key for one app names those that were uploaded for that app. Answers about changed functions then have the commits of both builds
/// and a link to their comparison. A commit is deleted with the symbols of its build.
#[utoipa::path(put, path = "/v1/builds/commit", tag = "changes", operation_id = "set_build_commit",
    request_body = NewBuildCommit,
    responses((status = 200, description = "The commit is kept.", body = KeptCommit), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn set_build_commit(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    JsonBody(new): JsonBody<NewBuildCommit>,
) -> Result<Json<KeptCommit>, Problem> {
    if !(1..=DEBUG_IDS_LIMIT).contains(&new.debug_ids.len()) {
        return Err(Problem::new(Kind::InvalidBody, format!("debug_ids: 1 to {DEBUG_IDS_LIMIT}")));
    }
    let read = |id: &String| parse_parameter::<DebugId>(&format!("debug_ids: {id:.40}"), id);
    let debug_ids: BTreeSet<DebugId> = new.debug_ids.iter().map(read).collect::<Result<_, _>>()?;
    let new = check_commit(new)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if let Some(own) = access.only_app() {
        let ids: Vec<DebugId> = debug_ids.iter().copied().collect();
        let apps = symbols::list_apps(&mut tx, &ids).await?;
        if ids.iter().any(|id| !apps.contains(&(*id, Some(own.to_owned())))) {
            let detail = format!(
                "the key is valid for the app {own} only, and a build has no symbols that were uploaded for it"
            );
            return Err(Problem::new(Kind::InsufficientScope, detail));
        }
    }
    store::set_commit(&mut tx, &debug_ids, &new).await?;
    tx.commit().await?;
    Ok(Json(KeptCommit { builds: debug_ids.len() }))
}
