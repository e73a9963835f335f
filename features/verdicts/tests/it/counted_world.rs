//! An api with sessions and reports of versions.

use serde_json::{Value, json};
use std::ops::Deref;
use time::format_description::well_known::Rfc3339;
use time::{Date, Duration, OffsetDateTime};
use unslide_harness::database::{arrival, grouping};
use unslide_health::store::metrics::{self, MetricArrival};
use unslide_health::store::sessions::{self, SessionArrival, SessionEvent};
use unslide_health_formats::MetricPayload;
use unslide_model::{ContentHash, ReportId, Scope};
use unslide_proto::event::GatewayEvent;
use unslide_store::GroupId;
use unslide_store::groups::id_of;
use unslide_store::partitions;
use unslide_store::reports::{Arrival, Effects, store_arrivals};
use unslide_world::{World, tenant_id};

pub const APP: &str = "com.acme.shop";
/// Days that the tests keep.
const KEPT_DAYS: Duration = Duration::days(90);

/// A device model and the version of its system.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub model: &'static str,
    pub system: &'static str,
}

pub struct CountedWorld {
    world: World,
    /// A key of the tenant `acme` that reads reports and changes groups.
    pub key: String,
}

impl Deref for CountedWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl CountedWorld {
    pub async fn start() -> CountedWorld {
        let alerts = unslide_alerts::feature(unslide_alerts::Config::default());
        let features = [
            alerts,
            unslide_health::feature(),
            unslide_console::feature(),
            unslide_verdicts::feature(),
            unslide_export::feature(),
        ];
        let world = Box::pin(World::start(unslide_feature::for_api(&features), |_| {})).await;
        let key = world.create_key("acme", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
        CountedWorld { world, key }
    }

    pub async fn stop(self) {
        self.world.stop().await;
    }

    /// Returns a time some days ago.
    fn before(&self, days: i64) -> OffsetDateTime {
        self.host.clock.now() - Duration::days(days)
    }

    /// Stores sessions that were counted before, some of which crashed.
    pub async fn store_sessions(&self, version: &str, days: i64, [sessions, crashed]: [i32; 2]) {
        let event = SessionEvent {
            sessions: Some(sessions),
            crashed: Some(crashed),
            ..build_session(format!("{version} {days}"), version, self.before(days))
        };
        self.store_events(vec![event]).await;
    }

    /// Stores a session of as many installations, on machines that they name.
    pub async fn store_installations(&self, version: &str, days: i64, machine: Machine, count: u32) {
        self.store_flagged(version, days, (machine, &Value::Null), count).await;
    }

    /// Stores a session with these flags of as many installations.
    pub async fn store_flagged(
        &self,
        version: &str,
        days: i64,
        (machine, flags): (Machine, &Value),
        count: u32,
    ) {
        let build = |n: u32| SessionEvent {
            installation: Some(format!("{machine:?} {flags} {n}")),
            os: Some(format!("iOS {}", machine.system)),
            device: Some(machine.model.to_owned()),
            flags: flags.as_object().cloned(),
            ..build_session(format!("{version} {days} {machine:?} {flags} {n}"), version, self.before(days))
        };
        self.store_events((0..count).map(build).collect()).await;
    }

    async fn store_events(&self, events: Vec<SessionEvent>) {
        let received_at = self.host.clock.now();
        let day = events[0].started_at.date();
        let arrivals =
            events.into_iter().map(|event| SessionArrival { event, received_at, sender_key: None });
        let arrivals: Vec<SessionArrival> = arrivals.collect();
        partitions::ensure_partitions(&self.store, day, day).await.unwrap();
        let mut tx = self.store.tenant(&tenant_id("acme")).await.unwrap();
        let oldest: Date = (received_at - KEPT_DAYS).date();
        sessions::store(&mut tx, &arrivals.iter().collect::<Vec<_>>(), oldest).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Stores a report of a bug on each of as many devices, and returns its group.
    pub async fn store_crashes(&self, version: &str, days: i64, machine: Machine, devices: u16) -> GroupId {
        self.store_keyed(version, days, (machine, &json!({})), devices).await
    }

    /// Does the same, with these own keys of the app.
    pub async fn store_keyed(
        &self,
        version: &str,
        days: i64,
        (machine, keys): (Machine, &Value),
        devices: u16,
    ) -> GroupId {
        let received_at = self.before(days);
        let build = |n: u16| {
            let [high, low] = n.to_be_bytes();
            let kind = u8::try_from(machine.model.len() + machine.system.len()).unwrap();
            let bytes = [[high, low, kind, 7].as_slice(), &[0; 12]].concat();
            let mut report = Arrival {
                report_id: ReportId(bytes.clone().try_into().unwrap()),
                content_hash: ContentHash([bytes.clone(), bytes.clone()].concat().try_into().unwrap()),
                received_at,
                ..arrival(1)
            };
            report.facts.grouping = Some(grouping(7, false));
            report.facts.device = Some(bytes);
            report.facts.model = Some(machine.model.to_owned());
            report.facts.context = json!({"keys": keys});
            report.facts.os_name = Some("iOS".to_owned());
            report.facts.os_version = Some(machine.system.to_owned());
            version.clone_into(&mut report.facts.version);
            report
        };
        self.store_bug(7, (0..devices).map(build).collect()).await
    }

    /// Stores reports of a bug that arrived at one time, and returns its group.
    async fn store_bug(&self, bug: u8, reports: Vec<Arrival>) -> GroupId {
        let day = reports[0].received_at.date();
        partitions::ensure_partitions(&self.store, day, day).await.unwrap();
        let mut tx = self.store.tenant(&tenant_id("acme")).await.unwrap();
        store_arrivals(&mut tx, &reports, Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
        id_of(APP, grouping(bug, false).fingerprint)
    }

    /// Stores payloads of as many devices, each with a launch of so many milliseconds and perhaps a hang.
    pub async fn store_launches(&self, version: &str, days: i64, launches: &[u32], has_hang: bool) {
        let at = self.before(days);
        let build = |(n, launch): (usize, &u32)| {
            let mut measurements = vec![json!({"name": "launch_time", "unit": "ms", "value": launch})];
            if has_hang {
                measurements.push(json!({"name": "hang_time", "unit": "ms", "value": 900}));
            }
            let payload = json!({"id": format!("{version} {days} {n}"), "app": APP, "version": version,
                "measured_at": at.format(&Rfc3339).unwrap(), "measurements": measurements});
            let event = MetricPayload::from_json(payload.to_string().as_bytes()).unwrap();
            MetricArrival { event, received_at: self.host.clock.now(), sender_key: None }
        };
        let arrivals: Vec<MetricArrival> = launches.iter().enumerate().map(build).collect();
        partitions::ensure_partitions(&self.store, at.date(), at.date()).await.unwrap();
        let mut tx = self.store.tenant(&tenant_id("acme")).await.unwrap();
        let oldest: Date = (self.host.clock.now() - KEPT_DAYS).date();
        metrics::store(&mut tx, &arrivals.iter().collect::<Vec<_>>(), oldest).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Stores reports of a bug, and returns its group.
    pub async fn store_reports(&self, bug: u8, version: &str, days: i64, reports: u16) -> GroupId {
        let received_at = self.before(days);
        let day_byte = u8::try_from(days).unwrap();
        let build = |n: u16| {
            let mut bytes = [bug; 16];
            bytes[..2].copy_from_slice(&n.to_be_bytes());
            bytes[2] = day_byte;
            bytes[3..8].copy_from_slice(&version.as_bytes()[..5]);
            let mut report = Arrival {
                report_id: ReportId(bytes),
                content_hash: ContentHash([bytes, bytes].concat().try_into().unwrap()),
                received_at,
                ..arrival(1)
            };
            report.facts.grouping = Some(grouping(bug, false));
            version.clone_into(&mut report.facts.version);
            report
        };
        self.store_bug(bug, (0..reports).map(build).collect()).await
    }
}

/// Makes the event of a session of the app that says nothing else.
fn build_session(id: String, version: &str, started_at: OffsetDateTime) -> SessionEvent {
    SessionEvent {
        id,
        installation: None,
        sessions: None,
        crashed: None,
        user: None,
        app: APP.to_owned(),
        version: version.to_owned(),
        os: None,
        device: None,
        flags: None,
        pid: None,
        started_at,
        ended_at: None,
        duration: None,
        foreground: None,
        sampled: None,
        end_reason: None,
        termination: None,
        unread: Vec::new(),
    }
}
