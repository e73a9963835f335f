//! Reads the rest of a request's body after an early response.
//!
//! If a connection is closed while the client still sends, it is reset, and the client loses the response: it
//! sees a broken pipe instead of 401 or 413. So the rest of an unused body is read and discarded, within
//! limits.

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long the rest is read.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);
/// How many bytes of the rest are read.
const LINGER_BYTES: u64 = 64 << 20;

/// Wraps a body. The unread rest is read when the body is dropped.
pub fn wrap_lingering(body: Body) -> Body {
    if body.is_end_stream() { body } else { Body::new(Lingering(Some(body))) }
}

/// A body, or None once it has ended or failed.
struct Lingering(Option<Body>);

impl HttpBody for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.0 = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(mut body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(tokio::time::timeout(LINGER_TIMEOUT, async move {
            let mut left = LINGER_BYTES;
            while let Some(Ok(frame)) = body.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
                if left == 0 {
                    break;
                }
            }
        }));
    }
}
