//! The functions that changed in a version and are in the stacks of bugs that are new in it.

use super::builds::{FetchedBuilds, compare_on_pool};
use super::group::{compare_stack, load_images};
use super::outcome::ChangesOutcome;
use super::stack::{ListedImage, StackImage, find_counterpart, read_stack};
use super::versions::find_version_before;
use crate::store::{self, NewGroup};
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{Access, Problem, ReportsRead};
use unslide_api::feature::site::load_listed;
use unslide_api::feature::site::stored_body::read_report;
use unslide_changes_compare::{ChangeState, FunctionChange};
use unslide_model::{DebugId, RelativeAddress, ReportId};
use unslide_store::GroupId;
use unslide_store::queries::reports::{ReportFilter, ReportRow, list_reports};

/// The newest reports of a version in which those of new groups are looked for.
const NEWEST_REPORTS: u32 = 200;
/// New groups with stacks that are compared, those with the most reports.
const GROUPS_LIMIT: usize = 10;
/// Reports of the version before that are searched for images.
const OLDER_REPORTS_LIMIT: u32 = 4;
/// Pairs of builds that are compared.
const IMAGES_LIMIT: usize = 4;

/// What changed in a version that crashes.
pub struct VersionChanges {
    pub version_before: Option<String>,
    pub outcome: ChangesOutcome,
    /// The groups that are new in the version, those with the most reports first.
    pub groups: Vec<NewGroup>,
    /// The functions that were edited or are new, with the places in `groups` of those with them in their stack.
    pub functions: Vec<(FunctionChange, Vec<usize>)>,
}

/// The frames of a new group in one image: the place of the group, and the addresses.
type GroupFrames = (usize, Vec<RelativeAddress>);
/// A stack of a new group: the place of the group, and the frames in the app's own images.
type GroupStack = (usize, Vec<StackImage>);

/// Compares the functions in the stacks of groups that are new in a version with those of the version before.
///
/// # Errors
/// A server does not answer, or no bytes are left.
pub async fn find_version_changes(
    symbolication: &Arc<Symbolication>,
    access: &Access<ReportsRead>,
    app: &str,
    version: &str,
) -> Result<VersionChanges, Problem> {
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let versions = store::list_versions(&mut tx, app, GroupId::default()).await?;
    let before = find_version_before(&versions, version);
    let groups = store::list_new_groups(&mut tx, app, version).await?;
    let of_version = |version: &str| ReportFilter {
        app: Some(app.to_owned()),
        version: Some(version.to_owned()),
        ..ReportFilter::default()
    };
    let newest = list_reports(&mut tx, &of_version(version), None, NEWEST_REPORTS).await?.reports;
    let older = of_version(before.as_deref().unwrap_or_default());
    let mut older = list_reports(&mut tx, &older, None, OLDER_REPORTS_LIMIT).await?.reports;
    tx.rollback();
    if before.is_none() {
        older.clear();
    }
    let stacks = load_stacks(symbolication, access, &groups, &newest).await?;
    let older = load_images(symbolication, access, &older).await?;
    let (outcome, functions) = compare_stacks(symbolication, access, stacks, &older).await?;
    Ok(VersionChanges { version_before: before, outcome, groups, functions })
}

/// Reads the newest stack of each new group that has one among these reports.
async fn load_stacks(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    groups: &[NewGroup],
    newest: &[ReportRow],
) -> Result<Vec<GroupStack>, Problem> {
    let row_of = |group: &NewGroup| newest.iter().find(|row| row.group == Some(group.id)).cloned();
    let rows = groups.iter().enumerate().filter_map(|(place, group)| Some((place, row_of(group)?)));
    let (places, rows): (Vec<usize>, Vec<ReportRow>) = rows.take(GROUPS_LIMIT).unzip();
    let by_report: BTreeMap<ReportId, usize> = rows.iter().map(|row| row.report_id).zip(places).collect();
    let bodies = load_listed(symbolication, access, &rows).await?;
    let read = move || {
        let mut stacks = Vec::new();
        for body in &bodies {
            if let Some(place) = by_report.get(&read_report(&body.json)?.id) {
                stacks.push((*place, read_stack(&body.json)?));
            }
        }
        Ok(stacks)
    };
    symbolication.capacity.cpu.run_for(access.tenant(), read).await?
}

/// Compares each pair of builds once, for the stacks of all groups.
async fn compare_stacks(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    stacks: Vec<GroupStack>,
    older: &[ListedImage],
) -> Result<(ChangesOutcome, Vec<(FunctionChange, Vec<usize>)>), Problem> {
    let mut images: BTreeMap<(DebugId, DebugId), Vec<GroupFrames>> = BTreeMap::new();
    let mut outcome = if stacks.is_empty() { ChangesOutcome::NoStack } else { ChangesOutcome::NoOlderBuild };
    for (place, stack) in stacks {
        for image in stack {
            let Some(before) = find_counterpart(&image, older) else { continue };
            images.entry((before, image.debug_id)).or_default().push((place, image.addresses));
        }
    }
    let ids = images.keys().take(IMAGES_LIMIT).flat_map(|(before, after)| [*before, *after]);
    let symbols = FetchedBuilds::fetch(symbolication, access.tenant(), ids.collect()).await;
    let mut found: BTreeMap<String, (FunctionChange, Vec<usize>)> = BTreeMap::new();
    for ((before, after), stacks) in images.into_iter().take(IMAGES_LIMIT) {
        let pair = [symbols.find_symcache(&before)?, symbols.find_symcache(&after)?];
        let [Some(before), Some(after)] = pair else {
            outcome = if outcome == ChangesOutcome::Compared { outcome } else { ChangesOutcome::NoSymbols };
            continue;
        };
        let compared =
            compare_on_pool(symbolication, access.tenant(), [before, after], move |compared, after| {
                stacks
                    .iter()
                    .map(|(place, addresses)| (*place, compare_stack(compared, after, addresses)))
                    .collect()
            });
        let compared: Vec<(usize, (ChangesOutcome, Vec<FunctionChange>))> = compared.await?;
        for (place, (state, functions)) in compared {
            outcome = if outcome == ChangesOutcome::Compared { outcome } else { state };
            for function in functions {
                if matches!(function.state, ChangeState::Changed | ChangeState::New) {
                    let key = function.symbol.clone().unwrap_or_else(|| function.name.clone());
                    found.entry(key).or_insert_with(|| (function, Vec::new())).1.push(place);
                }
            }
        }
    }
    let mut functions: Vec<_> = found.into_values().collect();
    functions.sort_by_key(|(function, groups)| (function.state, groups.first().copied()));
    Ok((outcome, functions))
}
