//! Reads the events of a body. A broken event is refused alone, so that it never refuses the others.

use super::MOST_EVENTS;
use crate::problem::{Kind, Problem};
use crate::requests::refused::{RefusedElement, WRONG_APP};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use time::{Date, OffsetDateTime};
use unslide_proto::event::{GatewayEvent, ID_CHARS};
use unslide_report::{Element, LenientElement, ReadLimits, split_leniently};
use unslide_store::gateway_events::is_too_old;

/// The parts of an event that are needed while the broker takes its bytes.
#[derive(Clone, Debug)]
pub(super) struct ReadGatewayEvent {
    /// The id that is unique among the events of an app.
    pub(super) id: String,
    pub(super) app: String,
    /// Keys with values that were not understood.
    pub(super) unread: Vec<String>,
    /// True if the store will not count it because of its age.
    pub(super) is_too_old: bool,
}

/// One event of a request, in the order of the request.
#[derive(Clone, Debug)]
pub(super) enum ReceivedEvent {
    Accepted { event: ReadGatewayEvent, bytes: Bytes },
    Refused(RefusedEvent),
}

/// An event that is refused.
#[derive(Clone, Debug)]
pub(super) struct RefusedEvent {
    pub(super) bytes: Bytes,
    /// Its id, if it can be read.
    id: Option<String>,
    /// The version of its app, if it can be read.
    pub(super) version: Option<String>,
    /// A stable word, for machines.
    pub(super) reason: &'static str,
    /// The exact error, for people.
    pub(super) detail: String,
    /// Its place in an array, such as `event 2: `.
    place: String,
}

impl RefusedEvent {
    pub(super) fn to_element(&self, index: usize) -> RefusedElement {
        let (reason, detail) = (self.reason.to_owned(), self.detail.clone());
        RefusedElement { index, id: self.id.clone(), reason, detail }
    }

    fn to_problem(&self) -> Problem {
        let kind = if self.reason == WRONG_APP { Kind::InsufficientScope } else { Kind::InvalidBody };
        Problem::new(kind, format!("{}{}", self.place, self.detail))
    }
}

/// Rules for the events of a request.
pub(super) struct EventRules<'r> {
    /// The only app that the key may send events of.
    pub(super) app: Option<&'r str>,
    pub(super) now: OffsetDateTime,
    /// The first day of the tenant's retention time.
    pub(super) keep_from: Date,
    /// Reason of an event that cannot be read.
    pub(super) unreadable_reason: &'static str,
}

/// Refuses a request without an accepted event, and one with a refused event if all or none are to be accepted.
pub(super) fn check_events(events: &[ReceivedEvent], is_strict: bool) -> Result<(), Problem> {
    let is_accepted = |event: &ReceivedEvent| matches!(event, ReceivedEvent::Accepted { .. });
    if !is_strict && events.iter().any(is_accepted) {
        return Ok(());
    }
    let refused = events.iter().find_map(|event| match event {
        ReceivedEvent::Refused(refused) => Some(refused.to_problem()),
        ReceivedEvent::Accepted { .. } => None,
    });
    refused.map_or(Ok(()), Err)
}

/// Reads the events of a body, each with its bytes.
///
/// # Errors
/// The body is an array without an event, or with more than [`MOST_EVENTS`].
pub(super) fn read_events<E: GatewayEvent>(
    body: &Bytes,
    rules: &EventRules<'_>,
) -> Result<Vec<ReceivedEvent>, Problem> {
    if !body.trim_ascii_start().starts_with(b"[") {
        let bytes = body.slice_ref(body.trim_ascii());
        return Ok(vec![read_event::<E>(bytes, rules, String::new())]);
    }
    let events = split_array(body, MOST_EVENTS)?;
    if events.is_empty() {
        return Err(Problem::new(Kind::InvalidBody, "the array has no event"));
    }
    if events.len() > MOST_EVENTS {
        return Err(too_many(MOST_EVENTS));
    }
    let numbered = events.into_iter().enumerate();
    Ok(numbered.map(|(index, bytes)| read_event::<E>(bytes, rules, format!("event {index}: "))).collect())
}

fn too_many(most: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("more than {most} events; send them in several requests"))
}

/// Returns the bytes of each JSON text of a body: the elements of an array, one text, or one on each line; also of those
/// that are no JSON.
///
/// # Errors
/// [`Kind::TooLarge`] for more than `most`.
pub fn split_values(body: &Bytes, most: usize) -> Result<Vec<Bytes>, Problem> {
    let text = body.slice_ref(body.trim_ascii());
    let values = if text.starts_with(b"[") {
        split_array(&text, most)?
    } else if serde_json::from_slice::<&RawValue>(&text).is_ok() {
        vec![text]
    } else {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let lines = lines.filter(|line| !line.is_empty());
        lines.take(most.saturating_add(1)).map(|line| text.slice_ref(line)).collect()
    };
    if values.len() > most { Err(too_many(most)) } else { Ok(values) }
}

