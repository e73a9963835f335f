//! A request's body while it arrives. A request without a known key holds no slot among the running requests in that time,
//! and its key must come soon; requests with public keys are bounded by network.

use crate::limits::permits::Permits;
use crate::limits::slot::RequestSlot;
use crate::problem::{Kind, Problem};
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;
use unslide_runtime::clients::Network;

/// How long the key of a request may take that is in its body.
const KEY_TIMEOUT: Duration = Duration::from_secs(10);
/// Announced bytes of a body without a key that needs no permit of its network, such as the form of a sign-in.
const SMALL_BODY_BYTES: u64 = 4 << 10;

/// A body, or None once it has ended or failed.
pub struct ArrivingBody {
    body: Option<Body>,
    slot: RequestSlot,
    permits: Permits,
    network: Option<Network>,
    is_small: bool,
    /// Pieces have come, and their reader has not been asked since: the key may be among them.
    has_unread: bool,
    key_alarm: Option<Pin<Box<Sleep>>>,
}

impl ArrivingBody {
    /// Wraps the body of a request with this slot, from a client of this network. None for an unknown network.
    pub fn wrap(body: Body, slot: RequestSlot, permits: Permits, network: Option<Network>) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let is_small = HttpBody::size_hint(&body).exact().is_some_and(|bytes| bytes <= SMALL_BODY_BYTES);
        let (body, has_unread, key_alarm) = (Some(body), false, None);
        Body::new(ArrivingBody { body, slot, permits, network, is_small, has_unread, key_alarm })
    }

    fn end_body(&mut self) -> Result<(), Problem> {
        match self.body.take() {
            Some(_) => Ok(self.slot.end_body(&self.permits)?),
            None => Ok(()),
        }
    }

    /// Waits for more of the body, as long as its sender may.
    fn wait_for_more(&mut self, context: &mut Context<'_>) -> Result<(), Problem> {
        if !self.slot.is_of_stranger() {
            self.key_alarm = None;
            return Ok(());
        }
        if std::mem::take(&mut self.has_unread) {
            self.slot.pause_for_body();
            context.waker().wake_by_ref();
            return Ok(());
        }
        if !self.slot.wait_for_body(&self.permits, self.network, self.is_small)? {
            self.key_alarm = None;
            return Ok(());
        }
        let alarm = self.key_alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(KEY_TIMEOUT)));
        match alarm.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                let detail = format!("no key came within {} s", KEY_TIMEOUT.as_secs());
                Err(Problem::new(Kind::BodyTimeout, detail))
            }
        }
    }

    fn fail(&mut self, problem: Problem) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.body = None;
        self.slot.abandon_body();
        Poll::Ready(Some(Err(axum::Error::new(problem))))
    }
}

impl HttpBody for ArrivingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *body).poll_frame(context);
        let has_more = matches!(polled, Poll::Ready(Some(Ok(_)))) && !body.is_end_stream();
        let outcome = match polled {
            Poll::Pending => this.wait_for_more(context),
            Poll::Ready(_) if has_more => {
                this.has_unread = true;
                Ok(())
            }
            Poll::Ready(_) => this.end_body(),
        };
        match outcome {
            Ok(()) => polled,
            Err(problem) => this.fail(problem),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for ArrivingBody {
    fn drop(&mut self) {
        if self.body.is_some() {
            self.slot.abandon_body();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::permits::tests::permits;
    use crate::limits::request_limits::RequestLimits;
    use crate::limits::slot::Caller;
    use futures::{StreamExt, stream};
    use http_body_util::BodyExt;
    use unslide_model::TenantId;

    /// A piece, and then nothing for this long.
    fn slow(seconds: u64) -> Body {
        let late = stream::once(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok::<_, std::io::Error>("b")
        });
        Body::from_stream(stream::iter([Ok("a")]).chain(late))
    }

    fn problem_kind(error: &axum::Error) -> Kind {
        Problem::find_in_causes(error).map(|problem| problem.kind()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_a_key_holds_no_slot_and_ends_after_ten_seconds() {
        let permits = permits(&RequestLimits { requests: 1, ..RequestLimits::default() });
        let arrive = |seconds| {
            let slot = RequestSlot::take(&permits).unwrap();
            (slot.clone(), ArrivingBody::wrap(slow(seconds), slot, permits.clone(), None))
        };
        let (slot, mut body) = arrive(11);
        body.frame().await.unwrap().unwrap();
        let ended = body.frame();
        tokio::pin!(ended);
        // What has come is read before the body takes a permit and waits for more.
        for held in [0, 1] {
            assert!(futures::poll!(ended.as_mut()).is_pending());
            assert_eq!(permits.keyless_bodies.held_permits(), held);
        }
        assert_eq!((permits.requests.held_permits(), permits.keyless_bodies.held_permits()), (0, 1));
        assert_eq!(problem_kind(&ended.await.unwrap().unwrap_err()), Kind::BodyTimeout);
        assert_eq!(permits.keyless_bodies.held_permits(), 0);
        drop(slot);
        let (slot, body) = arrive(9);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "ab");
        assert_eq!((permits.requests.held_permits(), slot.caller()), (1, Caller::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_with_a_key_keeps_its_slot_and_takes_its_time() {
        let permits = permits(&RequestLimits::default());
        let slot = RequestSlot::take(&permits).unwrap();
        let body = ArrivingBody::wrap(slow(100), slot.clone(), permits.clone(), None);
        slot.assign_caller(&permits, Caller::Tenant(TenantId::new("acme").unwrap())).unwrap();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "ab");
        assert_eq!(permits.requests.held_permits(), 1);
    }
}
