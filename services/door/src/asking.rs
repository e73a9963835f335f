//! Questions to the cells: which tenant is this request of?

use crate::cells::{CellClient, CellEndpoint};
use crate::head::{ASK_HEADER, FOR_TENANT, RequestHead, TENANT_HEADER};
use crate::metrics::Metrics;
use crate::refusal::full_body;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use unslide_model::TenantId;

/// How long a cell may take to answer a question.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two tries of cells.
const TRY_INTERVAL: Duration = Duration::from_secs(5);
/// A path without a route. An api that understands the question says so for any path.
const TRIED_PATH: PathAndQuery = PathAndQuery::from_static("/unslide-ask");

/// The answer of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CellAnswer {
    Tenant(TenantId),
    /// Anyone gets the resource.
    Anyone,
    /// This cell does not know the caller.
    Unknown,
    /// The cell does not answer now.
    Silent,
}

/// The answer of all cells together.
#[derive(Clone, Debug)]
pub enum CallerAnswer {
    Tenant {
        tenant: TenantId,
        cell: Arc<CellEndpoint>,
    },
    /// Anyone gets the resource from any cell.
    Anyone {
        cell: Arc<CellEndpoint>,
        is_complete: bool,
    },
    /// No cell knows the caller.
    Unknown,
    /// No cell that answers knows the caller, and some do not answer.
    Silent,
}

/// Asks cells.
#[derive(Clone)]
pub struct CellQuestions {
    pub client: CellClient,
    pub metrics: Metrics,
}

impl CellQuestions {
    /// Asks all cells at once whose a request is. The first tenant that one names is the answer. `beginning` is the beginning of
    /// the body, for requests that say there whose they are.
    pub async fn find_caller(
        &self,
        cells: &[Arc<CellEndpoint>],
        head: &RequestHead,
        beginning: Option<&Bytes>,
    ) -> CallerAnswer {
        let headers = head.question_headers();
        let mut answers: FuturesUnordered<_> = cells
            .iter()
            .map(|cell| {
                let headers = headers.clone();
                async move { (cell, self.ask_cell(cell, head, headers, beginning).await) }
            })
            .collect();
        let (mut anyone, mut is_complete) = (None, true);
        while let Some((cell, answer)) = answers.next().await {
            match answer {
                CellAnswer::Tenant(tenant) => return CallerAnswer::Tenant { tenant, cell: cell.clone() },
                CellAnswer::Anyone => anyone = Some(cell.clone()),
                CellAnswer::Unknown => {}
                CellAnswer::Silent => is_complete = false,
            }
        }
        match anyone {
            Some(cell) => CallerAnswer::Anyone { cell, is_complete },
            None if is_complete => CallerAnswer::Unknown,
            None => CallerAnswer::Silent,
        }
    }

    async fn ask_cell(
        &self,
        cell: &CellEndpoint,
        head: &RequestHead,
        headers: HeaderMap,
        beginning: Option<&Bytes>,
    ) -> CellAnswer {
        let asked = async {
            // An api that does not understand the question would act on the request.
            if !cell.is_answering() && !self.try_cell(cell).await {
                return None;
            }
            let body = full_body(beginning.cloned().unwrap_or_default());
            let mut request = Request::new(body);
            *request.method_mut() = head.method.clone();
            *request.uri_mut() = cell.address_of(&head.path);
            *request.headers_mut() = headers;
            let answer = match self.client.request(request).await {
                Ok(response) => read_answer(response.status(), response.headers()),
                Err(_) => None,
            };
            if answer.is_none() {
                self.set_answering(cell, false);
            }
            answer
        };
        // An api without its database takes longer, and still knows what a question is.
        let answer = tokio::time::timeout(ASK_TIMEOUT, asked).await.ok().flatten();
        answer.unwrap_or(CellAnswer::Silent)
    }

    /// Tries whether the api of a cell answers and trusts this door.
    async fn try_cell(&self, cell: &CellEndpoint) -> bool {
        let mut request = Request::new(full_body(Bytes::new()));
        *request.method_mut() = Method::GET;
        *request.uri_mut() = cell.address_of(&TRIED_PATH);
        request.headers_mut().insert(ASK_HEADER, FOR_TENANT);
        let answers = match self.client.request(request).await {
            Ok(response) => {
                let trusts_door = response.headers().get(ASK_HEADER) == Some(&FOR_TENANT);
                cell.warn_of_distrust(!trusts_door);
                trusts_door
            }
            Err(_) => false,
        };
        self.set_answering(cell, answers);
        answers
    }

    fn set_answering(&self, cell: &CellEndpoint, answers: bool) {
        self.metrics.set_cell(&cell.name, answers);
        if cell.set_answering(answers) {
            let cell = &*cell.name;
            match answers {
                true => tracing::info!(cell, "a cell answers"),
                false => tracing::warn!(cell, "a cell does not answer"),
            }
        }
    }

    /// Tries all cells at once.
    pub async fn try_cells(&self, cells: &[Arc<CellEndpoint>]) {
        let tries = cells.iter().map(|cell| async move {
            if tokio::time::timeout(ASK_TIMEOUT, self.try_cell(cell)).await.is_err() {
                self.set_answering(cell, false);
            }
        });
        join_all(tries).await;
    }

    /// Tries the cells that `list` returns again and again.
    pub async fn keep_trying(&self, list: impl Fn() -> Arc<[Arc<CellEndpoint>]>) {
        let mut before = list();
        loop {
            tokio::time::sleep(TRY_INTERVAL).await;
            let cells = list();
            for gone in before.iter().filter(|own| cells.iter().all(|cell| cell.name != own.name)) {
                self.metrics.forget_cell(&gone.name);
            }
            self.try_cells(&cells).await;
            before = cells;
        }
    }
}

/// Reads the answer of a cell. Returns None if it does not show that the api understood the question.
fn read_answer(status: StatusCode, headers: &HeaderMap) -> Option<CellAnswer> {
    if headers.get(ASK_HEADER) != Some(&FOR_TENANT) {
        return None;
    }
    let tenant = headers.get(TENANT_HEADER).map(HeaderValue::to_str);
    Some(match (tenant, status) {
        (Some(tenant), _) => CellAnswer::Tenant(TenantId::new(tenant.ok()?).ok()?),
        (None, StatusCode::OK) => CellAnswer::Anyone,
        (None, StatusCode::NOT_FOUND) => CellAnswer::Unknown,
        (None, _) => CellAnswer::Silent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_only_if_the_question_was_understood() {
        let read = |status: u16, headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
            read_answer(StatusCode::from_u16(status).unwrap(), &headers.collect())
        };
        let heard = ("unslide-ask", "tenant");
        let acme = TenantId::new("acme").unwrap();
        assert_eq!(read(204, &[heard, ("unslide-tenant", "acme")]), Some(CellAnswer::Tenant(acme)));
        assert_eq!(read(204, &[("unslide-tenant", "acme")]), None);
        assert_eq!(read(200, &[heard]), Some(CellAnswer::Anyone));
        assert_eq!(read(404, &[heard]), Some(CellAnswer::Unknown));
        assert_eq!(read(503, &[heard]), Some(CellAnswer::Silent));
        assert_eq!(read(204, &[heard, ("unslide-tenant", "No Tenant")]), None);
    }
}
