//! The part of a group's page for teamwork: state, activity, merges.

use crate::prelude::*;
use unslide_api::feature::operation::PageQuery;
use unslide_api::feature::site::list_group_activity;
use unslide_model::Scope;
use unslide_report::text::is_obeyed;
use unslide_store::GroupId;
use unslide_store::groups::{GroupAction, GroupActivity, list_assignees};
use unslide_store::queries::groups::{self, GroupCounts, GroupFilter, GroupOrder, ListedGroup, MergedGroup};

/// Entries of the activity on one page.
const MOST_ACTIVITY: u32 = 20;
/// Maximum number of groups that are offered for a merge.
const MOST_SIMILAR: u32 = 10;
/// Maximum characters of a suggested rule.
const RULE_CHARS: usize = 256;

/// Returns true if the key may change the group. A merged group has the state of another.
pub fn may_write(access: &Access<ReportsRead>, group: &ListedGroup) -> bool {
    access.principal.has_scope(Scope::GroupsWrite) && group.merged_into.is_none()
}

pub struct GroupWork {
    pub merged: Vec<MergedGroup>,
    pub similar: Vec<ListedGroup>,
    /// The address of the page that changes rules.
    pub rules: Option<String>,
    pub activity: Vec<GroupActivity>,
    pub older: Option<String>,
    /// Names that groups can be assigned to: those that have some, and that of the session.
    pub assignees: Vec<String>,
    /// The key and the name of the session.
    me: (String, Option<String>),
}

impl GroupWork {
    /// Reads the merged groups and the activity of a group.
    ///
    /// # Errors
    /// The database fails, or the cursor is not one of the activity.
    pub async fn load_for_group(
        storage: &Arc<Storage>,
        access: &Access<ReportsRead>,
        name: Option<&str>,
        found: &GroupCounts,
        cursor: Option<String>,
    ) -> Result<GroupWork, Problem> {
        let group = &found.group;
        let page = PageQuery { limit: Some(MOST_ACTIVITY), cursor };
        let id = Path(group.id.into());
        let Json(activity) =
            list_group_activity(State(storage.clone()), access.clone(), id, Query(page)).await?;
        let path = format!("/console/groups/{}", group.id);
        let is_writer = may_write(access, group);
        let mut assignees = if is_writer { list_names(storage, access).await? } else { Vec::new() };
        assignees.extend(name.filter(|name| !assignees.iter().any(|known| known == name)).map(str::to_owned));
        Ok(GroupWork {
            merged: found.merged.clone(),
            similar: if is_writer { list_similar(storage, access, group).await? } else { Vec::new() },
            rules: suggest_rule_link(access, group),
            activity: activity.items,
            older: activity.next_cursor.map(|cursor| build_link(&path, &[("cursor", Some(&cursor))])),
            assignees,
            me: (access.principal.key_id.to_string(), name.map(str::to_owned)),
        })
    }

    /// Returns true for a comment of the session, which it may change.
    pub fn is_own_comment(&self, one: &GroupActivity) -> bool {
        one.action == GroupAction::Commented && one.actor == self.me.0 && one.name == self.me.1
    }
}

/// Maximum number of suggested names.
const SUGGESTED_NAMES_LIMIT: u32 = 200;

async fn list_names(storage: &Storage, access: &Access<ReportsRead>) -> Result<Vec<String>, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    Ok(list_assignees(&mut tx, SUGGESTED_NAMES_LIMIT).await?)
}

/// Returns groups of the same app with the same culprit: perhaps the same bug.
async fn list_similar(
    storage: &Storage,
    access: &Access<ReportsRead>,
    group: &ListedGroup,
) -> Result<Vec<ListedGroup>, Problem> {
    if group.culprit.is_empty() {
        return Ok(Vec::new());
    }
    let filter = GroupFilter {
        app: Some(group.app.clone()),
        culprit: Some(group.culprit.clone()),
        ..GroupFilter::default()
    };
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = groups::list_groups(&mut tx, &filter, GroupOrder::LastSeen, None, MOST_SIMILAR + 1).await?;
    tx.rollback();
    Ok(found.into_iter().filter(|other| other.id != group.id).collect())
}

