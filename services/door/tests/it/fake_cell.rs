//! A cell that a test makes up: it answers questions by the beginning of the path or of the body, and tells what it got.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::HeaderValue;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// A request that was passed on to a cell.
#[derive(Clone, Debug)]
pub struct PassedRequest {
    pub method: String,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// The cell.
#[derive(Clone)]
pub struct FakeCell {
    pub url: String,
    seen: Arc<Seen>,
}

struct Seen {
    tenant: &'static str,
    requests: Mutex<Vec<PassedRequest>>,
    questions: Mutex<usize>,
    /// Told when the first piece of the body of `/slow` has come.
    begun: Notify,
    /// Lets the answer of `/events` end.
    finish: Notify,
}

impl FakeCell {
    /// Starts a cell that has this tenant.
    pub async fn start(tenant: &'static str) -> FakeCell {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Seen {
            tenant,
            requests: Mutex::default(),
            questions: Mutex::default(),
            begun: Notify::new(),
            finish: Notify::new(),
        });
        let app = axum::Router::new().fallback(answer_request).with_state(seen.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        FakeCell { url, seen }
    }

    /// The requests that came here, and are no questions.
    pub fn list_requests(&self) -> Vec<PassedRequest> {
        self.seen.requests.lock().clone()
    }

    /// The only request that came here.
    pub fn take_request(&self) -> PassedRequest {
        let mut requests = std::mem::take(&mut *self.seen.requests.lock());
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// The number of questions about requests.
    pub fn count_questions(&self) -> usize {
        *self.seen.questions.lock()
    }

    /// Waits for the first piece of the body of `/slow`.
    pub async fn wait_for_begin(&self) {
        self.seen.begun.notified().await;
    }

    /// Lets the answer of `/events` end.
    pub fn finish_events(&self) {
        self.seen.finish.notify_one();
    }
}

async fn answer_request(State(seen): State<Arc<Seen>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().as_str().to_owned();
    if parts.headers.contains_key("unslide-ask") {
        let body = to_bytes(body, 1 << 20).await.unwrap();
        return answer_question(&seen, &path, &body);
    }
    if path.ends_with("/events") {
        let events = futures::stream::unfold(0, move |number| {
            let seen = seen.clone();
            async move {
                match number {
                    0 => Some((Ok::<_, std::io::Error>("data: one\n\n"), 1)),
                    1 => {
                        seen.finish.notified().await;
                        Some((Ok("data: two\n\n"), 2))
                    }
                    _ => None,
                }
            }
        });
        return ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response();
    }
    let mut body = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(piece) = futures::StreamExt::next(&mut body).await {
        let Ok(piece) = piece else { return StatusCode::BAD_REQUEST.into_response() };
        bytes.extend_from_slice(&piece);
        seen.begun.notify_one();
    }
    let length = bytes.len().to_string();
    let passed =
        PassedRequest { method: parts.method.to_string(), path, headers: parts.headers, body: bytes };
    seen.requests.lock().push(passed);
    let headers = [("unslide-tenant", "secret"), ("connection", "x-hop"), ("x-hop", "a"), ("x-kept", "b")];
    (headers, format!("{} {length}", seen.tenant)).into_response()
}

fn answer_question(seen: &Seen, path: &str, body: &[u8]) -> Response {
    let mut response = if path == "/unslide-ask" {
        StatusCode::NOT_FOUND.into_response()
    } else {
        *seen.questions.lock() += 1;
        let is_own =
            path.starts_with(&format!("/{}/", seen.tenant)) || body.starts_with(seen.tenant.as_bytes());
        let status = match path {
            _ if is_own => StatusCode::NO_CONTENT,
            "/docs" => StatusCode::OK,
            _ => StatusCode::NOT_FOUND,
        };
        let mut response = status.into_response();
        if is_own {
            response.headers_mut().insert("unslide-tenant", HeaderValue::from_static(seen.tenant));
        }
        response
    };
    response.headers_mut().insert("unslide-ask", HeaderValue::from_static("tenant"));
    response
}
