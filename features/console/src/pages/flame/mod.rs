//! `/console/reports/{id}/flame` and `/console/groups/{id}/flame`: flame graphs of sampled stacks.

mod merged_tree;

use crate::components::rows::{report_path, what};
use crate::prelude::*;
use merged_tree::{MergedTree, load_merged_tree};
use unslide_api::feature::operation::{ReservedAnswer, reserve_bytes};
use unslide_api::feature::site::stored_body::{self, StoredBody};
use unslide_api::feature::site::{load_group, load_profile, load_report, no_profile};
use unslide_calltree::{CallTree, ReportTree, report_tree};
use unslide_site::{
    FLAME_PATH, FlameSvg, FunctionLine, SliceLine, changed_functions, format_samples, heaviest_path,
    html_answer, list_functions, list_slices, text_or,
};
use unslide_store::GroupId;
use unslide_store::queries::groups::GroupCounts;

/// Maximum size of a page without its graph, in bytes.
const PAGE_BYTES: u64 = 512 << 10;
/// Maximum number of versions to compare.
const MOST_VERSIONS: usize = 50;

#[derive(Template)]
#[template(path = "console/pages/flame.html", askama = escaping)]
struct FlamePage {
    shell: Shell,
    script: &'static str,
    back: String,
    back_label: &'static str,
    heading: String,
    facts: String,
    left_out: String,
    graph: FlameSvg,
    path: Vec<FunctionLine>,
    functions: Vec<FunctionLine>,
    /// Time slices of one report.
    slices: Vec<SliceLine>,
    /// Heads of the columns of the functions.
    columns: Vec<&'static str>,
    compared: bool,
    form: Option<CompareForm>,
}

/// The versions of a group, to choose from.
struct CompareForm {
    action: String,
    version: Vec<(String, String, bool)>,
    compare: Vec<(String, String, bool)>,
}

pub async fn render_report(
    State(symbolication): State<Arc<Symbolication>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let variant = state.parse_number("variant")?.unwrap_or(0);
    let (found, body) = load_report(&symbolication, &signed.access, &id, variant).await?;
    let viewer = signed.viewer;
    let work = move || {
        let StoredBody { json, mut reservation, .. } = body;
        let report = stored_body::read_report(&json)?;
        let profile = load_profile(&report, &mut reservation)?.ok_or_else(no_profile)?;
        let sampled = report_tree(&report, &profile);
        let slices = list_slices(&sampled, profile.millis);
        let ReportTree { tree, skipped, .. } = sampled;
        // Memory for the tree of the app's functions.
        reservation.reserve_more(CallTree::most_bytes(tree.node_count()))?;
        let what = what(&found.listed);
        let page = FlamePage {
            shell: Shell::for_viewer(viewer, "reports", format!("Flame graph: {what}")),
            script: &FLAME_PATH,
            back: report_path(&id, variant, ""),
            back_label: "Report",
            heading: format!("Flame graph: {what}"),
            facts: format_sample_count(&tree),
            left_out: left_out(skipped),
            graph: FlameSvg::from_tree(&tree, &what),
            path: heaviest_path(&tree),
            functions: list_functions(&tree),
            slices,
            columns: vec!["By itself", "With its calls"],
            compared: false,
            form: None,
        };
        reservation.reserve_more(page.graph.byte_length() as u64 * 2 + PAGE_BYTES)?;
        let bytes = page.render().map_err(Problem::internal)?.into_bytes().into();
        Ok::<_, Problem>(ReservedAnswer { bytes, reservation })
    };
    let answer = symbolication.capacity.cpu.run_for(signed.access.tenant(), work).await??;
    Ok(html_answer(answer))
}

