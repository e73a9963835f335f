//! `/console/reports/{id}`: one report, the thread that crashed first.

use super::context::{self, ContextSections};
use super::dropped_body::render_without_body;
use super::jetsam::JetsamSection;
use super::report_facts::{describe_tab, list_facts, told_by};
use crate::components::rows::{self, report_path, what};
use crate::components::source_link::SourceLinks;
use crate::components::stack::ThreadStack;
use crate::prelude::*;
use axum::Extension;
use axum::extract::MatchedPath;
use http::{HeaderMap, HeaderValue, header};
use unslide_api::feature::lists::RequestSlot;
use unslide_api::feature::operation::ReservedAnswer;
use unslide_api::feature::panels::Panels;
use unslide_api::feature::panels::{PanelSection, PanelSlot, collect_panels};
use unslide_api::feature::site::stored_body;
use unslide_api::feature::site::{GetQuery, get_report, load_report};
use unslide_api::feature::sources::{SourceScope, source_lines_for_page};
use unslide_model::Scope;
use unslide_report::ReportContext;
use unslide_report::text::view::{ImageView, ReportView, build_view, thread_view};
use unslide_site::{html_answer, session_path};
use unslide_store::queries::report::FoundReport;
use unslide_store::queries::reports::{self, ReportFilter, ReportRow};
use unslide_store::sessions::{self, DeviceScope};
use unslide_store::{TenantTx, Uuid, app_settings};

/// Types of reports that may come from an end out of memory.
const MAY_BE_MEMORY: [&str; 4] =
    ["out_of_memory", "memory_termination", "termination", "resource_termination"];

/// The maximum number of other reports of a crash that are listed.
const MOST_TELLINGS: u32 = 20;

#[derive(Template)]
#[template(path = "console/pages/report_pages/report.html", askama = escaping)]
struct ReportPage<'r> {
    shell: Shell,
    listed: ReportRow,
    /// Size of the report in bytes.
    size: u64,
    seen: ReportView,
    /// How the run ended, and the reason for that judgement.
    ended: Option<String>,
    newer: Option<String>,
    older: Option<String>,
    first: Option<ThreadStack>,
    others: Vec<ThreadStack>,
    /// The address of the other signals of its session.
    session: Option<String>,
    /// The address of its flame graph.
    flame: Option<String>,
    /// How long the app hung or was sampled, in milliseconds.
    took: Option<u64>,
    jetsam: Option<JetsamSection<'r>>,
    /// Other reports of the same crash, which this one counts for: who tells, and their addresses.
    tellings: Vec<(&'static str, String)>,
    sections: ContextSections,
    /// The sections of features.
    panels: Vec<PanelSection>,
    may_delete: bool,
}

impl ReportPage<'_> {
    /// Returns true if the report has only samples from before the end.
    fn has_only_samples(&self) -> bool {
        self.first.iter().chain(&self.others).all(|thread| thread.is_sample)
    }
}

pub async fn render_page(
    State(symbolication): State<Arc<Symbolication>>,
    State(panels): State<Arc<Panels>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let variant = state.parse_number("variant")?.unwrap_or(0);
    let (found, mut body) = match load_report(&symbolication, &signed.access, &id, variant).await {
        Ok(loaded) => loaded,
        Err(problem) => return render_without_body(signed.viewer, problem),
    };
    let scope = SourceScope::for_report(&signed.access, &found.listed.app);
    let lines = source_lines_for_page(&symbolication, scope, &mut body, None).await;
    let mut tx = symbolication.storage.tenant(signed.access.tenant()).await?;
    let (newer, older) = reports::find_neighbours(&mut tx, &found.listed).await?;
    let links =
        source_links(&mut tx, &found).await?.with_file_page(find_file_page(&symbolication, &signed.access));
    let panels = collect_panels(&panels, &mut tx, PanelSlot::Report(&found.listed)).await?;
    let learned_limit = learned_limit(&mut tx, &found.listed).await?;
    let tellings = list_tellings(&mut tx, &found.listed).await?;
    tx.rollback();
    let (viewer, may_delete) = (signed.viewer, signed.access.principal.has_scope(Scope::TenantAdmin));
    let work = move || {
        let report = stored_body::read_report(&body.json)?;
        let mut seen = build_view(&report);
        lines.add_to_threads(&mut seen.threads);
        let listed = found.listed;
        let path = |rest: &str| report_path(&id, variant, rest);
        let (first, others) = build_stacks(&seen, &links, path);
        let neighbour = |(id, variant)| report_path(id, variant, "");
        let title = seen.exception.clone().unwrap_or_else(|| what(&listed));
        let judged = learned_limit.and_then(|limit| report.ended_by(Some(limit)));
        let page = ReportPage {
            shell: Shell::for_viewer(viewer, "reports", title).with_about(describe_tab(&listed)),
            ended: judged.map(|ended| ended.to_string()).or_else(|| seen.ended.clone()),
            newer: newer.map(neighbour),
            older: older.map(neighbour),
            first,
            others,
            session: session_of(&listed.app, report.summary().run_id.as_deref()),
            flame: report.profile_or_hang().map(|_| path("/flame")),
            took: report.duration_millis(),
            jetsam: report.jetsam.as_deref().map(JetsamSection::from_event),
            tellings,
            sections: ContextSections::from_context(report.read_context()),
            panels,
            may_delete,
            size: found.size,
            listed,
            seen,
        };
        let text = page.render().map_err(Problem::internal)?.into_bytes();
        let mut reservation = body.reservation;
        reservation.reserve_more(text.len() as u64)?;
        Ok::<_, Problem>(ReservedAnswer { bytes: text.into(), reservation })
    };
    let answer = symbolication.capacity.cpu.run_for(signed.access.tenant(), work).await??;
    Ok(html_answer(answer))
}

