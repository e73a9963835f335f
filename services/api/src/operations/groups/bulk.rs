//! `POST /v1/groups/changes`.

use super::change::{GroupPatch, check_patch};
use super::reference::resolve_groups;
use super::{Author, check_merged, check_updated};
use crate::operations::prelude::*;
use crate::requests::input;
use unslide_model::GroupRef;
use unslide_store::groups::{self, MergeOutcome, UpdateOutcome};
use unslide_store::queries::groups::find_most_reports;
use unslide_store::{GroupId, TenantTx};

/// Maximum number of groups in one request.
pub const CHANGED_GROUPS_LIMIT: usize = 100;

/// One change for several groups: either `change` or `merge`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupChanges {
    /// Ids or short ids of the groups to change, 1 to 100.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 100, example = json!(["SHOP-1A2B"]))]
    pub groups: Vec<GroupRef>,
    /// Changes of each group, as `PATCH /v1/groups/{id}` makes them.
    pub change: Option<GroupPatch>,
    /// True merges the groups into the one of them that has the most reports. All must be of one app.
    #[serde(default)]
    pub merge: bool,
}

unslide_model::words! {
    /// Outcomes of a change, for each group.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum GroupOutcome {
        /// The group is as the request wants it.
        Done = "done",
        /// There is no such group.
        NotFound = "not_found",
        /// It is merged into another group, which is the one to change.
        Merged = "merged",
        /// It is of another app than the group that it was to be merged into.
        OtherApp = "other_app",
        /// The app has no version yet, so there is no next one.
        NoVersion = "no_version",
        /// The other group would have more than 200 groups merged into it.
        LimitReached = "limit_reached",
    }
}

/// The outcome of one group.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangedGroup {
    /// Its id; absent if no group has the short id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub id: Option<GroupId>,
    /// The outcome of the change: `done`, or why the group was not changed.
    pub outcome: GroupOutcome,
    /// The group that has the change: the group itself, the one that replaced it, or the one that it is merged into.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub group: Option<GroupId>,
    /// The reason why it was not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The outcomes of a change of several groups.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangedGroups {
    /// Number of groups with the outcome `done`.
    pub done: usize,
    /// An outcome for each group, in the order of the request.
    #[schema(max_items = 100)]
    pub outcomes: Vec<ChangedGroup>,
}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// Change several groups
///
/// Resolves, ignores, reopens, assigns or merges up to 100 groups at once. Each group has an outcome of its own: one that
/// cannot be changed does not keep the others from it. The activity of each group has an entry.
#[utoipa::path(post, path = "/v1/groups/changes", tag = "groups", operation_id = "change_groups",
    request_body = GroupChanges,
    responses((status = 200, description = "An outcome for each group.", body = ChangedGroups), Failures),
    security(("key" = ["groups:write"])))]
pub async fn change_groups(
    State(storage): State<Arc<Storage>>,
    access: Access<GroupsWrite>,
    input::Json(changes): input::Json<GroupChanges>,
) -> Result<Json<ChangedGroups>, Problem> {
    change_all_as_author(&storage, &Author { access: &access, name: None }, changes).await.map(Json)
}

/// Changes several groups in the name of this author.
///
/// # Errors
/// The failures that the operation documents.
pub async fn change_all_as_author(
    storage: &Storage,
    author: &Author<'_>,
    changes: GroupChanges,
) -> Result<ChangedGroups, Problem> {
    let GroupChanges { groups, change, merge } = changes;
    if groups.is_empty() || groups.len() > CHANGED_GROUPS_LIMIT {
        let detail = format!("groups: 1 to {CHANGED_GROUPS_LIMIT} ids or short ids");
        return Err(Problem::new(Kind::InvalidBody, detail));
    }
    let update = match (change, merge) {
        (Some(patch), false) => Some(check_patch(patch, storage.clock.now())?),
        (None, true) => None,
        _ => return Err(Problem::new(Kind::InvalidBody, "either change, or merge: true, and not both")),
    };
    let mut tx = storage.tenant(author.access.tenant()).await?;
    let ids = resolve_groups(&mut tx, &groups).await?;
    // No group has the nil id.
    let known: Vec<GroupId> = ids.iter().map(|id| id.unwrap_or_default()).collect();
    let key = author.key_id();
    let mut outcomes: Vec<ChangedGroup> = match update {
        Some(update) => {
            let actor = author.as_actor(&key);
            let done = groups::update_groups(&mut tx, &known, author.only_app(), actor, &update).await?;
            known.iter().zip(done).map(|(id, outcome)| describe_update(*id, outcome)).collect()
        }
        None => merge_into_largest(&mut tx, author, &known).await?,
    };
    tx.commit().await?;
    for (outcome, id) in outcomes.iter_mut().zip(ids) {
        outcome.id = id;
    }
    let done = outcomes.iter().filter(|outcome| outcome.outcome == GroupOutcome::Done).count();
    Ok(ChangedGroups { done, outcomes })
}

async fn merge_into_largest(
    tx: &mut TenantTx,
    author: &Author<'_>,
    ids: &[GroupId],
) -> Result<Vec<ChangedGroup>, Problem> {
    let Some(target) = find_most_reports(tx, ids, author.only_app()).await? else {
        let none = |id: &GroupId| describe_merge(*id, *id, MergeOutcome::NotFound(*id));
        return Ok(ids.iter().map(none).collect());
    };
    let key = author.key_id();
    let done = groups::merge_each(tx, target, ids, author.only_app(), author.as_actor(&key)).await?;
    Ok(ids.iter().zip(done).map(|(id, outcome)| describe_merge(*id, target, outcome)).collect())
}

fn describe_update(id: GroupId, outcome: UpdateOutcome) -> ChangedGroup {
    let (word, group) = match outcome {
        UpdateOutcome::Done(group) => (GroupOutcome::Done, Some(group)),
        UpdateOutcome::NotFound => (GroupOutcome::NotFound, None),
        UpdateOutcome::Merged(into) => (GroupOutcome::Merged, Some(into)),
        UpdateOutcome::NoVersion => (GroupOutcome::NoVersion, None),
    };
    let detail = check_updated(outcome, id).err().and_then(|problem| problem.detail().map(str::to_owned));
    ChangedGroup { id: None, outcome: word, group, detail }
}

fn describe_merge(id: GroupId, target: GroupId, outcome: MergeOutcome) -> ChangedGroup {
    let (word, group) = match outcome {
        MergeOutcome::Done => (GroupOutcome::Done, Some(target)),
        MergeOutcome::NotFound(_) | MergeOutcome::NotMerged(_) => (GroupOutcome::NotFound, None),
        MergeOutcome::OtherApp(_) => (GroupOutcome::OtherApp, None),
        MergeOutcome::Merged { into, .. } => (GroupOutcome::Merged, Some(into)),
        MergeOutcome::TooMany => (GroupOutcome::LimitReached, None),
    };
    let detail = check_merged(outcome, id).err().and_then(|problem| problem.detail().map(str::to_owned));
    ChangedGroup { id: None, outcome: word, group, detail }
}
