//! `POST /v1/trackers/{name}/test`.

use super::EVERY_APP;
use crate::ticket::TrackerKind;
use crate::trackers::{ANSWER_BYTES_LIMIT, TrackerAccount};
use crate::{Tickets, TicketsExtension, store};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, Charge, Kind, Path, Problem, TenantAdmin, problems, reserve_bytes,
};
use utoipa::ToSchema;

problems!(Failures: InvalidParameter, NotFound, RateLimited);

/// Units of a test, as many as those of ten reports.
const TEST_UNITS: usize = 10;
/// Bytes of an answer with the values that are read from it.
const PROBE_BYTES: u64 = 4 * ANSWER_BYTES_LIMIT as u64;

/// A test of a tracker: the request that was sent, without the token, and its answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TrackerTest {
    /// True if the tracker knows the project and takes the token.
    pub ok: bool,
    /// The method of the request.
    #[schema(example = "GET")]
    pub method: String,
    /// The address of the request.
    #[schema(example = "https://api.github.com/repos/example/shop")]
    pub url: String,
    /// The status of the answer; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 200)]
    pub status: Option<u16>,
    /// What the answer says, or why there is none.
    #[schema(example = "the repository example/shop: it has issues")]
    pub answer: String,
}

/// Asks a tracker for its project. Nothing is written there. It costs units and memory, and a process does a few at once.
pub async fn probe_tracker(
    storage: &Storage,
    tickets: &Tickets,
    access: &Access<TenantAdmin>,
    kind: TrackerKind,
    account: &TrackerAccount,
) -> Result<TrackerTest, Problem> {
    let tenant = access.tenant();
    Charge::for_reports(&storage.capacity, tenant, access.principal.limits.units_per_second)?
        .charge_reports(TEST_UNITS)?;
    let _probe = tickets.probes.try_acquire(tenant, 1)?;
    let _bytes = reserve_bytes(&storage.capacity.permits, tenant, PROBE_BYTES)?;
    let protocol = kind.protocol();
    let call = protocol.build_probe(account);
    let Some(client) = &tickets.client else {
        let (method, url) = (call.method.to_string(), format!("{}{}", account.url, call.path));
        let answer = "TLS cannot be set up".to_owned();
        return Ok(TrackerTest { ok: false, method, url, status: None, answer });
    };
    let sent = client.send_shown(protocol, account, &call).await;
    let read = match &sent.outcome {
        Ok(answer) => protocol
            .read_probe(answer)
            .ok_or_else(|| format!("the answer is not one of {}", protocol.label())),
        Err(failure) => Err(failure.to_string()),
    };
    let (ok, answer) = match read {
        Ok(text) => (true, text),
        Err(text) => (false, text),
    };
    Ok(TrackerTest { ok, method: sent.method, url: sent.url, status: sent.status, answer })
}

/// Test a tracker
///
/// Asks the tracker for its project with the stored token, and returns what was sent and answered. Nothing is written in the tracker.
/// Of the answer only the project and the words of an error are shown.
#[utoipa::path(post, path = "/v1/trackers/{name}/test", tag = "tickets", operation_id = "test_tracker",
    params(("name" = String, Path, description = "The tracker's name.", max_length = 40)),
    responses((status = 200, description = "What was sent and answered.", body = TrackerTest), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn test_tracker(
    State(storage): State<Arc<Storage>>,
    Extension(tickets): TicketsExtension,
    access: Access<TenantAdmin>,
    Path(name): Path<String>,
) -> Result<Json<TrackerTest>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let row = store::get_tracker(&mut tx, &name).await?;
    // The next step waits for the tracker, and must not hold a connection.
    tx.rollback();
    let row = row.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such tracker"))?;
    let account = tickets.open_account(access.tenant(), &row);
    let account = account.map_err(|error| Problem::new(Kind::NotFound, error))?;
    Ok(Json(probe_tracker(&storage, &tickets, &access, row.kind, &account).await?))
}
