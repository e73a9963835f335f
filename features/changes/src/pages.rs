//! `/console/changes`: the changed functions of a group, of a version, or between two builds.

use crate::commits::BuildCommits;
use crate::comparing::{
    BuildDiff, ChangesOutcome, ImageChanges, StackChanges, VersionChanges, diff_builds, find_group_changes,
    find_version_changes,
};
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{
    Access, Api, Kind, Problem, Query, ReportsRead, check_texts, parse_parameter,
};
use unslide_changes_compare::{ChangeState, FunctionChange, NAME_CHARS};
use unslide_model::DebugId;
use unslide_site::{
    PageState, Shell, SignedIn, Template, build_link, escaping, filters, group_path, render_html,
};

/// The path of the page.
const CHANGES_PAGE: &str = "/console/changes";
/// The path of the pages of groups.
/// The most bytes of a parameter.
const PARAMETER_BYTES: usize = 1_024;

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(CHANGES_PAGE, get(show_changes))
}

/// Returns the address of the page of a group's changes.
pub fn group_link(group: &str) -> String {
    build_link(CHANGES_PAGE, &[("group", Some(group))])
}

/// Returns the address of the page of a version's changes.
pub fn version_link(app: &str, version: &str) -> String {
    build_link(CHANGES_PAGE, &[("app", Some(app)), ("version", Some(version))])
}

/// The builds or the crash that the page is about.
enum Subject {
    Group(StackChanges),
    Version {
        app: String,
        version: String,
        changes: VersionChanges,
    },
    Builds(BuildDiff),
    /// Nothing was chosen, or it cannot be compared, with the reason.
    Nothing(String),
}

/// A table of functions with what became of each.
#[derive(Default)]
struct FunctionTable {
    caption: String,
    hint: Option<&'static str>,
    lines: Vec<FunctionLine>,
    /// The commits of the builds, as text.
    commits: Option<String>,
    /// The page that compares them.
    compare_url: Option<String>,
}

/// A function with the groups that have it in their stack.
struct FunctionLine {
    change: FunctionChange,
    /// Titles and addresses of bugs with these functions.
    groups: Vec<(String, String)>,
    /// The place of its source file on the page that compares the commits.
    compare_url: Option<String>,
}

#[derive(Template)]
#[template(path = "changes/changes.html", askama = escaping)]
struct ChangesPage {
    shell: Shell,
    /// The sentence that says what was found.
    verdict: String,
    /// What is compared: versions or debug ids.
    about: String,
    /// The page that this one was opened from.
    back: Option<(String, String)>,
    tables: Vec<FunctionTable>,
    /// True if symbols do not have all that the page compares.
    is_compared: bool,
    a: String,
    b: String,
    function: String,
}

impl FunctionLine {
    /// Makes the line of a function of no named bug.
    fn from_change(change: FunctionChange) -> FunctionLine {
        FunctionLine { change, groups: Vec::new(), compare_url: None }
    }

    /// Returns the class of the mark and the word of a state.
    fn describe_state(&self) -> (&'static str, &'static str) {
        match self.change.state {
            ChangeState::Changed => ("bad", "changed"),
            ChangeState::New => ("bad", "new"),
            ChangeState::Gone => ("", "gone"),
            ChangeState::Resized => ("", "other code"),
            ChangeState::Affected => ("good", "same, with calls that differ"),
            ChangeState::Same => ("good", "same"),
            ChangeState::NotCompared => ("", "not compared"),
        }
    }

    /// Returns the source file with the first line that differs, or the first line.
    fn describe_place(&self) -> String {
        let change = &self.change;
        let line = change.changed_line.or(change.line).or(change.line_before);
        match (&change.file, line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            (None, _) => String::new(),
        }
    }
}

async fn show_changes(
    State(symbolication): State<Arc<Symbolication>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let subject = Box::pin(find_subject(&symbolication, &signed.access, &state)).await?;
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Changed functions");
    let text = |name| state.get_text(name).unwrap_or_default();
    let page = ChangesPage {
        shell,
        verdict: String::new(),
        about: String::new(),
        back: None,
        tables: Vec::new(),
        is_compared: false,
        a: text("a"),
        b: text("b"),
        function: text("function"),
    };
    render_html(&match subject {
        Subject::Group(changes) => describe_group(page, changes),
        Subject::Version { app, version, changes } => describe_version(page, &app, &version, changes),
        Subject::Builds(diff) => describe_builds(page, diff),
        Subject::Nothing(verdict) => ChangesPage { verdict, ..page },
    })
}

