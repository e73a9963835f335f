//! Requests of single commands: bodies that are no JSON of the API, and answers that the server may have to wait for.

use super::{ANSWER_TIMEOUT, Client, ClientError, SHORT_ANSWER_TIMEOUT, answer_timeout};
use bytes::Bytes;
use reqwest::Method;
use serde::de::DeserializeOwned;
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
        match self.retry_transient(get).await {
            Ok(answer) => self.read_bytes(answer).await.map(Some),
            Err(ClientError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
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
        self.retry_if(ClientError::is_unsent, send).await.map(drop)
    }
}
