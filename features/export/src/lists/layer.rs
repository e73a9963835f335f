//! The layer around the operations that answer lists.

use super::format::negotiate_format;
use super::{ExportFormat, ExportRequest, FOLDER, MAX_ENTRIES, PAGE_BYTES};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use form_urlencoded::Serializer;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Uri};
use std::sync::Arc;
use unslide_api::feature::lists::Lists;
use unslide_api::feature::lists::{ListTable, PAGE_ENTRIES, RequestSlot};
use unslide_api::feature::operation::{Kind, Problem, parse_parameter};

/// A list that a route answers.
#[derive(Clone, Copy)]
struct RoutedList {
    table: &'static ListTable,
    /// True in the folder of the console. A list there is always CSV.
    is_in_console: bool,
}

impl RoutedList {
    fn from_request(lists: &Lists, request: &Request) -> Option<RoutedList> {
        let path = request.extensions().get::<MatchedPath>()?.as_str();
        let page = path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/'));
        let is_it = |table: &ListTable| page.map_or(table.path == path, |page| table.name == page);
        let table = lists.tables.iter().copied().find(|table| is_it(table))?;
        Some(RoutedList { table, is_in_console: page.is_some() })
    }
}

/// Answers a list as a file if the client requests one or the route is one of the console, and does not change other
/// requests.
pub async fn answer_list(lists: Arc<Lists>, request: Request, next: Next) -> Response {
    let list = RoutedList::from_request(&lists, &request).filter(|_| request.method().is_safe());
    let Some(list) = list else { return next.run(request).await };
    let (mut parts, body) = request.into_parts();
    let query = ListQuery::from_parts(&parts);
    let format = match list.is_in_console {
        true => Ok(Some(ExportFormat::Csv)),
        false => negotiate_format(query.format.as_deref(), &parts.headers, list.table.has_ids()),
    };
    let format = match format {
        Ok(Some(format)) => format,
        Ok(None) => {
            if query.format.is_some() {
                parts.uri = query.page_address(&parts.uri, query.limit.as_deref(), query.cursor.as_deref());
            }
            return next.run(Request::from_parts(parts, body)).await;
        }
        Err(problem) => return problem.into_response(),
    };
    let limit = match query.entry_limit() {
        Ok(limit) => limit,
        Err(problem) => return problem.into_response(),
    };
    // A client that requests the head alone gets that of the same answer.
    parts.method = Method::GET;
    let export = ExportRequest { format, table: list.table, limit };
    let pages = OperationPages { lists: lists.clone(), parts, next, query, list };
    match pages.request_page(pages.parts.clone(), pages.query.cursor.as_deref()).await {
        Ok(OperationAnswer::Page(page)) => {
            let slot = pages.parts.extensions.get::<RequestSlot>().map(RequestSlot::caller);
            let Some(tenant) = slot.as_ref().and_then(|caller| caller.tenant()) else {
                return Problem::internal("a list was answered without a tenant").into_response();
            };
            export
                .into_response(&lists.capacity, tenant, page, pages)
                .await
                .unwrap_or_else(IntoResponse::into_response)
        }
        Ok(OperationAnswer::Refusal(refusal)) => refusal,
        Err(problem) => problem.into_response(),
    }
}

/// The parameters of a request that an export reads itself, and the others.
struct ListQuery {
    format: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
    others: Vec<(String, String)>,
}

impl ListQuery {
    fn from_parts(parts: &Parts) -> ListQuery {
        let pairs = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let mut query = ListQuery { format: None, limit: None, cursor: None, others: Vec::new() };
        for (name, value) in pairs.into_owned() {
            let known = match name.as_str() {
                "format" => &mut query.format,
                "limit" => &mut query.limit,
                "cursor" => &mut query.cursor,
                _ => {
                    query.others.push((name, value));
                    continue;
                }
            };
            // The operation refuses a parameter that comes twice.
            match known {
                Some(_) => query.others.push((name, value)),
                None => *known = Some(value),
            }
        }
        query
    }

    /// Returns the most entries that the client wants.
    fn entry_limit(&self) -> Result<Option<u64>, Problem> {
        let limit: Option<u64> =
            self.limit.as_deref().map(|text| parse_parameter("limit", text)).transpose()?;
        match limit {
            Some(limit) if !(1..=MAX_ENTRIES).contains(&limit) => {
                Err(Problem::new(Kind::InvalidParameter, format!("limit: 1 to {MAX_ENTRIES}")))
            }
            limit => Ok(limit),
        }
    }

    /// Returns the address of the operation for a page.
    fn page_address(&self, uri: &Uri, limit: Option<&str>, cursor: Option<&str>) -> Uri {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(&self.others);
        query.extend_pairs(
            [("limit", limit), ("cursor", cursor)].iter().filter_map(|(name, value)| Some((name, (*value)?))),
        );
        let text = format!("{}?{}", uri.path(), query.finish());
        text.parse().unwrap_or_else(|_| uri.clone())
    }
}

/// The answer of an operation to a request for a page.
enum OperationAnswer {
    Page(Bytes),
    /// An answer that is no list, such as a problem or a page of the sign-in.
    Refusal(Response),
}

/// The pages of a list, as its operation answers them to the client's request.
pub struct OperationPages {
    lists: Arc<Lists>,
    parts: Parts,
    next: Next,
    query: ListQuery,
    list: RoutedList,
}

impl OperationPages {
    /// Requests the page at a cursor.
    async fn request_page(&self, mut parts: Parts, cursor: Option<&str>) -> Result<OperationAnswer, Problem> {
        // A list of the console knows its limit, and leads from the sign-in back to its address.
        let is_limited = self.list.table.has_pages && !self.list.is_in_console;
        let limit = is_limited.then(|| PAGE_ENTRIES.to_string());
        parts.uri = self.query.page_address(&parts.uri, limit.as_deref(), cursor);
        let response = self.next.clone().run(Request::from_parts(parts, Body::empty())).await;
        let is_list = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        if !response.status().is_success() || !is_list {
            return Ok(OperationAnswer::Refusal(response));
        }
        to_bytes(response.into_body(), PAGE_BYTES).await.map(OperationAnswer::Page).map_err(Problem::internal)
    }

    /// Requests the page at a cursor, in a slot of its own.
    pub(super) async fn read_page(&self, cursor: &str) -> Result<Bytes, Problem> {
        let slot = RequestSlot::take(&self.lists.capacity.permits)?;
        let mut parts = self.parts.clone();
        parts.extensions.insert(slot.clone());
        let answer = self.request_page(parts, Some(cursor)).await;
        slot.release();
        match answer? {
            OperationAnswer::Page(page) => Ok(page),
            OperationAnswer::Refusal(refusal) => {
                let status = refusal.status();
                // A page of the sign-in instead of a list.
                let is_signed_out = status.is_success() || status.is_redirection();
                let kind = if is_signed_out { Kind::Unauthorized } else { Kind::from_status(status) };
                let problem = refusal.extensions().get::<Problem>().cloned();
                Err(problem.unwrap_or_else(|| Problem::from_kind(kind)))
            }
        }
    }
}
