//! The builds that lack names, as the API has them.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use unslide_model::DebugId;

/// Names of system functions, by build of the operating system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SystemSymbolCoverage {
    /// The beginning of the period.
    #[serde(with = "time::serde::rfc3339")]
    pub from: OffsetDateTime,
    /// Reports that were read: the most recent ones of the period.
    pub reports: u64,
    /// True if the period has more reports than were read.
    pub is_sample: bool,
    /// The builds, those with the most reports without names first; at most 100.
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub items: Vec<BuildCoverage>,
}

/// Names of one build's system functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BuildCoverage {
    /// Name of the operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "iOS"))]
    pub os: Option<String>,
    /// Version of the operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "26.2"))]
    pub version: Option<String>,
    /// Build of the operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "23B87"))]
    pub build: Option<String>,
    /// `none`, `exports_only`, `partly` or `whole`: the images with names.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "none"))]
    pub state: CoverageState,
    /// Reports of devices with this build.
    pub reports: u64,
    /// System images that frames of these reports lie in.
    pub images: u64,
    /// Images with the names of their functions.
    pub named_images: u64,
    /// Images of which only the names are known that other images may call.
    pub exports_only_images: u64,
    /// The images without names in most reports.
    #[cfg_attr(feature = "openapi", schema(max_items = 5))]
    pub lacking: Vec<UnnamedImage>,
}

/// A system image without names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnnamedImage {
    /// UUID of the image (`LC_UUID`).
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = Uuid))]
    pub debug_id: DebugId,
    /// Reports with frames in it.
    pub reports: u64,
}

/// How many images of a build have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageState {
    /// No image of the build has names.
    None,
    /// Images have at most the names that other images may call: the local symbols are missing.
    ExportsOnly,
    /// Some images of the build have names.
    Partly,
    /// Every image of the build has names.
    Whole,
}
