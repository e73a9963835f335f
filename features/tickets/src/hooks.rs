//! `POST /v1/hooks/trackers/{id}`: trackers tell of changes. A hook is a hint: the ticket is read again with the tenant's own token.
//!
//! The signature is checked before anything of the body is believed. A delivery that was taken is answered and changes nothing.

use crate::fixes::read_fixed_ids;
use crate::sealing::{SecretUse, TrackerSecretOwner};
use crate::store::{self, TrackerRow};
use crate::ticket::TrackerId;
use crate::trackers::{HookProof, PushedCommit, TrackerEvent};
use crate::{Tickets, TicketsExtension};
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Router};
use http::{HeaderMap, StatusCode};
use ring::digest::{SHA256, digest};
use std::collections::BTreeSet;
use std::sync::Arc;
use unslide_api::feature::hooks::{parse_hook_id, read_hook_body, refuse_unsigned, take_hook_secret};
use unslide_api::feature::operation::{Kind, Path, Problem};
use unslide_api::feature::{Api, Storage};
use unslide_model::{TenantId, json};
use unslide_store::groups::{
    GroupActor, GroupStatus, GroupUpdate, UpdateOutcome, find_short_ids, update_groups,
};
use unslide_store::queries::groups::find_group;
use unslide_store::{GroupId, TenantTx};

/// The most bytes of a hook.
const HOOK_BYTES_LIMIT: u64 = 2 << 20;
/// The most bytes of the id of a delivery.
const DELIVERY_BYTES_LIMIT: usize = 200;
/// Commits of one hook that are read: as many as GitHub sends at most.
const COMMITS_LIMIT: usize = 2_048;
/// Groups that one hook resolves.
const FIXED_GROUPS_LIMIT: usize = 50;

/// The begin of the path; the tenant and the id of the tracker follow.
const HOOKS_PATH: &str = "/v1/hooks/trackers/";

/// Returns the route of trackers.
pub fn routes() -> Router<Api> {
    Router::new().route("/v1/hooks/trackers/{id}", post(receive_hook))
}

/// Returns the path of the hooks of a tracker.
pub fn hook_path(tenant: &TenantId, tracker: TrackerId) -> String {
    format!("{HOOKS_PATH}{tenant}.{tracker}")
}

fn no_tracker() -> Problem {
    Problem::new(Kind::NotFound, "there is no such tracker")
}

async fn receive_hook(
    State(storage): State<Arc<Storage>>,
    Extension(tickets): TicketsExtension,
    Path(id): Path<String>,
    request: Request,
) -> Result<impl IntoResponse, Problem> {
    let taken = take_hook(&storage, &tickets, &id, request).await;
    let outcome = match &taken {
        Ok(true) => "hook_taken",
        Ok(false) => "hook_repeated",
        Err(_) => "hook_refused",
    };
    tickets.outcomes.add(outcome, 1);
    taken.map(|_| StatusCode::ACCEPTED)
}

/// Takes a hook. Returns false if it was taken before.
async fn take_hook(
    storage: &Storage,
    tickets: &Tickets,
    id: &str,
    request: Request,
) -> Result<bool, Problem> {
    let (parts, body) = request.into_parts();
    let (tenant, id) = parse_hook_id::<TrackerId>(id).ok_or_else(no_tracker)?;
    let mut tx = storage.tenant(&tenant).await?;
    let row = store::find_by_id(&mut tx, id).await?.ok_or_else(no_tracker)?;
    tx.rollback();
    let body = read_hook_body(storage, &tenant, &parts, body, HOOK_BYTES_LIMIT).await?;
    let sealer = tickets.sealer.as_ref().ok_or_else(no_tracker)?;
    let owner = TrackerSecretOwner { tenant: &tenant, tracker: &row.name };
    let secret = sealer.open(owner, SecretUse::Hook, &row.sealed_hook_secret);
    let secret = take_hook_secret(secret, &tenant, &format!("tracker {}", row.name))?;
    let now = storage.clock.now();
    let proof = HookProof { headers: &parts.headers, body: &body, secret: &secret, now };
    if !row.kind.protocol().is_signed(&proof) {
        return Err(refuse_unsigned());
    }
    let wrong = |error| Problem::new(Kind::InvalidBody, format!("{error}; the hook has to send JSON"));
    let value = json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
    let delivery = delivery_id(row.kind.protocol().delivery_header(), &parts.headers, &body);
    let event = row.kind.protocol().read_hook(&row.project, &parts.headers, &value);
    let mut tx = storage.tenant(&tenant).await?;
    if store::is_known_delivery(&mut tx, &row.name, &delivery).await? {
        return Ok(false);
    }
    if let TrackerEvent::Push(commits) = &event {
        resolve_fixed(&mut tx, &row, commits).await?;
    }
    if !store::add_delivery(&mut tx, &row.name, &delivery).await? {
        return Ok(false);
    }
    if let TrackerEvent::Tickets(names) = &event {
        store::request_read(&mut tx, &row.name, names).await?;
    }
    tx.commit().await?;
    Ok(true)
}

