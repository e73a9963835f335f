//! The bodies of requests and responses on their way through the door, piece by piece.

use crate::cells::{CellClient, CellEndpoint};
use crate::head::{ASK_HEADER, RequestHead, TENANT_HEADER, remove_hop_headers};
use crate::refusal::{DoorRefusal, PassedBody, PassedBodyError};
use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::client::legacy::Error as ClientError;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use unslide_model::format_causes;

/// Bytes of a body that are read before it is passed on, if only they say whose the request is.
const BEGINNING_BYTES: usize = 64 << 10;
/// How long the beginning may take.
const BEGINNING_TIMEOUT: Duration = Duration::from_secs(3);

/// The body of a request. Its beginning may have been read already.
pub struct RequestBody {
    beginning: Option<Bytes>,
    rest: Incoming,
}

impl RequestBody {
    /// Wraps a body of which nothing was read.
    pub fn new(rest: Incoming) -> RequestBody {
        RequestBody { beginning: None, rest }
    }

    /// Returns true if the request has no body.
    pub fn is_empty(&self) -> bool {
        self.beginning.is_none() && self.rest.is_end_stream()
    }

    /// Reads the beginning, and keeps it for the cell.
    ///
    /// # Errors
    /// The body breaks off.
    pub async fn read_beginning(&mut self) -> Result<Bytes, DoorRefusal> {
        let mut read = BytesMut::new();
        let deadline = tokio::time::Instant::now() + BEGINNING_TIMEOUT;
        while read.len() < BEGINNING_BYTES {
            match tokio::time::timeout_at(deadline, self.rest.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        read.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(_))) => return Err(DoorRefusal::Malformed("the body ended early")),
                Ok(None) | Err(_) => break,
            }
        }
        let beginning = read.freeze();
        self.beginning = Some(beginning.clone());
        Ok(beginning)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = PassedBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, PassedBodyError>>> {
        if let Some(beginning) = self.beginning.take().filter(|beginning| !beginning.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(beginning))));
        }
        Pin::new(&mut self.rest).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.beginning.as_ref().is_none_or(Bytes::is_empty) && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.beginning.as_ref().map_or(0, |beginning| beginning.len() as u64);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(read + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(read + upper);
        }
        hint
    }
}

/// Sends a request to a cell. Returns its response, of which the body is still to come.
///
/// # Errors
/// [`DoorRefusal::CellAway`], or the body of the client breaks off.
pub async fn send_to_cell(
    client: &CellClient,
    cell: &CellEndpoint,
    head: &RequestHead,
    body: PassedBody,
) -> Result<Response<PassedBody>, DoorRefusal> {
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = cell.address_of(&head.path);
    *request.headers_mut() = head.headers.clone();
    let away = |reason: String| DoorRefusal::CellAway(format!("{}: {reason}", cell.name));
    let mut response = client.request(request).await.map_err(|error| match is_clients_fault(&error) {
        true => DoorRefusal::Malformed("the body ended early"),
        false => away(format_causes(&error)),
    })?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(away("it changes the protocol".to_owned()));
    }
    let headers = response.headers_mut();
    remove_hop_headers(headers);
    headers.remove(ASK_HEADER);
    headers.remove(TENANT_HEADER);
    Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
}

/// Returns true if the body of the client broke off.
fn is_clients_fault(error: &ClientError) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_user) {
            return true;
        }
        cause = error.source();
    }
    false
}
