//! Uploads symbols, and reads the outcome of uploads.

use super::{ANSWER_TIMEOUT, Client, ClientError, SHORT_ANSWER_TIMEOUT, UploadBody, answer_timeout};
use reqwest::{Body, Method, RequestBuilder, Url};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;
use unslide_model::{DebugId, Quality};

/// How long the API may wait for the end of an upload before it answers.
const UPLOAD_WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// An upload as the API tells of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Upload {
    pub id: String,
    pub status: String,
    pub reason: Option<String>,
    pub detail: Option<String>,
    #[serde(default)]
    pub objects: Vec<BuiltObject>,
    /// The cursor of the next page of objects.
    #[serde(default)]
    next_cursor: Option<String>,
    #[serde(default)]
    pub skipped: Vec<SkippedFile>,
}

impl Upload {
    /// Returns true once nothing will change any more.
    pub fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "done" | "failed")
    }
}

/// A file of an upload that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedFile {
    /// Its path in the archive.
    pub path: String,
    /// The reason, a stable word such as `link`.
    pub reason: String,
    /// Details of the reason, for people; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
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
    /// Absent if there are no symbols.
    #[serde(default)]
    quality: Option<Quality>,
}

impl Client {
    /// Sends a body, over a slow connection for hours, and reads the answer.
    async fn send_body(
        &self,
        request: RequestBuilder,
        body: &UploadBody,
        progress: impl Fn(u64) + Send + 'static,
    ) -> Result<Vec<u8>, ClientError> {
        let mut request = request
            .bearer_auth(self.key.reveal())
            .header("content-type", "application/octet-stream")
            .header("content-length", body.sent_bytes())
            .header("x-content-sha256", body.sha256());
        if let Some(coding) = body.content_encoding() {
            request = request.header("content-encoding", coding);
        }
        let request = request.body(Body::wrap_stream(body.to_stream(progress)));
        self.read_bytes(self.send_request(request, answer_timeout(body.sent_bytes())).await?).await
    }

    /// Sends a file, once. `progress` gets the bytes of the file that are on their way.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::retry_transient`].
    pub async fn upload_file(
        &self,
        name: &str,
        body: &UploadBody,
        progress: impl Fn(u64) + Send + 'static,
    ) -> Result<Accepted, ClientError> {
        let text = format!("{}{}", self.url, self.symbols);
        let wrong = |error| ClientError::Address { url: self.url.clone(), why: format!("{error}") };
        let mut address = Url::parse(&text).map_err(wrong)?;
        address.query_pairs_mut().append_pair("name", name);
        let bytes = self.send_body(self.http.post(address), body, progress).await?;
        self.parse_json(&bytes)
    }

    /// Begins an upload in parts, or goes on with one of the same bytes.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::retry_transient`].
    pub async fn begin_upload(&self, name: &str, size: u64, sha256: &str) -> Result<Begun, ClientError> {
        let new = serde_json::json!({ "name": name, "size": size, "sha256": sha256 });
        self.send_once(Method::POST, &format!("{}/uploads", self.symbols), &new).await
    }

    /// Sends a part, once. `progress` gets the bytes of the part that are on their way.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::retry_transient`].
    pub async fn upload_part(
        &self,
        id: &str,
        number: u64,
        body: &UploadBody,
        progress: impl Fn(u64) + Send + 'static,
    ) -> Result<(), ClientError> {
        let address = format!("{}{}/uploads/{id}/parts/{number}", self.url, self.symbols);
        self.send_body(self.http.put(address), body, progress).await.map(drop)
    }

    /// Makes a file of an upload's parts. May be sent again.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::retry_transient`].
    pub async fn complete_upload(&self, id: &str) -> Result<Accepted, ClientError> {
        let path = format!("{}/uploads/{id}/complete", self.symbols);
        let answer = self.send_request(self.build_request(Method::POST, &path), ANSWER_TIMEOUT).await?;
        self.read_json(answer).await
    }

    /// Finds the upload of these bytes. Returns `None` if the server has none to refer to.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn find_upload(&self, sha256: &str) -> Result<Option<Upload>, ClientError> {
        self.retry_transient(|| self.find_upload_once(sha256)).await
    }

    /// Does the same as [`Client::find_upload`], with one try.
    ///
    /// # Errors
    /// [`ClientError`]; see [`Client::retry_transient`].
    pub async fn find_upload_once(&self, sha256: &str) -> Result<Option<Upload>, ClientError> {
        let path = format!("{}/uploads/by-content/{sha256}", self.symbols);
        match self.get_once(&path).await {
            Ok(upload) => Ok(Some(upload)),
            Err(ClientError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the state of an upload, and waits some seconds for its end.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn upload_status(&self, id: &str) -> Result<Upload, ClientError> {
        let path = format!("{}/uploads/{id}?wait={}s", self.symbols, UPLOAD_WAIT_TIMEOUT.as_secs());
        let ask = || {
            self.send_request(
                self.build_request(Method::GET, &path),
                UPLOAD_WAIT_TIMEOUT + SHORT_ANSWER_TIMEOUT,
            )
        };
        let mut upload: Upload =
            self.retry_transient(|| async { self.read_json(ask().await?).await }).await?;
        while let Some(cursor) = upload.next_cursor.take() {
            let path = format!("{}/uploads/{id}?limit=500&cursor={cursor}", self.symbols);
            let mut page: Upload = self.get(&path).await?;
            upload.objects.append(&mut page.objects);
            upload.next_cursor = page.next_cursor;
        }
        Ok(upload)
    }

    /// Returns the objects that the server has for a debug id.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn list_objects(&self, id: &DebugId) -> Result<Vec<BuiltObject>, ClientError> {
        match self.get::<Symbols>(&format!("{}/{id}", self.symbols)).await {
            Ok(symbols) => Ok(symbols.objects),
            Err(ClientError::Refused { status: 404, .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Returns the status of each debug id, in the order of the request.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn check_symbols(&self, ids: &[DebugId]) -> Result<Vec<(DebugId, String)>, ClientError> {
        let checked = self.check_ids(ids).await?;
        Ok(checked.into_iter().map(|item| (item.debug_id, item.status)).collect())
    }

    /// Returns the qualities of the symbols that the server has built.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn check_qualities(&self, ids: &[DebugId]) -> Result<HashMap<DebugId, Quality>, ClientError> {
        let checked = self.check_ids(ids).await?;
        Ok(checked.into_iter().filter_map(|item| Some((item.debug_id, item.quality?))).collect())
    }

    async fn check_ids(&self, ids: &[DebugId]) -> Result<Vec<CheckedId>, ClientError> {
        let mut all = Vec::with_capacity(ids.len());
        for some in ids.chunks(1_000) {
            let body = serde_json::json!({ "debug_ids": some });
            let send = || {
                let request =
                    self.build_request(Method::POST, &format!("{}/check", self.symbols)).json(&body);
                self.prompt_answer(request, self.short_timeout())
            };
            let answer = self.retry_transient(send).await?;
            let checked: Checked = self.read_json(answer).await?;
            all.extend(checked.items);
        }
        Ok(all)
    }
}
