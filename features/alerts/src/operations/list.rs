//! `GET /v1/alert-rules`.

use crate::receiver_policy::PolicyExtension;
use crate::store::rule_table;
use crate::store::rules::AlertRule;
use axum::extract::State;
use axum::{Extension, Json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, List, Page, PageQuery, Problem, Query, TenantAdmin, position_by_time, problems, time_and_id,
};

problems!(Failures: InvalidParameter);

/// List alert rules
///
/// Lists the rules, the oldest first, without their secrets. A key for one app sees the rules of that app.
#[utoipa::path(get, path = "/v1/alert-rules", tag = "alerts", operation_id = "list_alert_rules",
    params(PageQuery),
    responses((status = 200, description = "A page of rules.", body = Page<AlertRule>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_alert_rules(
    State(storage): State<Arc<Storage>>,
    Extension(policy): PolicyExtension,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AlertRule>>, Problem> {
    let list = List::for_operation(access.tenant(), "list_alert_rules", &access.only_app());
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let mut found = rule_table::list_rules(&mut tx, access.only_app(), after, limit + 1).await?;
    policy.mail.fill_recipients(&mut tx, &mut found).await?;
    policy.fill_hook_urls(&mut found);
    Ok(Json(Page::from_rows(found, limit, list, |last| position_by_time(last.created_at, last.id))))
}
