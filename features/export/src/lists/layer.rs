//! Exports of the API: the layer around the operations that answer lists.

use super::format::negotiate;
use super::{ExportFormat, ExportRequest, MOST_ENTRIES, PAGE, PAGE_BYTES};
use crate::http::problem::{Kind, Problem};
use crate::limits::permits::RequestSlot;
use crate::list_tables::{ExportTable, table};
use crate::requests::input::parameter;
use crate::state::Api;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use form_urlencoded::Serializer;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Uri};

/// Answers a list as a file where the client asks for one or the route has an [`ExportFormat`], and leaves all other
/// requests as they are.
pub async fn export(State(api): State<Api>, request: Request, next: Next) -> Response {
    let table =
        request.extensions().get::<MatchedPath>().and_then(|path| table(&api.features, path.as_str()));
    let Some(table) = table.filter(|_| request.method().is_safe()) else { return next.run(request).await };
    let (mut parts, body) = request.into_parts();
    let asked = Asked::of(&parts);
    let format = match parts.extensions.get::<ExportFormat>() {
        Some(format) => Ok(Some(*format)),
        None => negotiate(asked.format.as_deref(), &parts.headers, table.has_ids()),
    };
    let format = match format {
        Ok(Some(format)) => format,
        Ok(None) => {
            if asked.format.is_some() {
                parts.uri = asked.address(&parts.uri, asked.limit.as_deref(), asked.cursor.as_deref());
            }
            return next.run(Request::from_parts(parts, body)).await;
        }
        Err(problem) => return problem.into_response(),
    };
    let limit = match asked.most() {
        Ok(limit) => limit,
        Err(problem) => return problem.into_response(),
    };
    // A client that asks for the head alone gets that of the same answer.
    parts.method = Method::GET;
    let wanted = ExportRequest { format, table, limit };
    let pages = OperationPages { api: api.clone(), parts, next, asked, table };
    match pages.ask(pages.parts.clone(), pages.asked.cursor.as_deref()).await {
        Ok(Ok(page)) => {
            let slot = pages.parts.extensions.get::<RequestSlot>().map(RequestSlot::caller);
            let Some(tenant) = slot.as_ref().and_then(|caller| caller.tenant()) else {
                return Problem::internal("a list was answered without a tenant").into_response();
            };
            wanted.answer(&api, tenant, page, pages).await.unwrap_or_else(IntoResponse::into_response)
        }
        Ok(Err(refused)) => refused,
        Err(problem) => problem.into_response(),
    }
}

/// The parameters of a request that an export reads itself, and the others.
struct Asked {
    format: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
    others: Vec<(String, String)>,
}

impl Asked {
    fn of(parts: &Parts) -> Asked {
        let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let mut asked = Asked { format: None, limit: None, cursor: None, others: Vec::new() };
        for (name, value) in query.into_owned() {
            let known = match name.as_str() {
                "format" => &mut asked.format,
                "limit" => &mut asked.limit,
                "cursor" => &mut asked.cursor,
                _ => {
                    asked.others.push((name, value));
                    continue;
                }
            };
            // What is given twice is left for the operation to refuse.
            match known {
                Some(_) => asked.others.push((name, value)),
                None => *known = Some(value),
            }
        }
        asked
    }

    /// The most entries that the client wants.
    fn most(&self) -> Result<Option<u64>, Problem> {
        let limit: Option<u64> = self.limit.as_deref().map(|text| parameter("limit", text)).transpose()?;
        match limit {
            Some(limit) if !(1..=MOST_ENTRIES).contains(&limit) => {
                Err(Problem::new(Kind::InvalidParameter, format!("limit: 1 to {MOST_ENTRIES}")))
            }
            limit => Ok(limit),
        }
    }

    /// The address of the operation for a page.
    fn address(&self, uri: &Uri, limit: Option<&str>, cursor: Option<&str>) -> Uri {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(&self.others);
        query.extend_pairs(
            [("limit", limit), ("cursor", cursor)].iter().filter_map(|(name, value)| Some((name, (*value)?))),
        );
        let text = format!("{}?{}", uri.path(), query.finish());
        text.parse().unwrap_or_else(|_| uri.clone())
    }
}

/// The pages of a list, as its operation answers them to the client's request.
pub struct OperationPages {
    api: Api,
    parts: Parts,
    next: Next,
    asked: Asked,
    table: &'static ExportTable,
}

impl OperationPages {
    /// The page at a cursor, or how the operation refused it.
    async fn ask(&self, mut parts: Parts, cursor: Option<&str>) -> Result<Result<Bytes, Response>, Problem> {
        // The console's own pages know their limit, and lead from the sign-in back to their address.
        let own = parts.extensions.get::<ExportFormat>().is_some();
        let limit = (self.table.has_pages && !own).then(|| PAGE.to_string());
        parts.uri = self.asked.address(&parts.uri, limit.as_deref(), cursor);
        let response = self.next.clone().run(Request::from_parts(parts, Body::empty())).await;
        let is_list = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        if !response.status().is_success() || !is_list {
            return Ok(Err(response));
        }
        to_bytes(response.into_body(), PAGE_BYTES).await.map(Ok).map_err(Problem::internal)
    }

    /// The page at a cursor, in a slot of its own.
    pub(super) async fn page(&self, cursor: &str) -> Result<Bytes, Problem> {
        let slot = self.api.permits.slot()?;
        let mut parts = self.parts.clone();
        parts.extensions.insert(slot.clone());
        let answer = self.ask(parts, Some(cursor)).await;
        slot.release();
        answer?.map_err(|refused| {
            let problem = refused.extensions().get::<Problem>().cloned();
            let status = refused.status();
            // A page of the sign-in in the place of a list.
            let signed_out = status.is_success() || status.is_redirection();
            let kind = if signed_out { Kind::Unauthorized } else { Kind::of_status(status) };
            problem.unwrap_or_else(|| Problem::bare(kind))
        })
    }
}
