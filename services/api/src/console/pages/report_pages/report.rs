//! `/console/reports/{id}`: one report, the thread that crashed first.

use super::jetsam::JetsamSection;
use crate::console::components::rows::{report_path, status_mark, version, what};
use crate::console::components::source_link::SourceLinks;
use crate::console::components::stack::ThreadStack;
use crate::console::link::session_path;
use crate::console::pages::capture_pages;
use crate::console::prelude::*;
use crate::console::shell::html_answer;
use crate::console::viewer::Viewer;
use crate::console::words::{address, bytes, duration};
use crate::limits::answers::ReservedAnswer;
use crate::limits::permits::RequestSlot;
use crate::operations::reports::get::{GetQuery, get_report, whole};
use crate::reports::stored_body;
use axum::Extension;
use http::{HeaderMap, HeaderValue, header};
use time::OffsetDateTime;
use unslide_model::CaptureKind;
use unslide_report::text::view::{ImageView, ReportView, thread_view, view};
use unslide_store::queries::health::memory_limits::{self, system_version};
use unslide_store::queries::report::FoundReport;
use unslide_store::queries::reports::{self, ReportRow};
use unslide_store::queries::session::{self, RunCapture};
use unslide_store::{TenantTx, Uuid, app_settings};

/// Types of reports that a graph of memory or a log of allocations may come with.
const ABOUT_MEMORY: [&str; 2] = ["memory_warning", "out_of_memory"];
/// Types of reports that may tell of an end out of memory.
const MAY_BE_MEMORY: [&str; 4] =
    ["out_of_memory", "memory_termination", "termination", "resource_termination"];
/// Captures of a run that the page lists.
const MOST_CAPTURES: u32 = 20;

