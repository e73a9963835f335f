//! Reads the records that gateways write to the topics of features.

use super::Reading;
use super::enriched::{Unreadable, read_sender_key};
use crate::feature::{AppKeys, EventTopic, TopicEvent};
use crate::rewriting::LoadedRewriters;
use serde_json::{Map, Value, json};
use time::{Duration, OffsetDateTime};
use unslide_model::{TenantId, timestamp};
use unslide_proto::{headers, refused};
use unslide_stream::{Record, Signatures};

/// An event and its tenant.
#[derive(Clone, Debug)]
pub struct ReadEvent {
    /// The tenant that the event belongs to.
    pub tenant: TenantId,
    /// The topic that stores it.
    pub topic: &'static EventTopic,
    pub event: TopicEvent,
}

fn unreadable(reason: &'static str, detail: impl Into<String>) -> Unreadable {
    Unreadable { reason, detail: detail.into() }
}

/// Reads an event that a gateway may have sent. Its sender is checked by the same rules as for reports. The time of
/// reading replaces a time that the topic does not have.
pub fn read_event(
    record: &Record,
    reading: &Reading,
    topic: &'static EventTopic,
) -> Result<ReadEvent, Unreadable> {
    let now = reading.now;
    let tenant = verify_owner(record, &reading.signatures, now)?;
    if let Some(refusal) = read_refusal(record, topic) {
        return Err(refusal);
    }
    let value = record.value.as_ref().ok_or_else(|| unreadable("empty", "the record has no value"))?;
    let event = (topic.read)(value, received_at(record, now), read_sender_key(record))
        .map_err(|error| unreadable(topic.unreadable_reason, error.to_string()))?;
    let event = rewrite_keys(event, &tenant, topic, &reading.rewriters);
    Ok(ReadEvent { tenant, topic, event })
}

/// Lets rewriters of reports change the app's keys in an event. Keys that cannot be rewritten are left out: the event counts all the
/// same.
fn rewrite_keys(
    event: TopicEvent,
    tenant: &TenantId,
    topic: &EventTopic,
    rewriters: &LoadedRewriters,
) -> TopicEvent {
    let Some(keys) = topic.keys.filter(|_| !rewriters.is_empty()) else { return event };
    let Some(AppKeys { app, keys: found }) = (keys.list)(&event) else { return event };
    let document = json!({"user": found}).to_string();
    match rewriters.rewrite_document(tenant, app, document.as_bytes()) {
        Ok(None) => event,
        Ok(Some(rewritten)) => (keys.replace)(event, read_user(&rewritten.bytes)),
        Err(_) => (keys.replace)(event, None),
    }
}

fn read_user(document: &[u8]) -> Option<Map<String, Value>> {
    let mut document: Map<String, Value> = serde_json::from_slice(document).ok()?;
    match document.remove("user")? {
        Value::Object(user) => Some(user),
        _ => None,
    }
}

/// Returns why the api refused an event, if it did for a known reason. Reasons are labels of metrics.
fn read_refusal(record: &Record, topic: &EventTopic) -> Option<Unreadable> {
    let reason = record.headers.get_text(headers::REFUSED_REASON)?;
    let mut known = refused::REASONS.into_iter().chain([topic.unreadable_reason]);
    let reason = known.find(|known| *known == reason)?;
    Some(unreadable(reason, record.headers.get_text(headers::REFUSED_DETAIL).unwrap_or_default()))
}

/// Returns the tenant that the record names, if its sender may name it.
pub fn verify_owner(
    record: &Record,
    signatures: &Signatures,
    now: OffsetDateTime,
) -> Result<TenantId, Unreadable> {
    let tenant = read_tenant(record)?;
    let millis = received_at(record, now).unix_timestamp_nanos() / 1_000_000;
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    signatures
        .check_signature(record, &tenant, millis)
        .map_err(|wrong| unreadable(wrong.reason, wrong.detail))?;
    Ok(tenant)
}

/// Returns the tenant that the record names, whether that tenant exists or not.
fn read_tenant(record: &Record) -> Result<TenantId, Unreadable> {
    let count = record.headers.count_named(headers::TENANT);
    if count > 1 {
        // A gateway may have checked one of the headers and appended the other, so neither can be trusted.
        let detail = format!("the record has {count} headers `{}`, one is needed", headers::TENANT);
        return Err(unreadable("ambiguous_tenant", detail));
    }
    let name = record.headers.get_text(headers::TENANT).ok_or_else(|| {
        unreadable("no_tenant", format!("the header {} is not there or is no text", headers::TENANT))
    })?;
    TenantId::new(name).map_err(|error| unreadable("no_tenant", error.to_string()))
}

