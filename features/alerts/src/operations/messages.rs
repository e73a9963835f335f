//! `GET /v1/alert-messages`.

use crate::store::AlertRuleId;
use crate::store::messages::{self, ListedAlertMessage};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, List, Page, PageQuery, Problem, Query, TenantAdmin, parse_parameter, position_by_time, problems,
    time_and_id,
};
use utoipa::IntoParams;

/// Filter and page of the list of messages.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AlertMessageQuery {
    /// Only those of this rule.
    #[param(value_type = Option<Uuid>)]
    pub rule: Option<String>,
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// List alert messages
///
/// Lists the messages of the last 90 days with their outcomes, the newest first.
#[utoipa::path(get, path = "/v1/alert-messages", tag = "alerts", operation_id = "list_alert_messages",
    params(AlertMessageQuery),
    responses((status = 200, description = "A page of messages.", body = Page<ListedAlertMessage>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_alert_messages(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(query): Query<AlertMessageQuery>,
) -> Result<Json<Page<ListedAlertMessage>>, Problem> {
    let rule: Option<AlertRuleId> =
        query.rule.as_deref().map(|id| parse_parameter("rule", id)).transpose()?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let list = List::for_operation(access.tenant(), "list_alert_messages", &(rule, access.only_app()));
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = messages::list_messages(&mut tx, rule, access.only_app(), after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| position_by_time(last.created_at, last.id))))
}
