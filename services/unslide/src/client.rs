//! The public HTTP interface, from the client's side.

mod sending;

use bytes::Bytes;
use clap::Args;
use futures::Stream;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use unslide_model::{DebugId, Secret};

/// Tries of a request that may be sent again.
const TRIES: u32 = 6;
/// The pause after the first failed try; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(400);
/// How long nothing may move: of a body that is sent, and then of the answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which server to talk to, and as whom.
#[derive(Args, Clone)]
pub struct Server {
    /// The api's address
    #[arg(long, value_name = "URL", env = "UNSLIDE_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// The API key
    #[arg(long, value_name = "KEY", env = "UNSLIDE_API_KEY", hide_env_values = true)]
    pub api_key: String,
}

/// Why a request has no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer at all.
    #[error("the api at {url} does not answer")]
    Unreachable { url: String, source: reqwest::Error },
    /// The body of a request stands still.
    #[error("the api at {url} took nothing more of the file for {seconds} s")]
    Stalled { url: String, seconds: u64 },
    /// The whole body was sent, and nothing came.
    #[error("the api at {url} took the file and did not answer for {seconds} s")]
    Silent { url: String, seconds: u64 },
    /// The api's own problem details.
    #[error("{title}{} ({status}{})", detail.as_ref().map(|d| format!(": {d}")).unwrap_or_default(), request_id.as_ref().map(|id| format!(", request {id}")).unwrap_or_default())]
    Refused { status: u16, title: String, detail: Option<String>, request_id: Option<String> },
    /// An answer that is not what the api answers.
    #[error("the answer of {url} cannot be read: is it an unslide api?")]
    Unreadable { url: String, source: serde_json::Error },
    /// The file that was to be sent.
    #[error("the file cannot be read")]
    File(#[from] std::io::Error),
    /// The api's address.
    #[error("{0} is no address of an api")]
    Address(String),
    /// The HTTP client.
    #[error("no HTTP client can be made")]
    Client(#[source] reqwest::Error),
}

#[derive(Deserialize)]
struct Refusal {
    title: String,
    detail: Option<String>,
    request_id: Option<String>,
}

/// An upload as the api tells of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Upload {
    pub id: String,
    pub status: String,
    pub reason: Option<String>,
    pub detail: Option<String>,
    #[serde(default)]
    pub objects: Vec<Object>,
    #[serde(default)]
    pub skipped: Vec<Skipped>,
}

/// Something in an archive that was passed over.
#[derive(Clone, Debug, Deserialize)]
pub struct Skipped {
    /// Empty where this stands for all that are not named.
    pub path: String,
    /// A stable word; a sentence in what was uploaded before there were words.
    pub reason: String,
    pub detail: Option<String>,
}

impl Upload {
    /// True once nothing will change any more.
    pub fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "done" | "failed")
    }
}

/// One architecture of one file.
#[derive(Clone, Debug, Deserialize)]
pub struct Object {
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
    objects: Vec<Object>,
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

/// A client of one api with one key. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    /// For bodies that may take long: it knows no time-out for the answer, which would begin with the body.
    slow: reqwest::Client,
    patience: Duration,
    url: String,
    key: Secret,
    symbols: &'static str,
}

impl Client {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// Where the HTTP client cannot be made.
    pub fn new(server: &Server) -> Result<Client, ClientError> {
        Client::patient(server, PATIENCE)
    }

