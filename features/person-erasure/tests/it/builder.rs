//! A builder that erases a person.

use std::time::Duration;
use unslide_builder::{Config, Settings};
use unslide_harness::service::RunningService;
use unslide_harness::{TestServers, acme};
use unslide_person_erasure::store::{self, NewPersonErasure};
use unslide_runtime::Host;
use unslide_sandbox::child::ChildProgram;
use unslide_store::erasure_requests::ErasureState;
use unslide_store::persons::PersonKind;

/// Probes of a builder that has started.
const PROBES: usize = 3;
/// Time until the first search of an empty database has ended.
const FIRST_SEARCH_TIMEOUT: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn a_builder_searches_at_once_and_comes_back_for_the_second_search() {
    let servers = TestServers::start("erasure", |_| {}).await;
    servers.make_tenant(&acme()).await;
    let config = Config {
        builder: Settings { work_dir: servers.folder().join("work"), ..Settings::default() },
        tenants: unslide_runtime::TenantDefaults::default(),
        postgres: servers.postgres.clone(),
        objects: servers.objects.clone(),
        kafka: servers.kafka.clone(),
        ..Config::default()
    };
    let host = Host::local().unwrap();
    let features = unslide_feature::for_builder(&[unslide_person_erasure::feature()]);
    let child = ChildProgram::from_current_exe(&["--list"]).unwrap();
    let run = unslide_builder::run(config, features, host.clone(), child);
    let builder = RunningService::spawn(host, PROBES, run);
    let mut tx = servers.store.tenant(&acme()).await.unwrap();
    let new = NewPersonErasure { kind: PersonKind::User, id: "robin".to_owned(), dry_run: false };
    let requested = store::begin_erasure(&mut tx, &new, "test").await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let searched = async {
        while servers.number("SELECT count(*) FROM person_erasures WHERE state = 'searching'").await > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(FIRST_SEARCH_TIMEOUT, searched).await.expect("the first search ends");
    let mut tx = servers.store.tenant(&acme()).await.unwrap();
    let erasure = store::get_erasure(&mut tx, requested.id).await.unwrap().unwrap();
    assert_eq!(erasure.state, ErasureState::SearchingAgain);
    tx.rollback().await.unwrap();
    let waiting =
        "SELECT count(*) FROM jobs WHERE kind = 'erase_person' AND status = 'queued' AND run_at > now()";
    assert_eq!(servers.number(waiting).await, 1);
    builder.stop().await;
    servers.stop(false).await;
}
