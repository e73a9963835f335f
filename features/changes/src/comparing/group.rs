//! The functions of a group's stack between the last build without the group and the first with it.

use super::builds::{FetchedBuilds, compare_on_pool};
use super::outcome::ChangesOutcome;
use super::stack::{ListedImage, StackImage, find_counterpart, read_images, read_stack};
use super::versions::{VersionPair, choose_versions};
use crate::commits::{BuildCommits, describe_commits};
use crate::store;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{Access, Problem, ReportsRead};
use unslide_api::feature::site::stored_body::StoredBody;
use unslide_api::feature::site::{choose_report, find_named_group, load_listed};
use unslide_changes_compare::{
    BuildComparison, CompareError, FunctionChange, StackFunction, list_stack_functions, summarise,
};
use unslide_model::{DebugId, GroupRef, RelativeAddress, ReportId, TenantId};
use unslide_store::GroupId;
use unslide_store::queries::groups::ListedGroup;
use unslide_store::queries::reports::{ReportFilter, ReportRow, list_reports};
use unslide_symbolicate::symcache::SymCache;
use utoipa::ToSchema;

/// The newest reports of the first version of which one represents the group.
const CANDIDATES_LIMIT: u32 = 20;
/// Reports of the version before that are searched for an image.
const OLDER_REPORTS_LIMIT: u32 = 4;
/// Functions of a stack that are compared.
const FUNCTIONS_LIMIT: usize = 200;
/// Parts of functions that symcaches do not have.
const NOT_COMPARED: &[&str] = &["callees", "variables", "constants"];

/// The functions of a group's stack in two builds.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StackChanges {
    /// Id of the group whose stack is compared.
    #[schema(value_type = Uuid)]
    pub group: GroupId,
    /// Bundle identifier of the app.
    pub app: String,
    /// Whether builds were compared, or why not.
    pub outcome: ChangesOutcome,
    /// What was found, in a sentence.
    #[schema(max_length = 4000)]
    pub text: String,
    /// The first version with the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The last version without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_before: Option<String>,
    /// The report with the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub report: Option<ReportId>,
    /// The app's own images in the stack, that of the innermost frame first.
    #[schema(max_items = 4)]
    pub images: Vec<ImageChanges>,
    /// What the symbols do not have, so that it is not compared: `callees` (calls that are not inlined), `variables`, `constants`.
    #[schema(max_items = 3)]
    pub not_compared: Vec<&'static str>,
}

/// An image of a stack in two builds.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ImageChanges {
    /// The file name of the image.
    pub name: String,
    /// The debug id in the build with the group.
    #[schema(value_type = String, format = Uuid)]
    pub debug_id: DebugId,
    /// The debug id in the build without it; absent if no report names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub debug_id_before: Option<DebugId>,
    /// Whether the two builds were compared, or why not.
    pub outcome: ChangesOutcome,
    /// Why they were not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
    /// The functions of the stack in this image with those inlined into them, the innermost first.
    #[schema(max_items = 200)]
    pub functions: Vec<FunctionChange>,
    /// The commits of the two builds; absent if no upload named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<BuildCommits>,
}

/// The stored data of a group that is compared.
struct GroupReports {
    group: ListedGroup,
    versions: VersionPair,
    /// The report with the stack.
    row: Option<ReportRow>,
    /// Reports of the version before.
    older: Vec<ReportRow>,
}

/// Compares the functions of a group's stack.
///
/// # Errors
/// [`Kind::NotFound`](unslide_api::feature::operation::Kind::NotFound) if there is no such group, or a server does not answer.
pub async fn find_group_changes(
    symbolication: &Arc<Symbolication>,
    access: &Access<ReportsRead>,
    group: &GroupRef,
) -> Result<StackChanges, Problem> {
    let found = read_reports(symbolication, access, group).await?;
    let answer = |outcome: ChangesOutcome, images| StackChanges {
        group: found.group.id,
        app: found.group.app.clone(),
        outcome,
        text: outcome.describe().unwrap_or_default().to_owned(),
        version: found.versions.first.clone(),
        version_before: found.versions.before.clone(),
        report: found.row.as_ref().map(|row| row.report_id),
        images,
        not_compared: NOT_COMPARED.to_vec(),
    };
    let stack = match &found.row {
        Some(row) => load_stack(symbolication, access, row).await?,
        None => Vec::new(),
    };
    if stack.is_empty() {
        return Ok(answer(ChangesOutcome::NoStack, Vec::new()));
    }
    let older = load_images(symbolication, access, &found.older).await?;
    let pairs: Vec<(StackImage, Option<DebugId>)> = stack
        .into_iter()
        .map(|image| {
            let before = find_counterpart(&image, &older);
            (image, before)
        })
        .collect();
    let mut ids = Vec::new();
    for (image, before) in &pairs {
        ids.extend(before.iter().flat_map(|before| [image.debug_id, *before]));
    }
    let symbols = FetchedBuilds::fetch(symbolication, access.tenant(), ids).await;
    let mut images = Vec::with_capacity(pairs.len());
    for (image, before) in pairs {
        images.push(compare_image(symbolication, access, &symbols, image, before).await?);
    }
    add_commits(symbolication, access.tenant(), &mut images).await?;
    Ok(summarise_images(images, answer))
}

