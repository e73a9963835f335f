//! `PUT /v1/symbols/builds/{build}`: records images of a build.

use super::store::{BuildArch, count_builds, record_images};
use super::{MAX_ARCH_BYTES, MAX_BUILD_IMAGES, MAX_BUILDS};
use axum::Json;
use axum::extract::State;
use std::collections::BTreeSet;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Path, Problem, problems};
use unslide_api::feature::upload::SymbolsWrite;
use unslide_store::Uuid;
use unslide_system_symbols_formats::{BuildImages, MAX_PAGE_IMAGES, RecordedBuild, is_build};

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "a build of an operating system belongs to no app";

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, LimitReached);

/// Record the images of a build
///
/// An import names the images that it found in a build of an operating system, up to 1,000 in a request. They add to
/// those that were recorded before. `DELETE` of the same path removes their names. A key for one app is refused.
#[utoipa::path(put, path = "/symbols/builds/{build}", tag = "system-symbols", operation_id = "record_symbol_build",
    params(("build" = String, Path, description = "The build of the operating system, such as `23B87`.")),
    request_body = BuildImages,
    responses((status = 200, description = "The build.", body = RecordedBuild), Failures),
    security(("key" = ["symbols:write"])))]
pub async fn record_symbol_build(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsWrite>,
    Path(build): Path<String>,
    JsonBody(new): JsonBody<BuildImages>,
) -> Result<Json<RecordedBuild>, Problem> {
    access.require_every_app(EVERY_APP)?;
    check_build(&build, &new)?;
    let ids: BTreeSet<Uuid> = new.debug_ids.iter().map(|id| id.uuid()).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let key = BuildArch { build: &build, arch: &new.arch };
    let actor = access.principal.key_id.to_string();
    let mut tx = storage.owner(&access.symbol_owner()).await?;
    let counted = count_builds(&mut tx, key).await?;
    if counted.images == 0 && counted.builds >= MAX_BUILDS {
        let detail =
            format!("{MAX_BUILDS} builds are recorded: remove one with unslide system-symbols remove");
        return Err(Problem::new(Kind::LimitReached, detail));
    }
    let added = record_images(&mut tx, key, &ids, &actor).await?;
    let images = counted.images + added;
    if images > MAX_BUILD_IMAGES {
        let detail = format!("{build} {}: a build has at most {MAX_BUILD_IMAGES} images", new.arch);
        return Err(Problem::new(Kind::LimitReached, detail));
    }
    tx.commit().await?;
    Ok(Json(RecordedBuild { build, arch: new.arch, images: images.unsigned_abs() }))
}

fn check_build(build: &str, new: &BuildImages) -> Result<(), Problem> {
    if !is_build(build) {
        return Err(Problem::new(Kind::NotFound, "there is no such build: a build looks like 23B87"));
    }
    let is_arch = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !(1..=MAX_ARCH_BYTES).contains(&new.arch.len()) || !new.arch.bytes().all(is_arch) {
        let detail = format!("arch: 1 to {MAX_ARCH_BYTES} letters, digits and underscores, such as arm64e");
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    if !(1..=MAX_PAGE_IMAGES).contains(&new.debug_ids.len()) {
        return Err(Problem::new(Kind::InvalidBody, format!("debug_ids: 1 to {MAX_PAGE_IMAGES}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::DebugId;

    #[test]
    fn a_build_has_a_number_an_architecture_and_some_images() {
        let images = |arch: &str, count| BuildImages {
            arch: arch.to_owned(),
            debug_ids: vec![DebugId([1; 16]); count],
        };
        assert!(check_build("23B87", &images("arm64e", MAX_PAGE_IMAGES)).is_ok());
        for (build, new) in [
            ("iOS", images("arm64e", 1)),
            ("23B87", images("", 1)),
            ("23B87", images("arm 64", 1)),
            ("23B87", images("arm64e", 0)),
            ("23B87", images("arm64e", MAX_PAGE_IMAGES + 1)),
        ] {
            assert!(check_build(build, &new).is_err(), "{build} {}", new.arch);
        }
    }
}
