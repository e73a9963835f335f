//! The question of a door, which passes requests on to several cells: which tenant is this request of?
//!
//! A request with the header `unslide-ask: tenant` ends as soon as its caller is known, before it changes anything. The answer
//! names the tenant in the header `unslide-tenant`, and has no body. Only a trusted proxy may ask.

use crate::limits::slot::Caller;
use crate::problem::{Kind, Problem};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use unslide_model::TenantId;

const ASK_HEADER: HeaderName = HeaderName::from_static("unslide-ask");
const TENANT_HEADER: HeaderName = HeaderName::from_static("unslide-tenant");
/// The only question.
const FOR_TENANT: HeaderValue = HeaderValue::from_static("tenant");

tokio::task_local! {
    /// Set while a request that only asks runs.
    static ASKING: ();
}

/// Runs a request that only asks for its tenant. Nothing counts its outcome.
pub async fn run_question<F: Future>(request: F) -> F::Output {
    ASKING.scope((), request).await
}

/// Returns true within [`run_question`].
#[must_use]
pub fn is_question() -> bool {
    ASKING.try_with(|()| ()).is_ok()
}

/// Marks a request that only asks for its tenant. Clones share the answer.
#[derive(Clone, Debug, Default)]
pub struct CallerQuestion(Arc<OnceLock<TenantId>>);

impl CallerQuestion {
    /// Returns the question of a request with these headers, if it asks.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Option<CallerQuestion> {
        (*headers.get(ASK_HEADER)? == FOR_TENANT).then(CallerQuestion::default)
    }

    /// Keeps the tenant of the caller, and returns the problem that ends the request.
    #[must_use]
    pub fn take_answer(&self, caller: &Caller) -> Problem {
        if let Some(tenant) = caller.tenant() {
            // The first one counts: that of the key.
            let _ = self.0.set(tenant.clone());
        }
        Problem::new(Kind::InvalidRequest, "the request asks for its tenant, and goes no further")
    }

    /// Returns the answer for the response that the request ended with: 204 with the name of the tenant, 200 if anyone gets this
    /// resource, 404 if the caller is not known, and the status of a response that says that the service cannot answer now.
    #[must_use]
    pub fn render_answer(&self, response: &Response) -> Response {
        let status = response.status();
        let tenant = self.0.get().and_then(|tenant| HeaderValue::from_str(tenant.as_str()).ok());
        let mut answer = match &tenant {
            Some(_) => StatusCode::NO_CONTENT,
            None if status.is_success() => StatusCode::OK,
            None if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => status,
            None => StatusCode::NOT_FOUND,
        }
        .into_response();
        // The door asks nothing of a server that does not show that it understands the question.
        answer.headers_mut().insert(ASK_HEADER, FOR_TENANT);
        if let Some(tenant) = tenant {
            answer.headers_mut().insert(TENANT_HEADER, tenant);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(caller: Option<Caller>, status: StatusCode) -> (u16, Option<String>) {
        let question = CallerQuestion::default();
        if let Some(caller) = caller {
            let problem = question.clone().take_answer(&caller);
            assert_eq!(problem.kind(), Kind::InvalidRequest);
        }
        let answer = question.render_answer(&status.into_response());
        assert_eq!(answer.headers()[ASK_HEADER], "tenant");
        let tenant = answer.headers().get(TENANT_HEADER).map(|tenant| tenant.to_str().unwrap().to_owned());
        (answer.status().as_u16(), tenant)
    }

    #[test]
    fn the_answer_names_the_tenant_or_says_why_it_is_not_known() {
        let acme = || TenantId::new("acme").unwrap();
        let named = (204, Some("acme".to_owned()));
        assert_eq!(answer(Some(Caller::Public(acme())), StatusCode::BAD_REQUEST), named);
        assert_eq!(answer(Some(Caller::Operator(acme())), StatusCode::SERVICE_UNAVAILABLE), named);
        for (ended, answered) in
            [(200, 200), (201, 200), (303, 404), (401, 404), (404, 404), (429, 429), (500, 500), (503, 503)]
        {
            assert_eq!(answer(None, StatusCode::from_u16(ended).unwrap()), (answered, None), "{ended}");
            let unknown = answer(Some(Caller::Unknown), StatusCode::from_u16(ended).unwrap());
            assert_eq!(unknown, (answered, None), "{ended}");
        }
    }

    #[test]
    fn only_the_header_with_its_word_asks() {
        let headers =
            |value: &'static str| HeaderMap::from_iter([(ASK_HEADER, HeaderValue::from_static(value))]);
        assert!(CallerQuestion::from_headers(&headers("tenant")).is_some());
        assert!(CallerQuestion::from_headers(&headers("key")).is_none());
        assert!(CallerQuestion::from_headers(&HeaderMap::new()).is_none());
    }
}
