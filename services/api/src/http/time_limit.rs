//! Time limits of requests. The body has its own limit, and the operation's limit begins after the body is
//! complete.

use crate::problem::{Kind, Problem};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// How long a whole body may take, at any pace.
const BODY_TIMEOUT: Duration = Duration::from_secs(300);

/// The current stage of a request, with its deadline.
#[derive(Clone, Copy)]
struct Stage {
    ends: Instant,
    reads_body: bool,
    /// True if the operation bounds its own time.
    is_lifted: bool,
}

impl Stage {
    fn new(time: Duration, reads_body: bool) -> Stage {
        Stage { ends: Instant::now() + time, reads_body, is_lifted: false }
    }

    fn to_problem(self) -> Problem {
        if self.reads_body {
            return Problem::body_timeout(BODY_TIMEOUT);
        }
        Problem::from_kind(Kind::Unavailable)
    }
}

/// The bound of a request's time, as [`lift_time_bound`] finds it.
#[derive(Clone)]
struct TimeBound(Arc<Mutex<Stage>>);

/// Ends a request that takes longer than `limit`, without the time for its body.
pub async fn bound_time(State(limit): State<Duration>, mut request: Request, next: Next) -> Response {
    let stage = Arc::new(Mutex::new(Stage::new(limit, false)));
    request.extensions_mut().insert(TimeBound(stage.clone()));
    let request = request.map(|body| TimedBody::wrap(body, limit, stage.clone()));
    let mut answer = pin!(next.run(request));
    let mut end = pin!(tokio::time::sleep_until(stage.lock().ends));
    poll_fn(|context| {
        if let Poll::Ready(response) = answer.as_mut().poll(context) {
            return Poll::Ready(response);
        }
        // The operation may have read more of its body.
        let stage = *stage.lock();
        if stage.is_lifted {
            return Poll::Pending;
        }
        if end.deadline() != stage.ends {
            end.as_mut().reset(stage.ends);
        }
        end.as_mut().poll(context).map(|()| stage.to_problem().into_response())
    })
    .await
}

/// Lifts the bound of a request's time. The layer of operations that take long bodies: they bound their own time.
pub async fn lift_time_bound(request: Request, next: Next) -> Response {
    if let Some(TimeBound(stage)) = request.extensions().get() {
        stage.lock().is_lifted = true;
    }
    next.run(request).await
}

/// A body that updates the stage when it is read and when it is complete. `body` is None once it has ended or
/// failed.
struct TimedBody {
    body: Option<Body>,
    limit: Duration,
    stage: Arc<Mutex<Stage>>,
    begun: bool,
}

impl TimedBody {
    fn wrap(body: Body, limit: Duration, stage: Arc<Mutex<Stage>>) -> Body {
        if body.is_end_stream() {
            return body;
        }
        Body::new(TimedBody { body: Some(body), limit, stage, begun: false })
    }

    fn begin_stage(&self, time: Duration, reads_body: bool) {
        let mut stage = self.stage.lock();
        if !stage.is_lifted {
            *stage = Stage::new(time, reads_body);
        }
    }

    fn end_reading(&mut self) {
        if self.body.take().is_some() {
            self.begin_stage(self.limit, false);
        }
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.begun {
            self.begun = true;
            self.begin_stage(BODY_TIMEOUT, true);
        }
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.end_reading();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        self.end_reading();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::middleware::{from_fn, from_fn_with_state};
    use axum::routing::post;
    use futures::stream;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    const LIMIT: Duration = Duration::from_secs(30);

    /// A body of this many pieces, one every ten seconds.
    fn slow(pieces: usize) -> Body {
        Body::from_stream(stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            (sent < pieces).then(|| (Ok::<_, std::io::Error>("x"), sent + 1))
        }))
    }

    /// The status of the answer to a body, by an operation that works this long before and after it reads the body.
    async fn status(body: Body, before: u64, after: u64) -> u16 {
        send(body, before, after, |app| app).await
    }

    async fn send(body: Body, before: u64, after: u64, layer: fn(Router) -> Router) -> u16 {
        let work = async |seconds| tokio::time::sleep(Duration::from_secs(seconds)).await;
        let operation = move |body: Body| async move {
            work(before).await;
            let read = body.collect().await.map(|body| body.to_bytes().len().to_string());
            work(after).await;
            read.unwrap_or_default()
        };
        let app = layer(Router::new().route("/", post(operation)));
        let app = app.layer(from_fn_with_state(LIMIT, bound_time));
        let request = Request::post("/").body(body).unwrap();
        app.oneshot(request).await.unwrap().status().as_u16()
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_an_operation_begins_when_its_body_is_there() {
        assert_eq!(status(slow(20), 20, 20).await, 200);
        assert_eq!(status(Body::empty(), 0, 29).await, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_takes_too_long_is_ended_before_and_after_its_body() {
        assert_eq!(status(slow(20), 0, 31).await, 503);
        assert_eq!(status(slow(20), 31, 0).await, 503);
        assert_eq!(status(Body::empty(), 0, 31).await, 503);
        assert_eq!(status(Body::from("x"), 0, 31).await, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_bounds_its_own_time_has_no_other_bound() {
        let lift = |app: Router| app.layer(from_fn(lift_time_bound));
        assert_eq!(send(slow(40), 31, 31, lift).await, 200);
        assert_eq!(send(Body::empty(), 0, 31, lift).await, 200);
    }

    /// Proves: bounded-input
    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_steadily_and_without_end_is_ended() {
        assert_eq!(status(slow(usize::MAX), 0, 0).await, 408);
    }
}