/// Returns the address of the settings page, with a rule that would split the group. Returns `None` if the
/// key may not change the rules.
fn suggest_rule_link(access: &Access<ReportsRead>, group: &ListedGroup) -> Option<String> {
    let may = access.principal.has_scope(Scope::TenantAdmin) && access.only_app().is_none();
    let rule = suggested_rule(&group.culprit).filter(|_| !group.provisional);
    may.then(|| format!("{}#grouping-rules", build_link("/console/settings", &[("rule", rule.as_deref())])))
}

/// Suggests a rule that ignores the culprit, because two bugs in one function differ in their callers.
fn suggested_rule(culprit: &str) -> Option<String> {
    let (function, _) =
        culprit.strip_suffix(')').and_then(|text| text.rsplit_once(" (")).unwrap_or((culprit, ""));
    let rule = format!("ignore function {function}");
    let fits = !function.is_empty() && rule.chars().count() <= RULE_CHARS && !rule.contains(is_obeyed);
    fits.then_some(rule)
}

/// Returns the author of an entry.
pub fn who(one: &GroupActivity) -> &str {
    match one.action {
        GroupAction::Regressed => "A report",
        GroupAction::IgnoreEnded if one.actor == "builder" => "The clock",
        GroupAction::IgnoreEnded => "A report",
        GroupAction::Replaced | GroupAction::ReplacedInPart => "Reports",
        _ => one.name.as_deref().unwrap_or(&one.actor),
    }
}

/// Returns the other group of an entry, unless its address leads back to the page.
pub fn linked_group(one: &GroupActivity) -> Option<GroupId> {
    one.group.filter(|_| one.action != GroupAction::Replaced)
}

/// Describes the action of an entry.
pub fn what(one: &GroupActivity) -> String {
    let named = |with: &str, without: &str| match &one.text {
        Some(text) => format!("{with} {text}"),
        None => without.to_owned(),
    };
    match one.action {
        GroupAction::Resolved => named("resolved it in", "resolved it"),
        GroupAction::Ignored => named("ignored it until", "ignored it"),
        GroupAction::IgnoreEnded => named("opened it again:", "opened it again"),
        GroupAction::Linked => named("linked it to", "removed its ticket"),
        GroupAction::Reopened => "reopened it".to_owned(),
        GroupAction::Regressed => {
            named("reopened it: a new report came from", "reopened it after a new report")
        }
        GroupAction::Assigned => named("assigned it to", "removed its assignee"),
        GroupAction::Undone => "took back the newest change".to_owned(),
        GroupAction::Commented if one.edited_at.is_some() => "said (changed since)".to_owned(),
        GroupAction::Commented => "said".to_owned(),
        GroupAction::CommentDeleted => "deleted a comment".to_owned(),
        GroupAction::Merged => "merged a group into it:".to_owned(),
        GroupAction::MergedInto => "merged it into".to_owned(),
        GroupAction::Split => "split off a group:".to_owned(),
        GroupAction::SplitFrom => "split it off from".to_owned(),
        GroupAction::Replaced => {
            named("moved here from a group that is gone:", "moved here from a group that is gone")
        }
        GroupAction::ReplacedInPart => {
            "moved here from a group that is gone. Most of its reports, and what was said there, are in"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_ignores_the_culprit_is_suggested() {
        let rule = |culprit: &str| suggested_rule(culprit).unwrap_or_default();
        assert_eq!(rule("Shop.Cart.total(of:) (Cart.swift)"), "ignore function Shop.Cart.total(of:)");
        assert_eq!(rule("-[Cart total:]"), "ignore function -[Cart total:]");
        assert_eq!(rule(""), "");
        assert_eq!(rule("a\u{202e}b"), "");
        assert_eq!(rule(&"a".repeat(300)), "");
    }
}
