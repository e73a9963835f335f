//! `PATCH /v1/groups/{id}`.

use super::{Author, no_such_group, respond_with_group, update_as_author};
use crate::operations::prelude::*;
use crate::requests::input;
use axum::response::Response;
use time::{Duration, OffsetDateTime};
use unslide_model::GroupRef;
use unslide_model::timestamp;
use unslide_store::groups::{GroupStatus, GroupUpdate, IgnoreLimits};
use unslide_store::queries::groups::{ListedGroup, find_group};

/// Maximum length of a version or a name, in bytes.
const CHANGE_TEXT_BYTES: usize = 200;
/// Maximum length of a ticket's address, in bytes.
const TICKET_URL_BYTES: usize = 2_000;
/// Maximum number of further reports or devices.
const MAX_IGNORE_MORE: u32 = 1_000_000_000;
/// Maximum time that a group is ignored until a time.
const IGNORE_TIME_LIMIT: Duration = Duration::days(3_653);

/// Changes of a group. Absent fields do not change.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupPatch {
    /// New status: `open`, `resolved` or `ignored`.
    #[schema(value_type = Option<String>, example = "resolved")]
    pub status: Option<GroupStatus>,
    /// With `resolved`: the version that fixes the bug. A new report of a later version opens the group
    /// again; if absent, any new report does.
    #[schema(max_length = 200, example = "3.2.0")]
    pub resolved_in: Option<String>,
    /// With `resolved`: true if the next version of the app fixes the bug. A new report of a version after the newest one
    /// that is known now opens the group again.
    #[serde(default)]
    pub resolved_in_next: bool,
    /// With `ignored`: opens the group again at this time (RFC 3339). Of several `ignore_…`, the first that holds counts.
    #[serde(default, deserialize_with = "timestamp::deserialize")]
    #[schema(example = "2026-11-30T09:00:00Z")]
    pub ignore_until: Option<OffsetDateTime>,
    /// With `ignored`: opens the group again when it has this many reports more than now.
    #[schema(minimum = 1, maximum = 1000000000, example = 100)]
    pub ignore_more_reports: Option<u32>,
    /// With `ignored`: opens the group again when it has this many devices more than now.
    #[schema(minimum = 1, maximum = 1000000000, example = 10)]
    pub ignore_more_devices: Option<u32>,
    /// With `ignored`: true opens the group again with a report of a version after the newest one of the app that is known now.
    #[serde(default)]
    pub ignore_until_next_version: bool,
    /// The name of the person who works on it; empty for none.
    #[schema(max_length = 200, example = "Kim")]
    pub assignee: Option<String>,
    /// The address of a ticket in another system: begins with `https://` or `http://`; empty for none.
    #[schema(max_length = 2000, example = "https://tickets.example.com/SHOP-17")]
    pub ticket_url: Option<String>,
    /// True takes back the newest change by a person, as long as the group has `can_undo`. Without other members.
    #[serde(default)]
    pub undo: bool,
}

problems!(
    Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, GroupMerged
);

/// Change a group
///
/// Resolves, ignores, reopens or assigns the group, or takes the newest such change back. If it was replaced, the group that replaced it is
/// changed.
#[utoipa::path(patch, path = "/v1/groups/{id}", tag = "groups", operation_id = "change_group",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    request_body = GroupPatch,
    responses((status = 200, description = "The group after the change.", body = ListedGroup),
        (status = 204, description = "It is done, and the key has no scope `reports:read` to see the group."), Failures),
    security(("key" = ["groups:write"])))]
pub async fn change_group(
    State(storage): State<Arc<Storage>>,
    access: Access<GroupsWrite>,
    Path(id): Path<GroupRef>,
    input::Json(patch): input::Json<GroupPatch>,
) -> Result<Response, Problem> {
    let group = change_as_author(&storage, &Author { access: &access, name: None }, &id, patch).await?;
    Ok(respond_with_group(&access, group))
}

/// Changes a group in the name of this author.
///
/// # Errors
/// The failures that the operation documents.
pub async fn change_as_author(
    storage: &Storage,
    author: &Author<'_>,
    id: &GroupRef,
    patch: GroupPatch,
) -> Result<ListedGroup, Problem> {
    let update = check_patch(patch, storage.clock.now())?;
    let mut tx = storage.tenant(author.access.tenant()).await?;
    let id = update_as_author(&mut tx, author, id, &update).await?;
    let group = find_group(&mut tx, id, author.only_app()).await?.ok_or_else(no_such_group)?;
    tx.commit().await?;
    Ok(group)
}

/// Checks a change of groups.
///
/// # Errors
/// [`Kind::InvalidBody`] with the field and what it takes.
pub fn check_patch(patch: GroupPatch, now: OffsetDateTime) -> Result<GroupUpdate, Problem> {
    match find_fault(&patch, now) {
        Some(detail) => Err(Problem::new(Kind::InvalidBody, detail)),
        None => Ok(GroupUpdate {
            status: patch.status,
            resolved_in: patch.resolved_in,
            resolved_in_next: patch.resolved_in_next,
            ignore: IgnoreLimits {
                until: patch.ignore_until,
                more_reports: patch.ignore_more_reports,
                more_devices: patch.ignore_more_devices,
                until_next_version: patch.ignore_until_next_version,
            },
            assignee: patch.assignee,
            ticket_url: patch.ticket_url.map(|url| url.trim().to_owned()),
            undo: patch.undo,
        }),
    }
}

