//! Requests as apps send them: the URL has a public key in it, and no header has a key.

use super::http_client::client_builder;
use super::{ANSWER_TIMEOUT, ClientError};
use reqwest::{Url, redirect};

/// Longest answer, in bytes, that is read.
const ANSWER_BYTES_LIMIT: usize = 1 << 20;

/// Answer to a request without a key of the API.
#[derive(Debug)]
pub struct KeylessAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// POSTs a body to a URL without a key, and asks for JSON. Follows no redirect, as the clients in apps should not: they
/// would repeat the request without its body.
///
/// # Errors
/// No answer comes.
pub async fn post_without_key(url: Url, body: String) -> Result<KeylessAnswer, ClientError> {
    let server = url.origin().ascii_serialization();
    let client = client_builder(url.as_str())
        .timeout(ANSWER_TIMEOUT)
        .redirect(redirect::Policy::none())
        .build()
        .map_err(ClientError::Client)?;
    // Messages name the server alone: the path has the key.
    let unreachable =
        |error: reqwest::Error| ClientError::Unreachable { url: server.clone(), source: error.without_url() };
    let request = client.post(url).header("accept", "application/json").body(body);
    let mut answer = request.send().await.map_err(unreachable)?;
    let (status, mut body) = (answer.status().as_u16(), Vec::new());
    while let Some(piece) = answer.chunk().await.map_err(unreachable)? {
        let room = ANSWER_BYTES_LIMIT.saturating_sub(body.len());
        body.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
        if room <= piece.len() {
            break;
        }
    }
    Ok(KeylessAnswer { status, body })
}
