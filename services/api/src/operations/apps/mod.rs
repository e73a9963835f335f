//! Figures by app and version.

pub mod app_signals;
pub mod list;
pub mod missing_symbols;
pub mod settings;
pub mod versions;

use crate::operations::prelude::*;
use time::Date;

/// The routes of this folder.
pub fn app_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(list::list_apps))
        .routes(routes!(versions::list_versions))
        .routes(routes!(app_signals::get_signals))
        .routes(routes!(settings::list_app_settings, settings::set_app_settings))
        .routes(routes!(missing_symbols::list_missing_symbols))
}

/// Writes the position of an app or a version in its list: the day of its last report, and its name.
fn encode_position(last_day: Date, name: &str) -> String {
    format!("{}.{name}", last_day.to_julian_day())
}

/// Reads the position that [`encode_position`] wrote.
fn seen_after(position: &str) -> Option<(Date, String)> {
    let (day, name) = position.split_once('.')?;
    Some((Date::from_julian_day(day.parse().ok()?).ok()?, name.to_owned()))
}
