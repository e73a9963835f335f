//! `POST /v1/grouping-rules/trial`.

use super::{OF_EVERY_APP, parse_rules};
use crate::limits::charge::Charge;
use crate::operations::prelude::*;
use crate::reports::stored_body::{self, StoredBody, StoredBodyError};
use crate::requests::input;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use unslide_model::{ReportId, TenantId};
use unslide_report::Report;
use unslide_store::queries::report;
use unslide_store::report_rows::{GroupedReport, list_newest_reports};
use unslide_store::reports::regroup;
use unslide_store::{GroupId, groups};
use unslide_symbolicate::grouping::{self, Grouping, GroupingRules};

/// Number of reports of a trial: the default, and the maximum.
const USUAL_REPORTS: u32 = 500;
const MOST_REPORTS: u32 = 2_000;
/// Maximum number of examples of reports that would move.
const MOST_EXAMPLES: usize = 20;

/// Grouping rules to try, without a change.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupingRulesTrial {
    /// The rules, as `PUT` takes them.
    #[schema(max_length = 65536, example = "ignore function Shop.Log.*")]
    pub text: String,
    /// The newest stored reports to try them on: 500 if absent, 2000 at most.
    #[schema(minimum = 1, maximum = 2000)]
    pub reports: Option<u32>,
}

/// Effect that the rules would have on stored reports.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct GroupingRulesEffect {
    /// Number of reports that were checked.
    pub looked: u64,
    /// Number of reports that were shortened or could not be read; they would keep their group.
    pub unread: u64,
    /// Number of reports that would move to another group.
    pub moved: u64,
    /// Groups that would share a group with another one.
    pub merged: u64,
    /// Groups that would be split: their reports would be of several groups.
    pub split: u64,
    /// Some of the reports that would move, each from another group.
    pub examples: Vec<MovedReport>,
}

/// A report that would move.
#[derive(Debug, Serialize, ToSchema)]
pub struct MovedReport {
    /// Id of the report that would move.
    #[schema(value_type = Uuid)]
    pub report: ReportId,
    /// Id of its group now; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub from: Option<GroupId>,
    /// Title of its group now; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_title: Option<String>,
    /// Id of the group that it would move to, which may not exist yet; absent if it would have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub to: Option<GroupId>,
    /// The title that the group would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_title: Option<String>,
}

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, RateLimited);

/// Try grouping rules
///
/// Returns the effect that rules would have on the newest stored reports, and changes nothing. It costs the units of
/// symbolicating these reports: a tenant that exceeds its units per second gets 429 with `Retry-After`.
#[utoipa::path(post, path = "/v1/grouping-rules/trial", tag = "groups", operation_id = "try_grouping_rules",
    request_body = GroupingRulesTrial,
    responses((status = 200, description = "What the rules would do.", body = GroupingRulesEffect), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn try_grouping_rules(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<TenantAdmin>,
    input::Json(trial): input::Json<GroupingRulesTrial>,
) -> Result<Json<GroupingRulesEffect>, Problem> {
    access.require_every_app(OF_EVERY_APP)?;
    let rules = Arc::new(parse_rules(&trial.text)?);
    let reports = trial.reports.unwrap_or(USUAL_REPORTS);
    if !(1..=MOST_REPORTS).contains(&reports) {
        return Err(Problem::new(Kind::InvalidBody, format!("reports: 1 to {MOST_REPORTS}")));
    }
    let mut charge = Charge::for_symbolication(&symbolication.capacity, access.tenant())?;
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let newest = list_newest_reports(&mut tx, reports).await?;
    tx.rollback();
    let mut effect = Effects::default();
    for report in &newest {
        match regroup_report(&symbolication, access.tenant(), report, &rules, &mut charge).await? {
            Some(grouping) => effect.add_report(report, grouping),
            None => effect.unread += 1,
        }
    }
    let mut effect = effect.into_effect(newest.len() as u64);
    let from: Vec<GroupId> = effect.examples.iter().filter_map(|example| example.from).collect();
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let mut titles = regroup::read_titles(&mut tx, &from).await?;
    for example in &mut effect.examples {
        example.from_title = example.from.and_then(|id| titles.remove(&id));
    }
    Ok(Json(effect))
}

/// Returns the group of a stored report by these rules, or `None` if its body cannot be read. Charges for the
/// body and reserves its bytes before it is read.
async fn regroup_report(
    symbolication: &Symbolication,
    tenant: &TenantId,
    report: &GroupedReport,
    rules: &Arc<GroupingRules>,
    charge: &mut Charge,
) -> Result<Option<Option<Grouping>>, Problem> {
    let mut tx = symbolication.storage.tenant(tenant).await?;
    let Some(found) = report::find_report(&mut tx, report.report_id, report.variant).await? else {
        return Ok(None);
    };
    charge.charge_unpacked(found.size)?;
    let StoredBody { json, reservation, .. } =
        match stored_body::read_body(symbolication, tenant, tx, &found).await {
            Ok(body) => body,
            Err(StoredBodyError::Lost(_)) => return Ok(None),
            Err(StoredBodyError::Problem(problem)) => return Err(problem),
        };
    let rules = rules.clone();
    let regroup = move || grouping::regroup_report(&Report::read_stored(&json).ok()?, &rules).ok();
    let grouped = symbolication.capacity.cpu.run_for(tenant, regroup).await?;
    drop(reservation);
    Ok(grouped)
}

#[derive(Default)]
struct Effects {
    unread: u64,
    moved: u64,
    /// The new groups of the reports of each current group, and the reverse.
    to: BTreeMap<GroupId, BTreeSet<GroupId>>,
    from: BTreeMap<GroupId, BTreeSet<GroupId>>,
    examples: BTreeMap<Option<GroupId>, MovedReport>,
}

impl Effects {
    fn add_report(&mut self, report: &GroupedReport, grouping: Option<Grouping>) {
        let to = grouping.as_ref().map(|grouping| groups::id_of(&report.app, grouping.fingerprint));
        if let (Some(from), Some(to)) = (report.group, to) {
            self.to.entry(from).or_default().insert(to);
            self.from.entry(to).or_default().insert(from);
        }
        if to == report.group {
            return;
        }
        self.moved += 1;
        if self.examples.len() < MOST_EXAMPLES {
            self.examples.entry(report.group).or_insert_with(|| MovedReport {
                report: report.report_id,
                from: report.group,
                from_title: None,
                to,
                to_title: grouping.map(|grouping| grouping.title),
            });
        }
    }

    fn into_effect(self, looked: u64) -> GroupingRulesEffect {
        let merged: BTreeSet<&GroupId> = self.from.values().filter(|from| from.len() > 1).flatten().collect();
        GroupingRulesEffect {
            looked,
            unread: self.unread,
            moved: self.moved,
            merged: merged.len() as u64,
            split: self.to.values().filter(|to| to.len() > 1).count() as u64,
            examples: self.examples.into_values().collect(),
        }
    }
}
