//! Captures on their way to the API.

use super::{Client, ClientError};
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use reqwest::Url;
use serde::Deserialize;
use std::io;
use std::path::PathBuf;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

/// What is between the files of a form. It is long enough to be in none of them.
const BOUNDARY: &str = "unslide-capture-5b1f0c9de64a4f7fa6b1d0e2c3984a75";

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
        let (pieces, size) = form(files).await?;
        let request = self.http.post(address);
        let request = request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"));
        self.parsed(&self.send_pieces(request, pieces, size).await?)
    }
}

/// The files as a form, and its size.
async fn form(
    files: &[FormFile],
) -> io::Result<(impl Stream<Item = io::Result<Bytes>> + Send + 'static, u64)> {
    let (mut parts, mut size) = (Vec::new(), 0);
    for FormFile { name, content } in files {
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\r\n"
        );
        let (content, bytes) = match content {
            FormContent::Bytes(bytes) => (stream::iter([Ok(bytes.clone())]).boxed(), bytes.len() as u64),
            FormContent::File(path) => {
                let file = File::open(path).await?;
                let bytes = file.metadata().await?.len();
                (ReaderStream::with_capacity(file, 1 << 18).boxed(), bytes)
            }
        };
        size += (head.len() + 2) as u64 + bytes;
        let (head, tail) = (Bytes::from(head), Bytes::from_static(b"\r\n"));
        parts.push(stream::iter([Ok(head)]).chain(content).chain(stream::iter([Ok(tail)])).boxed());
    }
    let end = Bytes::from(format!("--{BOUNDARY}--\r\n"));
    size += end.len() as u64;
    let pieces = stream::iter(parts).flatten().chain(stream::iter([Ok(end)]));
    Ok((pieces.into_stream(), size))
}
