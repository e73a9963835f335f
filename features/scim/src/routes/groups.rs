//! `/scim/v2/Groups`: the groups of the tenant of a token.

use super::request::ScimRequest;
use crate::ids::{ScimGroupId, ScimUserId};
use crate::protocol::{
    GroupForm, MEMBERS_LIMIT, MemberChange, ScimAnswer, ScimFailure, ScimGroup, change_group, read_changes,
    show_group,
};
use crate::store::{self, DirectoryLock};
use axum::extract::Path;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use unslide_store::{TenantTx, audit};

/// The most groups of one tenant.
const GROUPS_LIMIT: i64 = 1_000;

/// A group with its members.
struct GroupState {
    group: ScimGroup,
    members: BTreeSet<ScimUserId>,
}

type Outcome = Result<ScimAnswer, ScimFailure>;

/// `GET /scim/v2/Groups`: a page of all groups, or the one that a filter finds. Lists have no members.
pub async fn list(request: ScimRequest) -> Outcome {
    let mut tx = request.begin().await?;
    let page = request.page;
    let (groups, start, total) = match request.filter.as_slice() {
        [] => {
            let (groups, total) = store::list_groups(&mut tx, page.skipped(), page.count).await?;
            (groups, page.start, total)
        }
        [one] if one.attribute == "displayname" => {
            let found = store::find_group_by_name(&mut tx, &one.value).await?;
            let total = i64::from(found.is_some());
            (found.into_iter().collect(), 1, total)
        }
        _ => return Err(ScimFailure::filter("groups are found by displayName")),
    };
    let shown: Vec<Value> = groups.iter().map(|group| show_group(group, None)).collect();
    Ok(ScimAnswer::list(&shown, start, total))
}

async fn find(tx: &mut TenantTx, id: &str) -> Result<GroupState, ScimFailure> {
    let missing = || ScimFailure::not_found("group", id);
    let id = id.parse().map_err(|_| missing())?;
    let group = store::find_group(tx, id).await?.ok_or_else(missing)?;
    let members = store::list_members(tx, id).await?;
    Ok(GroupState { group, members })
}

/// Returns a group as an answer has it.
fn show_state(state: &GroupState, request: &ScimRequest) -> Value {
    let members: Vec<ScimUserId> = state.members.iter().copied().collect();
    show_group(&state.group, (!request.leaves_members_out).then_some(&members))
}

/// `GET /scim/v2/Groups/{id}`: one group with its members.
pub async fn show(Path(id): Path<String>, request: ScimRequest) -> Outcome {
    let mut tx = request.begin().await?;
    let state = find(&mut tx, &id).await?;
    Ok(ScimAnswer::Found(show_state(&state, &request)))
}

/// `POST /scim/v2/Groups`: a group that is new.
pub async fn create(request: ScimRequest) -> Outcome {
    let (form, members) = GroupForm::read(&request.body)?;
    let mut tx = request.begin().await?;
    store::lock_directory(&mut tx, DirectoryLock::Exclusive).await?;
    check_name(&mut tx, &form, None).await?;
    if store::count_directory(&mut tx).await?.groups >= GROUPS_LIMIT {
        return Err(ScimFailure::too_many(format!("a tenant has at most {GROUPS_LIMIT} groups")));
    }
    let group = store::write_group(&mut tx, None, &form).await?;
    let state = GroupState { group, members: BTreeSet::new() };
    let members = members.map(|change| change.apply(BTreeSet::new())).unwrap_or_default();
    let state = write_members(&mut tx, &request, "scim_group.create", state, members, false).await?;
    tx.commit().await?;
    request.forget_keys();
    Ok(ScimAnswer::Created(show_state(&state, &request)))
}

/// `PUT /scim/v2/Groups/{id}`. Members stay if the request has none.
pub async fn replace(Path(id): Path<String>, request: ScimRequest) -> Outcome {
    let (form, members) = GroupForm::read(&request.body)?;
    let state = change(&id, &request, |own| {
        *own = form;
        Ok(members.into_iter().collect())
    });
    Ok(ScimAnswer::Found(show_state(&state.await?, &request)))
}

