//! `PUT /v1/grouping-rules`.

use super::{OF_EVERY_APP, parse_rules};
use crate::operations::prelude::*;
use crate::operations::tenants::wait_announced;
use crate::requests::input;
use unslide_store::audit;
use unslide_store::groups::rules::{self, TenantGroupingRules};

/// New grouping rules, which replace all before.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroupingRules {
    /// One rule a line: `app`, `not-app`, `ignore` or `sentinel`, then `function`, `file` or `image`, then a pattern
    /// in which `*` matches any characters. At most 200 rules, 256 characters a pattern. Empty: no rules.
    #[schema(max_length = 65536, example = "ignore function Shop.Log.*")]
    pub text: String,
}

/// Grouping rules after their change.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedGroupingRules {
    /// The rules after the change.
    #[serde(flatten)]
    pub rules: TenantGroupingRules,
    /// True if the broker has the change, from which the workers read it. False if that takes longer than this
    /// request waited; the change follows later.
    pub announced: bool,
}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// Set the grouping rules
///
/// New reports use the rules as soon as the workers have read them. Stored reports move to their groups in the background:
/// they get no new revision, no message is sent, and resolved groups stay resolved. Set the rules in `previous` to move
/// them back. `GET` shows the progress.
#[utoipa::path(put, path = "/v1/grouping-rules", tag = "groups", operation_id = "set_grouping_rules",
    request_body = NewGroupingRules,
    responses((status = 200, description = "The rules after the change.", body = ChangedGroupingRules), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_grouping_rules(
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    input::Json(new): input::Json<NewGroupingRules>,
) -> Result<Json<ChangedGroupingRules>, Problem> {
    access.require_every_app(OF_EVERY_APP)?;
    let read = parse_rules(&new.text)?;
    let actor = access.principal.key_id.to_string();
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    let changed = rules::set_rules(&mut tx, &actor, &new.text).await?;
    let (rules, announcement) =
        changed.ok_or_else(|| Problem::internal("the tenant of a key is not there"))?;
    let detail = serde_json::json!({"version": rules.version, "rules": read.len(), "hash": read.hash()});
    audit::append_entry(&mut tx, &actor, "grouping_rules.set", &rules.version.to_string(), &detail).await?;
    tx.commit().await?;
    keys.cache.forget(access.tenant());
    let announced = wait_announced(&keys.storage, access.tenant(), announcement).await?;
    Ok(Json(ChangedGroupingRules { rules, announced }))
}