/// Lists the other reports of a crash that this one counts for.
async fn list_tellings(
    tx: &mut TenantTx,
    listed: &ReportRow,
) -> Result<Vec<(&'static str, String)>, Problem> {
    if listed.told_by.is_none() || listed.same_crash_as.is_some() {
        return Ok(Vec::new());
    }
    let id = listed.report_id;
    let filter = ReportFilter { same_crash_as: Some(id), ..ReportFilter::default() };
    let found = reports::list_reports(tx, &filter, None, MOST_TELLINGS).await?.reports;
    let others = found.iter().filter(|other| (other.report_id, other.variant) != (id, listed.variant));
    Ok(others.map(|other| (told_by(other), report_path(other.report_id, other.variant, ""))).collect())
}

/// Returns the page of the session in which the report was made.
fn session_of(app: &str, run: Option<&str>) -> Option<String> {
    let run = run.filter(|run| Uuid::parse_str(run).is_ok() && !app.is_empty())?;
    Some(session_path(app, run))
}

/// Returns the memory limit of other runs on the same device model and system, if it may explain the end of
/// the run and a feature knows it.
async fn learned_limit(tx: &mut TenantTx, listed: &ReportRow) -> Result<Option<u64>, Problem> {
    let made_on = listed.model.as_deref().zip(listed.os_version.as_deref());
    let may_be_memory = MAY_BE_MEMORY.contains(&listed.kind.as_str());
    let Some((model, os)) = made_on.filter(|_| may_be_memory) else { return Ok(None) };
    Ok(sessions::find_memory_limit(tx, DeviceScope { app: &listed.app, model, os }).await?)
}

/// Returns the path of the page of source files, if there is one and the viewer may open it.
fn find_file_page(symbolication: &Symbolication, access: &Access<ReportsRead>) -> Option<&'static str> {
    let page = symbolication.sources.map(|sources| sources.file_page);
    page.filter(|_| access.principal.has_scope(Scope::SymbolsDownload))
}

/// Returns the links of a report's source positions.
async fn source_links(tx: &mut TenantTx, found: &FoundReport) -> Result<SourceLinks, Problem> {
    let listed = &found.listed;
    let settings = app_settings::get(tx, &listed.app).await?;
    Ok(SourceLinks::from_settings(&settings, &listed.version, &listed.build))
}

/// Returns the thread that crashed, and the others.
fn build_stacks(
    seen: &ReportView,
    links: &SourceLinks,
    path: impl Fn(&str) -> String,
) -> (Option<ThreadStack>, Vec<ThreadStack>) {
    let explain = path("/explain");
    let mut threads = seen.threads.iter().map(|thread| {
        let mut stack = ThreadStack::from_thread(thread, Some(&explain), links);
        stack.elsewhere = thread.left_out.then(|| path(&format!("/threads/{}", thread.position)));
        stack
    });
    (threads.next(), threads.collect())
}

#[derive(Template)]
#[template(path = "console/pages/report_pages/thread.html", askama = escaping)]
struct ThreadPage {
    shell: Shell,
    report: String,
    thread: ThreadStack,
}

