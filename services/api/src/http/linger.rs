//! Reading on for a while when an answer comes before the request's body has ended.
//!
//! A connection that is closed while the client still sends is reset, and the reset takes the answer
//! away with it: the client sees a broken pipe where it should see 401 or 413. So what is left of a
//! body that nobody wants is read and thrown away, within bounds.

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long the rest is read.
const LONGEST: Duration = Duration::from_secs(5);
/// How much of it.
const MOST: u64 = 64 << 20;

/// Wraps a body. The unread rest is read when the body is dropped.
pub fn linger(body: Body) -> Body {
    if body.is_end_stream() { body } else { Body::new(Lingering(Some(body))) }
}

/// A body; none once it has ended or failed.
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
        runtime.spawn(tokio::time::timeout(LONGEST, async move {
            let mut left = MOST;
            while let Some(Ok(frame)) = body.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
                if left == 0 {
                    break;
                }
            }
        }));
    }
}
