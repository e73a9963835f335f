//! Captures on their way to the API.

use super::{Client, ClientError, patience};
use bytes::Bytes;
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Url};
use serde::Deserialize;
use std::path::PathBuf;
use tokio::fs::File;

/// A file of a capture.
#[derive(Clone)]
pub struct FormFile {
    /// The name of the part.
    pub name: &'static str,
    pub content: FormContent,
}

/// Where the bytes of a file are.
#[derive(Clone)]
pub enum FormContent {
    Bytes(Bytes),
    File(PathBuf),
}

/// A capture that the API has taken.
#[derive(Debug, Deserialize)]
pub struct SentCapture {
    pub id: String,
    /// The same was there before.
    pub existing: bool,
}

impl Client {
    /// Sends a capture as a form, with tries: the API takes the same one once.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send_capture(
        &self,
        query: &[(&'static str, String)],
        files: &[FormFile],
    ) -> Result<SentCapture, ClientError> {
        self.tries(|| self.send_capture_once(query, files)).await
    }

    async fn send_capture_once(
        &self,
        query: &[(&'static str, String)],
        files: &[FormFile],
    ) -> Result<SentCapture, ClientError> {
        let wrong = |why: String| ClientError::Address { url: self.url.clone(), why };
        let mut address =
            Url::parse(&format!("{}/v1/captures", self.url)).map_err(|e| wrong(e.to_string()))?;
        address.query_pairs_mut().extend_pairs(query);
        let (mut form, mut size) = (Form::new(), 0);
        for FormFile { name, content } in files {
            let (content, bytes) = match content {
                FormContent::Bytes(bytes) => (Body::from(bytes.clone()), bytes.len() as u64),
                FormContent::File(path) => {
                    let file = File::open(path).await?;
                    let bytes = file.metadata().await?.len();
                    (Body::from(file), bytes)
                }
            };
            size += bytes;
            form = form.part(*name, Part::stream_with_length(content, bytes).file_name(*name));
        }
        let request = self.http.post(address).bearer_auth(self.key.reveal()).multipart(form);
        self.read(self.answer(request, patience(size)).await?).await
    }
}
