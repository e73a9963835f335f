//! `/console/data`: how long reports are kept, reports symbolicated again, and the deletion of reports and symbols.

use crate::prelude::*;
use unslide_api::feature::operation::{TenantAdmin, parse_parameter};
use unslide_api::feature::site::{
    BegunReprocess, NewReprocess, SymbolsWrite, VariantQuery, begin_reprocess, delete_report, delete_symbols,
    get_reprocess,
};
use unslide_model::DebugId;
use unslide_site::SentForm;
use unslide_store::reprocess::{ReprocessRun, ReprocessStatus};
use unslide_store::{GroupId, ReprocessId};

const DATA_PAGE: &str = "/console/data";
/// The fields of the form that choose reports, which the page keeps after a count.
const FILTER_FIELDS: [&str; 6] = ["app", "version", "build", "debug_id", "from", "to"];

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/stored_data.html", askama = escaping)]
struct DataPage {
    shell: Shell,
    retention_days: u32,
    /// The only app that the key may see.
    only_app: Option<String>,
    state: PageState,
    /// The words for the reports that match the form, after a count.
    matched: Option<String>,
    run: Option<ReprocessRun>,
}

impl DataPage {
    /// Returns the value of a field of the form.
    fn field(&self, name: &str) -> &str {
        self.state.get(name).unwrap_or_default()
    }

    /// Returns true if the page should look again.
    fn is_open(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.status == ReprocessStatus::Running || !run.answered)
    }
}

/// Returns the words for the reports that matched when a run began.
fn count_run(run: &ReprocessRun) -> String {
    count_matches(run.matched)
}

fn count_matches(reports: u64) -> String {
    counted(i64::try_from(reports).unwrap_or(i64::MAX), "report matches", "reports match")
}

fn describe_run(run: &ReprocessRun) -> (&'static str, &'static str, &'static str) {
    match (run.status, run.answered) {
        (ReprocessStatus::Failed, _) => ("bad", "○", "failed"),
        (ReprocessStatus::Running, _) => ("info", "◐", "requests reports"),
        (ReprocessStatus::Done, false) => ("info", "◐", "waits for answers"),
        (ReprocessStatus::Done, true) => ("good", "●", "done"),
    }
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, matched) = (signed.access, state.parse_number("matched")?.map(count_matches));
    let only_app = access.principal.app.clone();
    let retention_days = storage.retention.kept_days(access.principal.limits.retention_days);
    let run = match state.get("run") {
        Some(id) => {
            let id = parse_parameter::<ReprocessId>("run", id)?;
            let Json(run) = get_reprocess(State(storage), access, Path(id)).await?;
            Some(run)
        }
        None => None,
    };
    let shell = Shell::for_viewer(signed.viewer, "data", "Stored data");
    render_html(&DataPage { shell, retention_days, only_app, state, matched, run })
}

/// `POST /console/data/reprocess`: counts the reports that match, or symbolicates them again.
pub async fn reprocess_from_form(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let field = |name: &str| form.get(name).map(str::to_owned);
    let new = NewReprocess {
        app: field("app"),
        version: field("version"),
        build: field("build"),
        debug_id: field("debug_id"),
        from: form.parse_day("from")?,
        to: form.parse_day("to")?,
        all: form.get("all").is_some(),
        dry_run: form.get("count").is_some(),
    };
    let (name, value) = match begin_reprocess(&storage, &signed.access, new).await? {
        BegunReprocess::Counted(count) => ("matched", count.to_string()),
        BegunReprocess::Running(run) => ("run", run.id.to_string()),
    };
    let kept = FILTER_FIELDS.iter().map(|field| (*field, form.get(field)));
    let pairs: Vec<_> = kept.chain([(name, Some(value.as_str()))]).collect();
    Ok(Redirect::to(&build_link(DATA_PAGE, &pairs)).into_response())
}

/// `POST /console/reports/{id}/delete`: deletes a report, and returns to its group or to all reports.
pub async fn delete_report_from_form(
    storage: State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    id: Path<String>,
    form: SentForm,
) -> Result<Response, Problem> {
    let variant = VariantQuery { variant: form.parse_number("variant")? };
    delete_report(storage, signed.access, id, Query(variant)).await?;
    let next = match form.parse_number::<GroupId>("group") {
        Ok(Some(group)) => format!("/console/groups/{group}"),
        _ => "/console/reports".to_owned(),
    };
    Ok(Redirect::to(&next).into_response())
}

/// `POST /console/symbols/{debug_id}/delete`: deletes the symbols of a debug id.
pub async fn delete_symbols_from_form(
    symbolication: State<Arc<Symbolication>>,
    signed: SignedIn<SymbolsWrite>,
    id: Path<DebugId>,
) -> Result<Response, Problem> {
    delete_symbols(symbolication, signed.access, id).await?;
    Ok(Redirect::to("/console/symbols").into_response())
}
