//! The public HTTP interface, from the client's side.

mod retry;
mod sending;
mod server;

pub use server::ApiServer;

use crate::failure::Exit;
use bytes::Bytes;
use futures::Stream;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use retry::{Contact, SHORT};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use unslide_model::{DebugId, Secret};
use unslide_store::uploads::SkippedMember;

/// How long nothing may move: of a body that is sent, and then of the answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the API may wait for the end of an upload before it answers.
const WAIT: Duration = Duration::from_secs(30);

/// Why a request has no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer at all.
    #[error("the API at {url} does not answer")]
    Unreachable { url: String, source: reqwest::Error },
    /// The connection stands, and no answer came.
    #[error("the API at {url} did not answer for {seconds} s")]
    NoAnswer { url: String, seconds: u64 },
    /// The body of a request stands still.
    #[error("the API at {url} took nothing more of the file for {seconds} s")]
    Stalled { url: String, seconds: u64 },
    /// The whole body was sent, and nothing came.
    #[error("the API at {url} took the file and did not answer for {seconds} s")]
    Silent { url: String, seconds: u64 },
    /// The API's own problem details.
    #[error("{title}{} ({status}{})", detail.as_ref().map(|d| format!(": {d}")).unwrap_or_default(), request_id.as_ref().map(|id| format!(", request {id}")).unwrap_or_default())]
    Refused { status: u16, title: String, detail: Option<String>, request_id: Option<String> },
    /// An answer that the API does not give.
    #[error("the answer of {url} cannot be read: is it the API of Unslide?")]
    Unreadable { url: String, source: serde_json::Error },
    /// The file that was to be sent.
    #[error("the file cannot be read")]
    File(#[from] std::io::Error),
    /// The API's address.
    #[error("the API's address (UNSLIDE_URL or --url) is not a URL: {url}: {why}")]
    Address { url: String, why: String },
    /// No key was given.
    #[error("there is no API key: set UNSLIDE_API_KEY or --api-key")]
    NoKey,
    /// A key that can't be one.
    #[error("the API key (UNSLIDE_API_KEY or --api-key) has characters that no key has")]
    Key,
    /// The HTTP client.
    #[error("no HTTP client can be made")]
    Client(#[source] reqwest::Error),
}

impl ClientError {
    /// How a command ends with it.
    pub fn exit(&self) -> Exit {
        match self {
            ClientError::Unreachable { .. }
            | ClientError::NoAnswer { .. }
            | ClientError::Stalled { .. }
            | ClientError::Silent { .. }
            | ClientError::Refused { status: 502..=504, .. } => Exit::Unreachable,
            ClientError::Refused { status: 401 | 403, .. } => Exit::NotAllowed,
            ClientError::Refused { status: 404, .. } => Exit::Missing,
            ClientError::Address { .. } | ClientError::NoKey | ClientError::Key => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    /// True where nothing was sent: no connection was made.
    fn is_unsent(&self) -> bool {
        matches!(self, ClientError::Unreachable { source, .. } if source.is_connect())
    }

    /// The error as the end of a sentence about the API.
    fn in_short(&self) -> &'static str {
        match self {
            ClientError::Unreachable { source, .. } if source.is_connect() => "cannot be reached",
            ClientError::Refused { status: 429, .. } => "asks for fewer requests",
            ClientError::Refused { .. } => "fails",
            _ => "does not answer",
        }
    }
}

#[derive(Deserialize)]
struct Refusal {
    title: String,
    detail: Option<String>,
    request_id: Option<String>,
}

/// An upload as the API tells of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Upload {
    pub id: String,
    pub status: String,
    pub reason: Option<String>,
    pub detail: Option<String>,
    #[serde(default)]
    pub objects: Vec<BuiltObject>,
    /// Where the next page of objects begins.
    #[serde(default)]
    next_cursor: Option<String>,
    #[serde(default)]
    pub skipped: Vec<SkippedMember>,
}

impl Upload {
    /// True once nothing will change any more.
    pub fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "done" | "failed")
    }
}

/// One architecture of one file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BuiltObject {
    pub debug_id: Option<DebugId>,
    pub sha256: String,
    pub arch: String,
    pub status: String,
    pub reason: Option<String>,
}

/// An accepted upload.
#[derive(Clone, Debug, Deserialize)]
pub struct Accepted {
    pub id: String,
    /// The same bytes were there before.
    pub existing: bool,
}

/// An upload in parts that was begun, perhaps by an earlier run.
#[derive(Clone, Debug, Deserialize)]
pub struct Begun {
    pub id: String,
    /// The same bytes were there before: nothing is to be sent.
    pub existing: bool,
    /// Bytes of each part but the last.
    pub part_bytes: u64,
    /// The parts that have come, from 1 on.
    pub parts: Vec<u64>,
}

