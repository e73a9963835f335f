//! `GET /v1/reports`.

use crate::operations::groups::reference::resolve_filter;
use crate::operations::prelude::*;
use crate::requests::input::{check_texts, parse_period, search_text};
use time::OffsetDateTime;
use unslide_model::GroupRef;
use unslide_store::GroupId;
use unslide_store::queries::reports::{self, ReportFilter, ReportRow, ReportTotal};

/// Longer filters match nothing that is stored.
const FILTER_BYTES: usize = 1_024;

/// Which reports to list. An absent filter does not limit the list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReportQuery {
    /// The only app (bundle identifier) to list; all apps if absent.
    #[param(example = "com.example.shop")]
    pub app: Option<String>,
    /// The only version of the app to list.
    pub version: Option<String>,
    /// The only build number of the app to list.
    pub build: Option<String>,
    /// Arrived at this time or later (RFC 3339).
    #[param(format = DateTime, example = "2026-11-20T09:00:00Z")]
    pub from: Option<String>,
    /// Arrived before this time (RFC 3339).
    #[param(format = DateTime)]
    pub to: Option<String>,
    /// The crash's type, such as `mach`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Result of symbolication: `complete`, `partial` or `none`.
    pub status: Option<String>,
    /// True lists only crashes: the app did not survive them. False lists only other reports.
    pub fatal: Option<bool>,
    /// True lists only reports that figures count: not those of a crash that another report counts for.
    pub counted: Option<bool>,
    /// True for reports in which an image of the app lacks symbols, false for the others.
    pub symbols_missing: Option<bool>,
    /// The machine, such as `iPhone16,1`; empty for reports that name none.
    pub model: Option<String>,
    /// The operating system's version, with or without its name: `18.3.1` or `iOS 18.3.1`. Empty for reports that name
    /// neither.
    #[param(example = "18.3.1")]
    pub os_version: Option<String>,
    /// A frame refers to the image with this debug id.
    pub debug_id: Option<String>,
    /// The only group to list: its id or its short id.
    #[param(example = "SHOP-1A2B")]
    pub group: Option<String>,
    /// The id of a report of a crash: lists the other reports of the same crash, which it is counted for.
    pub same_crash_as: Option<String>,
    /// A key of the app with its value, such as `plan=pro`, or a state that MetricKit reports, such as `state com.example.screen=map`. If a
    /// key has several values with commas between them, one of them or all. `GET /v1/apps/{app}/keys` lists the keys.
    #[param(example = "state com.example.screen=map")]
    pub key: Option<String>,
    /// A report of its group has this text in its title, its reason, or the name of a function or source file of its
    /// crash, in any case, or is the id or short id of the group. If more than 10,000 groups match, those that were seen last count.
    #[param(min_length = 3, max_length = 100)]
    pub q: Option<String>,
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// A page of reports.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Page_ListedReport)]
pub struct ReportListPage {
    /// The entries of this page.
    pub items: Vec<ReportRow>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Present if the page ended before it was full, because comparing the reports took long: every report that arrived at
    /// this time or later was compared (RFC 3339). `next_cursor` goes on with older ones.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub searched_to: Option<OffsetDateTime>,
    /// Present if rows of older reports are in ClickHouse and it does not answer: the list ends with reports that arrived after this
    /// time (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub history_unavailable: Option<OffsetDateTime>,
}

