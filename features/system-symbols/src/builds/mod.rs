//! Builds: which images an import found in a build of an operating system, and the removal of their names.

mod command;
mod record;
mod remove;
mod store;

pub use command::{Arguments, run};

use serde::{Deserialize, Serialize};
use unslide_api::feature::Api;
use unslide_api::feature::upload::for_both_owners;
use unslide_model::DebugId;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The most images of one request, for recording and for removal.
pub const MAX_PAGE_IMAGES: usize = 1_000;
/// The most images of one architecture of a build.
const MAX_BUILD_IMAGES: i64 = 16_384;
/// The most builds of one owner, each architecture counted.
const MAX_BUILDS: i64 = 500;
const MAX_ARCH_BYTES: usize = 32;

/// Images that an import found in one architecture of a build.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildImages {
    /// Architecture that all of these images have.
    #[schema(min_length = 1, max_length = 32, example = "arm64e")]
    pub arch: String,
    /// UUIDs of the images (`LC_UUID`), in any order.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 1000, example = json!(["0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"]))]
    pub debug_ids: Vec<DebugId>,
}

/// A build with its images.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RecordedBuild {
    /// Build number of the operating system.
    #[schema(example = "23B87")]
    pub build: String,
    /// Architecture that all of these images have.
    #[schema(example = "arm64e")]
    pub arch: String,
    /// Images of this architecture that imports have recorded so far.
    pub images: u64,
}

/// Names that were removed with a build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedBuild {
    /// Images with names that were deleted, or would be: no other build lists them, and they have no other symbols.
    pub removed: u64,
    /// Other images of the build: another build lists them, they have other symbols, or they have none.
    pub kept: u64,
    /// Images of the build that are still to be removed. Send the request again until there are none.
    pub remaining: u64,
}

/// Returns the routes of builds, for a tenant's own names and for the names of all tenants.
pub fn routes() -> OpenApiRouter<Api> {
    for_both_owners(|| {
        OpenApiRouter::new().routes(routes!(record::record_symbol_build, remove::remove_symbol_build))
    })
}
