//! `GET /v1/groups/{id}/context`.

use super::findings::{describe_only_device, load_context};
use super::no_such_group;
use crate::operations::prelude::*;
use crate::requests::input::check_texts;
use unslide_store::GroupId;
use unslide_store::queries::groups::context::{self, GroupContext, KeyValueUse};
use unslide_store::queries::groups::find_group;

/// Longer keys are not stored.
const KEY_BYTES_LIMIT: usize = 256;

/// The key with the values to count.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupContextQuery {
    /// The key of the app with the values to count; none if absent.
    #[param(max_length = 256, example = "plan")]
    pub key: Option<String>,
}

/// Shares of a group's newest reports.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = GroupContextShares)]
pub struct GroupContextShares {
    #[serde(flatten)]
    #[schema(inline)]
    pub context: GroupContext,
    /// A sentence about the device, if one device only has the reports or those with a hint.
    pub device_note: Option<String>,
    /// The values of the query's key, those in the most reports first.
    #[schema(max_items = 10)]
    pub values: Vec<KeyValueUse>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get the context of a group
///
/// Counts states of the app and the device, and the app's own keys, in the newest 1,000 reports of the group: how many state that
/// the app was in the background, that the device was short of memory, storage or power, too warm or jailbroken, and how many
/// have each key, and what analyses of faults found in how many, from how many devices. If one device only has the reports, the
/// answer says so, with what its reports in other groups have in common with these. Of a report, the first 50 keys of `user` that are short texts, numbers or booleans count, also those of
/// objects directly in it as `object.member`.
#[utoipa::path(get, path = "/v1/groups/{id}/context", tag = "groups", operation_id = "get_group_context",
    params(("id" = Uuid, Path, description = "The group's id."), GroupContextQuery),
    responses((status = 200, description = "The counts.", body = GroupContextShares), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group_context(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupId>,
    Query(query): Query<GroupContextQuery>,
) -> Result<Json<GroupContextShares>, Problem> {
    check_texts(Kind::InvalidParameter, KEY_BYTES_LIMIT, [("key", query.key.as_deref())])?;
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let group = find_group(&mut tx, id, access.only_app()).await?.ok_or_else(no_such_group)?;
    let context = load_context(&symbolication, &mut tx, group.id).await?;
    let values = match query.key {
        Some(key) => context::count_key_values(&mut tx, group.id, &[key]).await?,
        None => Vec::new(),
    };
    let device_note = describe_only_device(&symbolication.analyses, &context);
    Ok(Json(GroupContextShares { context, device_note, values }))
}