/// `GET /console/reports/{id}/threads/{position}`: a thread that the report's page has no room for.
pub async fn render_thread(
    State(symbolication): State<Arc<Symbolication>>,
    signed: SignedIn<ReportsRead>,
    Path((id, position)): Path<(String, usize)>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let variant = state.parse_number("variant")?.unwrap_or(0);
    let (found, mut body) = load_report(&symbolication, &signed.access, &id, variant).await?;
    let scope = SourceScope::for_report(&signed.access, &found.listed.app);
    let lines = source_lines_for_page(&symbolication, scope, &mut body, Some(position)).await;
    let mut tx = symbolication.storage.tenant(signed.access.tenant()).await?;
    let links =
        source_links(&mut tx, &found).await?.with_file_page(find_file_page(&symbolication, &signed.access));
    tx.rollback();
    let viewer = signed.viewer;
    let work = move || {
        let seen = thread_view(&stored_body::read_report(&body.json)?, position);
        let mut seen = seen.ok_or_else(|| Problem::new(Kind::NotFound, "the report has no such thread"))?;
        lines.add_to_threads(std::slice::from_mut(&mut seen));
        let id = found.listed.report_id.to_string();
        let path = |rest: &str| report_path(&id, found.listed.variant, rest);
        let thread = ThreadStack::from_thread(&seen, Some(&path("/explain")), &links);
        let about = describe_tab(&found.listed);
        let shell = Shell::for_viewer(viewer, "reports", thread.heading.clone()).with_about(about);
        render_html(&ThreadPage { shell, report: path(""), thread })
    };
    symbolication.capacity.cpu.run_for(signed.access.tenant(), work).await?
}

/// Formats the signal with its code.
fn signal(seen: &ReportView) -> String {
    [seen.signal.as_deref(), seen.code.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn image_status(image: &ImageView) -> (&'static str, &'static str, &'static str) {
    match image.status.as_deref() {
        None => ("", "·", "no frame"),
        Some("found") => ("good", "●", "found"),
        Some("missing") => ("bad", "○", "missing"),
        Some("malformed") => ("bad", "○", "broken"),
        Some("unsupported") => ("bad", "○", "unsupported"),
        Some(_) => ("warn", "○", "not fetched"),
    }
}

/// The part of a report that the page of its group shows.
pub struct ReportExtract {
    /// The backtrace of its crash; `None` for a report about memory.
    pub stack: Option<ThreadStack>,
    pub context: ReportContext,
    /// What the analysis says about the fault, in sentences.
    pub findings: Vec<String>,
}

/// Returns the part of a report that the page of its group shows.
///
/// # Errors
/// Those of [`load_report`].
pub async fn load_extract(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    id: &str,
    variant: u32,
    explain: String,
) -> Result<ReportExtract, Problem> {
    let (found, mut body) = load_report(symbolication, access, id, variant).await?;
    let scope = SourceScope::for_report(access, &found.listed.app);
    let lines = source_lines_for_page(symbolication, scope, &mut body, None).await;
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let links = source_links(&mut tx, &found).await?;
    tx.rollback();
    let work = move || {
        let report = stored_body::read_report(&body.json)?;
        let mut seen = build_view(&report);
        lines.add_to_threads(&mut seen.threads);
        let crashed = seen.threads.first().filter(|thread| !seen.about_memory && !thread.is_sample);
        Ok::<_, Problem>(ReportExtract {
            stack: crashed.map(|thread| ThreadStack::from_thread(thread, Some(&explain), &links)),
            context: report.read_context(),
            findings: seen.findings.into_iter().map(|finding| finding.sentence).collect(),
        })
    };
    symbolication.capacity.cpu.run_for(access.tenant(), work).await?
}

/// `GET /console/reports/{id}/json`, `/text` and `/markdown`: the report as the API returns it, as an Apple-style crash log, and
/// as Markdown for a ticket.
pub async fn get_representation(
    symbolication: State<Arc<Symbolication>>,
    signed: SignedIn<ReportsRead>,
    slot: Extension<RequestSlot>,
    route: MatchedPath,
    id: Path<String>,
    Query(page): Query<PageState>,
) -> Result<Response, Problem> {
    let media_type = match route.as_str().rsplit('/').next() {
        Some("json") => "application/json",
        Some("text") => "text/plain",
        _ => "text/markdown",
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(media_type));
    let query = GetQuery { variant: page.parse_number("variant")?, ..GetQuery::default() };
    Box::pin(get_report(symbolication, signed.access, slot, id, Query(query), headers)).await
}
