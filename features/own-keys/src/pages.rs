//! `/console/own-keys`: the keys that an app sets, and the values of one.

use crate::operations::OwnKeysQuery;
use crate::operations::keys::{AppOwnKeys, list_own_keys};
use crate::operations::values::{OwnKeyValues, list_own_key_values};
use crate::store::{COUNTED_KEYS_LIMIT, COUNTED_VALUES_LIMIT};
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Api, Kind, Path, Problem, Query, ReportsRead};
use unslide_site::{
    FilterBar, PageState, Shell, SignedIn, Template, app_and_version, build_link, escaping, filters,
    render_html,
};

/// The path of the page.
pub const OWN_KEYS_PAGE: &str = "/console/own-keys";
/// The path of the list of reports, which filters by a key.
const REPORTS_PAGE: &str = "/console/reports";

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(OWN_KEYS_PAGE, get(show_own_keys))
}

/// Returns the address of the reports with a value of a key.
pub fn reports_link(filters: &[(&str, &str)], key: &str, value: &str) -> String {
    let pair = format!("{key}={value}");
    let filters = filters.iter().copied().chain([("key", pair.as_str())]);
    let pairs: Vec<_> = filters.map(|(name, value)| (name, Some(value))).collect();
    build_link(REPORTS_PAGE, &pairs)
}

#[derive(Template)]
#[template(path = "own-keys/own_keys.html", askama = escaping)]
struct OwnKeysPage {
    shell: Shell,
    /// Absent if no report of the app is stored.
    found: Option<AppOwnKeys>,
    /// The values of the chosen key, if reports have it.
    chosen: Option<OwnKeyValues>,
    version: Option<String>,
}

impl OwnKeysPage {
    fn key_link(&self, key: &str) -> String {
        let app = self.found.as_ref().map(|found| found.app.as_str());
        build_link(OWN_KEYS_PAGE, &[("app", app), ("version", self.version.as_deref()), ("key", Some(key))])
    }

    fn value_link(&self, chosen: &OwnKeyValues, value: &str) -> String {
        let version = self.version.as_deref().map(|version| ("version", version));
        let filters: Vec<_> =
            [("app", chosen.app.as_str()), ("counted", "true")].into_iter().chain(version).collect();
        reports_link(&filters, &chosen.key, value)
    }
}

async fn show_own_keys(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let asked = access.restrict_app(state.get_text("app"))?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    tx.rollback();
    // The counts are of one app: the first one, until one is chosen.
    let app = selects.first_mut().map(|select| select.select_or_first(asked)).unwrap_or_default();
    let version = state.get_text("version");
    let query = || OwnKeysQuery { version: version.clone(), group: None };
    let listed =
        list_own_keys(State(storage.clone()), access.clone(), Path(app.clone()), Query(query())).await;
    let found = unless_missing(listed.map(|found| found.0))?;
    let chosen = match state.get_text("key").filter(|_| found.is_some()) {
        Some(key) => {
            let of_key = Path((app.clone(), key));
            let listed = list_own_key_values(State(storage), access.clone(), of_key, Query(query())).await;
            unless_missing(listed.map(|found| found.0))?
        }
        None => None,
    };
    let bar = FilterBar { action: OWN_KEYS_PAGE.to_owned(), selects, ..FilterBar::default() };
    render_html(&OwnKeysPage {
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "Own keys").with_about(&app).with_bar(bar),
        found,
        chosen,
        version,
    })
}

/// Returns `None` if nothing was found.
fn unless_missing<T>(result: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match result {
        Err(problem) if problem.kind() == Kind::NotFound => Ok(None),
        result => result.map(Some),
    }
}
