//! The routes of the site: pages of features within the frame, the sign-in, and the files that pages load.

use crate::assets::{serve_asset, serve_icon};
use crate::shell::{FIRST_PAGE, SideBar, frame_response, not_found};
use crate::sign_in;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Redirect;
use axum::routing::{get, post};
use axum::{Extension, Router};
use std::time::Duration;
use unslide_api::feature::site::bound_time;
use unslide_api::feature::{Api, ApiFeature};

/// Builds the routes of the site with the pages of all features. `long_pages` bound their own time, as the features' forms
/// with long bodies do.
pub fn build_site(
    api: &Api,
    features: &[ApiFeature],
    side_bar: SideBar,
    long_pages: Router<Api>,
) -> Router<Api> {
    let limit = Duration::from_secs(api.parts().capacity.limits.request_seconds);
    let mut pages = Router::new()
        .route("/console/sign-in", get(sign_in::render_page).post(sign_in::sign_in))
        .route("/console/sign-out", post(sign_in::sign_out))
        .route("/console/{*rest}", get(not_found));
    for feature in features {
        pages = pages.merge(feature.pages.clone());
    }
    pages
        .layer(from_fn_with_state(limit, bound_time))
        .merge(long_pages)
        .layer(Extension(side_bar))
        .layer(Extension(sign_in::SignInWays::from_features(features)))
        .layer(from_fn(frame_response))
        .route("/console/assets/{hash}/{name}", get(serve_asset))
        .route("/favicon.ico", get(serve_icon))
        .route("/", get(|| async { Redirect::temporary(FIRST_PAGE) }))
}
