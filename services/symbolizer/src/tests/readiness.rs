//! What a worker that is not ready says.

use crate::run::{probe_lane, register_probes};
use tokio::sync::watch;
use unslide_artifacts::{Fault, ObjectStore, Operation};
use unslide_runtime::Host;
use unslide_stream::TailProgress;
use unslide_stream::lane::LaneStatus;

/// What the probe `name` says now, if anything is wrong.
async fn said(host: &Host, name: &str) -> Option<String> {
    let mut answer = host.health.ask_now().await;
    let probe = answer.probes.remove(name).unwrap();
    assert_eq!(probe.ok, probe.reason.is_none());
    assert!(!answer.ready || probe.ok);
    probe.reason
}

#[tokio::test]
async fn a_table_that_is_not_read_to_its_end_or_that_nobody_reads_on_makes_a_worker_unready() {
    let host = Host::local().unwrap();
    let (store, _memory) = ObjectStore::memory();
    let tables = [watch::channel(TailProgress::default()), watch::channel(TailProgress::default())];
    let [(events, seen_events), (tenants, seen_tenants)] = tables;
    register_probes(&host, &store, [("symbol-events", seen_events), ("tenant-config", seen_tenants)]);
    for (name, table) in [("symbol-events", &events), ("tenant-config", &tenants)] {
        assert_eq!(said(&host, name).await.as_deref(), Some("it is not read to its end yet"));
        table.send_modify(|progress| progress.caught_up = true);
        assert_eq!(said(&host, name).await, None);
    }
    assert!(host.health.ask_now().await.ready);
    tenants.send_modify(|progress| progress.ended = true);
    assert_eq!(said(&host, "tenant-config").await.as_deref(), Some("its reader has ended"));
}

#[tokio::test]
async fn object_storage_is_asked_each_time_and_need_not_answer() {
    let host = Host::local().unwrap();
    let (store, memory) = ObjectStore::memory();
    register_probes(&host, &store, []);
    assert_eq!(said(&host, "objects").await, None);
    memory.fail(Operation::List, "", Fault::Refused, None);
    let refused = said(&host, "objects").await.unwrap();
    assert!(refused.contains("refused to list"), "{refused}");
    memory.heal();
    memory.fail(Operation::List, "", Fault::Transient, None);
    let failed = said(&host, "objects").await.unwrap();
    assert!(failed.contains("for now"), "{failed}");
    memory.heal();
    let hold = memory.hold(Operation::List, "");
    assert_eq!(said(&host, "objects").await.as_deref(), Some("no answer within 2 s"));
    drop(hold);
    assert_eq!(said(&host, "objects").await, None);
}

#[tokio::test]
async fn a_lane_says_why_it_does_nothing() {
    let host = Host::local().unwrap();
    let (status, seen) = watch::channel(LaneStatus::default());
    probe_lane(&host, "live", seen);
    let good = LaneStatus { joined: true, ..LaneStatus::default() };
    let paused = LaneStatus { paused: Some("object storage fails".to_owned()), ..good.clone() };
    for (is, says) in [
        (LaneStatus::default(), Some("not in its consumer group yet")),
        (good.clone(), None),
        (paused, Some("object storage fails")),
        (LaneStatus { stalled: true, ..good.clone() }, Some("messages wait and no transaction ends")),
        (LaneStatus { ended: true, ..good.clone() }, Some("the lane has ended")),
        (good, None),
    ] {
        status.send_replace(is);
        assert_eq!(said(&host, "lane live").await.as_deref(), says);
    }
}
