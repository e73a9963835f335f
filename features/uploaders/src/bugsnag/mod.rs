//! `POST /dsym` and `POST /`: the uploads of `bugsnag-cli` and `bugsnag-dsym-upload`.
//!
//! The key is a part of the form, and one of the clients sends it after the file. So a file without a key yet waits on
//! the disk of this process, within limits that strangers share. Without a file, the key must come within the time of all
//! requests whose key is in their body.

mod spool;

use crate::sign_in::sign_in;
use crate::whole_file::{FileSender, acquire_upload_permit};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts as RequestParts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use spool::{Spool, SpooledFile};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Keys;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::intake::{RequestId, RequestSlot};
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::{
    Chunks, Parts, SymbolsWrite, check_quota, parse_boundary, pass_over, run_detached, stream_field,
};
use unslide_api::problem::{Kind, Problem, Rendered};

/// The part with a Mach-O file or an archive.
const FILE_PART: &str = "dsym";
/// The part with the key.
const KEY_PART: &str = "apiKey";
/// The most bytes of a key.
const MAX_KEY_BYTES: usize = 256;
/// The most parts of a request.
const MAX_PARTS: usize = 16;
/// The answer to a request with a bad key, by which a client tells it from other failures.
const BAD_KEY: &str = "invalid apiKey";

/// Returns the routes of Bugsnag's clients. Files without a key yet wait in a folder below `data_dir`.
pub fn bugsnag_routes(data_dir: &Path) -> OperationRouter {
    OperationRouter::new()
        .route("/dsym", post(receive_request))
        .route("/", post(receive_request))
        .layer(Extension(Arc::new(Spool::new(data_dir))))
}

async fn receive_request(
    State(keys): State<Arc<Keys>>,
    Extension(spool): Extension<Arc<Spool>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let parts = Arc::new(parts);
    match receive_upload(&keys, spool, parts.clone(), body).await {
        // The same for a file that was there: the clients take any other status for a failure.
        Ok(()) => text_response(StatusCode::ACCEPTED, "OK"),
        Err(problem) => {
            let request_id = parts.extensions.get::<RequestId>().map_or("", |id| id.0.as_str());
            failure_response(&problem, request_id)
        }
    }
}

async fn receive_upload(
    keys: &Arc<Keys>,
    spool: Arc<Spool>,
    parts: Arc<RequestParts>,
    body: Body,
) -> Result<(), Problem> {
    let boundary = parse_boundary(&parts.headers, Kind::InvalidUpload)?
        .ok_or_else(|| Problem::new(Kind::InvalidUpload, "send the file as multipart/form-data"))?;
    let body = Chunks::new(
        &parts.headers,
        body,
        keys.capacity.tenants.upload_bytes,
        keys.capacity.limits.client_pace(),
    )?;
    let form = Parts::new(body.into_stream(), boundary, Kind::InvalidUpload);
    let (keys, timeout) = (keys.clone(), Duration::from_secs(keys.capacity.limits.upload_seconds));
    // In a task of its own, as every upload: a client that leaves still has its failure recorded.
    run_detached(Box::pin(async move {
        let mut upload = FormUpload { keys: &keys, spool: &spool, parts: &parts, access: None, files: 0 };
        let received = tokio::time::timeout(timeout, Box::pin(upload.receive_form(form))).await;
        received.unwrap_or_else(|_| {
            Err(Problem::new(Kind::BodyTimeout, format!("an upload may take {} s", timeout.as_secs())))
        })
    }))
    .await
}

/// A form that is being read.
struct FormUpload<'u> {
    keys: &'u Keys,
    spool: &'u Spool,
    parts: &'u RequestParts,
    /// The sender, once its key has come.
    access: Option<Access<SymbolsWrite>>,
    /// Number of files that were stored.
    files: usize,
}

