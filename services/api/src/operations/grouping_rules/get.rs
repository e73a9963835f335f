//! `GET /v1/grouping-rules`.

use super::OF_EVERY_APP;
use crate::operations::prelude::*;
use unslide_store::groups::rules::{self, TenantGroupingRules};

/// The rules of the tenant.
#[derive(Debug, Serialize, ToSchema)]
pub struct CurrentGroupingRules {
    /// The rules, and their progress over stored reports; absent if the tenant never had any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<TenantGroupingRules>,
}

problems!(Failures: InvalidParameter);

/// See the grouping rules
///
/// Returns the tenant's grouping rules, the previous rules, the author of the last change, and the progress over stored reports.
#[utoipa::path(get, path = "/v1/grouping-rules", tag = "groups", operation_id = "get_grouping_rules",
    responses((status = 200, description = "The rules.", body = CurrentGroupingRules), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_grouping_rules(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<CurrentGroupingRules>, Problem> {
    access.require_every_app(OF_EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let rules = rules::get(&mut tx).await?;
    Ok(Json(CurrentGroupingRules { rules }))
}
