//! The service as it runs.

use super::worker_fixture::*;
use crate::Config;
use std::path::Path;
use std::time::Duration;
use unslide_artifacts::{AliasMeta, ObjectStore, Put, keys};
use unslide_embedded::S3Endpoint;
use unslide_model::{ContentHash, Quality, Secret, TenantId};
use unslide_proto::headers;
use unslide_proto::symbol::{TenantLimits, TenantState};
use unslide_runtime::Host;
use unslide_stream::OutRecord;
use unslide_symbolicate::symcache::SYMCACHE_VERSION;
use unslide_testkit::servers;

const BUCKET: &str = "unslide";

/// Files in a folder, however deep.
fn files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.map(|entry| entry.unwrap().path()).map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

/// Proves: deletion
#[tokio::test(flavor = "multi_thread")]
async fn a_running_worker_drops_the_symcaches_of_a_tenant_that_is_deleted_and_no_others() {
    // For topics, tenants and a producer.
    let bench = Bench::new().await;
    let folder = tempfile::tempdir().unwrap();
    let s3 = S3Endpoint::start(&folder.path().join("s3"), BUCKET).unwrap();
    let mut config = Config { kafka: bench.settings.clone(), ..Config::default() };
    config.objects = unslide_artifacts::Settings {
        endpoint: Some(s3.url()),
        bucket: BUCKET.to_owned(),
        access_key: Some(s3.access_key.clone()),
        secret_key: Secret::new(s3.secret_key.clone()),
        path_style: true,
        ..unslide_artifacts::Settings::default()
    };
    config.symbolizer.cache_dir = folder.path().join("cache");
    config.symbolizer.worker = servers::unique("whole");
    assert_eq!(config.validate(), []);
    let objects = ObjectStore::s3(&config.objects).await;
    let app = App::new();
    for tenant in ["acme", "other"] {
        let meta = AliasMeta {
            generation: 1,
            quality: Quality::DwarfSymtab,
            sha256: app.sha256(),
            object: ContentHash([9; 32]),
        };
        let key = keys::for_symbols(TenantId::new(tenant).unwrap().scope(app.id)).alias(SYMCACHE_VERSION);
        let put = Put { metadata: meta.to_metadata(), ..Put::default() };
        objects.put(&key, app.symcache.clone().into(), &put).await.unwrap();
    }
    let cache = config.symbolizer.cache_dir.join(format!("v{SYMCACHE_VERSION}"));
    let host = Host::local().unwrap();
    let running = tokio::spawn(crate::run(config, crate::SymbolizerFeatures::default(), host.clone()));
    for (number, tenant) in [(1, "acme"), (2, "other")] {
        let record = OutRecord::for_topic(bench.names.input.as_str(), app.report(number, 2));
        bench.producer.send_record(&record.header(headers::TENANT, tenant)).await.unwrap();
    }
    let outputs = bench.wait(&bench.names.output, 2).await;
    assert!(outputs.iter().all(|record| symbolicated(record) > 0));
    assert_eq!((files(&cache.join("acme")), files(&cache.join("other"))), (1, 1));
    tell(&bench.producer, &bench.names, "acme", TenantState::Deleted, TenantLimits::default()).await;
    for _ in 0..3_000 {
        if files(&cache.join("acme")) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!((files(&cache.join("acme")), files(&cache.join("other"))), (0, 1));
    host.shutdown.begin();
    running.await.unwrap().unwrap();
    s3.stop().await;
    bench.end(Vec::new()).await;
}
