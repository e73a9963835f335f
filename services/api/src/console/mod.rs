//! The console: the service's data as pages for people, from the same code that answers the API.
//!
//! One file of `pages` for each page. A page demands its scope in the type of its argument, as an operation does:
//! [`SignedIn<ReportsRead>`](session::SignedIn). Pages are complete without the script, and hold no text that
//! [`escaping`] has not escaped, or `signals` in a flame graph.

pub(crate) mod assets;
pub(crate) mod bar;
pub(crate) mod components;
pub mod escaping;
pub mod filters;
pub(crate) mod form;
pub(crate) mod link;
mod pages;
mod prelude;
pub(crate) mod session;
pub(crate) mod shell;
mod viewer;
pub(crate) mod words;

use crate::http::time_limit::bound_time;
use crate::state::Api;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use axum::{Extension, Router};
use pages::group_pages::{group, group_actions, groups};
use pages::report_pages::{app_session, explain, report, reports};
use pages::tenant_pages::{audit_log, dead_letter, dead_letters, keys, settings, tenants};
use pages::{flame, lists, overview, search, sign_in, symbols, versions};
use std::time::Duration;

/// The routes of the console.
pub fn console_routes(api: &Api) -> Router<Api> {
    let limit = Duration::from_secs(api.limits.request_seconds);
    let mut pages = Router::new()
        .route("/console", get(overview::render_page))
        .route("/console/sign-in", get(sign_in::render_page).post(sign_in::sign_in))
        .route("/console/sign-out", post(sign_in::sign_out))
        .route("/console/search", get(search::render_page))
        .route("/console/groups", get(groups::render_page))
        .route("/console/groups/{id}", get(group::render_page))
        .route("/console/groups/{id}/flame", get(flame::render_group))
        .route("/console/groups/{id}/update", post(group_actions::update_from_form))
        .route("/console/groups/{id}/comment", post(group_actions::add_comment))
        .route("/console/groups/{id}/merge", post(group_actions::merge_into))
        .route("/console/groups/{id}/split", post(group_actions::split_off))
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
        .route("/console/settings/grouping-rules", post(settings::set_rules).layer(Extension(form::LongForm)))
        .route(
            "/console/settings/grouping-rules/trial",
            post(settings::try_rules).layer(Extension(form::LongForm)),
        )
        .route("/console/keys", get(keys::render_page).post(keys::create_from_form))
        .route("/console/keys/{id}/revoke", post(keys::revoke_from_form).layer(Extension(session::TakesAway)))
        .route("/console/tenants", get(tenants::render_page))
        .route("/console/{*rest}", get(shell::not_found));
    for feature in &api.features {
        pages = pages.merge(feature.pages.clone());
    }
    let pages = pages.layer(from_fn_with_state(limit, bound_time)).merge(lists::form_routes(api, limit));
    // An upload bounds its own time.
    let mut pages = pages.route("/console/symbols/upload", post(symbols::upload_from_form));
    for feature in &api.features {
        pages = pages.merge(feature.upload_pages.clone());
    }
    pages
        .layer(from_fn(shell::frame_response))
        .route("/console/assets/{hash}/{name}", get(assets::serve_asset))
}
