//! Requests of single commands: bodies that are no JSON of the API, and answers that the server may have to wait for.

use super::{ANSWER_TIMEOUT, Client, ClientError, SHORT_ANSWER_TIMEOUT, answer_timeout};
use bytes::Bytes;
use reqwest::Method;
use serde::de::DeserializeOwned;
use std::io::{self, Write};
use std::time::Duration;

impl Client {
    /// POSTs bytes and reads JSON. Sends them again after a failure, so the API must accept the same ones once only.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send_bytes<T: DeserializeOwned>(&self, path: &str, bytes: &Bytes) -> Result<T, ClientError> {
        let send = || async {
            let request =
                self.build_request(Method::POST, path).header("content-type", "application/octet-stream");
            self.read_json(
                self.send_request(request.body(bytes.clone()), answer_timeout(bytes.len() as u64)).await?,
            )
            .await
        };
        self.retry_transient(send).await
    }

    /// GETs bytes of a media type. The server waits for them at most this long; afterwards the answer is None.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn wait_for_bytes(
        &self,
        path: &str,
        accept: &str,
        wait: Duration,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}wait={}ms", wait.as_millis());
        let get = || {
            self.send_request(
                self.build_request(Method::GET, &path).header("accept", accept),
                wait + SHORT_ANSWER_TIMEOUT,
            )
        };
        match self.retry_reading(get).await {
            Ok(answer) => self.read_bytes(answer).await.map(Some),
            Err(ClientError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// GETs a file and writes it to `target`, at most `most_bytes`. Returns the name that the API gives it.
    ///
    /// # Errors
    /// [`ClientError`], also if the file is larger or cannot be written.
    pub async fn download_file(
        &self,
        path: &str,
        target: &mut (impl Write + Send),
        most_bytes: u64,
    ) -> Result<Option<String>, ClientError> {
        let get = || self.send_request(self.build_request(Method::GET, path), ANSWER_TIMEOUT);
        let mut answer = self.retry_reading(get).await?;
        let disposition = answer.headers().get("content-disposition").and_then(|text| text.to_str().ok());
        let name = disposition.and_then(|text| Some(text.split_once("filename=\"")?.1.split_once('"')?.0));
        let name = name.map(str::to_owned);
        let mut bytes = 0;
        while let Some(piece) = self.read_piece(&mut answer).await? {
            bytes += piece.len() as u64;
            if bytes > most_bytes {
                let text = format!("the file has more than {most_bytes} bytes");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text).into());
            }
            target.write_all(&piece)?;
        }
        Ok(name)
    }

    /// PUTs JSON and reads JSON. Sends it again only if no connection was made.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        self.send_json(Method::PUT, path, body).await
    }

    /// Deletes the resource at a path.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn delete(&self, path: &str) -> Result<(), ClientError> {
        let send = || self.prompt_answer(self.build_request(Method::DELETE, path), ANSWER_TIMEOUT);
        self.retry_if(ClientError::is_undone, send).await.map(drop)
    }

    /// Deletes the resource at a path and reads the answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn delete_and_read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let send = || self.prompt_answer(self.build_request(Method::DELETE, path), ANSWER_TIMEOUT);
        self.read_json(self.retry_if(ClientError::is_undone, send).await?).await
    }
}