/// List reports
///
/// Lists reports, the newest arrival first. `build`, `type`, `status`, `fatal`, `counted`, `symbols_missing`, `model`, `os_version` and `key` are
/// compared report by report, without an index, and so is `version` without `app` or `group`. Such a page ends after two seconds, with fewer
/// entries or none: `searched_to` says how far it looked, and `next_cursor` goes on from there. No report is left out or repeated.
#[utoipa::path(get, path = "/v1/reports", tag = "reports", operation_id = "list_reports",
    params(ReportQuery),
    responses((status = 200, description = "A page of reports.", body = ReportListPage), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_reports(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Query(query): Query<ReportQuery>,
) -> Result<Json<ReportListPage>, Problem> {
    let page = PageQuery { limit: query.limit, cursor: query.cursor.clone() };
    let group = read_group(&storage, &access, query.group.as_deref()).await?;
    let filter = build_filter(&access, query, group)?;
    let list = List::for_operation(access.tenant(), "list_reports", &filter);
    let after = page.read_cursor(list, |position| position.parse().ok())?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = reports::list_reports(&mut tx, &filter, after.as_ref(), limit).await?;
    let next_cursor = found.next.map(|next| list.encode_cursor(&next.to_string()));
    let reports::ReportPage { searched_to, history_unavailable, .. } = found;
    Ok(Json(ReportListPage { items: found.reports, next_cursor, searched_to, history_unavailable }))
}

/// Counts the reports of a list, for its page.
///
/// # Errors
/// As [`list_reports`].
pub async fn read_report_total(
    storage: &Storage,
    access: &Access<ReportsRead>,
    query: ReportQuery,
) -> Result<Option<ReportTotal>, Problem> {
    let group = read_group(storage, access, query.group.as_deref()).await?;
    let filter = build_filter(access, query, group)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    Ok(reports::read_total(&mut tx, &filter).await?)
}

/// Returns the group of the parameter `group`.
async fn read_group(
    storage: &Storage,
    access: &Access<ReportsRead>,
    text: Option<&str>,
) -> Result<Option<GroupId>, Problem> {
    match text.map(|text| parse_parameter("group", text)).transpose()? {
        None => Ok(None),
        Some(GroupRef::Id(id)) => Ok(Some(GroupId::from_uuid(id))),
        Some(named) => {
            let mut tx = storage.tenant(access.tenant()).await?;
            resolve_filter(&mut tx, &named).await.map(Some)
        }
    }
}

/// Returns the name and the value of a key in the parameter `key`.
fn parse_key(text: &str) -> Result<(String, String), Problem> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or_else(|| Problem::new(Kind::InvalidParameter, "key: NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn build_filter(
    access: &Access<ReportsRead>,
    query: ReportQuery,
    group: Option<GroupId>,
) -> Result<ReportFilter, Problem> {
    let (from, to) = parse_period(query.from.as_deref(), query.to.as_deref())?;
    let filter = ReportFilter {
        app: access.restrict_app(query.app)?,
        version: query.version,
        build: query.build,
        from,
        to,
        kind: query.kind,
        status: query.status,
        fatal: query.fatal,
        counted: query.counted,
        symbols_missing: query.symbols_missing,
        model: query.model,
        os_version: query.os_version,
        debug_id: query.debug_id.as_deref().map(|text| parse_parameter("debug_id", text)).transpose()?,
        group,
        same_crash_as: query
            .same_crash_as
            .as_deref()
            .map(|text| parse_parameter("same_crash_as", text))
            .transpose()?,
        key: query.key.as_deref().map(parse_key).transpose()?,
        text: search_text(query.q)?,
    };
    if let Some(status) = &filter.status
        && !["complete", "partial", "none"].contains(&status.as_str())
    {
        return Err(Problem::new(Kind::InvalidParameter, "status: complete, partial or none"));
    }
    let texts = [
        ("app", filter.app.as_deref()),
        ("version", filter.version.as_deref()),
        ("build", filter.build.as_deref()),
        ("type", filter.kind.as_deref()),
        ("model", filter.model.as_deref()),
        ("os_version", filter.os_version.as_deref()),
        ("key", filter.key.as_ref().map(|(name, _)| name.as_str())),
        ("key", filter.key.as_ref().map(|(_, value)| value.as_str())),
    ];
    check_texts(Kind::InvalidParameter, FILTER_BYTES, texts)?;
    Ok(filter)
}
