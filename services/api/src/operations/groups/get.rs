//! `GET /v1/groups/{id}`.

use super::markdown::answer_group;
use super::no_such_group;
use super::reference::{GroupRef, resolve_group};
use crate::feature::figures::AppPeriod;
use crate::operations::prelude::*;
use axum::response::{IntoResponse, Response};
use time::Duration;
use unslide_store::TenantTx;
use unslide_store::queries::groups::{self, CountScope, GroupCounts, GroupFilter, GroupShare, ListedGroup};

/// Days of the share of sessions, with today.
const SHARE_DAYS: i64 = 30;

/// The form of the answer.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupFormatQuery {
    /// `json`, or `markdown`: a description with its evidence, in which texts of devices are quoted.
    #[param(example = "markdown")]
    pub format: Option<String>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get a group
///
/// Its reports are listed by `GET /v1/reports?group={id}`. A group is replaced if late symbols move its reports to other
/// groups. Then the answer is the group that got most of them, and `redirected_from` is the id of the path. With
/// `format=markdown` the answer has its statistics and the report that represents it.
#[utoipa::path(get, path = "/v1/groups/{id}", tag = "groups", operation_id = "get_group",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64), GroupFormatQuery),
    responses((status = 200, description = "The group.", content(
        (GroupCounts = "application/json"), (String = "text/markdown"))), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupRef>,
    Query(query): Query<GroupFormatQuery>,
) -> Result<Response, Problem> {
    let is_markdown = match query.format.as_deref() {
        None | Some("json") => false,
        Some("markdown") => true,
        Some(_) => return Err(Problem::new(Kind::InvalidParameter, "format: json or markdown")),
    };
    let found = load_group(&api, &access, id).await?;
    if is_markdown {
        Box::pin(answer_group(&api, &access, found)).await
    } else {
        Ok(Json(found).into_response())
    }
}

/// Returns a group that the key may see, or the group that replaced it.
///
/// # Errors
/// [`Kind::NotFound`].
pub async fn load_group(
    api: &Api,
    access: &Access<ReportsRead>,
    id: impl Into<GroupRef>,
) -> Result<GroupCounts, Problem> {
    let named = id.into();
    let mut tx = api.tenant(access.tenant()).await?;
    let id = resolve_group(&mut tx, &named).await?;
    let found = groups::get(&mut tx, id, access.principal.app.as_deref()).await?;
    let mut found = found.ok_or_else(no_such_group)?;
    found.share = find_share(api, &mut tx, &found.group).await?;
    Ok(found)
}

/// Returns the part of the app's sessions that a group hit, if a feature knows of sessions.
async fn find_share(
    api: &Api,
    tx: &mut TenantTx,
    group: &ListedGroup,
) -> Result<Option<GroupShare>, Problem> {
    let last = api.clock.now().date();
    let period = AppPeriod { app: &group.app, first: last - Duration::days(SHARE_DAYS - 1), last };
    for find in api.features.iter().filter_map(|feature| feature.find_app_sessions) {
        let Some(of_app) = find(tx, period).await? else { continue };
        let scope = CountScope { from_day: Some(period.first), ..CountScope::default() };
        let filter = GroupFilter { scope, ..GroupFilter::default() };
        let mut counted = [group.clone()];
        groups::replace_counts(tx, &filter, &mut counted).await?;
        let [counted] = counted;
        return Ok(Some(GroupShare {
            reports: counted.reports,
            sessions: of_app.sessions,
            affected_devices: counted.affected_devices,
            installations: of_app.installations,
            estimated: of_app.estimated,
        }));
    }
    Ok(None)
}
