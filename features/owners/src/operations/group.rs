//! `GET /v1/groups/{id}/owners`: the owner of a group, and what decided.

use crate::panels::describe_outcome;
use crate::store::{self, OwnerExplanation};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, ReportsRead, problems};
use unslide_api::feature::site::find_named_group;
use unslide_model::{GroupRef, ReportId};
use unslide_store::GroupId;
use utoipa::ToSchema;

/// The word for a group before the first look for its owner.
const WAITING: &str = "waiting";

/// The owners of a group's code.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GroupOwners {
    /// Id of the group.
    #[schema(value_type = Uuid)]
    pub group: GroupId,
    /// `owned`; `cleared` (a line matches that names no owner), `unmatched`, `dependency` (code of others), `generated`,
    /// `unmapped` (an absolute path that no rewrite fits), `no_source` (the cause has no source file), `no_file`, `no_report`, `unreadable`
    /// (its report cannot be read); or `waiting` before the first look, also for an app without owners.
    #[schema(example = "owned")]
    pub outcome: &'static str,
    /// The outcome in a sentence.
    #[schema(max_length = 200)]
    pub text: &'static str,
    /// The owners, as the file has them.
    #[schema(max_items = 20, example = json!(["@example/cart"]))]
    pub owners: Vec<String>,
    /// True if something has changed since: the next look begins within seconds, or after a pause if the last one failed.
    pub is_due: bool,
    /// Looks in a row that failed; absent if the last one did not. After 13 of them a change of its reports or of the file of owners
    /// begins again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub failures: Option<u32>,
    /// The report that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub report: Option<ReportId>,
    /// When the look ended (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<OffsetDateTime>,
    /// The frame, the path and the line that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<OwnerExplanation>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get the owners of a group
///
/// The owner of a group is the owner of the source file of its culprit: the function that grouping names as the cause, also if
/// it is inlined. It is read from the report that represents the group, when the group is new, and again when its file of owners
/// or the path rewrites change, symbols come late, or it is merged or split.
#[utoipa::path(get, path = "/v1/groups/{id}/owners", tag = "owners", operation_id = "get_group_owners",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    responses((status = 200, description = "The owners.", body = GroupOwners), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group_owners(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupRef>,
) -> Result<Json<GroupOwners>, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    let group = find_named_group(&mut tx, &id, access.only_app()).await?.id;
    let found = store::get_group_owner(&mut tx, group).await?;
    Ok(Json(match found {
        Some(found) => GroupOwners {
            group,
            outcome: found.outcome.map_or(WAITING, |outcome| outcome.as_str()),
            text: describe_outcome(found.outcome),
            owners: found.owners,
            is_due: found.is_due,
            failures: Some(found.failures).filter(|failures| *failures > 0),
            report: found.report,
            looked_at: found.looked_at,
            explanation: found.outcome.map(|_| found.explanation),
        },
        None => GroupOwners {
            group,
            outcome: WAITING,
            text: describe_outcome(None),
            owners: Vec::new(),
            is_due: false,
            failures: None,
            report: None,
            looked_at: None,
            explanation: None,
        },
    }))
}
