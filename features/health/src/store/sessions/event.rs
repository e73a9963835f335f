//! One session event, as apps and gateways send it.

use super::flags::{SessionFlags, has_unread_flags, read_flags};
use super::termination::TerminationEvidence;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use time::{Duration, OffsetDateTime};
use unslide_model::ended::{EndReason, EndedRun};
use unslide_model::json;
use unslide_proto::event::{
    EventError, GatewayEvent, ID_CHARS, TEXT_CHARS, check_sampled, check_size, check_texts, field_error,
    is_text,
};

/// Bytes of one event's JSON.
pub const MAX_EVENT_BYTES: usize = 8 << 10;
/// Sessions that one event may say were counted before.
const MOST_COUNTED: i32 = 100_000_000;
/// Seconds that one session may last: a year.
const LONGEST_SECONDS: f64 = 31_536_000.0;
/// Texts without which a session is counted as well. An odd one is left out.
const OPTIONAL_TEXTS: [(&str, RangeInclusive<usize>); 4] = [
    ("user", 1..=TEXT_CHARS),
    ("version", 0..=TEXT_CHARS),
    ("os", 1..=TEXT_CHARS),
    ("device", 1..=TEXT_CHARS),
];

/// The field with the app's own keys, which are left out as a whole if they are no object.
const FLAGS: &str = "flags";

/// Returns true if a later event may know better.
pub(super) fn is_vague(reason: EndReason) -> bool {
    matches!(reason, EndReason::Terminated | EndReason::Unknown)
}

/// One session of an app on one device: from its start to its end, which may come in a later event with the
/// same id. Fields that are not listed here are ignored. `docs/schema/sessions-v1.json` describes the same.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SessionEvent {
    /// Id of the session within its app; a UUID is fine. The same id again is the same session.
    pub id: String,
    /// Id of the installation of the app, hashed by the app. It is hashed once more before it is stored.
    /// Required, except for sessions that were counted before.
    pub installation: Option<String>,
    /// Instead of one session: the number of sessions that were counted before, all of the day of `started_at`. They
    /// have no installations and no ends.
    pub sessions: Option<i32>,
    /// Those of `sessions` that crashed.
    pub crashed: Option<i32>,
    /// Id of the user; only its hash is stored.
    pub user: Option<String>,
    pub app: String,
    #[serde(default)]
    pub version: String,
    pub os: Option<String>,
    pub device: Option<String>,
    /// The flags and own keys of the app, by their names. A session that has none says so with an empty object.
    pub flags: Option<Map<String, Value>>,
    /// The id of the process, which tells apart the sessions that a memory exception may be about.
    pub pid: Option<i32>,
    /// The share of the sessions that is sent, 0.001 to 1: each counts as 1 divided by this share, rounded.
    /// The app has to decide per session, not per event.
    pub sampled: Option<f64>,
    /// When the session began (RFC 3339). The session is counted for this day (UTC). It must be the same in
    /// every event of the session.
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    /// When it ended (RFC 3339). An end before the start counts as the start.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub ended_at: Option<OffsetDateTime>,
    /// Instead of `ended_at`: seconds from the start to the end.
    pub duration: Option<f64>,
    /// True if the app was on the screen, false for work in the background. With `end_reason` or
    /// `termination`: when it ended.
    pub foreground: Option<bool>,
    pub end_reason: Option<EndReason>,
    /// Instead of `end_reason`: the evidence that the app found at its next start. The service then says how
    /// the session ended.
    pub termination: Option<TerminationEvidence>,
    /// Optional texts and flags that were left out, because they are odd.
    #[serde(skip)]
    pub unread: Vec<String>,
}