pub async fn render_group(
    State(symbolication): State<Arc<Symbolication>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<GroupId>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = &signed.access;
    let group = load_group(&symbolication.storage, access, id).await?;
    let (version, compare) = (state.get_text("version"), state.get_text("compare"));
    let first = Box::pin(load_merged_tree(&symbolication, access, &group, version.clone())).await?;
    let second = match &compare {
        Some(other) => {
            Some(Box::pin(load_merged_tree(&symbolication, access, &group, Some(other.clone()))).await?)
        }
        None => None,
    };
    if first.reports == 0 && second.as_ref().is_none_or(|second| second.reports == 0) && version.is_none() {
        return Err(no_profile());
    }
    // Memory for the tree of the app's functions, and for that of the difference.
    let nodes = first.tree.node_count() + second.as_ref().map_or(0, |second| 2 * second.tree.node_count());
    let mut reservation =
        reserve_bytes(&symbolication.capacity.permits, access.tenant(), CallTree::most_bytes(nodes))?;
    let viewer = signed.viewer;
    let work = move || {
        let form = compare_form(&group, version.as_deref(), compare.as_deref());
        let title = text_or(&group.group.title, "no title");
        let shell = Shell::for_viewer(viewer, "groups", format!("Flame graph: {title}"));
        let page = group_page(shell, &group, form, &first, second.as_ref());
        reservation.reserve_more(page.graph.byte_length() as u64 * 2 + PAGE_BYTES)?;
        let bytes = page.render().map_err(Problem::internal)?.into_bytes().into();
        Ok::<_, Problem>(ReservedAnswer { bytes, reservation })
    };
    let answer = symbolication.capacity.cpu.run_for(signed.access.tenant(), work).await??;
    Ok(html_answer(answer))
}

/// Renders the page of a group, with one tree or the difference between two.
fn group_page(
    shell: Shell,
    group: &GroupCounts,
    form: Option<CompareForm>,
    first: &MergedTree,
    second: Option<&MergedTree>,
) -> FlamePage {
    let title = text_or(&group.group.title, "no title");
    let base = FlamePage {
        shell,
        script: &FLAME_PATH,
        back: format!("/console/groups/{}", group.group.id),
        back_label: "Group",
        heading: format!("Flame graph: {title}"),
        facts: first.describe_facts(),
        left_out: left_out(first.left_out()),
        graph: FlameSvg::from_tree(&first.tree, title),
        path: heaviest_path(&first.tree),
        functions: list_functions(&first.tree),
        slices: Vec::new(),
        columns: vec!["By itself", "With its calls"],
        compared: false,
        form,
    };
    let Some(second) = second else { return base };
    let names = format!("{} \u{2192} {}", version_name(first), version_name(second));
    FlamePage {
        facts: format!("{} \u{2192} {}", base.facts, second.describe_facts()),
        left_out: left_out(first.left_out().saturating_add(second.left_out())),
        graph: FlameSvg::from_difference(&first.tree, &second.tree, &names),
        path: heaviest_path(&second.tree),
        functions: changed_functions(&first.tree, &second.tree),
        columns: vec!["Before", "After", "Change"],
        compared: true,
        ..base
    }
}

fn version_name(tree: &MergedTree) -> &str {
    tree.version.as_deref().unwrap_or("all versions")
}

fn format_sample_count(tree: &CallTree) -> String {
    let one = if tree.total().weight == 1 { "sample" } else { "samples" };
    format!("{} {one}", format_samples(tree))
}

fn left_out(number: u64) -> String {
    match number {
        0 => String::new(),
        number => format!(
            "{} left out: they are too many or too deep, or refer to nothing.",
            counted(number, "frame or sample is", "frames and samples are")
        ),
    }
}

fn compare_form(group: &GroupCounts, version: Option<&str>, compare: Option<&str>) -> Option<CompareForm> {
    let versions = || {
        let named =
            group.versions.iter().map(|one| one.version.as_str()).filter(|version| !version.is_empty());
        named.take(MOST_VERSIONS)
    };
    if versions().nth(1).is_none() && version.is_none() {
        return None;
    }
    let options = |none: &str, current: Option<&str>| {
        let first = [(String::new(), none.to_owned(), current.is_none())].into_iter();
        let others = versions().map(|one| (one.to_owned(), one.to_owned(), current == Some(one)));
        first.chain(others).collect()
    };
    Some(CompareForm {
        action: build_link(&format!("/console/groups/{}/flame", group.group.id), &[]),
        version: options("all versions", version),
        compare: options("nothing", compare),
    })
}
