//! `GET /v1/events`: a stream of server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

use crate::limits::permits::Permit;
use crate::operations::prelude::*;
use crate::requests::input::check_texts;
use axum::extract::FromRequestParts;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use http::request::Parts;
use std::convert::Infallible;
use std::time::Duration;
use unslide_store::live_events::{self, EventNumber, LiveEvent};

/// The longest stream, and one for which nothing else is asked.
const LONGEST: u32 = 3_600;
/// The time between two checks of the key, which ask the database nothing: its stamps are read in the background.
const KEY_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The checks of the key between two reads of events: one read each second.
const CHECKS_PER_READ: u32 = 4;
/// Between two signs of life where nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a client is to wait before it comes back.
const RETRY: Duration = Duration::from_secs(3);
/// Events of one look.
const PAGE: u16 = 200;
/// Longer names of apps fit nothing that is stored.
const LONGEST_APP: usize = 1_024;

/// Which events, and for how long.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Bundle identifier: only events of this app. Symbols are of none.
    #[param(max_length = 1024, example = "com.example.shop")]
    pub app: Option<String>,
    /// The id of an event after which the stream begins, as in the header `Last-Event-ID`, which goes first; 0 for all that
    /// are kept. What happens from now on where neither is there.
    #[param(minimum = 0, example = 911)]
    pub after: Option<i64>,
    /// The stream ends after this number of seconds, 1 to 3600; 3600 where absent.
    #[param(minimum = 1, maximum = 3600)]
    pub seconds: Option<u32>,
}

problems!(Failures: InvalidParameter);

/// Follow events
///
/// A stream of server-sent events: `group_created`, `group_regressed`, `reports_stored` (numbers by app),
/// `symbols_ready` and those of features, with JSON as data. A client that was cut off goes on with `Last-Event-ID`; events are kept for a day. The
/// stream ends after an hour, within a second of its key's revocation, and when the service stops.
#[utoipa::path(get, path = "/v1/events", tag = "reports", operation_id = "follow_events",
    params(EventQuery),
    responses((status = 200, description = "Events, until the stream ends.", body = String,
        content_type = "text/event-stream"), Failures),
    security(("key" = ["reports:read"])))]
pub async fn follow_events(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Query(query): Query<EventQuery>,
    parts: Parts,
) -> Result<Response, Problem> {
    check_texts(Kind::InvalidParameter, LONGEST_APP, [("app", query.app.as_deref())])?;
    let seconds = query.seconds.unwrap_or(LONGEST);
    if !(1..=LONGEST).contains(&seconds) {
        return Err(Problem::new(Kind::InvalidParameter, format!("seconds: 1 to {LONGEST}")));
    }
    let last = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let last = last.map(|text| parameter("Last-Event-ID", text)).transpose()?;
    let after: Option<EventNumber> = last.or(query.after);
    if after.is_some_and(|number| number < 0) {
        return Err(Problem::new(Kind::InvalidParameter, "after: 0 or the id of an event"));
    }
    let app = access.app(query.app)?;
    let permit = api.permits.events.try_acquire(access.tenant(), 1)?;
    let reached = match after {
        Some(number) => number,
        None => {
            let mut tx = api.tenant(access.tenant()).await?;
            let latest = live_events::latest(&mut tx).await?;
            tx.rollback();
            latest
        }
    };
    let end = api.shutdown.token().clone();
    let end = async move {
        let _ = tokio::time::timeout(Duration::from_secs(seconds.into()), end.cancelled()).await;
    };
    let following = Following { api, access, parts, app, reached, is_caught_up: false, _permit: permit };
    let events = following.stream().take_until(Box::pin(end));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

/// A client that follows events.
struct Following {
    api: Api,
    access: Access<ReportsRead>,
    parts: Parts,
    app: Option<String>,
    /// The number of the event that it goes on after.
    reached: EventNumber,
    /// True if the last read has found the end.
    is_caught_up: bool,
    _permit: Permit,
}

impl Following {
    /// The id at which it begins, so that a client that is cut off early can go on from it, and the events.
    fn stream(self) -> impl Stream<Item = Result<Event, Infallible>> + Send {
        let begin = Event::default().id(self.reached.to_string()).retry(RETRY);
        let looks = stream::unfold(self, async |mut following| {
            let events = Box::pin(following.look()).await?;
            Some((stream::iter(events), following))
        });
        stream::iter([begin]).chain(looks.flatten()).map(Ok)
    }

    /// Returns the events since the last read, or None once the client may not see them any more. A read that fails for now
    /// is made again.
    async fn look(&mut self) -> Option<Vec<Event>> {
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
        let (events, reached) = self.read().await?;
        self.check_key().await?;
        self.reached = reached;
        Ok(events)
    }

    /// Checks the key as a request of its own would.
    ///
    /// # Errors
    /// Returns an error if the key may not read events any more.
    async fn check_key(&mut self) -> Result<(), Problem> {
        let slot = self.api.permits.slot()?;
        self.parts.extensions.insert(slot.clone());
        let access = Access::<ReportsRead>::from_request_parts(&mut self.parts, &self.api).await;
        slot.release();
        self.access = access?;
        Ok(())
    }

    /// Reads a page of events, and returns where it ends.
    async fn read(&mut self) -> Result<(Vec<Event>, EventNumber), Problem> {
        let mut tx = self.api.tenant(self.access.tenant()).await?;
        let found = live_events::after(&mut tx, self.reached, self.app.as_deref(), PAGE).await?;
        self.is_caught_up = found.events.len() < usize::from(PAGE);
        Ok((found.events.iter().map(event).collect(), found.reached))
    }
}

fn event(of: &LiveEvent) -> Event {
    // JSON in one line.
    Event::default().id(of.number.to_string()).event(&of.kind).data(of.data.to_string())
}
