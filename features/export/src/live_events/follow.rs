//! `GET /v1/events`: a stream of server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

use super::store::{self, EventNumber, LiveEvent};
use axum::extract::{FromRequestParts, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use http::request::Parts;
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Keys;
use unslide_api::feature::lists::RequestSlot;
use unslide_api::feature::operation::{
    Access, Kind, Permit, Problem, Query, ReportsRead, check_texts, parse_parameter, problems,
};
use unslide_runtime::Shutdown;
use utoipa::IntoParams;

/// The longest stream in seconds, and the default.
const MAX_STREAM_SECONDS: u32 = 3_600;
/// The time between two checks of the key, which ask the database nothing: its stamps are read in the background.
const KEY_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The checks of the key between two reads of events: one read each second.
const CHECKS_PER_READ: u32 = 4;
/// The time between two comments in a stream without events.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// The time after which a client that was cut off reconnects.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(3);
/// The most events of one read.
const MAX_EVENTS_PER_READ: u16 = 200;
/// The most bytes of an app's name. No stored name is longer.
const MAX_APP_BYTES: usize = 1_024;

/// The events to follow, and for how long.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Bundle identifier: only events of this app. Symbols belong to no app.
    #[param(max_length = 1024, example = "com.example.shop")]
    pub app: Option<String>,
    /// The id of the event after which the stream begins; 0 for all events that are kept. The header `Last-Event-ID` has
    /// precedence. Without both, the stream begins now.
    #[param(minimum = 0, example = 911)]
    pub after: Option<i64>,
    /// The stream ends after this number of seconds, 1 to 3600; 3600 if absent.
    #[param(minimum = 1, maximum = 3600)]
    pub seconds: Option<u32>,
}

problems!(Failures: InvalidParameter);

/// Follow events
///
/// Returns a stream of server-sent events: `group_created`, `group_regressed`, `reports_stored` (numbers by app),
/// `symbols_ready` and those of features, with JSON as data. After a broken connection, a client continues with
/// `Last-Event-ID`; events are kept for a day. The stream ends after an hour, within a second of its key's revocation, and
/// when the service stops.
#[utoipa::path(get, path = "/v1/events", tag = "events", operation_id = "follow_events",
    params(EventQuery),
    responses((status = 200, description = "Events, until the stream ends.", body = String,
        content_type = "text/event-stream"), Failures),
    security(("key" = ["reports:read"])))]
pub async fn follow_events(
    State(keys): State<Arc<Keys>>,
    State(shutdown): State<Shutdown>,
    access: Access<ReportsRead>,
    Query(query): Query<EventQuery>,
    parts: Parts,
) -> Result<Response, Problem> {
    check_texts(Kind::InvalidParameter, MAX_APP_BYTES, [("app", query.app.as_deref())])?;
    let seconds = query.seconds.unwrap_or(MAX_STREAM_SECONDS);
    if !(1..=MAX_STREAM_SECONDS).contains(&seconds) {
        return Err(Problem::new(Kind::InvalidParameter, format!("seconds: 1 to {MAX_STREAM_SECONDS}")));
    }
    let last = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let last = last.map(|text| parse_parameter("Last-Event-ID", text)).transpose()?;
    let after: Option<EventNumber> = last.or(query.after);
    if after.is_some_and(|number| number < 0) {
        return Err(Problem::new(Kind::InvalidParameter, "after: 0 or the id of an event"));
    }
    let app = access.restrict_app(query.app)?;
    let permit = keys.capacity.permits.streams.try_acquire(access.tenant(), 1)?;
    let reached = match after {
        Some(number) => number,
        None => {
            let mut tx = keys.storage.tenant(access.tenant()).await?;
            let latest = store::latest_number(&mut tx).await?;
            tx.rollback();
            latest
        }
    };
    let end = shutdown.token().clone();
    let end = async move {
        let _ = tokio::time::timeout(Duration::from_secs(seconds.into()), end.cancelled()).await;
    };
    let follower = EventFollower { keys, access, parts, app, reached, is_caught_up: false, _permit: permit };
    let events = follower.into_stream().take_until(Box::pin(end));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT_INTERVAL)).into_response())
}

/// A client that follows events.
struct EventFollower {
    keys: Arc<Keys>,
    access: Access<ReportsRead>,
    parts: Parts,
    app: Option<String>,
    /// The number of the last event that it has.
    reached: EventNumber,
    /// True if the last read has found the end.
    is_caught_up: bool,
    _permit: Permit,
}

impl EventFollower {
    /// Returns the id at which it begins, so that a client that is cut off early can go on from it, and the events.
    fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> + Send {
        let begin = Event::default().id(self.reached.to_string()).retry(RECONNECT_INTERVAL);
        let reads = stream::unfold(self, async |mut follower| {
            let events = Box::pin(follower.try_next_events()).await?;
            Some((stream::iter(events), follower))
        });
        stream::iter([begin]).chain(reads.flatten()).map(Ok)
    }

    /// Returns the events since the last read, or None once the client may not see them any more. Repeats a read that
    /// fails for now.
    async fn try_next_events(&mut self) -> Option<Vec<Event>> {
        match self.next_events().await {
            Ok(events) => Some(events),
            Err(problem) if problem.kind().is_retriable() => {
                // The same events are read again after a while.
                self.is_caught_up = true;
                Some(Vec::new())
            }
            Err(problem) => {
                problem.log_fault("");
                None
            }
        }
    }

    /// Waits for the next read, and reads. The key is checked until the moment at which the events leave, so that none is
    /// sent after its revocation is known.
    async fn next_events(&mut self) -> Result<Vec<Event>, Problem> {
        if self.is_caught_up {
            for _ in 0..CHECKS_PER_READ {
                tokio::time::sleep(KEY_CHECK_INTERVAL).await;
                self.check_key().await?;
            }
        }
        let (events, reached) = self.read_events().await?;
        self.check_key().await?;
        self.reached = reached;
        Ok(events)
    }

    /// Checks the key as a request of its own would.
    ///
    /// # Errors
    /// Returns an error if the key may not read events any more.
    async fn check_key(&mut self) -> Result<(), Problem> {
        let slot = RequestSlot::take(&self.keys.capacity.permits)?;
        self.parts.extensions.insert(slot.clone());
        let access = Access::<ReportsRead>::from_request_parts(&mut self.parts, &self.keys).await;
        slot.release();
        self.access = access?;
        Ok(())
    }

    /// Reads a page of events, and returns the number at its end.
    async fn read_events(&mut self) -> Result<(Vec<Event>, EventNumber), Problem> {
        let mut tx = self.keys.storage.tenant(self.access.tenant()).await?;
        let found =
            store::events_after(&mut tx, self.reached, self.app.as_deref(), MAX_EVENTS_PER_READ).await?;
        self.is_caught_up = found.events.len() < usize::from(MAX_EVENTS_PER_READ);
        Ok((found.events.iter().map(sse_event).collect(), found.reached))
    }
}

fn sse_event(event: &LiveEvent) -> Event {
    // JSON in one line.
    Event::default().id(event.number.to_string()).event(&event.kind).data(event.data.to_string())
}
