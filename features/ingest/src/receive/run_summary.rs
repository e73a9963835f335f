//! Converts KSCrash 3.0's summary of a run to a session event, as `docs/sessions.md` describes it.
//!
//! One summary is one session: KSCrash's own sessions end whenever the app leaves the screen.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::json as strict_json;
use unslide_proto::event::{EventError, GatewayEvent, check_size, check_texts};

/// The most bytes of a summary.
const MAX_SUMMARY_BYTES: usize = 1 << 20;
/// The most characters of a text that is passed on.
const MAX_TEXT_CHARS: usize = 200;
/// The most bytes of an event, as its reader takes it.
const MAX_EVENT_BYTES: usize = 8 << 10;
/// The most characters of a run's id.
const MAX_ID_CHARS: usize = 100;
/// Words of `build_type` and `host_kind` for runs of developers.
const DEVELOPMENT_BUILDS: [&str; 2] = ["debug", "simulator"];
const TEST_HOST: &str = "xctest";
/// The object among the app's keys that is passed on, and the field of an event that it becomes.
const FLAGS: &str = "flags";

/// A summary that can be sent on.
#[derive(Debug)]
pub(super) struct Converted {
    /// The id of the run in lower case: KSCrash writes both cases.
    pub(super) run_id: String,
    pub(super) app: String,
    pub(super) version: String,
    /// The session event; None for a run of a developer, which is not counted.
    pub(super) event: Option<Bytes>,
}

/// The members of a summary that are read. Others are ignored.
#[derive(Deserialize)]
struct RunSummary {
    run_id: String,
    #[serde(default)]
    device_id: String,
    user_id: Option<String>,
    started_at_ms: i64,
    ended_at_ms: i64,
    #[serde(default)]
    is_being_debugged: bool,
    outcome: RunOutcome,
    app: RunApp,
    #[serde(default)]
    os: RunSystem,
    #[serde(default)]
    device: RunDevice,
    /// The app's own keys at the end of the run, of any type.
    #[serde(default)]
    metadata: Value,
}

#[derive(Deserialize)]
struct RunOutcome {
    termination_reason: String,
    user_perceptible: Option<bool>,
}

