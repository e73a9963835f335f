//! `/scim/v2`: the routes of the protocol, outside the API. The token of a request names the tenant.

mod groups;
mod request;
mod service;
mod users;

use axum::Router;
use axum::routing::get;
use unslide_api::feature::operation::Api;

/// Returns the routes of the protocol.
pub fn routes() -> Router<Api> {
    Router::new()
        .route("/scim/v2/Users", get(users::list).post(users::create))
        .route(
            "/scim/v2/Users/{id}",
            get(users::show).put(users::replace).patch(users::patch).delete(users::delete),
        )
        .route("/scim/v2/Groups", get(groups::list).post(groups::create))
        .route(
            "/scim/v2/Groups/{id}",
            get(groups::show).put(groups::replace).patch(groups::patch).delete(groups::delete),
        )
        .route("/scim/v2/ServiceProviderConfig", get(service::show_config))
        .route("/scim/v2/ResourceTypes", get(service::list_resource_types))
        .route("/scim/v2/Schemas", get(service::list_schemas))
}
