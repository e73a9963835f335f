//! A database and a bucket of one test's own, and reports with known bodies.

use super::failpoint::{Failpoint, MoveStep};
use crate::config::Settings;
use crate::metrics::Metrics;
use crate::segments::{BodyMover, SEGMENT_WRITE_TIMEOUT};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use unslide_artifacts::segment::{BodyId, MAX_BODY_BYTES, fetch_frame, open_frame};
use unslide_artifacts::{Memory, ObjectStore, keys};
use unslide_harness::database::TestDatabase;
pub use unslide_harness::database::start;
use unslide_model::{ContentHash, ReportId, TenantId};
use unslide_runtime::Host;
use unslide_store::reports::{self, Arrival, ArrivalOutcome, Effects, ReportDetails};
use unslide_store::segments::ReportBody;
use unslide_store::{partitions, queries};

pub fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub struct World {
    database: TestDatabase,
    pub objects: ObjectStore,
    pub memory: Memory,
    pub settings: Settings,
    pub host: Host,
    /// The newest body of each report that is there.
    pub bodies: BTreeMap<(TenantId, u8), Vec<u8>>,
}

impl Deref for World {
    type Target = TestDatabase;

    fn deref(&self) -> &TestDatabase {
        &self.database
    }
}

impl World {
    pub async fn new() -> World {
        let database = TestDatabase::new(&[]).await;
        let today = start().date();
        partitions::ensure_partitions(&database.store, today - Duration::days(10), today + Duration::days(3))
            .await
            .unwrap();
        let (objects, memory) = ObjectStore::memory();
        let settings = Settings { segment_bytes: 64 << 10, ..Settings::default() };
        let mut host = Host::local().unwrap();
        host.clock = Arc::clone(&database.clock) as Arc<dyn unslide_model::Clock>;
        World { database, objects, memory, settings, host, bodies: BTreeMap::new() }
    }

    /// Stores with another client from now on.
    pub fn use_store(&mut self, store: unslide_store::Store) {
        self.database.store = store;
    }

    /// Creates the mover of another indexer, which stops after a step.
    pub fn mover(&self, stop_after: Option<MoveStep>) -> BodyMover {
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let own = self.settings.clone();
        let mut mover = BodyMover::new(self.store.clone(), self.objects.clone(), own, metrics, &self.host);
        mover.failpoint = Failpoint::new(stop_after);
        mover
    }

    /// Rounds until there is nothing left to do, by an indexer that lives.
    pub async fn rounds(&self) {
        while self.mover(None).run_round().await.unwrap() {}
    }

    pub async fn store(&mut self, of: &str, n: u8, revision: u32, at: OffsetDateTime) -> ArrivalOutcome {
        let text =
            format!("{{\"of\":\"{of}\",\"n\":{n},\"revision\":{revision},\"x\":\"{}\"}}", "y".repeat(300));
        self.store_body(of, n, revision, at, text.into_bytes()).await
    }

    pub async fn store_body(
        &mut self,
        of: &str,
        n: u8,
        revision: u32,
        at: OffsetDateTime,
        body: Vec<u8>,
    ) -> ArrivalOutcome {
        let arrival = Arrival {
            report_id: ReportId([n; 16]),
            content_hash: ContentHash([n; 32]),
            revision,
            received_at: at + Duration::seconds(n.into()),
            body: unslide_proto::body::compress_report(&body),
            size: body.len() as u64,
            facts: ReportDetails {
                status: "none".into(),
                summary: serde_json::json!({}),
                ..ReportDetails::default()
            },
            images: Vec::new(),
            origin: None,
            traceparent: None,
        };
        let mut tx = self.store.tenant(&tenant(of)).await.unwrap();
        let stored = reports::store_arrivals(&mut tx, &[arrival], Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
        if matches!(stored[0].outcome, ArrivalOutcome::New | ArrivalOutcome::Revised) {
            self.bodies.insert((tenant(of), n), body);
        }
        stored[0].outcome
    }

    pub async fn fill(&mut self, reports: u8) {
        for n in 1..=reports {
            assert_eq!(self.store("acme", n, 1, start()).await, ArrivalOutcome::New);
        }
    }

    /// A report's body as a reader sees it: where it is, and what it is.
    pub async fn read(&self, of: &TenantId, n: u8) -> (ReportBody, Option<Vec<u8>>) {
        let mut tx = self.store.tenant(of).await.unwrap();
        let (found, body) = queries::report::get(&mut tx, ReportId([n; 16]), 0).await.unwrap().unwrap();
        drop(tx);
        let json = match &body {
            ReportBody::Inline(_) => body.decompress_json().ok(),
            ReportBody::Segment(place) => {
                let key = keys::for_segment(of, place.day, place.segment);
                let bytes = fetch_frame(&self.objects, &key, place.offset, place.length).await.unwrap();
                let (report_id, revision) = (ReportId([n; 16]), found.listed.revision);
                let id = BodyId { tenant: of.clone(), report_id, variant: 0, revision };
                bytes.and_then(|bytes| open_frame(&id, &place.key, bytes, MAX_BODY_BYTES).ok())
            }
        };
        (body, json)
    }

    /// Every report has its newest body, in one place.
    pub async fn all_is_well(&self) {
        for ((of, n), body) in &self.bodies {
            let (place, read) = self.read(of, *n).await;
            assert_eq!(read.as_ref(), Some(body), "{of} {n} in {place:?}");
        }
        let places = "SELECT (SELECT count(*) FROM report_bodies) + (SELECT count(*) FROM report_frames)";
        assert_eq!(self.number(places).await, i64::try_from(self.bodies.len()).unwrap());
    }

    pub async fn keys(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for of in ["acme", "umbrella"] {
            let page = self.objects.list(&keys::tenant_prefix(&tenant(of)), None, 1_000).await.unwrap();
            all.extend(page.entries.into_iter().map(|entry| entry.key.to_string()));
        }
        all
    }

    /// The frames that a tenant's reports refer to.
    pub async fn frames(&self, of: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM report_frames WHERE tenant = '{of}'")).await
    }

    /// After everybody has died and come back and the times are over: nothing but live segments.
    pub async fn nothing_is_left(&self) {
        // Writers that died are noticed, then what they left is condemned, then it is deleted.
        for _ in 0..2 {
            self.wait(Duration::try_from(SEGMENT_WRITE_TIMEOUT * 2).unwrap() + Duration::SECOND);
            self.rounds().await;
            self.wait(
                Duration::seconds(self.settings.condemned_seconds.try_into().unwrap()) + Duration::SECOND,
            );
            self.rounds().await;
        }
        assert_eq!(self.number("SELECT count(*) FROM segments WHERE state = 'intent'").await, 0);
        assert_eq!(self.number("SELECT count(*) FROM condemned_objects").await, 0);
        let live = self.number("SELECT count(*) FROM segments").await;
        assert_eq!(i64::try_from(self.keys().await.len()).unwrap(), live, "{:?}", self.keys().await);
        assert_eq!(self.memory.unfinished_upload_count(), 0);
    }
}