fn find_fault(patch: &GroupPatch, now: OffsetDateTime) -> Option<&'static str> {
    let is_resolved = patch.status == Some(GroupStatus::Resolved);
    let is_ignored = patch.status == Some(GroupStatus::Ignored);
    let numbers = [patch.ignore_more_reports, patch.ignore_more_devices];
    let has_limit = patch.ignore_until.is_some()
        || patch.ignore_until_next_version
        || numbers.iter().any(Option::is_some);
    let has_field = patch.status.is_some() || patch.assignee.is_some() || patch.ticket_url.is_some();
    let is_allowed = |number: u32| (1..=MAX_IGNORE_MORE).contains(&number);
    let fits = |text: &String| text.is_empty() || input::is_text(text, CHANGE_TEXT_BYTES);
    let faults = [
        (patch.undo && has_field, "undo: not with other changes"),
        (patch.status == Some(GroupStatus::Regressed), "status: open, resolved or ignored"),
        (patch.resolved_in.is_some() && !is_resolved, "resolved_in: only with the status resolved"),
        (patch.resolved_in_next && !is_resolved, "resolved_in_next: only with the status resolved"),
        (patch.resolved_in_next && patch.resolved_in.is_some(), "resolved_in_next: not with resolved_in"),
        (
            patch.resolved_in.as_ref().is_some_and(|version| !input::is_text(version, CHANGE_TEXT_BYTES)),
            "resolved_in: 1 to 200 bytes, no control characters",
        ),
        (
            has_limit && !is_ignored,
            "ignore_until, ignore_more_reports, ignore_more_devices and ignore_until_next_version: only with the status ignored",
        ),
        (
            patch.ignore_until.is_some_and(|until| until <= now || until > now + IGNORE_TIME_LIMIT),
            "ignore_until: a time in the future, at most 10 years from now",
        ),
        (
            !numbers.into_iter().flatten().all(is_allowed),
            "ignore_more_reports, ignore_more_devices: 1 to 1000000000",
        ),
        (!patch.assignee.iter().all(fits), "assignee: at most 200 bytes, no control characters"),
        (
            !patch.ticket_url.iter().all(|url| is_ticket_url(url.trim())),
            "ticket_url: a URL that begins with https:// or http://, at most 2000 bytes, no spaces; empty for none",
        ),
    ];
    faults.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, detail)| detail)
}

/// Returns true for the address of a ticket in another system, and for the empty text, which is none.
#[must_use]
pub fn is_ticket_url(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let is_address =
        |rest: &str| !rest.is_empty() && !rest.starts_with('/') && !url.contains(char::is_whitespace);
    url.is_empty() || input::is_text(url, TICKET_URL_BYTES) && rest.is_some_and(is_address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    const NOW: OffsetDateTime = datetime!(2026-11-20 09:00 UTC);

    fn detail(patch: serde_json::Value) -> String {
        let patch: GroupPatch = serde_json::from_value(patch).unwrap();
        find_fault(&patch, NOW).unwrap_or_default().to_owned()
    }

    #[test]
    fn a_change_that_contradicts_itself_names_the_field() {
        let json = |text: &str| serde_json::from_str(text).unwrap();
        for (patch, field) in [
            (r#"{"status": "regressed"}"#, "status"),
            (r#"{"resolved_in": "1.0"}"#, "resolved_in"),
            (r#"{"status": "resolved", "resolved_in": "1.0", "resolved_in_next": true}"#, "resolved_in_next"),
            (r#"{"status": "open", "ignore_more_reports": 5}"#, "ignore_until"),
            (r#"{"status": "ignored", "ignore_more_devices": 0}"#, "ignore_more_reports"),
            (r#"{"status": "ignored", "ignore_until": "2026-11-20T08:59:59Z"}"#, "ignore_until"),
            (r#"{"ticket_url": "javascript:alert(1)"}"#, "ticket_url"),
            (r#"{"status": "open", "ignore_until_next_version": true}"#, "ignore_until"),
            (r#"{"undo": true, "assignee": "Kim"}"#, "undo"),
            (r#"{"ticket_url": "https:///a"}"#, "ticket_url"),
        ] {
            let found = detail(json(patch));
            assert!(found.starts_with(field), "{patch}: {found}");
        }
        for patch in [
            r#"{}"#,
            r#"{"status": "resolved", "resolved_in_next": true, "assignee": ""}"#,
            r#"{"status": "ignored", "ignore_until": "2026-11-20T09:00:01Z", "ignore_more_reports": 1}"#,
            r#"{"ticket_url": "https://tickets.example.com/SHOP-17"}"#,
            r#"{"ticket_url": ""}"#,
        ] {
            assert_eq!(detail(json(patch)), "", "{patch}");
        }
    }
}
