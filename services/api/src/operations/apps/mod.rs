//! Figures by app and version.

mod list;
mod missing_symbols;
mod versions;

use crate::operations::prelude::*;
use time::Date;
use unslide_model::DebugId;
use unslide_store::queries::missing;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list::list_apps))
        .routes(routes!(versions::list_versions))
        .routes(routes!(missing_symbols::list_missing_symbols))
}

/// Where an app or a version stands in its list: the day of its last report, and its name.
fn seen(last_day: Date, name: &str) -> String {
    format!("{}.{name}", last_day.to_julian_day())
}

/// The place that [`seen`] wrote.
fn seen_after(position: &str) -> Option<(Date, String)> {
    let (day, name) = position.split_once('.')?;
    Some((Date::from_julian_day(day.parse().ok()?).ok()?, name.to_owned()))
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

impl From<missing::WantedImage> for MissingImage {
    fn from(image: missing::WantedImage) -> MissingImage {
        MissingImage { debug_id: image.debug_id, name: image.name, arch: image.arch, reports: image.reports }
    }
}

mod dates {
    time::serde::format_description!(pub(in crate::operations) day, Date, "[year]-[month]-[day]");
}
pub(in crate::operations) use dates::day;