/// Returns the bytes of each element of an array, also of those that are no JSON.
fn split_array(body: &Bytes, most: usize) -> Result<Vec<Bytes>, Problem> {
    if let Ok(values) = serde_json::from_slice::<Vec<&RawValue>>(body) {
        return Ok(values.into_iter().map(|value| body.slice_ref(value.get().as_bytes())).collect());
    }
    let limits = ReadLimits { max_bytes: body.len(), ..ReadLimits::default() };
    let elements = split_leniently(body, &limits).map_err(|_| too_many(most))?;
    let bytes = |element: &LenientElement<'_>| match element {
        LenientElement::Whole(Element::Report(bytes) | Element::Other { bytes, .. })
        | LenientElement::Broken { bytes, .. } => body.slice_ref(bytes),
        LenientElement::Whole(Element::Text(text)) => [b"\"", text.raw(), b"\""].concat().into(),
    };
    Ok(elements.iter().map(bytes).collect())
}

/// The fields that name an event, read from one that is refused.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EventName {
    id: Option<String>,
    version: Option<String>,
}

fn read_event<E: GatewayEvent>(bytes: Bytes, rules: &EventRules<'_>, place: String) -> ReceivedEvent {
    let (reason, detail) = match E::read_at(&bytes, rules.now) {
        Err(error) => (rules.unreadable_reason, error.to_string()),
        Ok(event) => match rules.app.filter(|own| *own != event.app()) {
            Some(own) => {
                let detail =
                    format!("the key is valid for the app {own} only, and the event is of another app");
                (WRONG_APP, detail)
            }
            None => {
                let event = ReadGatewayEvent {
                    id: event.id().to_owned(),
                    app: event.app().to_owned(),
                    unread: event.unread_keys().to_vec(),
                    is_too_old: is_too_old(&event, rules.now, rules.keep_from),
                };
                return ReceivedEvent::Accepted { event, bytes };
            }
        },
    };
    let name: EventName = serde_json::from_slice(&bytes).unwrap_or_default();
    let id = name.id.filter(|id| id.chars().count() <= ID_CHARS);
    ReceivedEvent::Refused(RefusedEvent { bytes, id, version: name.version, reason, detail, place })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::events::EventTotals;
    use time::macros::{date, datetime};
    use unslide_proto::event::EventError;

    /// An event as a feature has it.
    #[derive(serde::Deserialize)]
    struct Launch {
        id: String,
        app: String,
        #[serde(with = "time::serde::rfc3339")]
        measured_at: OffsetDateTime,
    }

    impl GatewayEvent for Launch {
        fn from_json(json: &[u8]) -> Result<Launch, EventError> {
            serde_json::from_slice(json).map_err(|error| EventError::Json(error.to_string()))
        }

        fn id(&self) -> &str {
            &self.id
        }

        fn app(&self) -> &str {
            &self.app
        }

        fn event_time(&self) -> (&'static str, OffsetDateTime) {
            ("measured_at", self.measured_at)
        }
    }

    const EVENT: &str = r#"{"id":"m1","app":"com.acme.shop","measured_at":"2026-11-20T08:00:00Z"}"#;

    const RULES: EventRules<'static> = EventRules {
        app: None,
        now: datetime!(2026-11-20 09:00 UTC),
        keep_from: date!(2026 - 08 - 22),
        unreadable_reason: "bad_metrics",
    };

    /// Reads a request in which all events are to be accepted or none.
    fn read(body: &str, app: Option<&str>) -> Result<usize, (Kind, String)> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let read = read_events::<Launch>(&body, &EventRules { app, ..RULES });
        let read = read.and_then(|events| check_events(&events, true).map(|()| events));
        read.map(|events| {
            let same = |event: &ReceivedEvent| matches!(event, ReceivedEvent::Accepted { bytes, .. } if bytes == EVENT);
            assert!(events.iter().all(same), "byte for byte");
            events.len()
        })
        .map_err(|problem| (problem.kind(), problem.detail().unwrap_or_default().to_owned()))
    }

    #[test]
    fn one_bad_event_refuses_no_other() {
        let other = EVENT.replace("com.acme.shop", "com.acme.bank");
        let late = EVENT.replace("2026", "2999");
        for (body, wanted) in [
            (format!("[{EVENT},{{}},{EVENT}]"), vec!["", "bad_metrics", ""]),
            (
                format!("[{EVENT},{{\"a\": }},7,\"x\",{EVENT}]"),
                vec!["", "bad_metrics", "bad_metrics", "bad_metrics", ""],
            ),
            (format!("[{other},{EVENT},{late}]"), vec!["wrong_app", "", "bad_metrics"]),
            (format!("[{EVENT},{{\"id\":"), vec!["", "bad_metrics"]),
        ] {
            let rules = EventRules { app: Some("com.acme.shop"), ..RULES };
            let events = read_events::<Launch>(&Bytes::from(body.clone()), &rules).unwrap();
            let reasons = events.iter().map(|event| match event {
                ReceivedEvent::Accepted { .. } => "",
                ReceivedEvent::Refused(refused) => refused.reason,
            });
            assert_eq!(reasons.collect::<Vec<_>>(), wanted, "{body}");
            assert!(check_events(&events, false).is_ok() && check_events(&events, true).is_err(), "{body}");
            let totals = EventTotals::from_events(&events);
            assert_eq!(totals.accepted + totals.refused.len(), wanted.len(), "{body}");
        }
        let events = read_events::<Launch>(&Bytes::from_static(b"[{\"id\":\"m7\"}]"), &RULES).unwrap();
        assert!(check_events(&events, false).is_err(), "none is accepted");
        assert_eq!(EventTotals::from_events(&events).refused[0].id.as_deref(), Some("m7"));
    }

    #[test]
    fn one_event_or_an_array_is_taken_byte_for_byte() {
        assert_eq!(read(EVENT, None), Ok(1));
        assert_eq!(read(&format!("\n {EVENT} \n"), Some("com.acme.shop")), Ok(1));
        assert_eq!(read(&format!(" [{EVENT},\n{EVENT}] "), None), Ok(2));
        let most = vec![EVENT; MOST_EVENTS].join(",");
        assert_eq!(read(&format!("[{most}]"), None), Ok(MOST_EVENTS));
        let (kind, detail) = read(&format!("[{most},{EVENT}]"), None).unwrap_err();
        assert_eq!(
            (kind, detail.as_str()),
            (Kind::TooLarge, "more than 1000 events; send them in several requests")
        );
    }

    #[test]
    fn a_body_is_split_at_commas_or_lines() {
        let split = |body: &str| {
            let values = split_values(&Bytes::from(body.to_owned()), 3).ok()?;
            Some(
                values
                    .into_iter()
                    .map(|value| String::from_utf8(value.to_vec()).unwrap())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(split(" {\"a\":\n1} ").unwrap(), ["{\"a\":\n1}"]);
        assert_eq!(split("{}\n\n{\n[]\n").unwrap(), ["{}", "{", "[]"]);
        assert_eq!(split("[{},{]").unwrap()[0], "{}");
        assert_eq!(split("").unwrap(), Vec::<String>::new());
        assert_eq!((split("[1,2,3,4]"), split("1\n2\n3\n4")), (None, None));
    }

    #[test]
    fn events_that_are_too_old_are_counted_apart_from_those_of_their_app() {
        let totals = |started_at: &str, keep_from| {
            let body = Bytes::from(format!("[{EVENT},{}]", EVENT.replace("2026-11-20", started_at)));
            let read = read_events::<Launch>(&body, &EventRules { keep_from, ..RULES }).unwrap();
            let totals = EventTotals::from_events(&read);
            (totals.too_old, totals.apps["com.acme.shop"])
        };
        assert_eq!(totals("2026-10-21", RULES.keep_from), (0, 2), "30 days ago");
        assert_eq!(totals("2026-10-20", RULES.keep_from), (1, 1), "31 days ago");
        assert_eq!(totals("2026-11-13", date!(2026 - 11 - 13)), (0, 2), "the first day that is kept");
        assert_eq!(totals("2026-11-12", date!(2026 - 11 - 13)), (1, 1), "the day before it");
    }

    #[test]
    fn one_app_is_named_and_several_are_not() {
        let located = |body: String| {
            let body = Bytes::from(body);
            let read = read_events::<Launch>(&body, &RULES).unwrap();
            EventTotals::from_events(&read).only_app().map(str::to_owned)
        };
        assert_eq!(located(EVENT.to_owned()).as_deref(), Some("com.acme.shop"));
        assert_eq!(located(format!("[{EVENT},{}]", EVENT.replace("shop", "bank"))), None);
        for odd in ["a/b", "..", "ä", "a\\r\\nb", "a b"] {
            assert_eq!(located(EVENT.replace("com.acme.shop", odd)), None, "{odd}");
        }
    }

    #[test]
    fn a_refusal_names_the_event_and_the_field() {
        for (body, words) in [
            (String::new(), "EOF"),
            ("[]".to_owned(), "the array has no event"),
            (format!("{EVENT}{EVENT}"), "trailing"),
            (format!("[{EVENT},{{}}]"), "event 1: missing field"),
            (EVENT.replace("2026", "2028"), "`measured_at` lies more than a day ahead"),
            ("[".repeat(5_000), ""),
        ] {
            let (kind, detail) = read(&body, None).unwrap_err();
            assert_eq!(kind, Kind::InvalidBody);
            assert!(detail.contains(words), "{detail}");
        }
        let (kind, detail) = read(&format!("[{EVENT}]"), Some("com.acme.bank")).unwrap_err();
        assert_eq!(kind, Kind::InsufficientScope);
        assert!(detail.starts_with("event 0: the key is valid for the app com.acme.bank only"), "{detail}");
    }
}
