//! `POST /v1/testflight/poll`: asks Apple now.

use super::{EVERY_APP, TestFlightState, read_state};
use crate::store;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{AcceptedResponse, Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// Ask Apple for submissions now
///
/// Otherwise Apple is asked every 15 minutes. A poll begins within seconds, or when Apple takes requests again after it has
/// limited them. `polled_at` of the inbox says when it has ended. A tenant without a key of App Store Connect has no poll: `key` is absent.
#[utoipa::path(post, path = "/v1/testflight/poll", tag = "testflight", operation_id = "poll_testflight",
    responses((status = 202, description = "A poll is due.",
            headers(("location" = String, description = "The path of the inbox.")), body = TestFlightState), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn poll_testflight(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<AcceptedResponse<TestFlightState>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    store::request_poll(&mut tx).await?;
    let state = read_state(&mut tx).await?;
    tx.commit().await?;
    Ok(AcceptedResponse { body: state, location: Some("/v1/testflight".to_owned()) })
}