impl GatewayEvent for SessionEvent {
    fn from_json(text: &[u8]) -> Result<SessionEvent, EventError> {
        check_size(text, MAX_EVENT_BYTES)?;
        let read = json::from_slice::<SessionEvent>(text).map_err(EventError::from);
        read.and_then(SessionEvent::checked)
            .or_else(|error| read_without_odd_texts(text).unwrap_or(Err(error)))
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn app(&self) -> &str {
        &self.app
    }

    fn event_time(&self) -> (&'static str, OffsetDateTime) {
        ("started_at", self.started_at)
    }

    fn unread_keys(&self) -> &[String] {
        &self.unread
    }
}

/// Reads an event again, without its odd optional texts. Returns `None` if it has none.
fn read_without_odd_texts(text: &[u8]) -> Option<Result<SessionEvent, EventError>> {
    let mut event: Value = json::from_slice(text).ok()?;
    let fields = event.as_object_mut()?;
    let (mut unread, before) = (Vec::new(), fields.len());
    for (field, chars) in OPTIONAL_TEXTS {
        let is_fit = |value: &Value| value.as_str().is_some_and(|text| is_text(text, &chars));
        if fields.get(field).is_some_and(|value| !is_fit(value))
            && fields.remove(field).is_some_and(|value| !value.is_null())
        {
            unread.push(field.to_owned());
        }
    }
    if fields.get(FLAGS).is_some_and(|flags| !flags.is_object() && !flags.is_null()) {
        fields.remove(FLAGS);
        unread.push(FLAGS.to_owned());
    }
    let is_changed = fields.len() < before;
    is_changed.then(|| {
        let mut event = json::from_value::<SessionEvent>(event)?.checked()?;
        event.unread.extend(unread);
        Ok(event)
    })
}

impl SessionEvent {
    fn checked(mut self) -> Result<SessionEvent, EventError> {
        self.check()?;
        if self.flags.as_ref().is_some_and(has_unread_flags) {
            self.unread.push(FLAGS.to_owned());
        }
        Ok(self)
    }

    fn check(&self) -> Result<(), EventError> {
        check_texts([
            ("id", Some(&self.id), 1..=ID_CHARS),
            ("installation", self.installation.as_ref(), 1..=TEXT_CHARS),
            ("user", self.user.as_ref(), 1..=TEXT_CHARS),
            ("app", Some(&self.app), 1..=TEXT_CHARS),
            ("version", Some(&self.version), 0..=TEXT_CHARS),
            ("os", self.os.as_ref(), 1..=TEXT_CHARS),
            ("device", self.device.as_ref(), 1..=TEXT_CHARS),
        ])?;
        self.check_counts()?;
        if self.pid.is_some_and(i32::is_negative) {
            return Err(field_error("pid", "must not be negative"));
        }
        check_sampled(self.sampled)?;
        match self.duration {
            Some(_) if self.ended_at.is_some() => {
                Err(field_error("duration", "and `ended_at` say the same: send one"))
            }
            Some(seconds) if !(0.0..=LONGEST_SECONDS).contains(&seconds) => {
                Err(field_error("duration", format!("must be between 0 and {LONGEST_SECONDS} seconds")))
            }
            _ => Ok(()),
        }
    }

    fn check_counts(&self) -> Result<(), EventError> {
        let Some(sessions) = self.sessions else {
            return match (&self.installation, self.crashed) {
                (None, _) => Err(field_error(
                    "installation",
                    "is missing; only sessions that were counted before have none",
                )),
                (_, Some(_)) => Err(field_error("crashed", "is for `sessions` that were counted before")),
                _ => Ok(()),
            };
        };
        let ended = self.end_reason.is_some() || self.termination.is_some();
        if !(1..=MOST_COUNTED).contains(&sessions) {
            Err(field_error("sessions", format!("must be between 1 and {MOST_COUNTED}")))
        } else if !(0..=sessions).contains(&self.crashed.unwrap_or(0)) {
            Err(field_error("crashed", "must be between 0 and `sessions`"))
        } else if self.installation.is_some() || self.sampled.is_some() || ended {
            Err(field_error(
                "sessions",
                "have neither `installation` nor `sampled` nor an end: they were counted before",
            ))
        } else {
            Ok(())
        }
    }

    /// Returns the flags that are kept. Sessions that were counted before have none.
    #[must_use]
    pub fn read_flags(&self) -> Option<SessionFlags> {
        self.flags.as_ref().filter(|_| self.installation.is_some()).map(read_flags)
    }

    /// Returns the weight of the session, in thousandths.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    pub fn weight(&self) -> u64 {
        (1_000.0 / self.sampled.unwrap_or(1.0)).round() as u64
    }

    /// Returns how the session ended and why that is assumed, if the event brings evidence and no better
    /// reason. `learned_limit` is that of other runs on the same device model and system version.
    #[must_use]
    pub fn judge(&self, learned_limit: Option<u64>) -> Option<EndedRun> {
        let found = self.termination.as_ref().filter(|_| self.end_reason.is_none_or(is_vague))?;
        Some(EndedRun { foreground: self.foreground, ..found.judge(learned_limit) })
    }

    /// Returns true if a learned limit says more of the end than the event itself.
    pub(super) fn asks_for_limit(&self) -> bool {
        let found = self.termination.as_ref();
        let is_asking = |found: &TerminationEvidence| {
            found.footprint.is_some() && found.footprint_limit.is_none_or(|limit| limit == 0)
        };
        let is_memory =
            |ended: EndedRun| matches!(ended.kind, EndReason::OutOfMemory | EndReason::Unexplained);
        found.is_some_and(is_asking) && self.judge(None).is_some_and(is_memory)
    }