/// Returns the id of a delivery. A tracker that gives none sends the same bytes again.
fn delivery_id(header: &str, headers: &HeaderMap, body: &[u8]) -> String {
    let given = headers.get(header).and_then(|value| value.to_str().ok());
    let given = given.filter(|id| (1..=DELIVERY_BYTES_LIMIT).contains(&id.len()));
    given.map_or_else(
        || digest(&SHA256, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect(),
        str::to_owned,
    )
}

/// Resolves the groups that commits fix, in the next version. A commit resolves a group once, and none that came back after it.
async fn resolve_fixed(tx: &mut TenantTx, row: &TrackerRow, commits: &[PushedCommit]) -> Result<(), Problem> {
    let mut named: Vec<(&PushedCommit, String)> = Vec::new();
    for commit in commits.iter().take(COMMITS_LIMIT) {
        named.extend(read_fixed_ids(&commit.message).into_iter().map(|id| (commit, id)));
    }
    named.truncate(FIXED_GROUPS_LIMIT);
    if named.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = named.iter().map(|(_, id)| id.clone()).collect();
    let found = find_short_ids(tx, &names).await?;
    let fixes: Vec<(GroupId, &PushedCommit)> =
        found.into_iter().zip(&named).filter_map(|(group, (commit, _))| Some((group?, *commit))).collect();
    let groups: Vec<GroupId> = fixes.iter().map(|(group, _)| *group).collect();
    let revisions: Vec<String> = fixes.iter().map(|(_, commit)| commit.revision.clone()).collect();
    let counting = store::find_counting_groups(tx, &groups).await?;
    let actor = GroupActor { actor: crate::NAME, name: Some(&row.name) };
    // All groups are locked at once, in the order of their ids, before what is known of them is read.
    let targets: BTreeSet<GroupId> = counting.iter().flatten().copied().collect();
    let targets: Vec<GroupId> = targets.into_iter().collect();
    let app = row.rule_app.as_deref();
    update_groups(tx, &targets, app, actor, &GroupUpdate::default()).await?;
    let known: BTreeSet<(GroupId, String)> =
        store::find_known_fixes(tx, &groups, &revisions).await?.into_iter().collect();
    let mut resolved = Vec::new();
    // At most as many as a hook resolves.
    for id in targets {
        let Some(now) = find_group(tx, id, app).await? else { continue };
        let is_fix = |(named, commit): &(GroupId, &PushedCommit)| {
            let is_late = now.regressed_at.zip(commit.committed_at).is_some_and(|(back, made)| made < back);
            !is_late && !known.contains(&(*named, commit.revision.clone()))
        };
        let is_fixed = fixes.iter().zip(&counting).any(|(fix, target)| *target == Some(id) && is_fix(fix));
        if is_fixed && matches!(now.status, GroupStatus::Open | GroupStatus::Regressed) {
            resolved.push(id);
        }
    }
    let status = Some(GroupStatus::Resolved);
    let update = GroupUpdate { status, resolved_in_next: true, ..GroupUpdate::default() };
    let outcomes = update_groups(tx, &resolved, app, actor, &update).await?;
    // Without a version of the app there is no next one.
    let without =
        resolved.into_iter().zip(outcomes).filter(|(_, outcome)| *outcome == UpdateOutcome::NoVersion);
    let without: Vec<GroupId> = without.map(|(id, _)| id).collect();
    let plain = GroupUpdate { status, ..GroupUpdate::default() };
    update_groups(tx, &without, app, actor, &plain).await?;
    Ok(store::add_fixes(tx, &groups, &revisions).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_hook_names_tenant_and_tracker() {
        let tenant = TenantId::new("acme").unwrap();
        let tracker: TrackerId = "0b5c1d2e-0000-4000-8000-000000000001".parse().unwrap();
        let path = hook_path(&tenant, tracker);
        assert_eq!(parse_hook_id(path.strip_prefix(HOOKS_PATH).unwrap()), Some((tenant, tracker)));
        for text in ["", "acme", "acme.", ".0b5c1d2e-0000-4000-8000-000000000001", "acme.x"] {
            assert_eq!(parse_hook_id::<TrackerId>(text), None, "{text}");
        }
    }
}
