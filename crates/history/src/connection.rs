//! Requests to ClickHouse over HTTP. They use no proxy and follow no redirect, and answers are bounded.

use crate::statement::Statement;
use crate::{HistoryError, HistoryResult, HistorySettings};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;
use std::time::Duration;
use unslide_model::Secret;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Servers close a connection that is idle for three seconds or more.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of a request that a person waits for. The server ends it itself a little earlier.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
const READ_EXECUTION_SECONDS: &str = "10";
/// Limit of a request of a job: an insert, a deletion, a change of the schema.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of bytes of one answer.
const ANSWER_BYTES_LIMIT: usize = 64 << 20;
/// Maximum number of bytes that are read of an error.
const ERROR_BYTES_LIMIT: usize = 64 << 10;

/// The server's header with the code of an exception.
const CODE_HEADER: &str = "x-clickhouse-exception-code";

/// Settings of a statement.
pub(crate) type StatementSettings<'a> = [(&'a str, &'a str)];

/// A server and a login.
#[derive(Clone)]
pub(crate) struct Connection {
    http: Client,
    url: Url,
    user: String,
    password: Secret,
}

impl Connection {
    pub(crate) fn new(settings: &HistorySettings) -> HistoryResult<Connection> {
        let invalid = |field, reason: String| HistoryError::Settings { field, reason };
        if let Some((field, reason)) = settings.problems().into_iter().next() {
            return Err(invalid(field, reason));
        }
        let url = settings.url.as_ref().ok_or_else(|| invalid("url", "is not set".into()))?;
        let url = Url::parse(url).map_err(|error| invalid("url", error.to_string()))?;
        // There may be one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .redirect(Policy::none())
            .no_proxy()
            .user_agent(concat!("unslide/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &settings.ca_file {
            let pem = std::fs::read(path).map_err(|error| invalid("ca_file", error.to_string()))?;
            let authorities =
                Certificate::from_pem_bundle(&pem).map_err(|error| invalid("ca_file", error.to_string()))?;
            http = http.tls_certs_merge(authorities);
        }
        let http = http.build().map_err(|error| invalid("ca_file", error.to_string()))?;
        Ok(Connection { http, url, user: settings.user.clone(), password: settings.password.clone() })
    }

    /// Runs a statement and reads its rows. `database` is that of tables without one.
    pub(crate) async fn read_rows<T: DeserializeOwned>(
        &self,
        database: Option<&str>,
        statement: &Statement,
    ) -> HistoryResult<Vec<T>> {
        let limit = ANSWER_BYTES_LIMIT.to_string();
        let settings = [
            ("max_execution_time", READ_EXECUTION_SECONDS),
            ("max_result_bytes", &limit),
            ("default_format", "JSONCompactEachRow"),
            ("output_format_json_quote_64bit_integers", "0"),
        ];
        let request =
            self.start_request(database, &settings).timeout(READ_TIMEOUT).multipart(statement.to_form());
        let mut answer = send_request(request).await?;
        let body = read_body(&mut answer, ANSWER_BYTES_LIMIT).await?;
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        // The text of an error would have values of the row.
        let rows =
            lines.map(|line| serde_json::from_slice(line).map_err(|_| HistoryError::unreadable("a row")));
        rows.collect()
    }

    /// Runs a statement without rows.
    pub(crate) async fn run(
        &self,
        database: Option<&str>,
        statement: &Statement,
        settings: &StatementSettings<'_>,
    ) -> HistoryResult<()> {
        let request =
            self.start_request(database, settings).timeout(WRITE_TIMEOUT).multipart(statement.to_form());
        send_request(request).await.map(|_| ())
    }

    /// Runs an insert with these bytes as its data.
    pub(crate) async fn insert(
        &self,
        database: &str,
        statement: &Statement,
        settings: &StatementSettings<'_>,
        data: Vec<u8>,
    ) -> HistoryResult<()> {
        let settings = [settings, &[("query", statement.text())]].concat();
        let request = self.start_request(Some(database), &settings);
        send_request(request.timeout(WRITE_TIMEOUT).body(data)).await.map(|_| ())
    }

    fn start_request(&self, database: Option<&str>, settings: &StatementSettings<'_>) -> RequestBuilder {
        let mut url = self.url.clone();
        url.query_pairs_mut()
            // A failure has a status of its own, and does not end an answer that has begun.
            .append_pair("wait_end_of_query", "1")
            .extend_pairs(settings)
            .extend_pairs(database.map(|database| ("database", database)));
        self.http.post(url).basic_auth(&self.user, Some(self.password.reveal()))
    }
}

async fn send_request(request: RequestBuilder) -> HistoryResult<Response> {
    let mut answer = request.send().await.map_err(HistoryError::from_http)?;
    let (status, code) = (answer.status(), read_code(&answer));
    if status.is_success() && code.is_none() {
        return Ok(answer);
    }
    // As much as there is of it: the status says enough.
    let body = read_start(&mut answer, ERROR_BYTES_LIMIT).await.unwrap_or_default();
    Err(HistoryError::from_answer(status, code, &String::from_utf8_lossy(&body)))
}

fn read_code(answer: &Response) -> Option<u32> {
    answer.headers().get(CODE_HEADER)?.to_str().ok()?.parse().ok()
}

/// Reads a body. More than `limit` bytes are an error.
async fn read_body(answer: &mut Response, limit: usize) -> HistoryResult<Vec<u8>> {
    let body = read_start(answer, limit).await.map_err(HistoryError::from_http)?;
    if body.len() > limit {
        return Err(HistoryError::TooLarge(format!("an answer of more than {limit} bytes")));
    }
    Ok(body)
}

/// Reads a body until it has more than `limit` bytes, or ends.
async fn read_start(answer: &mut Response, limit: usize) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while body.len() <= limit
        && let Some(chunk) = answer.chunk().await?
    {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
