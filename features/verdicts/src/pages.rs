//! `/console/commonalities`: what the devices that met a bug have in common.

use crate::commonalities::{Commonalities, compare_group};
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Api, Problem, Query, ReportsRead, parse_parameter};
use unslide_api::feature::site::find_named_group;
use unslide_model::GroupRef;
use unslide_site::{
    PageState, Shell, SignedIn, Template, build_link, escaping, filters, group_path, render_html,
};

/// The path of the page.
const COMMONALITIES_PAGE: &str = "/console/commonalities";

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(COMMONALITIES_PAGE, get(show_commonalities))
}

/// Returns the address of the page for a group.
pub fn commonalities_link(group: &str) -> String {
    build_link(COMMONALITIES_PAGE, &[("group", Some(group))])
}

#[derive(Template)]
#[template(path = "verdicts/commonalities.html", askama = escaping)]
struct CommonalitiesPage {
    shell: Shell,
    title: String,
    back: String,
    found: Commonalities,
}

impl CommonalitiesPage {
    fn is_empty(&self) -> bool {
        self.found.values.is_empty() && self.found.hint.is_none()
    }
}

fn describe_share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

async fn show_commonalities(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let named: GroupRef = parse_parameter("group", &state.get_text("group").unwrap_or_default())?;
    let mut tx = storage.tenant(signed.access.tenant()).await?;
    let group = find_named_group(&mut tx, &named, signed.access.only_app()).await?;
    let found = compare_group(&mut tx, &group).await?;
    tx.rollback();
    render_html(&CommonalitiesPage {
        shell: Shell::for_viewer(signed.viewer, crate::NAME, "What they have in common"),
        back: group_path(group.id),
        title: group.title,
        found,
    })
}
