//! `GET /v1/scim`: the numbers of the directory.

use super::EVERY_APP;
use crate::store::{self, DirectoryCounts};
use crate::token::SCIM_PATH;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};
use utoipa::ToSchema;

problems!(Failures: );

/// The directory that the identity provider has sent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DirectoryState {
    /// The path of the protocol, to set at the identity provider after the address of the service.
    #[schema(example = "/scim/v2")]
    pub path: String,
    /// Number of users who were not deleted.
    pub users: i64,
    /// Number of users who are active.
    pub active_users: i64,
    /// Number of users without an `externalId`: they fit no person, so that nothing ends when they leave.
    pub unmatched_users: i64,
    /// Number of groups, with or without members.
    pub groups: i64,
}

/// Show the directory
///
/// The numbers of users and groups that the identity provider has sent by SCIM.
#[utoipa::path(get, path = "/v1/scim", tag = "scim", operation_id = "get_scim",
    responses((status = 200, description = "The directory.", body = DirectoryState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_scim(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<DirectoryState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let DirectoryCounts { users, active_users, unmatched_users, groups } =
        store::count_directory(&mut tx).await?;
    Ok(Json(DirectoryState { path: SCIM_PATH.to_owned(), users, active_users, unmatched_users, groups }))
}
