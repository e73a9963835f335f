//! The console: the service's data as pages for people, from the same code that answers the API.
//!
//! One file of `pages` for each page. The frame of the pages, and the parts that they share with pages of other features, are in
//! [`unslide_site`].

mod components;
mod navigation;
mod pages;
mod prelude;

use axum::middleware::from_fn;
use axum::routing::{get, post};
use axum::{Extension, Router};
use navigation::collect_side_bar;
use pages::group_pages::{bulk, group, group_actions, groups, saved_views};
use pages::report_pages::{app_session, explain, report, reports};
use pages::tenant_pages::{audit_log, dead_letter, dead_letters, keys, settings, stored_data, tenants};
use pages::{flame, lists, overview, search, suggestions, symbols, version, versions};
use std::time::Duration;
use unslide_api::feature::{Api, ApiFeature, lift_time_bound};
use unslide_feature::{ConfiguredFeature, Feature};
use unslide_site::{LongForm, TakesAway};
use unslide_store::StoreHook;
use unslide_store::tables::OwnedTable;

/// The name of the feature.
pub const NAME: &str = "console";

/// The feature. It has no settings.
pub const FEATURE: Feature =
    Feature { hook: StoreHook::with_tables(NAME, OWNED_TABLES), ..Feature::new(NAME, |_| feature()) };

/// The tables of the feature.
const OWNED_TABLES: &[OwnedTable] = &[OwnedTable::kept_for("console_sessions", time::Duration::ZERO)];

/// Makes the feature.
#[must_use]
pub fn feature() -> ConfiguredFeature {
    FEATURE.with_api(ApiFeature { site: Some(build_site), pages: build_pages(), ..ApiFeature::new(NAME) })
}

/// Builds the routes of the site, with the pages of all features.
fn build_site(api: &Api, features: &[ApiFeature]) -> Router<Api> {
    let parts = api.parts();
    let limit = Duration::from_secs(parts.capacity.limits.request_seconds);
    let long_pages = lists::form_routes(&parts.lists, limit);
    unslide_site::build_site(api, features, collect_side_bar(features), long_pages)
}

/// Builds the routes of the console's own pages.
fn build_pages() -> Router<Api> {
    let upload = post(symbols::upload_from_form).layer(from_fn(lift_time_bound));
    Router::new()
        .route("/console/symbols/upload", upload)
        .route("/console", get(overview::render_page))
        .route("/console/search", get(search::render_page))
        .route("/console/suggestions", get(suggestions::suggest_names))
        .merge(build_group_routes())
        .route("/console/reports", get(reports::render_page))
        .route("/console/reports/{id}", get(report::render_page))
        .route("/console/reports/{id}/json", get(report::get_representation))
        .route("/console/reports/{id}/text", get(report::get_representation))
        .route("/console/reports/{id}/markdown", get(report::get_representation))
        .route("/console/reports/{id}/explain", get(explain::render_page))
        .route("/console/reports/{id}/flame", get(flame::render_report))
        .route("/console/reports/{id}/threads/{position}", get(report::render_thread))
        .route("/console/sessions/{id}", get(app_session::render_page))
        .route("/console/versions", get(versions::render_page))
        .route(versions::VERSION_PAGE, get(version::render_page))
        .route("/console/symbols", get(symbols::render_page))
        .route("/console/dead-letters", get(dead_letters::render_page))
        .route("/console/dead-letters/{id}", get(dead_letter::render_page))
        .route("/console/dead-letters/{id}/replay", post(dead_letters::replay_from_form))
        .route("/console/audit-log", get(audit_log::render_page))
        .route("/console/settings", get(settings::render_page).post(settings::save_from_form))
        .route("/console/settings/person-search", post(settings::switch_person_search))
        .route("/console/settings/grouping-rules", post(settings::set_rules).layer(Extension(LongForm)))
        .route("/console/settings/grouping-rules/trial", post(settings::try_rules).layer(Extension(LongForm)))
        .merge(build_data_routes())
        .route("/console/keys", get(keys::render_page).post(keys::create_from_form))
        .route("/console/keys/{id}/revoke", post(keys::revoke_from_form).layer(Extension(TakesAway)))
        .route("/console/tenants", get(tenants::render_page))
}

/// Builds the routes for stored data: symbolicating again and deletion.
fn build_data_routes() -> Router<Api> {
    Router::new()
        .route("/console/data", get(stored_data::render_page))
        .route("/console/data/reprocess", post(stored_data::reprocess_from_form))
        .route("/console/reports/{id}/delete", post(stored_data::delete_report_from_form))
        .route("/console/symbols/{debug_id}/delete", post(stored_data::delete_symbols_from_form))
}

/// Builds the routes of groups.
fn build_group_routes() -> Router<Api> {
    Router::new()
        .route("/groups/{id}", get(group::redirect_to_page))
        .route("/console/groups", get(groups::render_page))
        .route("/console/groups/changes", post(bulk::change_from_form))
        .route("/console/groups/views", post(saved_views::save_from_form))
        .route("/console/groups/views/{id}", post(saved_views::rename_from_form))
        .route("/console/groups/views/{id}/delete", post(saved_views::delete_from_form))
        .route("/console/groups/{id}", get(group::render_page))
        .route("/console/groups/{id}/markdown", get(group::get_markdown))
        .route("/console/groups/{id}/flame", get(flame::render_group))
        .route("/console/groups/{id}/update", post(group_actions::update_from_form))
        .route("/console/groups/{id}/comment", post(group_actions::add_comment))
        .route("/console/groups/{id}/comments/{comment}/change", post(group_actions::change_comment))
        .route("/console/groups/{id}/comments/{comment}/delete", post(group_actions::delete_comment))
        .route("/console/groups/{id}/merge", post(group_actions::merge_into))
        .route("/console/groups/{id}/split", post(group_actions::split_off))
}