    /// Returns when the session ended, as far as this event knows: at most a year after its start.
    #[must_use]
    pub fn end(&self) -> Option<OffsetDateTime> {
        let by_duration = || {
            let length = Duration::checked_seconds_f64(self.duration?)?;
            self.started_at.checked_add(length)
        };
        let longest = self.started_at.checked_add(Duration::seconds_f64(LONGEST_SECONDS))?;
        self.ended_at.or_else(by_duration).map(|end| end.max(self.started_at).min(longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"id":"s1","installation":"i","app":"com.acme.shop","started_at":"2026-11-20T23:30:00-02:00","other":[{}]}"#;

    fn refusal(from: &str, to: &str) -> String {
        let json = GOOD.replace(from, to);
        assert_ne!(json, GOOD);
        SessionEvent::from_json(json.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn an_event_needs_little_and_its_day_is_that_of_its_start_in_utc() {
        let event = SessionEvent::from_json(GOOD.as_bytes()).unwrap();
        assert_eq!((event.version.as_str(), event.end(), event.end_reason), ("", None, None));
        assert_eq!(event.event_day().to_string(), "2026-11-21");
    }

    #[test]
    fn an_odd_optional_text_is_left_out_and_the_event_is_read() {
        let event = |from: &str, to: &str| SessionEvent::from_json(GOOD.replace(from, to).as_bytes());
        let long = format!("\"{}\"", "x".repeat(201));
        for odd in ["\"\"", long.as_str(), "\"a\\u0000b\"", "26", "[]", "{}"] {
            for (field, _) in OPTIONAL_TEXTS {
                let read = event("\"other\"", &format!("\"{field}\":{odd},\"other\"")).unwrap();
                let is_taken = (field, odd) == ("version", "\"\"");
                assert_eq!(read.unread_keys().is_empty(), is_taken, "{field}: {odd}");
                assert!(read.unread.iter().all(|unread| unread == field));
                assert_eq!((read.id.as_str(), read.user, read.os, read.device), ("s1", None, None, None));
                assert_eq!(read.version, "");
            }
        }
        let all = r#""user":"","os":5,"device":"iPhone16,1","version":null,"other""#;
        let read = event("\"other\"", all).unwrap();
        assert_eq!(read.unread, ["user", "os"]);
        assert_eq!(read.device.as_deref(), Some("iPhone16,1"));
        // What a session is counted by is not optional.
        let worse = event(r#""id":"s1""#, r#""id":"","os":"""#).unwrap_err().to_string();
        assert_eq!(worse, "`id` must have 1 to 100 characters");
    }

    #[test]
    fn odd_flags_are_left_out_and_the_session_is_counted() {
        let read = |flags: &str| {
            let json = GOOD.replace(r#""other""#, &format!(r#""flags":{flags},"other""#));
            SessionEvent::from_json(json.as_bytes()).unwrap()
        };
        let good = read(r#"{"checkout_v2":true}"#);
        assert_eq!((good.flags.map(|flags| flags.len()), good.unread.len()), (Some(1), 0));
        for (odd, kept) in [(r#"{"a":[1],"b":"c"}"#, Some(2)), ("[]", None), ("true", None), (r#""a""#, None)]
        {
            let event = read(odd);
            assert_eq!((event.flags.map(|flags| flags.len()), event.unread), (kept, vec![FLAGS.to_owned()]));
        }
        assert_eq!((read("null").flags, read("null").unread.len()), (None, 0));
        assert_eq!(read("{}").flags, Some(Map::new()), "an app without flags says so");
        let both = read(r#"5,"os":7"#);
        assert_eq!(both.unread, ["os", "flags"]);
    }

    #[test]
    fn sessions_may_be_counted_before() {
        let json = GOOD.replace(r#""installation":"i""#, r#""sessions":1000,"crashed":7"#);
        let event = SessionEvent::from_json(json.as_bytes()).unwrap();
        assert_eq!((event.sessions, event.crashed, event.installation), (Some(1_000), Some(7), None));
    }

    #[test]
    fn an_end_is_a_moment_or_a_duration_and_never_before_the_start() {
        let end = |more: &str| {
            let json = GOOD.replace(r#""other""#, &format!("{more},\"other\""));
            let event = SessionEvent::from_json(json.as_bytes()).unwrap();
            event.end().map(|end| (end - event.started_at).as_seconds_f64())
        };
        assert_eq!(end(r#""duration":12.5"#), Some(12.5));
        assert_eq!(end(r#""ended_at":"2026-11-21T01:31:00Z""#), Some(60.0));
        assert_eq!(end(r#""ended_at":"2026-11-20T01:31:00Z""#), Some(0.0));
        assert_eq!(end(r#""ended_at":"9999-12-31T23:59:59-08:00""#), Some(LONGEST_SECONDS));
        assert_eq!(end(r#""end_reason":"crashed""#), None);
    }

    #[test]
    fn an_event_with_a_damaged_byte_is_read_or_refused_and_what_is_read_can_be_counted() {
        const FULL: &[u8] = br#"{"id":"s1","installation":"i","user":"u","app":"a","version":"1","os":"iOS 26","device":"d",
            "sampled":0.25,"started_at":"2026-11-20T23:30:00-02:00","ended_at":"2026-11-21T02:00:00Z","foreground":true,
            "end_reason":"crashed","termination":{"reason":"hang","rebooted":true,"footprint":12,"jetsam":"x"}}"#;
        let check = |json: &[u8]| {
            let Ok(event) = SessionEvent::from_json(json) else { return false };
            let end = event.end().unwrap_or(event.started_at);
            assert!((1_000..=1_000_000).contains(&event.weight()) && end >= event.started_at);
            assert!(!event.id().is_empty() && !event.app().is_empty());
            let _ = (event.event_day(), event.judge(Some(1 << 30)), event.asks_for_limit());
            true
        };
        assert!(check(FULL));
        for at in 0..FULL.len() {
            assert!(!check(&FULL[..at]));
            for byte in *b"\"\\0159-+.,:eZT{}[]\0\xff" {
                let mut damaged = FULL.to_vec();
                damaged[at] = byte;
                check(&damaged);
            }
        }
    }

    #[test]
    fn a_refusal_names_the_field_and_what_would_be_right() {
        assert_eq!(refusal(r#""s1""#, r#""""#), "`id` must have 1 to 100 characters");
        assert_eq!(
            refusal(r#""i""#, &format!("\"{}\"", "x".repeat(201))),
            "`installation` must have 1 to 200 characters"
        );
        assert_eq!(refusal("shop", r"shop\u0000"), "`app` must not contain the character U+0000");
        assert!(refusal(r#""app""#, r#""ap""#).starts_with("missing field `app`"));
        assert!(refusal("2026-11-20T23:30:00-02:00", "yesterday").contains("line 1"));
        assert!(
            refusal("\"other\"", "\"duration\":-1,\"other\"").starts_with("`duration` must be between 0")
        );
        assert!(refusal("\"other\"", "\"duration\":1e300,\"other\"").starts_with("`duration` must be"));
        let both = "\"duration\":1,\"ended_at\":\"2026-11-21T01:31:00Z\",\"other\"";
        assert_eq!(refusal("\"other\"", both), "`duration` and `ended_at` say the same: send one");
        assert!(refusal("\"other\"", "\"end_reason\":\"bored\",\"other\"").contains("bored"));
        assert_eq!(refusal("\"other\"", "\"sampled\":0,\"other\""), "`sampled` must be between 0.001 and 1");
        assert!(refusal("[{}]", &format!("\"{}\"", "x".repeat(9_000))).contains("the limit is 8192"));
        assert!(SessionEvent::from_json(b"[]").is_err());
        assert!(refusal(r#""installation":"i","#, "").starts_with("`installation` is missing"));
        assert!(refusal("\"other\"", "\"crashed\":1,\"other\"").starts_with("`crashed` is for"));
        let counted = |fields: &str| refusal(r#""installation":"i""#, fields);
        assert!(counted(r#""sessions":0"#).starts_with("`sessions` must be between 1 and 100000000"));
        assert!(counted(r#""sessions":5,"crashed":6"#).starts_with("`crashed` must be between 0"));
        assert!(counted(r#""sessions":5,"end_reason":"crashed""#).starts_with("`sessions` have neither"));
    }

    #[test]
    fn a_start_in_the_future_is_a_wrong_clock() {
        let event = SessionEvent::from_json(GOOD.as_bytes()).unwrap();
        event.check_time(event.started_at - Duration::DAY).unwrap();
        assert!(event.check_time(event.started_at - Duration::DAY * 1.1).is_err());
        for at in ["0000-01-01T00:00:00+08:00", "9999-12-31T23:59:59-08:00"] {
            let json = GOOD.replace("2026-11-20T23:30:00-02:00", at);
            let far = SessionEvent::from_json(json.as_bytes()).unwrap();
            assert_eq!(far.check_time(event.started_at).is_ok(), at.starts_with('0'));
            let _ = (far.event_day(), far.end());
        }
    }
}
