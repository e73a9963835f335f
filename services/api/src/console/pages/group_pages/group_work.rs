//! The part of a group's page that a team works with: state, activity, merges.

use crate::console::prelude::*;
use crate::console::words::estimate;
use crate::operations::groups::activity::list_group_activity;
use crate::requests::page::PageQuery;
use time::OffsetDateTime;
use unslide_model::Scope;
use unslide_store::groups::{GroupAction, GroupActivity, GroupStatus};
use unslide_store::queries::groups::{self, GroupCounts, GroupFilter, GroupOrder, ListedGroup, MergedGroup};

/// Entries of the activity on one page.
const MOST_ACTIVITY: u32 = 20;
/// Groups that are offered for a merge.
const MOST_SIMILAR: u32 = 10;
/// Characters of a suggested rule.
const RULE_CHARS: usize = 256;

/// The buttons that change the state.
#[derive(Template)]
#[template(path = "console/pages/group_pages/group_state.html", askama = escaping)]
pub struct GroupState {
    /// Where the forms go.
    path: String,
    may_write: bool,
    open: bool,
    ignored: bool,
    assignee: String,
    merged_into: Option<String>,
}

impl GroupState {
    /// What the page of a group shows to who may see it.
    pub fn of(access: &Access<ReportsRead>, group: &ListedGroup) -> GroupState {
        GroupState {
            path: path(group),
            may_write: may_write(access, group),
            open: matches!(group.status, GroupStatus::Open | GroupStatus::Regressed),
            ignored: group.status == GroupStatus::Ignored,
            assignee: shown(group.assignee.as_deref().unwrap_or_default()),
            merged_into: group.merged_into.map(|target| format!("/console/groups/{target}")),
        }
    }
}

fn path(group: &ListedGroup) -> String {
    format!("/console/groups/{}", group.id)
}

/// A group that is merged has the state of another.
fn may_write(access: &Access<ReportsRead>, group: &ListedGroup) -> bool {
    access.principal.may(Scope::GroupsWrite) && group.merged_into.is_none()
}

/// Merged groups and activity.
#[derive(Template)]
#[template(path = "console/pages/group_pages/group_work.html", askama = escaping)]
pub struct GroupWork {
    /// Where the forms go.
    path: String,
    may_write: bool,
    merged: Vec<MergedLine>,
    similar: Vec<MergedLine>,
    has_culprit: bool,
    /// Where rules are changed.
    rules: Option<String>,
    activity: Vec<ActivityLine>,
    older: Option<String>,
}

struct MergedLine {
    id: String,
    href: String,
    title: String,
    reports: String,
}

struct ActivityLine {
    at: When,
    who: String,
    what: String,
    /// The other group.
    other: Option<(String, String)>,
    comment: Option<String>,
}

impl GroupWork {
    /// What the page of a group shows to who may see it.
    ///
    /// # Errors
    /// Where the database fails, or the cursor is not one of the activity.
    pub async fn of(
        api: &Api,
        access: &Access<ReportsRead>,
        found: &GroupCounts,
        cursor: Option<String>,
    ) -> Result<GroupWork, Problem> {
        let (group, now) = (&found.group, api.clock.now());
        let page = PageQuery { limit: Some(MOST_ACTIVITY), cursor };
        let id = Path(group.id);
        let Json(activity) = list_group_activity(State(api.clone()), access.clone(), id, Query(page)).await?;
        let may_write = may_write(access, group);
        let similar = if may_write { similar(api, access, group).await? } else { Vec::new() };
        let path = path(group);
        Ok(GroupWork {
            may_write,
            merged: found.merged.iter().map(merged_line).collect(),
            similar,
            has_culprit: !group.culprit.is_empty(),
            rules: rules(access, group),
            activity: activity.items.iter().map(|one| activity_line(one, now)).collect(),
            older: activity.next_cursor.map(|cursor| link(&path, &[("cursor", Some(&cursor))])),
            path,
        })
    }
}

