//! `GET /v1/trackers`.

use super::{EVERY_APP, ShownTracker, TrackerList};
use crate::{TicketsExtension, store};
use axum::extract::State;
use axum::{Extension, Json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// List trackers
///
/// All trackers of the tenant without their secrets, with the address of their hooks and the problem that concerns all their tickets.
#[utoipa::path(get, path = "/v1/trackers", tag = "tickets", operation_id = "list_trackers",
    responses((status = 200, description = "The trackers.", body = TrackerList), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_trackers(
    State(storage): State<Arc<Storage>>,
    Extension(tickets): TicketsExtension,
    access: Access<TenantAdmin>,
) -> Result<Json<TrackerList>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let rows = store::list_trackers(&mut tx).await?;
    let trackers = rows.into_iter().map(|row| ShownTracker::from_row(&tickets, access.tenant(), row));
    Ok(Json(TrackerList { trackers: trackers.collect() }))
}