#[derive(Deserialize)]
struct RunApp {
    bundle_id: String,
    #[serde(default)]
    short_version: String,
    host_kind: Option<String>,
    build_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RunSystem {
    name: String,
    version: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RunDevice {
    model: String,
    model_family: String,
}

impl RunSummary {
    /// Returns true for a run under a debugger, in a simulator or of a test.
    fn is_of_developer(&self) -> bool {
        let build = self.app.build_type.as_deref().unwrap_or_default();
        self.is_being_debugged
            || DEVELOPMENT_BUILDS.contains(&build)
            || self.app.host_kind.as_deref() == Some(TEST_HOST)
            || self.device.model_family == "simulator"
    }

    /// Returns the id of the process, which KSCrash does not write and the app's keys may have.
    fn process_id(&self) -> Option<i32> {
        let id = self.metadata.get("process_id")?;
        let id = id.as_i64().or_else(|| id.as_str()?.parse().ok())?;
        i32::try_from(id).ok().filter(|id| *id > 0)
    }

    /// Returns the flags among the app's keys. They keep their names, as reports have them.
    fn read_flags(&self) -> Option<Value> {
        let flags = self.metadata.get(FLAGS)?.as_object()?;
        Some(json!({FLAGS: flags}))
    }

    fn to_event(&self, run_id: &str) -> Result<Value, String> {
        let mut event = Map::new();
        let mut set = |field: &str, value: Value| drop(event.insert(field.to_owned(), value));
        set("id", run_id.into());
        // An unknown installation is one of its own, so that it is counted once.
        let device = cut_text(&self.device_id);
        let installation = if device.is_empty() { cut_text(run_id) } else { device };
        set("installation", installation.into());
        set("app", self.app.bundle_id.as_str().into());
        set("version", cut_text(&self.app.short_version).into());
        let system = format!("{} {}", self.os.name, self.os.version);
        for (field, text) in [
            ("os", system.trim()),
            ("device", self.device.model.as_str()),
            ("user", self.user_id.as_deref().unwrap_or_default()),
        ] {
            let text = cut_text(text);
            if !text.is_empty() {
                set(field, text.into());
            }
        }
        set("started_at", format_millis("started_at_ms", self.started_at_ms)?.into());
        set("ended_at", format_millis("ended_at_ms", self.ended_at_ms.max(self.started_at_ms))?.into());
        if let Some(is_foreground) = self.outcome.user_perceptible {
            set("foreground", is_foreground.into());
        }
        if let Some(id) = self.process_id() {
            set("pid", id.into());
        }
        set("termination", json!({"reason": cut_text(&self.outcome.termination_reason)}));
        Ok(Value::Object(event))
    }
}

/// The members of an event for which its reader may refuse it. The event is checked before it is sent: what is refused
/// later is a dead letter, after the sender was told that it is accepted.
#[derive(Deserialize)]
struct SentEvent {
    id: String,
    app: String,
    installation: String,
    version: String,
    os: Option<String>,
    device: Option<String>,
    user: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    started_at: OffsetDateTime,
}

impl GatewayEvent for SentEvent {
    fn from_json(json: &[u8]) -> Result<SentEvent, EventError> {
        check_size(json, MAX_EVENT_BYTES)?;
        let event: SentEvent = strict_json::from_slice(json)?;
        check_texts([
            ("run_id", Some(&event.id), 1..=MAX_ID_CHARS),
            ("device_id", Some(&event.installation), 1..=MAX_TEXT_CHARS),
            ("app.bundle_id", Some(&event.app), 1..=MAX_TEXT_CHARS),
            ("app.short_version", Some(&event.version), 0..=MAX_TEXT_CHARS),
            ("os", event.os.as_ref(), 1..=MAX_TEXT_CHARS),
            ("device.model", event.device.as_ref(), 1..=MAX_TEXT_CHARS),
            ("user_id", event.user.as_ref(), 1..=MAX_TEXT_CHARS),
        ])?;
        Ok(event)
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn app(&self) -> &str {
        &self.app
    }

    fn event_time(&self) -> (&'static str, OffsetDateTime) {
        ("started_at_ms", self.started_at)
    }
}

/// Reads a summary that arrives now, and converts it.
///
/// # Errors
/// Returns the problem with the summary, for people.
pub(super) fn convert_summary(bytes: &[u8], now: OffsetDateTime) -> Result<Converted, String> {
    if bytes.len() > MAX_SUMMARY_BYTES {
        return Err(format!("the run summary has {} bytes, the limit is {MAX_SUMMARY_BYTES}", bytes.len()));
    }
    let summary: RunSummary =
        serde_json::from_slice(bytes).map_err(|error| format!("no run summary: {error}"))?;
    let run_id = summary.run_id.to_lowercase();
    let app = &summary.app.bundle_id;
    for (field, text, most) in [("run_id", &run_id, MAX_ID_CHARS), ("app.bundle_id", app, MAX_TEXT_CHARS)] {
        if !(1..=most).contains(&text.chars().count()) || text.contains('\0') {
            return Err(format!("`{field}` must have 1 to {most} characters"));
        }
    }
    let mut event = None;
    if !summary.is_of_developer() {
        let mut new = summary.to_event(&run_id)?;
        let mut json = new.to_string();
        if let Some(flags) = summary.read_flags() {
            new[FLAGS] = flags;
            // Flags that are too large are left out, so that the run counts.
            json = Some(new.to_string()).filter(|json| json.len() <= MAX_EVENT_BYTES).unwrap_or(json);
        }
        SentEvent::read_at(json.as_bytes(), now).map_err(|error| error.to_string())?;
        event = Some(json.into());
    }
    let version = summary.app.short_version.clone();
    Ok(Converted { run_id, app: app.clone(), version, event })
}

/// Returns a text as an event may have it.
fn cut_text(text: &str) -> String {
    text.chars().filter(|letter| *letter != '\0').take(MAX_TEXT_CHARS).collect()
}

fn format_millis(field: &str, millis: i64) -> Result<String, String> {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000).ok();
    let text = time.and_then(|time| time.format(&Rfc3339).ok());
    text.ok_or_else(|| format!("`{field}` must be milliseconds since 1970, and {millis} is no time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    fn summary() -> Value {
        json!({
            "schema_version": 1, "run_id": "5B7D1C34-8A0F-4F0E-9D53-2F0A6C1E7B90", "device_id": "b1946ac9",
            "started_at_ms": 1_795_593_492_100_i64, "ended_at_ms": 1_795_593_600_250_i64,
            "outcome": {"termination_reason": "crash", "user_perceptible": true},
            "app": {"bundle_id": "com.example.shop", "short_version": "3.1.4", "version": "820"},
            "os": {"name": "iOS", "version": "27.0"}, "device": {"model": "iPhone18,1"},
        })
    }

    const NOW: OffsetDateTime = datetime!(2026-11-25 13:00 UTC);

    fn convert(summary: &Value) -> Result<Converted, String> {
        convert_summary(summary.to_string().as_bytes(), NOW)
    }

    /// Whatever is accepted, the indexer reads: else a stranger writes dead letters that no answer named.
    #[test]
    fn the_indexer_reads_every_event_that_is_accepted() {
        let long = "\u{1}".repeat(MAX_TEXT_CHARS);
        let texts = ["", "\0", "\0\0", " ", "a", "\u{1}", "\u{ff}", "\u{202e}", "null", long.as_str()];
        let late = (NOW + time::Duration::DAY).unix_timestamp() * 1_000;
        let times = [0, -1, i64::MIN, i64::MAX, late, late + 1, 253_402_300_799_999, 253_402_300_800_000];
        let fields = [
            "/run_id",
            "/device_id",
            "/user_id",
            "/app/bundle_id",
            "/app/short_version",
            "/os/name",
            "/os/version",
            "/device/model",
            "/outcome/termination_reason",
            "/started_at_ms",
            "/ended_at_ms",
        ];
        let mut full = summary();
        full["user_id"] = "user-42".into();
        let values: Vec<Value> =
            texts.iter().map(|text| json!(text)).chain(times.iter().map(|time| json!(time))).collect();
        let (mut accepted, mut refused) = (0, 0);
        for (first, second) in
            fields.iter().flat_map(|first| fields.iter().map(move |second| (first, second)))
        {
            for value in &values {
                let mut run = full.clone();
                *run.pointer_mut(first).unwrap() = value.clone();
                *run.pointer_mut(second).unwrap() = value.clone();
                let Ok(converted) = convert(&run) else {
                    refused += 1;
                    continue;
                };
                let event = converted.event.unwrap();
                let read = unslide_health::store::sessions::SessionEvent::read_at(&event, NOW);
                assert!(read.is_ok(), "{read:?} of {}", String::from_utf8_lossy(&event));
                accepted += 1;
            }
        }
        assert!(accepted > 500 && refused > 500, "{accepted} and {refused}");
        let mut all = full;
        for field in &fields[1..9] {
            *all.pointer_mut(field).unwrap() = long.as_str().into();
        }
        assert!(convert(&all).unwrap_err().contains("the limit is 8192"));
        assert_eq!(MAX_EVENT_BYTES, unslide_health::store::sessions::MAX_EVENT_BYTES);
    }

    #[test]
    fn a_summary_is_the_session_with_the_id_of_its_run() {
        let mut full = summary();
        full["user_id"] = "user-42".into();
        let converted = convert(&full).unwrap();
        let event: Value = serde_json::from_slice(&converted.event.unwrap()).unwrap();
        let wanted = json!({
            "id": "5b7d1c34-8a0f-4f0e-9d53-2f0a6c1e7b90", "installation": "b1946ac9", "user": "user-42",
            "app": "com.example.shop", "version": "3.1.4", "os": "iOS 27.0", "device": "iPhone18,1",
            "started_at": "2026-11-25T12:38:12.1Z", "ended_at": "2026-11-25T12:40:00.25Z",
            "foreground": true, "termination": {"reason": "crash"},
        });
        let without_times = |event: &Value| {
            let mut event = event.clone();
            event.as_object_mut().unwrap().retain(|name, _| !name.ends_with("_at"));
            event
        };
        assert_eq!(without_times(&event), without_times(&wanted));
        assert!(event["started_at"].as_str() < event["ended_at"].as_str(), "{event}");
    }

    #[test]
    fn the_apps_keys_name_the_process() {
        let process = |metadata: Value| {
            let mut run = summary();
            run["metadata"] = metadata;
            let event: Value = serde_json::from_slice(&convert(&run).unwrap().event.unwrap()).unwrap();
            event.get("pid").cloned()
        };
        for named in [json!(731), json!("731")] {
            assert_eq!(process(json!({"process_id": named, "cart": [1]})), Some(json!(731)));
        }
        for odd in [json!(-1), json!(0), json!(7.5), json!(1_u64 << 40), json!("x"), json!([])] {
            assert_eq!(process(json!({"process_id": odd})), None);
        }
        assert_eq!((process(json!([7])), process(Value::Null)), (None, None));
    }

    #[test]
    fn flags_among_the_apps_keys_are_passed_on_unless_they_are_too_large() {
        let flags = |metadata: Value| {
            let mut run = summary();
            run["metadata"] = metadata;
            let event = convert(&run).unwrap().event.unwrap();
            let read = unslide_health::store::sessions::SessionEvent::read_at(&event, NOW).unwrap();
            read.read_flags()
        };
        let own = json!({"flags": {"checkout_v2": true, "cart": "b"}, "plan": "pro"});
        let expected = [("flags.cart", "b"), ("flags.checkout_v2", "true")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(flags(own), Some(expected.into()));
        assert_eq!(flags(json!({"flags": {}})), Some([].into()));
        for absent in
            [json!({"plan": "pro"}), json!({"flags": "b"}), json!({"flags": {"a": "x".repeat(9_000)}})]
        {
            assert_eq!(flags(absent), None);
        }
    }

    #[test]
    fn what_is_unknown_is_left_out_and_a_missing_installation_is_one_of_its_own() {
        let mut small = summary();
        for name in ["os", "device", "device_id"] {
            small.as_object_mut().unwrap().remove(name);
        }
        small["ended_at_ms"] = 5.into();
        small["extra"] = json!([{}]);
        let event: Value = serde_json::from_slice(&convert(&small).unwrap().event.unwrap()).unwrap();
        assert_eq!(event["installation"], event["id"]);
        assert_eq!((event.get("os"), event.get("device"), event.get("user")), (None, None, None));
        assert_eq!(event["ended_at"], event["started_at"], "an end is never before its start");
    }

    #[test]
    fn runs_of_developers_are_not_counted() {
        for (path, value) in [
            ("/is_being_debugged", json!(true)),
            ("/app/build_type", json!("debug")),
            ("/app/build_type", json!("simulator")),
            ("/app/host_kind", json!("xctest")),
            ("/device/model_family", json!("simulator")),
        ] {
            let mut run = summary();
            (run["is_being_debugged"], run["app"]["build_type"]) = (false.into(), "app store".into());
            (run["app"]["host_kind"], run["device"]["model_family"]) = ("app".into(), "V53AP".into());
            assert!(convert(&run).unwrap().event.is_some());
            *run.pointer_mut(path).unwrap() = value;
            assert!(convert(&run).unwrap().event.is_none(), "{path}");
        }
    }

    #[test]
    fn a_refusal_names_the_field() {
        let refusal = |change: &dyn Fn(&mut Value)| {
            let mut run = summary();
            change(&mut run);
            convert(&run).unwrap_err()
        };
        assert!(refusal(&|run| run["run_id"] = "".into()).starts_with("`run_id` must have 1 to 100"));
        assert!(refusal(&|run| run["app"]["bundle_id"] = "".into()).starts_with("`app.bundle_id` must"));
        assert!(refusal(&|run| run["started_at_ms"] = i64::MAX.into()).contains("`started_at_ms`"));
        assert!(refusal(&|run| drop(run.as_object_mut().unwrap().remove("outcome"))).contains("outcome"));
        assert!(refusal(&|run| *run = json!(7)).starts_with("no run summary: "));
    }
}