#[derive(Template)]
#[template(path = "console/pages/report_pages/report.html", askama = escaping)]
struct ReportPage {
    shell: Shell,
    id: String,
    what: String,
    signal: String,
    reason: String,
    /// How the run ended, and why that is thought.
    ended: Option<String>,
    status: (&'static str, &'static str, String),
    facts: Vec<(&'static str, String)>,
    received: When,
    crashed_at: Option<When>,
    group: Option<String>,
    /// The report of the same crash that counts.
    counted: Option<String>,
    newer: Option<String>,
    older: Option<String>,
    json: String,
    text: String,
    about_memory: bool,
    first: Option<ThreadStack>,
    others: Vec<ThreadStack>,
    registers: Vec<(String, String)>,
    images: Vec<ImageLine>,
    truncated: bool,
    /// Where the other signals of its session are.
    session: Option<String>,
    /// Where its flame graph is.
    flame: Option<String>,
    /// How long the app hung or was sampled.
    took: Option<String>,
    jetsam: Option<JetsamSection>,
    /// Captures of the run that a report about memory is of.
    captures: Vec<RunCaptureLine>,
}

impl ReportPage {
    /// True where the report has nothing but what was sampled before the end.
    fn has_only_samples(&self) -> bool {
        self.first.iter().chain(&self.others).all(|thread| thread.is_sample)
    }
}

struct RunCaptureLine {
    kind: &'static str,
    href: String,
    received: When,
}

struct ImageLine {
    name: String,
    path: String,
    arch: &'static str,
    uuid: String,
    range: String,
    size: String,
    status: (&'static str, &'static str, &'static str),
    own: bool,
}

/// `GET /console/reports/{id}`.
pub async fn page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let variant = state.number("variant")?.unwrap_or(0);
    let (found, body) = whole(&api, &signed.access, &id, variant).await?;
    let mut tx = api.tenant(signed.access.tenant()).await?;
    let (newer, older) = reports::neighbours(&mut tx, &found.listed).await?;
    let links = source_links(&mut tx, &found).await?;
    let captures = match ABOUT_MEMORY.contains(&found.listed.kind.as_str()) {
        true => session::captures_of_run(&mut tx, &found.listed, MOST_CAPTURES).await?,
        false => Vec::new(),
    };
    let learned_limit = learned_limit(&mut tx, &found.listed).await?;
    tx.rollback();
    let (viewer, now) = (signed.viewer, api.clock.now());
    let work = move || {
        let report = stored_body::report(&body.json)?;
        let mut page = page_of(viewer, &found, view(&report), &links, now);
        page.flame = report.profile_or_hang().map(|_| report_path(&id, variant, "/flame"));
        page.session = session_of(&found.listed.app, report.summary().run_id.as_deref());
        page.took = report.duration_millis().map(duration);
        if let Some(ended) = learned_limit.and_then(|limit| report.ended_by(Some(limit))) {
            page.ended = Some(shown(&ended.to_string()));
        }
        page.captures = captures.iter().map(|capture| run_capture(capture, now)).collect();
        page.jetsam = report.jetsam.as_deref().map(JetsamSection::of);
        let path = |(id, variant): (unslide_model::ReportId, u32)| report_path(id, variant, "");
        (page.newer, page.older) = (newer.map(path), older.map(path));
        let text = page.render().map_err(Problem::internal)?.into_bytes();
        let mut reservation = body.reservation;
        reservation.grow(text.len() as u64)?;
        Ok::<_, Problem>(ReservedAnswer { bytes: text.into(), reservation })
    };
    let answer = api.cpu.run_for(signed.access.tenant(), work).await??;
    Ok(html_answer(answer))
}

fn run_capture(capture: &RunCapture, now: OffsetDateTime) -> RunCaptureLine {
    RunCaptureLine {
        kind: CaptureKind::parse(&capture.kind).map_or("Capture", capture_pages::kind),
        href: format!("/console/captures/{}", capture.id),
        received: words::when(capture.received_at, now),
    }
}

/// The page of the session that a report's run is.
fn session_of(app: &str, run: Option<&str>) -> Option<String> {
    let run = run.filter(|run| Uuid::parse_str(run).is_ok() && !app.is_empty())?;
    Some(session_path(app, run))
}

/// The memory limit that other runs on the device and the system of a report had, where it may say why the run ended.
async fn learned_limit(tx: &mut TenantTx, listed: &ReportRow) -> Result<Option<u64>, Problem> {
    let made_on = listed.model.as_deref().zip(listed.os_version.as_deref().and_then(system_version));
    let may_be_memory = MAY_BE_MEMORY.contains(&listed.kind.as_str());
    let Some((model, os)) = made_on.filter(|_| may_be_memory) else { return Ok(None) };
    Ok(memory_limits::learned(tx, &[[&listed.app, model, os]]).await?.pop().flatten())
}

/// How the source positions of a report are linked.
async fn source_links(tx: &mut TenantTx, found: &FoundReport) -> Result<SourceLinks, Problem> {
    let listed = &found.listed;
    let settings = app_settings::get(tx, &listed.app).await?;
    Ok(SourceLinks::of(&settings, &listed.version, &listed.build))
}

fn page_of(
    viewer: Viewer,
    found: &FoundReport,
    seen: ReportView,
    links: &SourceLinks,
    now: OffsetDateTime,
) -> ReportPage {
    let listed = &found.listed;
    let id = listed.report_id.to_string();
    let path = |rest: &str| report_path(&id, listed.variant, rest);
    let explain = path("/explain");
    let mut threads = seen.threads.iter().map(|thread| {
        let mut stack = ThreadStack::of(thread, Some(&explain), links);
        stack.elsewhere = thread.left_out.then(|| path(&format!("/threads/{}", thread.position)));
        stack
    });
    let first = threads.next();
    let what = seen.exception.clone().unwrap_or_else(|| what(listed));
    let signal = [seen.signal.as_deref(), seen.code.as_deref()];
    ReportPage {
        shell: Shell::of(viewer, "reports", what.clone()),
        what,
        signal: signal.into_iter().flatten().collect::<Vec<_>>().join(" "),
        reason: seen.reason.unwrap_or_default(),
        ended: seen.ended,
        status: {
            let (class, mark, word) = status_mark(&listed.status);
            (class, mark, word.to_owned())
        },
        facts: facts(found),
        received: words::when(listed.received_at, now),
        crashed_at: listed.device_time.map(|at| words::when(at, now)),
        group: listed.group.map(|group| format!("/console/groups/{group}")),
        counted: listed.same_crash_as.map(|id| report_path(id, 0, "")),
        session: None,
        newer: None,
        older: None,
        json: path("/json"),
        text: path("/text"),
        about_memory: seen.about_memory,
        first,
        others: threads.collect(),
        registers: seen.registers.into_iter().map(|(name, value)| (name, address(value))).collect(),
        images: seen.images.iter().map(image).collect(),
        truncated: seen.truncated,
        flame: None,
        took: None,
        jetsam: None,
        captures: Vec::new(),
        id,
    }
}

#[derive(Template)]
#[template(path = "console/pages/report_pages/thread.html", askama = escaping)]
struct ThreadPage {
    shell: Shell,
    report: String,
    thread: ThreadStack,
}

/// `GET /console/reports/{id}/threads/{position}`: a thread that the report's page has no room for.
pub async fn thread(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Path((id, position)): Path<(String, usize)>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let variant = state.number("variant")?.unwrap_or(0);
    let (found, body) = whole(&api, &signed.access, &id, variant).await?;
    let mut tx = api.tenant(signed.access.tenant()).await?;
    let links = source_links(&mut tx, &found).await?;
    tx.rollback();
    let viewer = signed.viewer;
    let work = move || {
        let seen = thread_view(&stored_body::report(&body.json)?, position);
        let seen = seen.ok_or_else(|| Problem::new(Kind::NotFound, "the report has no such thread"))?;
        let id = found.listed.report_id.to_string();
        let path = |rest: &str| report_path(&id, found.listed.variant, rest);
        let thread = ThreadStack::of(&seen, Some(&path("/explain")), &links);
        let shell = Shell::of(viewer, "reports", thread.heading.clone());
        html(&ThreadPage { shell, report: path(""), thread })
    };
    api.cpu.run_for(signed.access.tenant(), work).await?
}

/// What is known of the app and the device.
fn facts(found: &FoundReport) -> Vec<(&'static str, String)> {
    let listed = &found.listed;
    let of = |key: &str| listed.summary.get(key).and_then(|value| value.as_str()).unwrap_or_default();
    let os = [listed.os_name.as_deref(), listed.os_version.as_deref()];
    let os = os.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let frames = &listed.frames;
    let frames = format!(
        "{} of {} symbolicated",
        frames.symbolicated,
        counted(i64::from(frames.total), "frame", "frames")
    );
    let facts = [
        ("App", shown_or(&listed.app, "unknown")),
        ("Version", shown(&version(listed))),
        ("Device", shown(listed.model.as_deref().unwrap_or_default())),
        ("System", shown(&os)),
        ("Processor", shown(of("cpu_arch"))),
        ("Process", shown(listed.process.as_deref().unwrap_or_default())),
        ("Frames", frames),
        ("Revision", listed.revision.to_string()),
        ("Size", bytes(found.size)),
        ("Stands for", stands_for(listed.weight)),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// What a sampled report counts as; empty for others.
fn stands_for(weight: u32) -> String {
    if weight > 1 { counted(weight, "report", "reports") } else { String::new() }
}

fn image(image: &ImageView) -> ImageLine {
    let status = match image.status.as_deref() {
        None => ("", "·", "no frame"),
        Some("found") => ("good", "●", "found"),
        Some("missing") => ("bad", "○", "missing"),
        Some("malformed") => ("bad", "○", "broken"),
        Some("unsupported") => ("bad", "○", "unsupported"),
        Some(_) => ("warn", "○", "not fetched"),
    };
    ImageLine {
        name: shown_or(&image.name, "unnamed"),
        path: image.path.clone(),
        arch: image.arch,
        uuid: image.debug_id.map(|id| id.to_string()).unwrap_or_default(),
        range: address(image.start),
        size: bytes(image.size),
        status,
        own: !image.system,
    }
}

/// The backtrace of a report's crash, for the page of its group; `None` for a report about memory.
///
/// # Errors
/// As [`whole`].
pub async fn crashed_stack(
    api: &Api,
    access: &Access<ReportsRead>,
    (id, variant): (&str, u32),
    explain: String,
) -> Result<Option<ThreadStack>, Problem> {
    let (found, body) = whole(api, access, id, variant).await?;
    let mut tx = api.tenant(access.tenant()).await?;
    let links = source_links(&mut tx, &found).await?;
    tx.rollback();
    let work = move || {
        let seen = view(&stored_body::report(&body.json)?);
        let crashed = seen.threads.first().filter(|thread| !seen.about_memory && !thread.is_sample);
        Ok::<_, Problem>(crashed.map(|thread| ThreadStack::of(thread, Some(&explain), &links)))
    };
    api.cpu.run_for(access.tenant(), work).await?
}

/// `GET /console/reports/{id}/json`: the report as the API answers it.
pub async fn json(
    state: State<Api>,
    signed: SignedIn<ReportsRead>,
    slot: Extension<RequestSlot>,
    id: Path<String>,
    Query(page): Query<PageState>,
) -> Result<Response, Problem> {
    Box::pin(answered(state, signed, slot, id, (page, "application/json"))).await
}

/// `GET /console/reports/{id}/text`: the report as an Apple-style crash log.
pub async fn text(
    state: State<Api>,
    signed: SignedIn<ReportsRead>,
    slot: Extension<RequestSlot>,
    id: Path<String>,
    Query(page): Query<PageState>,
) -> Result<Response, Problem> {
    Box::pin(answered(state, signed, slot, id, (page, "text/plain"))).await
}

async fn answered(
    state: State<Api>,
    signed: SignedIn<ReportsRead>,
    slot: Extension<RequestSlot>,
    id: Path<String>,
    (page, form): (PageState, &'static str),
) -> Result<Response, Problem> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(form));
    let query = GetQuery { variant: page.number("variant")?, wait: None };
    get_report(state, signed.access, slot, id, Query(query), headers).await
}
