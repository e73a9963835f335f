//! `POST /v1/testflight/poll`: asks Apple now.

use super::{EVERY_APP, TestFlightState, read_state};
use crate::store;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{AcceptedResponse, Access, Kind, Problem, TenantAdmin, problems};

problems!(Failures: NotFound);

/// Ask Apple for submissions now
///
/// Otherwise Apple is asked every 15 minutes. A poll begins within seconds, or when Apple takes requests again after it has
/// limited them. `polled_at` of the inbox says when it has ended.
#[utoipa::path(post, path = "/v1/testflight/poll", tag = "testflight", operation_id = "poll_testflight",
    responses((status = 202, description = "A poll is due.", body = TestFlightState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn poll_testflight(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<AcceptedResponse<TestFlightState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if !store::request_poll(&mut tx).await? {
        return Err(Problem::new(Kind::NotFound, "the tenant has no key of App Store Connect"));
    }
    let state = read_state(&mut tx).await?;
    tx.commit().await?;
    Ok(AcceptedResponse { body: state, location: None })
}
