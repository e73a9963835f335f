//! Builds with their images, as the API has them.

use serde::{Deserialize, Serialize};
use unslide_model::DebugId;

/// The most images of one request, for recording and for removal.
pub const MAX_PAGE_IMAGES: usize = 1_000;

/// Images that an import found in one architecture of a build.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BuildImages {
    /// Architecture that all of these images have.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 32, example = "arm64e"))]
    pub arch: String,
    /// UUIDs of the images (`LC_UUID`), in any order.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>, min_items = 1, max_items = 1000, example = json!(["0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"])))]
    pub debug_ids: Vec<DebugId>,
}

/// A build with its images.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedBuild {
    /// Build number of the operating system.
    #[cfg_attr(feature = "openapi", schema(example = "23B87"))]
    pub build: String,
    /// Architecture that all of these images have.
    #[cfg_attr(feature = "openapi", schema(example = "arm64e"))]
    pub arch: String,
    /// Images of this architecture that imports have recorded so far.
    pub images: u64,
}

/// Names that were removed with a build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemovedBuild {
    /// Images with names that were deleted, or would be: no other build lists them, and they have no other symbols.
    pub removed: u64,
    /// Other images of the build: another build lists them, they have other symbols, or they have none.
    pub kept: u64,
    /// Images of the build that are still to be removed. Send the request again until there are none.
    pub remaining: u64,
}
