//! The public HTTP API as a customer uses it.

use serde_json::Value;
use std::time::Duration;

/// A key of one tenant at one api.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl Client {
    /// A client of the api at `url` with an API key.
    ///
    /// # Panics
    /// If the HTTP client cannot be made.
    #[must_use]
    pub fn new(url: &str, key: &str) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(Duration::from_secs(300)).build().expect("a client");
        Client { http, url: url.trim_end_matches('/').to_owned(), key: key.to_owned() }
    }

    /// GETs a path; the status and the JSON body.
    ///
    /// # Panics
    /// If there is no answer, or not JSON.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key);
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.bytes().await.expect("a body");
        (status, serde_json::from_slice(&body).unwrap_or_else(|e| panic!("GET {path}: {e}: {body:?}")))
    }

    /// GETs a path as plain text.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn get_text(&self, path: &str) -> (u16, String) {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key);
        let answer = request.header("accept", "text/plain").send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }

    /// POSTs bytes, or GETs without them. Returns the status and the JSON body, or `None` if no whole answer
    /// comes within ten seconds.
    pub async fn try_request(&self, path: &str, body: Option<Vec<u8>>) -> Option<(u16, Value)> {
        let url = format!("{}{path}", self.url);
        let request = match body {
            Some(body) => self.http.post(url).body(body),
            None => self.http.get(url),
        };
        self.attempt_request(request).await
    }

    /// POSTs JSON. Returns the status and the JSON body, or `None` if no whole answer comes within ten
    /// seconds.
    pub async fn attempt_json(&self, path: &str, json: &str) -> Option<(u16, Value)> {
        let request = self.http.post(format!("{}{path}", self.url)).body(json.to_owned());
        self.attempt_request(request.header("content-type", "application/json")).await
    }

    /// Calls a tool of `/mcp`. Returns the status and the JSON body, or `None` if no whole answer comes within ten
    /// seconds.
    pub async fn attempt_tool(&self, name: &str, arguments: &Value) -> Option<(u16, Value)> {
        let call = serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}
        });
        let request = self.http.post(format!("{}/mcp", self.url)).body(call.to_string());
        let request = request.header("accept", "application/json, text/event-stream");
        self.attempt_request(request.header("content-type", "application/json")).await
    }

    /// POSTs a form; the status and the JSON body, and nothing if no whole answer comes within ten seconds.
    pub async fn attempt_form(&self, path: &str, form: reqwest::multipart::Form) -> Option<(u16, Value)> {
        self.attempt_request(self.http.post(format!("{}{path}", self.url)).multipart(form)).await
    }

    async fn attempt_request(&self, request: reqwest::RequestBuilder) -> Option<(u16, Value)> {
        let request = request.bearer_auth(&self.key).timeout(Duration::from_secs(10));
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// PUTs bytes. Returns `None` if they were not accepted within ten seconds.
    pub async fn attempt_put(&self, path: &str, body: Vec<u8>) -> Option<()> {
        let request = self.http.put(format!("{}{path}", self.url)).body(body).bearer_auth(&self.key);
        let answer = request.timeout(Duration::from_secs(10)).send().await.ok()?;
        answer.status().is_success().then_some(())
    }

    /// POSTs bytes; the status and the JSON body.
    ///
    /// # Panics
    /// If there is no answer, or not JSON.
    pub async fn post(&self, path: &str, body: Vec<u8>) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.key).body(body);
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.bytes().await.expect("a body");
        (status, serde_json::from_slice(&body).unwrap_or_else(|e| panic!("POST {path}: {e}: {body:?}")))
    }

    /// DELETEs what a path names; the status.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn delete(&self, path: &str) -> u16 {
        let request = self.http.delete(format!("{}{path}", self.url)).bearer_auth(&self.key);
        request.send().await.expect("an answer").status().as_u16()
    }

    /// Uploads symbols, waits until the builder is done with them, and returns the upload.
    ///
    /// # Panics
    /// If the upload is refused or not done within five minutes.
    pub async fn upload_symbols(&self, file: Vec<u8>) -> Value {
        let (status, accepted) = self.post("/v1/symbols", file).await;
        assert_eq!(status, 202, "{accepted}");
        let id = accepted["id"].as_str().expect("an id").to_owned();
        for _ in 0..30 {
            let (status, upload) = self.get(&format!("/v1/symbols/uploads/{id}?wait=10s")).await;
            assert_eq!(status, 200, "{upload}");
            if !["queued", "building", "processing", "received"]
                .contains(&upload["status"].as_str().unwrap_or(""))
            {
                return upload;
            }
        }
        panic!("upload {id} is not done after five minutes");
    }

    /// GETs a path again and again until `done` says yes to the status and the JSON body.
    ///
    /// # Panics
    /// If that has not come after `limit`.
    pub async fn wait_for(&self, path: &str, limit: Duration, done: impl Fn(u16, &Value) -> bool) -> Value {
        self.ask_until(path, None, limit, done).await
    }

    /// POSTs bytes again and again until `done` says yes to the status and the JSON body.
    ///
    /// # Panics
    /// If that has not come after `limit`.
    pub async fn post_until(
        &self,
        path: &str,
        body: &[u8],
        limit: Duration,
        done: impl Fn(u16, &Value) -> bool,
    ) -> Value {
        self.ask_until(path, Some(body), limit, done).await
    }

    /// POSTs bytes, or GETs without them, until `done` returns true to the answer.
    async fn ask_until(
        &self,
        path: &str,
        sent: Option<&[u8]>,
        limit: Duration,
        done: impl Fn(u16, &Value) -> bool,
    ) -> Value {
        let mut waited = Duration::ZERO;
        loop {
            let (status, body) = match sent {
                Some(sent) => self.post(path, sent.to_vec()).await,
                None => self.get(path).await,
            };
            if done(status, &body) {
                return body;
            }
            assert!(waited < limit, "{path}: after {limit:?} it is {status} {body}");
            tokio::time::sleep(Duration::from_millis(200)).await;
            waited += Duration::from_millis(200);
        }
    }
}