async fn find_subject(
    symbolication: &Arc<Symbolication>,
    access: &Access<ReportsRead>,
    state: &PageState,
) -> Result<Subject, Problem> {
    for name in ["group", "app", "version", "a", "b"] {
        check_texts(Kind::InvalidParameter, PARAMETER_BYTES, [(name, state.get(name))])?;
    }
    check_texts(Kind::InvalidParameter, NAME_CHARS, [("function", state.get("function"))])?;
    if let Some(group) = state.get_text("group") {
        let group = parse_parameter("group", &group)?;
        return Ok(Subject::Group(find_group_changes(symbolication, access, &group).await?));
    }
    if let (Some(a), Some(b)) = (state.get_text("a"), state.get_text("b")) {
        let ids: [DebugId; 2] = [parse_parameter("a", &a)?, parse_parameter("b", &b)?];
        let compared = diff_builds(symbolication, access, ids, state.get_text("function")).await;
        return match compared {
            Ok(diff) => Ok(Subject::Builds(diff)),
            Err(problem) if problem.kind() == Kind::NotFound => {
                let reason = ChangesOutcome::NoSymbols.describe().unwrap_or_default();
                Ok(Subject::Nothing(reason.to_owned()))
            }
            Err(problem) => Err(problem),
        };
    }
    match (access.restrict_app(state.get_text("app"))?, state.get_text("version")) {
        (Some(app), Some(version)) => {
            let changes = find_version_changes(symbolication, access, &app, &version).await?;
            Ok(Subject::Version { app, version, changes })
        }
        _ => Ok(Subject::Nothing(String::new())),
    }
}

fn describe_versions(version: Option<&str>, before: Option<&str>) -> String {
    match (version, before) {
        (Some(version), Some(before)) => format!("{before} without it, {version} with it"),
        (Some(version), None) => format!("First version: {version}"),
        (None, _) => String::new(),
    }
}

fn describe_group(page: ChangesPage, changes: StackChanges) -> ChangesPage {
    let tables = changes.images.into_iter().map(describe_image);
    ChangesPage {
        verdict: changes.text,
        about: describe_versions(changes.version.as_deref(), changes.version_before.as_deref()),
        back: Some((group_path(changes.group), "Group".to_owned())),
        is_compared: changes.outcome == ChangesOutcome::Compared,
        tables: tables.collect(),
        ..page
    }
}

fn describe_image(image: ImageChanges) -> FunctionTable {
    let ImageChanges { name, hint, functions, commits, .. } = image;
    let find_url = |change: &FunctionChange| {
        let url = commits.as_ref()?.find_file_url(change.file.as_deref()?)?;
        Some(url.to_owned())
    };
    let lines = functions.into_iter().map(|change| {
        let compare_url = find_url(&change);
        FunctionLine { compare_url, ..FunctionLine::from_change(change) }
    });
    FunctionTable {
        caption: name,
        hint,
        lines: lines.collect(),
        commits: commits.as_ref().map(BuildCommits::describe_pair),
        compare_url: commits.and_then(|commits| commits.compare_url),
    }
}

fn describe_version(page: ChangesPage, app: &str, version: &str, changes: VersionChanges) -> ChangesPage {
    let VersionChanges { version_before, outcome, groups, functions } = changes;
    let group_of = |place: &usize| {
        let group = groups.get(*place)?;
        Some((group.title.clone(), group_link(&group.id.to_string())))
    };
    let lines: Vec<FunctionLine> = functions
        .into_iter()
        .map(|(change, places)| {
            let groups = places.iter().filter_map(group_of).collect();
            FunctionLine { groups, ..FunctionLine::from_change(change) }
        })
        .collect();
    let verdict = match (outcome.describe(), lines.len()) {
        _ if groups.is_empty() => format!("No bug is new in {version}."),
        (Some(reason), _) => reason.to_owned(),
        (None, 0) => format!("No function in the stacks of the bugs that are new in {version} was edited."),
        (None, 1) => {
            format!("One function that changed in {version} is in the stack of a bug that is new in it.")
        }
        (None, count) => format!(
            "{count} functions that changed in {version} are in the stacks of bugs that are new in it."
        ),
    };
    let before = version_before.map(|before| format!("{before} → ")).unwrap_or_default();
    let caption = "Functions that changed, in the stacks of bugs that are new".to_owned();
    ChangesPage {
        verdict,
        about: format!("{app} {before}{version}"),
        back: Some((version_page(app, version), "Version".to_owned())),
        is_compared: outcome == ChangesOutcome::Compared,
        tables: vec![FunctionTable { caption, lines, ..FunctionTable::default() }],
        ..page
    }
}

/// Returns the address of the page of a version.
fn version_page(app: &str, version: &str) -> String {
    build_link("/console/version", &[("app", Some(app)), ("version", Some(version))])
}

fn describe_builds(page: ChangesPage, diff: BuildDiff) -> ChangesPage {
    let lines = diff.functions.into_iter().map(FunctionLine::from_change).collect();
    let hint = diff.is_truncated.then_some("More functions differ than are listed.");
    ChangesPage {
        verdict: diff.text,
        about: format!("{} → {}", diff.a, diff.b),
        is_compared: diff.outcome == ChangesOutcome::Compared,
        tables: vec![FunctionTable {
            caption: "Functions".to_owned(),
            hint,
            lines,
            ..FunctionTable::default()
        }],
        ..page
    }
}