#[derive(Deserialize)]
struct Symbols {
    objects: Vec<BuiltObject>,
}

#[derive(Deserialize)]
struct Checked {
    items: Vec<CheckedId>,
}

#[derive(Deserialize)]
struct CheckedId {
    debug_id: DebugId,
    status: String,
}

/// A client of one API with one key. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    /// For bodies that may take long: it knows no time-out for the answer, which would begin with the body.
    slow: reqwest::Client,
    patience: Duration,
    retry_for: Duration,
    contact: Arc<Contact>,
    url: String,
    /// What is said behind the address.
    origin: &'static str,
    key: Secret,
    symbols: &'static str,
}

impl Client {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// Where the HTTP client cannot be made.
    pub fn new(server: &ApiServer) -> Result<Client, ClientError> {
        Client::patient(server, PATIENCE)
    }

    fn patient(server: &ApiServer, patience: Duration) -> Result<Client, ClientError> {
        let (url, key) = (server.address()?, server.key()?);
        // The second time there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            reqwest::Client::builder()
                .connect_timeout(CONNECT)
                .user_agent(concat!("unslide/", env!("CARGO_PKG_VERSION")))
        };
        let http = builder().read_timeout(patience).build().map_err(ClientError::Client)?;
        let slow = builder().build().map_err(ClientError::Client)?;
        Ok(Client {
            http,
            slow,
            patience,
            retry_for: server.retry_for(),
            contact: Arc::default(),
            url,
            origin: server.origin(),
            key,
            symbols: "/v1/symbols",
        })
    }

    /// The address, and that it is the default where nobody has chosen it.
    fn shown_url(&self) -> String {
        format!("{}{}", self.url, self.origin)
    }

    fn no_answer(&self, after: Duration) -> ClientError {
        ClientError::NoAnswer { url: self.shown_url(), seconds: after.as_secs() }
    }

    fn unreachable(&self, source: reqwest::Error) -> ClientError {
        ClientError::Unreachable { url: self.shown_url(), source }
    }

    /// The same, for system symbols rather than the tenant's own. Needs an operator's key.
    pub fn of_system(self) -> Client {
        Client { symbols: "/v1/system/symbols", ..self }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(self.key.reveal())
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        self.contact.answered();
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let nothing = || Refusal { title: "the API refuses".to_owned(), detail: None, request_id: None };
        let Refusal { title, detail, request_id } = answer.json().await.unwrap_or_else(|_| nothing());
        Err(ClientError::Refused { status: status.as_u16(), title, detail, request_id })
    }

    async fn bytes(&self, answer: Response) -> Result<Vec<u8>, ClientError> {
        let bytes = answer.bytes().await;
        // An answer that is cut off is none.
        let bytes = bytes.map_err(|error| self.unreachable(error))?;
        Ok(bytes.to_vec())
    }

    async fn read<T: DeserializeOwned>(&self, answer: Response) -> Result<T, ClientError> {
        self.parsed(&self.bytes(answer).await?)
    }

    fn parsed<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, ClientError> {
        let unreadable = |source| ClientError::Unreadable { url: self.url.clone(), source };
        serde_json::from_slice(bytes).map_err(unreadable)
    }

    async fn get_once<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.answer(self.request(Method::GET, path)).await?).await
    }

    /// GETs JSON, with tries.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.tries_soon(|| self.get_once(path)).await
    }

    /// POSTs JSON and reads JSON. It is sent again only where no connection was made.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        self.tries_to_connect(|| self.first_word(self.send_once(Method::POST, path, body))).await
    }

    /// PATCHes with JSON and reads JSON. It is sent again only where no connection was made.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        self.tries_to_connect(|| self.first_word(self.send_once(Method::PATCH, path, body))).await
    }

    async fn send_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        let answer = self.answer(self.request(method, path).json(body)).await?;
        self.read(answer).await
    }

    /// GETs bytes of a media type; `None` where the answer has none by design.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get_bytes(&self, path: &str, accept: &str) -> Result<Option<Vec<u8>>, ClientError> {
        let get = || self.answer(self.request(Method::GET, path).header("accept", accept));
        let answer = self.tries_soon(get).await?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        self.bytes(answer).await.map(Some)
    }

    /// Sends bytes, however long it takes. `sha256` is that of the `size` bytes.
    async fn send_body(
        &self,
        request: RequestBuilder,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
        size: u64,
        sha256: &str,
    ) -> Result<Vec<u8>, ClientError> {
        let (body, left) = sending::watched(pieces, size);
        let request = request
            .bearer_auth(self.key.reveal())
            .header("content-type", "application/octet-stream")
            .header("content-length", size)
            .header("x-content-sha256", sha256)
            .body(body);
        let answer = async { self.bytes(self.answer(request).await?).await };
        sending::patiently(&self.url, self.patience, left, answer).await
    }

    /// Sends a file, once, however long it takes. `sha256` is that of the body.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::tries`].
    pub async fn upload(
        &self,
        name: &str,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
        size: u64,
        sha256: &str,
    ) -> Result<Accepted, ClientError> {
        let text = format!("{}{}", self.url, self.symbols);
        let wrong = |error| ClientError::Address { url: self.url.clone(), why: format!("{error}") };
        let mut address = Url::parse(&text).map_err(wrong)?;
        address.query_pairs_mut().append_pair("name", name);
        let bytes = self.send_body(self.slow.post(address), pieces, size, sha256).await?;
        self.parsed(&bytes)
    }

    /// Begins an upload in parts, or goes on with one of the same bytes; `None` where the server is of a
    /// release that takes no parts.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::tries`].
    pub async fn begin_upload(
        &self,
        name: &str,
        size: u64,
        sha256: &str,
    ) -> Result<Option<Begun>, ClientError> {
        let new = serde_json::json!({ "name": name, "size": size, "sha256": sha256 });
        match self.send_once(Method::POST, &format!("{}/uploads", self.symbols), &new).await {
            Ok(begun) => Ok(Some(begun)),
            Err(ClientError::Refused { status: 404 | 405, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a part, once, however long it takes. `sha256` is that of its `size` bytes.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::tries`].
    pub async fn upload_part(
        &self,
        id: &str,
        number: u64,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
        size: u64,
        sha256: &str,
    ) -> Result<(), ClientError> {
        let address = format!("{}{}/uploads/{id}/parts/{number}", self.url, self.symbols);
        self.send_body(self.slow.put(address), pieces, size, sha256).await.map(drop)
    }

    /// Makes a file of an upload's parts. May be sent again.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::tries`].
    pub async fn complete_upload(&self, id: &str) -> Result<Accepted, ClientError> {
        let path = format!("{}/uploads/{id}/complete", self.symbols);
        let answer = self.answer(self.request(Method::POST, &path)).await?;
        self.read(answer).await
    }

    /// The upload of these bytes; `None` where the server has none that it would point to, or is of a
    /// release that can't be asked.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn find_upload(&self, sha256: &str) -> Result<Option<Upload>, ClientError> {
        self.tries_soon(|| self.find_upload_once(sha256)).await
    }

    /// As [`Client::find_upload`], asked once.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::tries`].
    pub async fn find_upload_once(&self, sha256: &str) -> Result<Option<Upload>, ClientError> {
        let path = format!("{}/uploads/by-content/{sha256}", self.symbols);
        match self.get_once(&path).await {
            Ok(upload) => Ok(Some(upload)),
            Err(ClientError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What became of an upload, waiting for its end for some seconds.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn upload_status(&self, id: &str) -> Result<Upload, ClientError> {
        let path = format!("{}/uploads/{id}?wait={}s", self.symbols, WAIT.as_secs());
        let status = self.tries(|| async {
            let answer = tokio::time::timeout(WAIT + SHORT, self.get_once(&path)).await;
            answer.unwrap_or_else(|_| Err(self.no_answer(WAIT + SHORT)))
        });
        let mut upload: Upload = status.await?;
        while let Some(cursor) = upload.next_cursor.take() {
            let path = format!("{}/uploads/{id}?limit=500&cursor={cursor}", self.symbols);
            let mut page: Upload = self.get(&path).await?;
            upload.objects.append(&mut page.objects);
            upload.next_cursor = page.next_cursor;
        }
        Ok(upload)
    }

    /// The objects that the server has for a debug id.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn objects(&self, id: &DebugId) -> Result<Vec<BuiltObject>, ClientError> {
        match self.get::<Symbols>(&format!("{}/{id}", self.symbols)).await {
            Ok(symbols) => Ok(symbols.objects),
            Err(ClientError::Refused { status: 404, .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The status of each debug id, in the order asked.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn check(&self, ids: &[DebugId]) -> Result<Vec<(DebugId, String)>, ClientError> {
        let mut all = Vec::with_capacity(ids.len());
        for some in ids.chunks(1_000) {
            let body = serde_json::json!({ "debug_ids": some });
            let send = || self.answer(self.request(Method::POST, "/v1/symbols/check").json(&body));
            let answer = self.tries_soon(send).await?;
            let checked: Checked = self.read(answer).await?;
            all.extend(checked.items.into_iter().map(|item| (item.debug_id, item.status)));
        }
        Ok(all)
    }
}
