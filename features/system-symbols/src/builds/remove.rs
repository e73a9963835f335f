//! `DELETE /v1/symbols/builds/{build}`: removes the names that only one build has.

use super::MAX_ARCH_BYTES;
use super::store::{ImagesOfBuild, count_remaining, find_unlisted, list_images, unlist_images};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{Access, Kind, Path, Problem, Query, check_texts, problems};
use unslide_api::feature::upload::SymbolsWrite;
use unslide_store::symbols::names_files::{count_names_only, delete_names_files};
use unslide_store::{OwnerTx, audit};
use unslide_system_symbols_formats::{MAX_PAGE_IMAGES, RemovedBuild, is_build};
use utoipa::IntoParams;

/// The part of a build that is removed.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RemoveQuery {
    /// Only this architecture; all of them if absent.
    #[param(max_length = 32, example = "arm64e")]
    arch: Option<String>,
    /// `true` counts, and removes nothing.
    #[param(default = false)]
    dry_run: bool,
}

problems!(Failures: InvalidParameter, NotFound);

/// Remove the names of a build
///
/// Deletes the names of up to 1,000 images of the build that no other build lists, and says how many are left: send the
/// request again until none are. Images with a dSYM or other symbols keep all that they have. Reports keep their present
/// names. A key for one app finds no build.
#[utoipa::path(delete, path = "/symbols/builds/{build}", tag = "system-symbols", operation_id = "remove_symbol_build",
    params(("build" = String, Path, description = "The build of the operating system, such as `23B87`."), RemoveQuery),
    responses((status = 200, description = "The removed names.", body = RemovedBuild), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn remove_symbol_build(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<SymbolsWrite>,
    Path(build): Path<String>,
    Query(query): Query<RemoveQuery>,
) -> Result<Json<RemovedBuild>, Problem> {
    check_texts(Kind::InvalidParameter, MAX_ARCH_BYTES, [("arch", query.arch.as_deref())])?;
    let none = || Problem::new(Kind::NotFound, "no import has recorded images of this build");
    if access.only_app().is_some() || !is_build(&build) {
        return Err(none());
    }
    let wanted = ImagesOfBuild { build: &build, arch: query.arch.as_deref() };
    let owner = access.symbol_owner();
    let mut tx = symbolication.storage.owner(&owner).await?;
    if query.dry_run {
        let counted = count_removable(&mut tx, wanted).await?;
        tx.rollback();
        return counted.map(Json).ok_or_else(none);
    }
    let taken = unlist_images(&mut tx, wanted, MAX_PAGE_IMAGES).await?;
    if taken.is_empty() {
        return Err(none());
    }
    let unlisted = find_unlisted(&mut tx, &taken).await?;
    let deleted = delete_names_files(&mut tx, &unlisted).await?;
    let removed = deleted.len() as u64;
    let kept = taken.len() as u64 - removed;
    let remaining = count_remaining(&mut tx, wanted).await?;
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"arch": query.arch, "removed": removed, "kept": kept});
    audit::append_entry(&mut tx, &actor, "system_symbols.remove", &build, &detail).await?;
    tx.commit().await?;
    for names in deleted {
        symbolication.symcaches.delete_symbols(owner.own(names.debug_id), names.generation);
    }
    Ok(Json(RemovedBuild { removed, kept, remaining }))
}

/// Counts the images of a build, and those with names that would be removed. Returns `None` if there are no images.
async fn count_removable(
    tx: &mut OwnerTx,
    wanted: ImagesOfBuild<'_>,
) -> Result<Option<RemovedBuild>, Problem> {
    let images = list_images(tx, wanted).await?;
    if images.is_empty() {
        return Ok(None);
    }
    let unlisted: Vec<_> = images.iter().filter(|image| image.unlisted).map(|image| image.debug_id).collect();
    let removed = count_names_only(tx, &unlisted).await?;
    Ok(Some(RemovedBuild { removed, kept: images.len() as u64 - removed, remaining: 0 }))
}
