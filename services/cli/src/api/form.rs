//! Files that are sent as a form.

use super::{Client, ClientError, answer_timeout};
use bytes::Bytes;
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Url};
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;
use tokio::fs::File;

/// How long an upload of a size that is not known may take: as long as the API lets one take.
const UNSIZED_UPLOAD_TIMEOUT: Duration = Duration::from_secs(6 * 3_600);

/// A file of a form.
#[derive(Clone)]
pub struct FormFile {
    /// The name of the part.
    pub name: &'static str,
    pub content: FormContent,
}

/// The source of a file's bytes.
#[derive(Clone)]
pub enum FormContent {
    Bytes(Bytes),
    File(PathBuf),
}

impl Client {
    /// Sends files as a form and reads JSON. Sends them again after a failure, so the API must accept the same ones
    /// once only. What comes from a pipe has one try.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send_form<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&'static str, String)],
        files: &[FormFile],
    ) -> Result<T, ClientError> {
        let mut is_there_again = true;
        for FormFile { content, .. } in files {
            if let FormContent::File(path) = content {
                is_there_again &= tokio::fs::metadata(path).await.is_ok_and(|about| about.is_file());
            }
        }
        let again = |error: &ClientError| is_there_again && error.may_pass();
        self.retry_if(again, || self.send_form_once(path, query, files)).await
    }

    async fn send_form_once<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&'static str, String)],
        files: &[FormFile],
    ) -> Result<T, ClientError> {
        let wrong = |why: String| ClientError::Address { url: self.url.clone(), why };
        let mut address = Url::parse(&format!("{}{path}", self.url)).map_err(|e| wrong(e.to_string()))?;
        address.query_pairs_mut().extend_pairs(query);
        let (mut form, mut size) = (Form::new(), Some(0_u64));
        for FormFile { name, content } in files {
            let (content, bytes) = match content {
                FormContent::Bytes(bytes) => (Body::from(bytes.clone()), Some(bytes.len() as u64)),
                FormContent::File(path) => {
                    let file = File::open(path).await?;
                    let about = file.metadata().await?;
                    // A pipe says that it has no bytes.
                    (Body::from(file), about.is_file().then_some(about.len()))
                }
            };
            size = size.zip(bytes).map(|(size, bytes)| size + bytes);
            let part = match bytes {
                Some(bytes) => Part::stream_with_length(content, bytes),
                None => Part::stream(content),
            };
            form = form.part(*name, part.file_name(*name));
        }
        let request = self.http.post(address).bearer_auth(self.key.reveal()).multipart(form);
        self.read_json(self.send_request(request, size.map_or(UNSIZED_UPLOAD_TIMEOUT, answer_timeout)).await?)
            .await
    }
}
