//! `/console/owners`: the owners of the crashes of an app.

use crate::operations::get::{AppOwners, OwnersQuery, get_owners};
use crate::store::{LABEL_PREFIX, NO_OWNER_LABEL, list_apps};
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Api, Problem, Query, ReportsRead};
use unslide_site::{
    FilterBar, PageState, Shell, SignedIn, Template, app_select, build_link, escaping, filters,
    period_select, render_html,
};

/// The path of the page.
pub const OWNERS_PAGE: &str = "/console/owners";
/// The path of the list of groups, which filters by label.
const GROUPS_PAGE: &str = "/console/groups";

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(OWNERS_PAGE, get(show_owners))
}

#[derive(Template)]
#[template(path = "owners/owners.html", askama = escaping)]
struct OwnersPage {
    shell: Shell,
    /// Absent if the tenant has no app with owners.
    found: Option<AppOwners>,
    days: i64,
}

impl OwnersPage {
    /// Returns the address of the groups of an owner.
    fn owner_link(&self, owner: &str) -> String {
        self.groups_link(&format!("{LABEL_PREFIX}{owner}"))
    }

    fn ownerless_link(&self) -> String {
        self.groups_link(NO_OWNER_LABEL)
    }

    fn groups_link(&self, label: &str) -> String {
        let app = self.found.as_ref().map(|found| found.app.as_str());
        build_link(GROUPS_PAGE, &[("app", app), ("label", Some(label))])
    }

    fn share(&self) -> String {
        let share = self.found.as_ref().and_then(|found| found.shares.share_without_owner);
        share.map_or_else(|| "–".to_owned(), |share| format!("{share:.1} %"))
    }
}

async fn show_owners(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let asked = access.restrict_app(state.get_text("app"))?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let select = app_select(&mut tx, access, &state).await?;
    let app = match asked {
        Some(app) => Some(app),
        // The first app with owners, until one is chosen.
        None => list_apps(&mut tx, None, 1).await?.pop().map(|first| first.app),
    };
    tx.rollback();
    let days = state.chart_days();
    let found = match app {
        Some(app) => {
            let query = OwnersQuery { app: Some(app), days: u32::try_from(days).ok() };
            Some(get_owners(State(storage), access.clone(), Query(query)).await?.0)
        }
        None => None,
    };
    let bar = FilterBar {
        action: OWNERS_PAGE.to_owned(),
        selects: vec![select, period_select(&state)],
        ..FilterBar::default()
    };
    let about = found.as_ref().map(|found| found.app.clone()).unwrap_or_default();
    render_html(&OwnersPage {
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "Owners").with_about(&about).with_bar(bar),
        found,
        days,
    })
}