/// `PATCH /scim/v2/Groups/{id}`: changes of the name and of members.
pub async fn patch(Path(id): Path<String>, request: ScimRequest) -> Outcome {
    let changes = read_changes(&request.body)?;
    change(&id, &request, |own| change_group(own, &changes)).await?;
    Ok(ScimAnswer::Done)
}

/// Changes a group and its members.
async fn change(
    id: &str,
    request: &ScimRequest,
    build: impl FnOnce(&mut GroupForm) -> Result<Vec<MemberChange>, ScimFailure>,
) -> Result<GroupState, ScimFailure> {
    let mut tx = request.begin().await?;
    store::lock_directory(&mut tx, DirectoryLock::Exclusive).await?;
    let mut state = find(&mut tx, id).await?;
    let mut form = state.group.form.clone();
    let changes = build(&mut form)?;
    let members = changes.into_iter().fold(state.members.clone(), |members, change| change.apply(members));
    if form == state.group.form && members == state.members {
        return Ok(state);
    }
    let is_renamed = form.display_name != state.group.form.display_name;
    check_name(&mut tx, &form, Some(state.group.id)).await?;
    state.group = store::write_group(&mut tx, Some(state.group.id), &form).await?;
    let state = write_members(&mut tx, request, "scim_group.change", state, members, is_renamed).await?;
    tx.commit().await?;
    request.forget_keys();
    Ok(state)
}

/// Writes the members of a group, with an entry in the audit log, and tells other features which users have other groups.
async fn write_members(
    tx: &mut TenantTx,
    request: &ScimRequest,
    action: &str,
    state: GroupState,
    wanted: BTreeSet<ScimUserId>,
    is_renamed: bool,
) -> Result<GroupState, ScimFailure> {
    if wanted.len() > MEMBERS_LIMIT {
        return Err(ScimFailure::too_many(format!("members: at most {MEMBERS_LIMIT} in one group")));
    }
    let GroupState { group, members: former } = state;
    let added: Vec<ScimUserId> = wanted.difference(&former).copied().collect();
    let removed: Vec<ScimUserId> = former.difference(&wanted).copied().collect();
    store::change_members(tx, group.id, &added, &removed).await?;
    let detail = json!({"name": group.form.display_name, "added": added.len(), "removed": removed.len()});
    audit::append_entry(tx, &request.actor, action, &group.id.to_string(), &detail).await?;
    let changed: Vec<ScimUserId> = match is_renamed {
        true => former.union(&wanted).copied().collect(),
        false => added.into_iter().chain(removed).collect(),
    };
    store::report_changed_users(tx, &request.actor, &changed, None).await?;
    let members = store::list_members(tx, group.id).await?;
    Ok(GroupState { group, members })
}

/// `DELETE /scim/v2/Groups/{id}`: the end of a group.
pub async fn delete(Path(id): Path<String>, request: ScimRequest) -> Outcome {
    let mut tx = request.begin().await?;
    store::lock_directory(&mut tx, DirectoryLock::Exclusive).await?;
    let GroupState { group, members } = find(&mut tx, &id).await?;
    store::delete_group(&mut tx, group.id).await?;
    let detail = json!({"name": group.form.display_name, "removed": members.len()});
    audit::append_entry(&mut tx, &request.actor, "scim_group.delete", &group.id.to_string(), &detail).await?;
    let members: Vec<ScimUserId> = members.into_iter().collect();
    store::report_changed_users(&mut tx, &request.actor, &members, None).await?;
    tx.commit().await?;
    request.forget_keys();
    Ok(ScimAnswer::Done)
}

async fn check_name(
    tx: &mut TenantTx,
    form: &GroupForm,
    own: Option<ScimGroupId>,
) -> Result<(), ScimFailure> {
    let other = store::find_group_by_name(tx, &form.display_name).await?;
    if other.is_some_and(|other| Some(other.id) != own) {
        return Err(ScimFailure::taken("another group has this displayName"));
    }
    Ok(())
}