/// Returns the broker's time of arrival, or `now` if the record's time is missing or impossible.
fn received_at(record: &Record, now: OffsetDateTime) -> OffsetDateTime {
    let possible = |at: &OffsetDateTime| *at >= OffsetDateTime::UNIX_EPOCH && *at <= now + Duration::HOUR;
    record.time_millis.and_then(timestamp::from_millis).filter(possible).unwrap_or(now)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::feature::EventKeys;
    use crate::records::enriched::tests::reading;
    use crate::rewriting::tests::Shout;
    use std::sync::Arc;
    use unslide_model::Secret;
    use unslide_proto::event::{EventError, GatewayEvent};
    use unslide_signatures::{Signer, SigningKey};
    use unslide_stream::{GatewayKey, Headers, RecordRef, SignatureSettings};

    /// An event as a feature has it.
    #[derive(Clone, serde::Deserialize)]
    struct Launch {
        id: String,
        app: String,
        keys: Option<Map<String, Value>>,
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

    const EVENT: &str = r#"{"id":"m1","app":"com.acme.shop","measured_at":"2025-11-20T01:00:00Z"}"#;

    /// A topic of a feature that stores nothing.
    pub static PAYLOADS: EventTopic = EventTopic {
        kind: "payloads",
        name: |topics| &topics.metrics,
        read: TopicEvent::read::<Launch>,
        unreadable_reason: "bad_payload",
        keys: Some(EventKeys {
            list: |event| {
                let event = &event.arrival::<Launch>()?.event;
                Some(AppKeys { app: &event.app, keys: event.keys.as_ref()? })
            },
            replace: |event, keys| event.change_event(|event: &mut Launch| event.keys = keys),
        }),
        store: |_, _, _| Box::pin(async { Ok(Vec::new()) }),
    };

    fn read_payload(record: &Record, signatures: &Arc<Signatures>) -> Result<ReadEvent, Unreadable> {
        let reading = Reading { signatures: Arc::clone(signatures), now: now(), ..reading() };
        read_event(record, &reading, &PAYLOADS)
    }

    #[test]
    fn rewriters_of_reports_change_the_keys_of_an_event_and_nothing_else() {
        let rewriters = LoadedRewriters::single("shout", Arc::new(Shout));
        let reading = Reading { rewriters, now: now(), ..reading() };
        let keys_of = |keys: &str| {
            let value = EVENT.replace(r#""m1""#, &format!(r#""quiet","keys":{keys}"#));
            let read = read_event(&record(&value, of_acme()), &reading, &PAYLOADS).unwrap();
            let event = &read.event.arrival::<Launch>().unwrap().event;
            assert_eq!(event.id, "quiet");
            event.keys.clone().map(|keys| Value::Object(keys).to_string())
        };
        for (sent, stored) in [
            (r#"{"theme":"quiet"}"#, Some(r#"{"theme":"LOUD"}"#)),
            (r#"{"theme":"blue"}"#, Some(r#"{"theme":"blue"}"#)),
            (r#"{"theme":"refuse"}"#, None),
            ("null", None),
        ] {
            assert_eq!(keys_of(sent).as_deref(), stored, "{sent}");
        }
    }

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_763_600_100).unwrap()
    }

    fn record(value: &str, headers: Headers) -> Record {
        Record {
            at: RecordRef { topic: "crash.metrics".into(), partition: 0, offset: 7 },
            time_millis: Some(1_763_600_000_000),
            key: None,
            value: Some(value.to_owned().into()),
            headers,
        }
    }

    fn of_acme() -> Headers {
        Headers::new().with(headers::TENANT, "acme")
    }

    #[test]
    fn an_event_is_read_with_its_tenant_and_the_brokers_time() {
        let signatures = Arc::new(Signatures::new(&SignatureSettings::default()));
        let read = read_payload(&record(EVENT, of_acme()), &signatures).unwrap();
        let arrival = read.event.arrival::<Launch>().unwrap();
        assert_eq!((read.tenant.as_str(), arrival.event.id.as_str()), ("acme", "m1"));
        assert_eq!(arrival.received_at.unix_timestamp(), 1_763_600_000);
    }

    #[test]
    fn what_cannot_be_stored_says_why() {
        let signatures = Arc::new(Signatures::new(&SignatureSettings::default()));
        let why = |value: &str, headers: Headers| {
            read_payload(&record(value, headers), &signatures).unwrap_err().reason
        };
        assert_eq!(why(EVENT, Headers::new()), "no_tenant");
        assert_eq!(why(EVENT, Headers::new().with(headers::TENANT, "No Tenant")), "no_tenant");
        assert_eq!(why(EVENT, of_acme().with(headers::TENANT, "acme")), "ambiguous_tenant");
        assert_eq!(why("{}", of_acme()), "bad_payload");
        let refused = |reason: &'static str| of_acme().with(headers::REFUSED_REASON, reason);
        assert_eq!(why(EVENT, refused("wrong_app")), "wrong_app");
        assert_eq!(why("", refused("bad_payload")), "bad_payload");
        assert_eq!(why("{}", refused("any word")), "bad_payload", "an unknown reason is ignored");
        assert_eq!(why(&EVENT.replace("2025", "2027"), of_acme()), "bad_payload");
    }

    #[test]
    fn where_signatures_are_required_nobody_sends_events_for_another() {
        let key = SigningKey::parse(&Secret::new("TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=")).unwrap();
        let edge = GatewayKey {
            name: "edge".into(),
            public_key: key.verifying_key().to_string(),
            tenants: vec!["acme".into()],
        };
        let signatures = SignatureSettings { required: true, keys: vec![edge] };
        let signatures = Arc::new(Signatures::new(&signatures));
        let signer = Signer::new("edge", key);
        let signed = |slug: &str, at: i64| {
            let tenant = TenantId::new(slug).unwrap();
            let mut headers = Headers::new().with(headers::TENANT, slug.to_owned());
            let signed = signer.signature_headers(&tenant, at, EVENT.as_bytes());
            signed.into_iter().for_each(|(name, value)| headers.push(name, value));
            read_payload(&record(EVENT, headers), &signatures).map_or_else(|why| why.reason, |_| "taken")
        };
        assert_eq!(signed("acme", 1_763_600_000_000), "taken");
        assert_eq!(signed("acme", 1_763_500_000_000), "stale_signature");
        assert_eq!(signed("other", 1_763_600_000_000), "bad_signature");
        let unsigned = read_payload(&record(EVENT, of_acme()), &signatures).unwrap_err();
        assert_eq!(unsigned.reason, "no_signature");
    }
}
