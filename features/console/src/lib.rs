//! The console: the service's data as pages for people, from the same code that answers the API.
//!
//! One file of `pages` for each page. A page demands its scope in the type of its argument, as an operation does:
//! [`SignedIn<ReportsRead>`](page::SignedIn). Pages are complete without the script, and hold no text that
//! [`escaping`] has not escaped, or `unslide_calltree` in a flame graph.
//!
//! [`page`] has the parts that pages of other features use.

#![expect(missing_docs, reason = "the fields of pages say what they are by their names")]

mod assets;
mod bar;
mod components;
mod cookie;
pub mod escaping;
pub mod filters;
mod form;
mod link;
pub mod page;
mod pages;
mod prelude;
mod session;
mod shell;
mod store;
mod viewer;
mod words;

use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Redirect;
use axum::routing::{get, post};
use axum::{Extension, Router};
use pages::group_pages::{bulk, group, group_actions, groups, saved_views};
use pages::report_pages::{app_session, explain, report, reports};
use pages::tenant_pages::{audit_log, dead_letter, dead_letters, keys, settings, stored_data, tenants};
use pages::{flame, lists, overview, search, sign_in, suggestions, symbols, versions};
use std::time::Duration;
use unslide_api::feature::site::bound_time;
use unslide_api::feature::{Api, ApiFeature};
use unslide_feature::{ConfiguredFeature, Feature};
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
    FEATURE.with_api(ApiFeature { site: Some(build_site), ..ApiFeature::new(NAME) })
}

/// Builds the routes of the console, with the pages of all features.
fn build_site(api: &Api) -> Router<Api> {
    let limit = Duration::from_secs(api.limits.request_seconds);
    let mut pages = Router::new()
        .route("/console", get(overview::render_page))
        .route("/console/sign-in", get(sign_in::render_page).post(sign_in::sign_in))
        .route("/console/sign-out", post(sign_in::sign_out))
        .route("/console/search", get(search::render_page))
        .route("/console/suggestions", get(suggestions::suggest_names))
        .merge(build_group_routes())
        .route("/console/reports", get(reports::render_page))
        .route("/console/reports/{id}", get(report::render_page))
        .route("/console/reports/{id}/json", get(report::get_json))
        .route("/console/reports/{id}/text", get(report::get_text))
        .route("/console/reports/{id}/explain", get(explain::render_page))
        .route("/console/reports/{id}/flame", get(flame::render_report))
        .route("/console/reports/{id}/threads/{position}", get(report::render_thread))
        .route("/console/sessions/{id}", get(app_session::render_page))
        .route("/console/versions", get(versions::render_page))
        .route("/console/symbols", get(symbols::render_page))
        .route("/console/dead-letters", get(dead_letters::render_page))
        .route("/console/dead-letters/{id}", get(dead_letter::render_page))
        .route("/console/dead-letters/{id}/replay", post(dead_letters::replay_from_form))
        .route("/console/audit-log", get(audit_log::render_page))
        .route("/console/settings", get(settings::render_page).post(settings::save_from_form))
        .route("/console/settings/person-search", post(settings::switch_person_search))
        .route("/console/settings/grouping-rules", post(settings::set_rules).layer(Extension(form::LongForm)))
        .route(
            "/console/settings/grouping-rules/trial",
            post(settings::try_rules).layer(Extension(form::LongForm)),
        )
        .merge(build_data_routes())
        .route("/console/keys", get(keys::render_page).post(keys::create_from_form))
        .route("/console/keys/{id}/revoke", post(keys::revoke_from_form).layer(Extension(session::TakesAway)))
        .route("/console/tenants", get(tenants::render_page))
        .route("/console/{*rest}", get(shell::not_found));
    for feature in &api.features {
        pages = pages.merge(feature.pages.clone());
    }
    let pages = pages.layer(from_fn_with_state(limit, bound_time)).merge(lists::form_routes(api, limit));
    pages
        // An upload bounds its own time.
        .route("/console/symbols/upload", post(symbols::upload_from_form))
        .layer(Extension(shell::collect_side_bar(&api.features)))
        .layer(from_fn(shell::frame_response))
        .route("/console/assets/{hash}/{name}", get(assets::serve_asset))
        .route("/favicon.ico", get(assets::serve_icon))
        .route("/", get(|| async { Redirect::temporary("/console") }))
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
        .route("/console/groups/{id}/flame", get(flame::render_group))
        .route("/console/groups/{id}/update", post(group_actions::update_from_form))
        .route("/console/groups/{id}/comment", post(group_actions::add_comment))
        .route("/console/groups/{id}/merge", post(group_actions::merge_into))
        .route("/console/groups/{id}/split", post(group_actions::split_off))
}
