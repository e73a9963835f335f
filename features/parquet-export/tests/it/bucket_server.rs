//! A bucket in memory that refuses or holds requests as a test wants. It checks no signature.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use reqwest::Method;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The objects by their path.
type Objects = BTreeMap<String, Vec<u8>>;

/// A status for requests of a method with this end of their path.
#[derive(Clone)]
struct Refusal {
    method: Method,
    end: &'static str,
    status: u16,
}

#[derive(Clone)]
pub struct BucketServer {
    objects: Arc<Mutex<Objects>>,
    refused: Arc<Mutex<Vec<Refusal>>>,
    /// The number of manifests that wait, while they are held.
    held: Arc<watch::Sender<(bool, usize)>>,
    pub port: u16,
}

impl BucketServer {
    pub async fn start() -> BucketServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = BucketServer {
            objects: Arc::default(),
            refused: Arc::default(),
            held: Arc::new(watch::Sender::new((false, 0))),
            port: listener.local_addr().unwrap().port(),
        };
        let app = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Answers to requests of this method, for paths with this end, with a status.
    pub fn refuse(&self, method: Method, end: &'static str, status: u16) {
        self.refused.lock().push(Refusal { method, end, status });
    }

    pub fn refuse_nothing(&self) {
        self.refused.lock().clear();
    }

    /// Gives no answer to manifests, or all that wait for one.
    pub fn hold_manifests(&self, hold: bool) {
        self.held.send_modify(|held| held.0 = hold);
    }

    /// Waits until a manifest is held.
    pub async fn wait_until_held(&self) {
        self.held.subscribe().wait_for(|(_, waiting)| *waiting > 0).await.unwrap();
    }

    /// Returns the objects by their path, which has the bucket and the escapes of the URL.
    pub fn objects(&self) -> Objects {
        self.objects.lock().clone()
    }

    /// Returns the paths of objects with this part.
    pub fn paths(&self, part: &str) -> Vec<String> {
        self.objects.lock().keys().filter(|path| path.contains(part)).cloned().collect()
    }
}

async fn answer(
    State(server): State<BucketServer>,
    method: Method,
    uri: axum::http::Uri,
    body: Bytes,
) -> Response {
    let path = uri.path().to_owned();
    let matches = |refused: &&Refusal| refused.method == method && path.ends_with(refused.end);
    let refused = server.refused.lock().iter().find(matches).map(|refused| refused.status);
    if let Some(status) = refused {
        return axum::http::StatusCode::from_u16(status).unwrap().into_response();
    }
    if path.contains("/manifests/") && server.held.borrow().0 {
        server.held.send_modify(|held| held.1 += 1);
        server.held.subscribe().wait_for(|(is_held, _)| !is_held).await.unwrap();
    }
    if method == Method::PUT {
        server.objects.lock().insert(path, body.to_vec());
    } else {
        server.objects.lock().remove(&path);
    }
    axum::http::StatusCode::OK.into_response()
}