/// Adds the commits of the builds that are compared.
async fn add_commits(
    symbolication: &Symbolication,
    tenant: &TenantId,
    images: &mut [ImageChanges],
) -> Result<(), Problem> {
    let builds = images.iter().flat_map(|image| [Some(image.debug_id), image.debug_id_before]);
    let builds: Vec<DebugId> = builds.flatten().collect();
    let mut tx = symbolication.storage.tenant(tenant).await?;
    let rows = store::list_commits(&mut tx, &builds).await?;
    tx.rollback();
    let rows = rows.into_iter().map(|row| (row.debug_id, row)).collect();
    for image in images {
        let Some(before) = image.debug_id_before else { continue };
        image.commits = describe_commits(&rows, [before, image.debug_id], &image.functions);
    }
    Ok(())
}

/// Returns the answer of the whole stack: compared if one of its images is.
fn summarise_images(
    images: Vec<ImageChanges>,
    answer: impl Fn(ChangesOutcome, Vec<ImageChanges>) -> StackChanges,
) -> StackChanges {
    let is_compared = |image: &&ImageChanges| image.outcome == ChangesOutcome::Compared;
    let functions = images.iter().filter(is_compared).flat_map(|image| image.functions.clone());
    let functions: Vec<FunctionChange> = functions.collect();
    if images.iter().any(|image| is_compared(&image)) {
        let found = answer(ChangesOutcome::Compared, images);
        let text = summarise(&functions, found.version.as_deref());
        return StackChanges { text, ..found };
    }
    let outcome = images.first().map_or(ChangesOutcome::NoStack, |image| image.outcome);
    answer(outcome, images)
}

async fn read_reports(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    group: &GroupRef,
) -> Result<GroupReports, Problem> {
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let group = find_named_group(&mut tx, group, access.only_app()).await?;
    let versions = choose_versions(&store::list_versions(&mut tx, &group.app, group.id).await?);
    let of_version =
        |version: &Option<String>| ReportFilter { version: version.clone(), ..ReportFilter::default() };
    let filter = ReportFilter { group: Some(group.id), ..of_version(&versions.first) };
    let mut newest = list_reports(&mut tx, &filter, None, CANDIDATES_LIMIT).await?.reports;
    // The same statements run if there is no version before: no report has the nil group.
    let nothing = versions.before.is_none().then(GroupId::default);
    let filter =
        ReportFilter { app: Some(group.app.clone()), group: nothing, ..of_version(&versions.before) };
    let older = list_reports(&mut tx, &filter, None, OLDER_REPORTS_LIMIT).await?.reports;
    tx.rollback();
    let quality: Vec<_> = newest.iter().map(|row| (row.is_complete(), row.frames.own_symbolicated)).collect();
    let row = choose_report(&quality).map(|(at, _)| newest.swap_remove(at));
    Ok(GroupReports { group, versions, row, older })
}

/// Reads the stack of a report; empty if the report was moved or deleted at this moment.
async fn load_stack(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    row: &ReportRow,
) -> Result<Vec<StackImage>, Problem> {
    let bodies = load_listed(symbolication, access, std::slice::from_ref(row)).await?;
    let read = move || bodies.first().map_or(Ok(Vec::new()), |body: &StoredBody| read_stack(&body.json));
    symbolication.capacity.cpu.run_for(access.tenant(), read).await?
}

/// Reads the images of reports.
pub(super) async fn load_images(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    rows: &[ReportRow],
) -> Result<Vec<ListedImage>, Problem> {
    let bodies = load_listed(symbolication, access, rows).await?;
    let read = move || {
        let mut images = Vec::new();
        for body in &bodies {
            images.extend(read_images(&body.json)?);
        }
        Ok(images)
    };
    symbolication.capacity.cpu.run_for(access.tenant(), read).await?
}

async fn compare_image(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    symbols: &FetchedBuilds,
    image: StackImage,
    before: Option<DebugId>,
) -> Result<ImageChanges, Problem> {
    let StackImage { debug_id, name, addresses, .. } = image;
    let answer = move |outcome: ChangesOutcome, functions| ImageChanges {
        name,
        debug_id,
        debug_id_before: before,
        outcome,
        hint: outcome.describe(),
        functions,
        commits: None,
    };
    let Some(before) = before else { return Ok(answer(ChangesOutcome::NoOlderBuild, Vec::new())) };
    let found = [symbols.find_symcache(&before)?, symbols.find_symcache(&debug_id)?];
    let [Some(before), Some(after)] = found else {
        return Ok(answer(ChangesOutcome::NoSymbols, Vec::new()));
    };
    compare_on_pool(symbolication, access.tenant(), [before, after], move |compared, after| {
        let (outcome, functions) = compare_stack(compared, after, &addresses);
        answer(outcome, functions)
    })
    .await
}

/// Returns what became of the functions at the addresses of a stack.
pub(super) fn compare_stack(
    compared: Result<&BuildComparison<'_>, CompareError>,
    after: &SymCache,
    addresses: &[RelativeAddress],
) -> (ChangesOutcome, Vec<FunctionChange>) {
    let Ok(comparison) = compared else { return (ChangesOutcome::TooLarge, Vec::new()) };
    let outcome = comparison.outcome().into();
    if outcome != ChangesOutcome::Compared {
        return (outcome, Vec::new());
    }
    let functions = addresses.iter().flat_map(|address| list_stack_functions(after, *address));
    let stack: Vec<StackFunction<'_>> = functions.take(FUNCTIONS_LIMIT).collect();
    (outcome, comparison.find_in_stack(&stack))
}
