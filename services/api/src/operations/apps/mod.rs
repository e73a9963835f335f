//! Figures by app and version.

mod list;
mod missing_symbols;
mod versions;

use crate::state::Api;
use serde::Serialize;
use unslide_model::DebugId;
use unslide_store::queries::missing;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list::list_apps))
        .routes(routes!(versions::list_versions))
        .routes(routes!(missing_symbols::list_missing_symbols))
}

/// An image without symbols.
#[derive(Debug, Serialize, ToSchema)]
pub struct MissingImage {
    /// Its debug id.
    #[schema(value_type = String, format = Uuid)]
    pub debug_id: DebugId,
    /// Its name.
    #[schema(example = "Shop")]
    pub name: String,
    /// Its architecture.
    #[schema(example = "arm64")]
    pub arch: String,
    /// Reports that came without its symbols.
    pub reports: i64,
}

impl From<missing::MissingImage> for MissingImage {
    fn from(image: missing::MissingImage) -> MissingImage {
        MissingImage { debug_id: image.debug_id, name: image.name, arch: image.arch, reports: image.reports }
    }
}

mod dates {
    time::serde::format_description!(pub(in super::super) day, Date, "[year]-[month]-[day]");
}
use dates::day;