    fn patient(server: &Server, patience: Duration) -> Result<Client, ClientError> {
        // The second time there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            reqwest::Client::builder()
                .connect_timeout(Duration::from_secs(10))
                .user_agent(concat!("unslide/", env!("CARGO_PKG_VERSION")))
        };
        let http = builder().read_timeout(patience).build().map_err(ClientError::Client)?;
        let slow = builder().build().map_err(ClientError::Client)?;
        let url = server.url.trim_end_matches('/').to_owned();
        let key = Secret::new(server.api_key.clone());
        Ok(Client { http, slow, patience, url, key, symbols: "/v1/symbols" })
    }

    /// The same, for system symbols rather than the tenant's own. Needs an operator's key.
    pub fn of_system(self) -> Client {
        Client { symbols: "/v1/system/symbols", ..self }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(self.key.reveal())
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let answer = request.send().await;
        let answer = answer.map_err(|source| ClientError::Unreachable { url: self.url.clone(), source })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let nothing = || Refusal { title: "the api refuses".to_owned(), detail: None, request_id: None };
        let Refusal { title, detail, request_id } = answer.json().await.unwrap_or_else(|_| nothing());
        Err(ClientError::Refused { status: status.as_u16(), title, detail, request_id })
    }

    async fn bytes(&self, answer: Response) -> Result<Vec<u8>, ClientError> {
        let bytes = answer.bytes().await;
        // An answer that is cut off is none.
        let bytes = bytes.map_err(|source| ClientError::Unreachable { url: self.url.clone(), source })?;
        Ok(bytes.to_vec())
    }

    async fn read<T: DeserializeOwned>(&self, answer: Response) -> Result<T, ClientError> {
        let bytes = self.bytes(answer).await?;
        let unreadable = |source| ClientError::Unreadable { url: self.url.clone(), source };
        serde_json::from_slice(&bytes).map_err(unreadable)
    }

    async fn get_once<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.answer(self.request(Method::GET, path)).await?).await
    }

    /// GETs JSON, with tries.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        tries(|| self.get_once(path)).await
    }

    /// POSTs JSON, once, and reads JSON.
    ///
    /// # Errors
    /// [`ClientError`]; see [`may_try_again`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        let answer = self.answer(self.request(Method::POST, path).json(body)).await?;
        self.read(answer).await
    }

    /// GETs a text, such as an Apple-style crash log.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let answer =
            tries(|| self.answer(self.request(Method::GET, path).header("accept", "text/plain"))).await?;
        answer.text().await.map_err(|source| ClientError::Unreachable { url: self.url.clone(), source })
    }

    /// GETs bytes, whatever they are; `None` where the answer has none by design.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get_bytes(&self, path: &str) -> Result<Option<Vec<u8>>, ClientError> {
        let answer = tries(|| self.answer(self.request(Method::GET, path))).await?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        self.bytes(answer).await.map(Some)
    }

    /// Sends a file, once, however long it takes. `sha256` is that of the body.
    ///
    /// # Errors
    /// [`ClientError`]; see [`may_try_again`].
    pub async fn upload(
        &self,
        name: &str,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
        size: u64,
        sha256: &str,
    ) -> Result<Accepted, ClientError> {
        let no_address = |_| ClientError::Address(self.url.clone());
        let mut address = Url::parse(&format!("{}{}", self.url, self.symbols)).map_err(no_address)?;
        address.query_pairs_mut().append_pair("name", name);
        let (body, left) = sending::watched(pieces, size);
        let request = self
            .slow
            .post(address)
            .bearer_auth(self.key.reveal())
            .header("content-type", "application/octet-stream")
            .header("content-length", size)
            .header("x-content-sha256", sha256)
            .body(body);
        let answer = async { self.read(self.answer(request).await?).await };
        sending::patiently(&self.url, self.patience, left, answer).await
    }

    /// Begins an upload in parts, or goes on with one of the same bytes; `None` where the server is of a
    /// release that takes no parts.
    ///
    /// # Errors
    /// [`ClientError`]; see [`may_try_again`].
    pub async fn begin_upload(
        &self,
        name: &str,
        size: u64,
        sha256: &str,
    ) -> Result<Option<Begun>, ClientError> {
        let new = serde_json::json!({ "name": name, "size": size, "sha256": sha256 });
        match self.post(&format!("{}/uploads", self.symbols), &new).await {
            Ok(begun) => Ok(Some(begun)),
            Err(ClientError::Refused { status: 404 | 405, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a part, once, however long it takes. `sha256` is that of its `size` bytes.
    ///
    /// # Errors
    /// [`ClientError`]; see [`may_try_again`].
    pub async fn upload_part(
        &self,
        id: &str,
        number: u64,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
        size: u64,
        sha256: &str,
    ) -> Result<(), ClientError> {
        let (body, left) = sending::watched(pieces, size);
        let request = self
            .slow
            .put(format!("{}{}/uploads/{id}/parts/{number}", self.url, self.symbols))
            .bearer_auth(self.key.reveal())
            .header("content-type", "application/octet-stream")
            .header("content-length", size)
            .header("x-content-sha256", sha256)
            .body(body);
        let answer = async { self.answer(request).await.map(drop) };
        sending::patiently(&self.url, self.patience, left, answer).await
    }

    /// Makes a file of an upload's parts. May be sent again.
    ///
    /// # Errors
    /// [`ClientError`]; see [`may_try_again`].
    pub async fn complete_upload(&self, id: &str) -> Result<Accepted, ClientError> {
        let path = format!("{}/uploads/{id}/complete", self.symbols);
        let answer = self.answer(self.request(Method::POST, &path)).await?;
        self.read(answer).await
    }

    /// The upload of these bytes, asked for once; `None` where the server has none that it would point
    /// to, or is of a release that can't be asked.
    ///
    /// # Errors
    /// [`ClientError`]; see [`may_try_again`].
    pub async fn find_upload(&self, sha256: &str) -> Result<Option<Upload>, ClientError> {
        match self.get_once(&format!("{}/uploads/by-content/{sha256}", self.symbols)).await {
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
        self.get(&format!("{}/uploads/{id}?wait=30s", self.symbols)).await
    }

    /// The objects that the server has for a debug id.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn objects(&self, id: &DebugId) -> Result<Vec<Object>, ClientError> {
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
            let checked: Checked = self.read(tries(send).await?).await?;
            all.extend(checked.items.into_iter().map(|item| (item.debug_id, item.status)));
        }
        Ok(all)
    }
}

/// True where the same request may succeed a little later.
pub fn may_try_again(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Stalled { .. } | ClientError::Silent { .. } => true,
        ClientError::Refused { status, .. } => StatusCode::from_u16(*status).is_ok_and(|status| {
            status.is_server_error()
                || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
        }),
        _ => false,
    }
}

/// Sends a request again, after growing pauses, as long as that may help.
///
/// # Errors
/// The last try's.
pub async fn tries<T, F, A>(mut send: F) -> Result<T, ClientError>
where
    F: FnMut() -> A,
    A: Future<Output = Result<T, ClientError>>,
{
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        match send().await {
            Err(error) if may_try_again(&error) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            other => return other,
        }
    }
    send().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> ClientError {
        ClientError::Refused { status, title: "no".to_owned(), detail: None, request_id: None }
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_and_what_is_final_is_not() {
        let mut sent = 0;
        let answer = tries(|| {
            sent += 1;
            std::future::ready(if sent < 3 { Err(refused(503)) } else { Ok(sent) })
        });
        assert_eq!(answer.await.unwrap(), 3);
        let mut sent = 0;
        let answer = tries(|| {
            sent += 1;
            std::future::ready(Err::<(), _>(refused(403)))
        });
        assert!(answer.await.is_err());
        assert_eq!(sent, 1);
    }
}
