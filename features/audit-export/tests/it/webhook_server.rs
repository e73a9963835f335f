//! A server that takes webhooks: it keeps what it was sent, and answers as a test wants.

use crate::audit_export::shop::SECRET;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use unslide_api::feature::webhook_signature::WebhookSigner;
use unslide_model::Secret;
use unslide_world::wait_until;

#[derive(Default)]
struct Received {
    /// Entries of each request.
    requests: Vec<Vec<Value>>,
    ids: Vec<String>,
}

#[derive(Clone)]
pub struct WebhookServer {
    received: Arc<Mutex<Received>>,
    /// The status of answers.
    status: Arc<Mutex<u16>>,
    is_held: watch::Sender<bool>,
    pub port: u16,
}

impl WebhookServer {
    pub async fn start() -> WebhookServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = WebhookServer {
            received: Arc::default(),
            status: Arc::new(Mutex::new(204)),
            is_held: watch::Sender::new(false),
            port: listener.local_addr().unwrap().port(),
        };
        let app = Router::new().route("/hidden-path", post(take_entries)).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hidden-path", self.port)
    }

    pub fn answer_with(&self, status: u16) {
        *self.status.lock() = status;
    }

    /// Lets requests wait for their answer, or answers them.
    pub fn hold_answers(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    /// Returns the entries of each request that had a good signature.
    pub fn requests(&self) -> Vec<Vec<Value>> {
        self.received.lock().requests.clone()
    }

    pub fn entries(&self) -> Vec<Value> {
        self.requests().concat()
    }

    /// Returns the ids of requests.
    pub fn ids(&self) -> Vec<String> {
        self.received.lock().ids.clone()
    }

    /// Waits until it has this many entries, and returns them.
    pub async fn wait_for_entries(&self, count: usize) -> Vec<Value> {
        assert!(wait_until(async || self.entries().len() >= count).await, "{:?}", self.entries());
        self.entries()
    }
}

async fn take_entries(State(server): State<WebhookServer>, headers: HeaderMap, body: String) -> StatusCode {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let (id, at) = (header("webhook-id"), header("webhook-timestamp"));
    let signer = WebhookSigner::from_secret(&Secret::new(SECRET)).unwrap();
    assert_eq!(header("webhook-signature"), signer.sign_message(&id, at.parse().unwrap(), &body));
    let sent: Value = serde_json::from_str(&body).unwrap();
    {
        let mut received = server.received.lock();
        received.requests.push(sent["entries"].as_array().unwrap().clone());
        received.ids.push(id);
    }
    server.is_held.subscribe().wait_for(|is_held| !is_held).await.unwrap();
    StatusCode::from_u16(*server.status.lock()).unwrap()
}