/// Groups of the same app with the same culprit: perhaps the same bug.
async fn similar(
    api: &Api,
    access: &Access<ReportsRead>,
    group: &ListedGroup,
) -> Result<Vec<MergedLine>, Problem> {
    if group.culprit.is_empty() {
        return Ok(Vec::new());
    }
    let filter = GroupFilter {
        app: Some(group.app.clone()),
        culprit: Some(group.culprit.clone()),
        ..GroupFilter::default()
    };
    let mut tx = api.tenant(access.tenant()).await?;
    let found = groups::list(&mut tx, &filter, GroupOrder::LastSeen, None, MOST_SIMILAR + 1).await?;
    tx.rollback();
    let others = found.into_iter().filter(|other| other.id != group.id);
    Ok(others
        .map(|other| line(&other.id.to_string(), &other.title, (other.reports, other.estimated)))
        .collect())
}

/// Where the tenant's rules are changed, with one that would split the group; `None` for who may not change them.
fn rules(access: &Access<ReportsRead>, group: &ListedGroup) -> Option<String> {
    let may = access.principal.may(Scope::TenantAdmin) && access.only_app().is_none();
    let rule = suggested_rule(&group.culprit).filter(|_| !group.provisional);
    may.then(|| format!("{}#grouping-rules", link("/console/settings", &[("rule", rule.as_deref())])))
}

/// Two bugs of one function differ in what calls it.
fn suggested_rule(culprit: &str) -> Option<String> {
    let (function, _) =
        culprit.strip_suffix(')').and_then(|text| text.rsplit_once(" (")).unwrap_or((culprit, ""));
    let rule = format!("ignore function {function}");
    let fits = !function.is_empty() && rule.chars().count() <= RULE_CHARS && shown(&rule) == rule;
    fits.then_some(rule)
}

fn merged_line(merged: &MergedGroup) -> MergedLine {
    line(&merged.id.to_string(), &merged.title, (merged.reports, merged.estimated))
}

fn line(id: &str, title: &str, (reports, estimated): (i64, bool)) -> MergedLine {
    MergedLine {
        id: id.to_owned(),
        href: format!("/console/groups/{id}"),
        title: shown_or(title, "no title"),
        reports: estimate(counted(reports, "report", "reports"), estimated),
    }
}

fn activity_line(one: &GroupActivity, now: OffsetDateTime) -> ActivityLine {
    let text = one.text.as_deref();
    let named =
        |with: &str, without: &str| text.map_or_else(|| without.to_owned(), |text| format!("{with} {text}"));
    let what = match one.action {
        GroupAction::Resolved => named("resolved it in", "resolved it"),
        GroupAction::Ignored => "ignored it".to_owned(),
        GroupAction::Reopened => "reopened it".to_owned(),
        GroupAction::Regressed => named("reopened it: it came back in", "reopened it: it came back"),
        GroupAction::Assigned => named("assigned it to", "assigned it to nobody"),
        GroupAction::Commented => "said".to_owned(),
        GroupAction::Merged => "merged a group into it:".to_owned(),
        GroupAction::MergedInto => "merged it into".to_owned(),
        GroupAction::Split => "split off a group:".to_owned(),
        GroupAction::SplitFrom => "split it off from".to_owned(),
    };
    let who = one.name.as_deref().unwrap_or(&one.actor);
    ActivityLine {
        at: words::when(one.at, now),
        who: shown(if one.action == GroupAction::Regressed { "A report" } else { who }),
        what: shown(&what),
        other: one
            .group
            .map(|id| (format!("/console/groups/{id}"), shown_or(text.unwrap_or_default(), "no title"))),
        comment: text.filter(|_| one.action == GroupAction::Commented).map(lines),
    }
}

/// A comment with its line breaks; all else that is not printed is made visible.
fn lines(text: &str) -> String {
    text.lines().map(shown).collect::<Vec<_>>().join("\n")
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
