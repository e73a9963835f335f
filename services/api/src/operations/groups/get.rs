//! `GET /v1/groups/{id}`.

use super::Group;
use crate::operations::prelude::*;
use time::Date;
use unslide_store::Uuid;
use unslide_store::queries::groups;

/// A group with its reports by version and by day.
#[derive(Debug, Serialize, ToSchema)]
pub struct GroupDetail {
    #[serde(flatten)]
    group: Group,
    /// Its versions, the one with the most reports first, at most 50.
    #[schema(max_items = 50)]
    versions: Vec<GroupVersion>,
    /// The last 90 days with reports, the newest first.
    #[schema(max_items = 90)]
    days: Vec<GroupDay>,
}

/// A version with reports of a group.
#[derive(Debug, Serialize, ToSchema)]
pub struct GroupVersion {
    /// The version; empty for reports that name none.
    version: String,
    /// Reports of the version.
    reports: i64,
}

/// A day with reports of a group.
#[derive(Debug, Serialize, ToSchema)]
pub struct GroupDay {
    /// The day of arrival (UTC).
    #[serde(with = "crate::operations::apps::day")]
    day: Date,
    /// Reports that arrived on it.
    reports: i64,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get a group
///
/// Its reports are listed by `GET /v1/reports?group={id}`.
#[utoipa::path(get, path = "/v1/groups/{id}", tag = "groups", operation_id = "get_group",
    params(("id" = Uuid, Path, description = "The group's id.")),
    responses((status = 200, description = "The group.", body = GroupDetail), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Path(id): Path<String>,
) -> Result<Json<GroupDetail>, Problem> {
    let id: Uuid = parameter("id", &id)?;
    let mut tx = api.tenant(access.tenant()).await?;
    let found = groups::get(&mut tx, id, access.principal.app.as_deref()).await?;
    tx.rollback().await?;
    let found = found.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such group"))?;
    let version = |(version, reports)| GroupVersion { version, reports };
    let day = |(day, reports)| GroupDay { day, reports };
    Ok(Json(GroupDetail {
        group: found.group.into(),
        versions: found.versions.into_iter().map(version).collect(),
        days: found.days.into_iter().map(day).collect(),
    }))
}