impl FormUpload<'_> {
    async fn receive_form(&mut self, mut form: Parts) -> Result<(), Problem> {
        let (mut waiting, mut number) = (None, 0);
        while let Some(field) = form.next().await? {
            number += 1;
            if number > MAX_PARTS {
                return Err(Problem::new(Kind::TooLarge, format!("more than {MAX_PARTS} parts")));
            }
            match (field.name(), self.access.is_some()) {
                (Some(KEY_PART), _) => self.access = Some(self.read_key(field).await?),
                (Some(FILE_PART), true) => {
                    let name = field.file_name().map(str::to_owned);
                    self.send_file(name.as_deref(), stream_field(field, Kind::InvalidUpload)).await?;
                }
                (Some(FILE_PART), false) if waiting.is_some() => {
                    return Err(Problem::new(Kind::InvalidUpload, "only one file may come before the key"));
                }
                (Some(FILE_PART), false) => waiting = Some(self.spool_file(field).await?),
                _ => pass_over(field, Kind::InvalidUpload).await?,
            }
        }
        if let Some(file) = waiting {
            let name = file.name.clone();
            self.send_file(name.as_deref(), file.into_stream().await?).await?;
        }
        if self.access.is_none() {
            return Err(Problem::new(Kind::Unauthorized, BAD_KEY));
        }
        if self.files == 0 {
            return Err(Problem::new(Kind::InvalidUpload, format!("the form has no file {FILE_PART}")));
        }
        Ok(())
    }

    async fn read_key(&self, field: multer::Field<'static>) -> Result<Access<SymbolsWrite>, Problem> {
        let mut pieces = Box::pin(stream_field(field, Kind::InvalidUpload));
        let mut key = Vec::new();
        while let Some(piece) = pieces.try_next().await? {
            if key.len() + piece.len() > MAX_KEY_BYTES {
                return Err(Problem::new(Kind::Unauthorized, BAD_KEY));
            }
            key.extend_from_slice(&piece);
        }
        let key = String::from_utf8(key).unwrap_or_default();
        sign_in(self.keys, self.parts, key.trim()).await
    }

    /// Writes a file to disk. The key need not come in that time.
    async fn spool_file(&self, field: multer::Field<'static>) -> Result<SpooledFile, Problem> {
        let slot = self.parts.extensions.get::<RequestSlot>();
        let slot = slot.ok_or_else(|| Problem::internal("a request has no slot"))?;
        let name = field.file_name().map(str::to_owned);
        slot.set_file_before_key(true);
        let file = self.spool.write_file(name, stream_field(field, Kind::InvalidUpload)).await;
        slot.set_file_before_key(false);
        file
    }

    async fn send_file(
        &mut self,
        name: Option<&str>,
        pieces: impl Stream<Item = Result<Bytes, Problem>> + Send,
    ) -> Result<(), Problem> {
        let access = self.access.as_ref().ok_or_else(|| Problem::new(Kind::Unauthorized, BAD_KEY))?;
        let sender = FileSender::from_access(&self.keys.capacity, access);
        let _permit = acquire_upload_permit(&self.keys.capacity, access).await?;
        check_quota(&self.keys.storage, &sender.owner, 0, sender.quota.symbol_bytes).await?;
        sender.send_file(&self.keys.storage, name, pieces).await?;
        self.files += 1;
        Ok(())
    }
}

fn failure_response(problem: &Problem, request_id: &str) -> Response {
    problem.log_fault(request_id);
    let kind = problem.kind();
    let is_fault = kind.status().is_server_error() && kind != Kind::SymbolQuota;
    let text = problem.detail().filter(|_| !is_fault).unwrap_or_else(|| kind.title());
    match kind {
        Kind::Unauthorized => text_response(StatusCode::UNAUTHORIZED, BAD_KEY),
        Kind::SymbolQuota => text_response(StatusCode::PAYLOAD_TOO_LARGE, text),
        kind if kind.status() == StatusCode::TOO_MANY_REQUESTS => {
            text_response(StatusCode::SERVICE_UNAVAILABLE, text)
        }
        kind => text_response(kind.status(), text),
    }
}

fn text_response(status: StatusCode, text: &str) -> Response {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut response = (status, [(CONTENT_TYPE, plain)], text.to_owned()).into_response();
    response.extensions_mut().insert(Rendered);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_key_has_the_text_that_the_client_compares() {
        let response = failure_response(&Problem::from_kind(Kind::Unauthorized), "r");
        assert_eq!(response.status(), 401);
        assert_eq!(failure_response(&Problem::from_kind(Kind::TenantBusy), "r").status(), 503);
        assert_eq!(failure_response(&Problem::from_kind(Kind::SymbolQuota), "r").status(), 413);
    }
}
