//! `GET /v1/alert-firings`, `POST /v1/alert-firings/{id}/acknowledge`.

use crate::store::AlertFiringId;
use crate::store::firings::{self, AlertFiring};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, Kind, List, Page, PageQuery, Path, Problem, Query, TenantAdmin, position_by_time, problems,
    time_and_id,
};
use unslide_store::{TenantTx, audit};

problems!(ListFailures: InvalidParameter);
problems!(Failures: InvalidParameter, NotFound);

/// List firings
///
/// Lists the times of the last 90 days in which the figure of a rule was bad, the newest first. A key for one app sees those of
/// the app's rules.
#[utoipa::path(get, path = "/v1/alert-firings", tag = "alerts", operation_id = "list_alert_firings",
    params(PageQuery),
    responses((status = 200, description = "A page of firings.", body = Page<AlertFiring>), ListFailures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_alert_firings(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AlertFiring>>, Problem> {
    let list = List::for_operation(access.tenant(), "list_alert_firings", &access.only_app());
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = firings::list_firings(&mut tx, access.only_app(), after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| position_by_time(last.began_at, last.id))))
}

/// Acknowledge a firing
///
/// Says that a person looks after it: the second receiver does not get it any more, and pagers show it as acknowledged. A firing
/// that was acknowledged or has ended stays as it is.
#[utoipa::path(post, path = "/v1/alert-firings/{id}/acknowledge", tag = "alerts",
    operation_id = "acknowledge_alert_firing",
    params(("id" = Uuid, Path, description = "The firing's id.")),
    responses((status = 200, description = "The firing.", body = AlertFiring), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn acknowledge_alert_firing(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(id): Path<AlertFiringId>,
) -> Result<Json<AlertFiring>, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    let missing = || Problem::new(Kind::NotFound, "there is no such firing of an alert rule");
    firings::find_firing(&mut tx, id, access.only_app()).await?.ok_or_else(missing)?;
    acknowledge_as(&mut tx, id, &access.principal.key_id.to_string()).await?;
    let firing = firings::find_firing(&mut tx, id, access.only_app()).await?.ok_or_else(missing)?;
    tx.commit().await?;
    Ok(Json(firing))
}

/// Acknowledges a firing and writes that to the audit log.
pub async fn acknowledge_as(tx: &mut TenantTx, id: AlertFiringId, actor: &str) -> Result<(), Problem> {
    if firings::acknowledge_firing(tx, id, actor).await? {
        let detail = serde_json::json!({});
        audit::append_entry(tx, actor, "alert_firing.acknowledge", &id.to_string(), &detail).await?;
    }
    Ok(())
}
