//! A symbol server that has the files that a test gives it, and remembers what it was asked for.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The answer to a path.
#[derive(Clone)]
pub enum Played {
    File(Vec<u8>),
    /// A file in two parts, without its size.
    WithoutSize(Vec<u8>),
    Status(u16),
    /// A redirect to this address.
    Redirect(String),
    /// No answer.
    Silent,
    /// The head of an answer, and nothing more.
    SilentBody,
}

#[derive(Clone)]
pub struct SymbolServer {
    answers: Arc<Mutex<BTreeMap<String, Played>>>,
    requests: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    pub port: u16,
}

impl SymbolServer {
    pub async fn start() -> SymbolServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = SymbolServer {
            answers: Arc::default(),
            requests: Arc::default(),
            port: listener.local_addr().unwrap().port(),
        };
        let app = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    /// Returns the address, with a path that is a secret.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hidden-path/", self.port)
    }

    /// Plays an answer to a path behind the address.
    pub fn play(&self, path: &str, played: Played) {
        self.answers.lock().insert(format!("/hidden-path/{path}"), played);
    }

    /// Returns the paths that were asked for.
    pub fn paths(&self) -> Vec<String> {
        self.requests.lock().iter().map(|(path, _)| path.clone()).collect()
    }

    /// Returns a header of the last request.
    pub fn last_header(&self, name: &str) -> Option<String> {
        let requests = self.requests.lock();
        Some(requests.last()?.1.get(name)?.to_str().unwrap().to_owned())
    }
}

async fn answer(State(server): State<SymbolServer>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    server.requests.lock().push((path.clone(), request.headers().clone()));
    let played = server.answers.lock().get(&path).cloned().unwrap_or(Played::Status(404));
    match played {
        Played::File(bytes) => bytes.into_response(),
        Played::WithoutSize(bytes) => {
            let (first, rest) = bytes.split_at(bytes.len() / 2);
            let parts = [first, rest].map(|part| Ok::<_, std::io::Error>(Bytes::copy_from_slice(part)));
            Body::from_stream(futures::stream::iter(parts)).into_response()
        }
        Played::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Played::Redirect(to) => (StatusCode::FOUND, [(header::LOCATION, to)]).into_response(),
        Played::Silent => std::future::pending().await,
        Played::SilentBody => {
            Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>()).into_response()
        }
    }
}
