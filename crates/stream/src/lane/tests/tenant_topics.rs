//! Topics of single tenants, found by their names' pattern.

use super::*;
use crate::tests::fill;
use unslide_model::TenantId;

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_while_the_lane_runs_is_read_from_its_start() {
    let bench = Bench::new().await;
    let mut settings = bench.settings.clone();
    settings.tenant_topics = true;
    settings.topic_refresh_milliseconds = 500;
    let names = settings.topic_names();
    let mut config = bench.config("w");
    config.pattern = Some(names.tenant_input_pattern());
    let copier = bench.copier();
    bench.input(numbers(0..10)).await;
    let lane = Lane::start(&settings, config, copier.clone(), Arc::new(Unobserved)).unwrap();
    until(&lane, |s| s.partitions == 4 && s.records == 10).await;
    let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("other-1").unwrap());
    admin::create_tenant_topics(&settings, &acme).await.unwrap();
    // Written before the lane can have found it.
    fill(&settings, &names.tenant_input(&acme), 0, &["a", "b"]);
    until(&lane, |s| s.partitions == 6).await;
    fill(&settings, &names.tenant_input(&acme), 1, &["c"]);
    assert_once(&bench.outputs(13).await, 13);
    // Outputs of tenants, and names that no tenant can have, don't match.
    admin::create_tenant_topics(&settings, &other).await.unwrap();
    fill(&settings, &names.tenant_output(&other), 0, &["no input"]);
    until(&lane, |s| s.partitions == 8).await;
    fill(&settings, &names.tenant_input(&other), 0, &["d"]);
    let outputs = bench.outputs(14).await;
    assert_once(&outputs, 14);
    let topics: BTreeSet<String> = copier.prepared.lock().iter().map(|at| at.topic.to_string()).collect();
    let expected = [names.input.clone(), names.tenant_input(&acme), names.tenant_input(&other)];
    assert_eq!(topics, BTreeSet::from(expected));
    stop(lane).await;
    admin::delete_tenant_topics(&settings, &acme).await.unwrap();
    admin::delete_tenant_topics(&settings, &other).await.unwrap();
    bench.done().await;
}

/// A tenant's records cannot be processed for now, and then its topics are deleted: what waited for them
/// is let go, and the other topics go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_for_records_that_are_taken_away_ends() {
    let (bench, acme) = Bench::with_tenant_topics().await;
    let copier = bench.copier();
    let lane = bench.start_tenant_topics(&copier);
    until(&lane, |s| s.partitions == 6).await;
    fill(&bench.settings, &bench.settings.topic_names().tenant_input(&acme), 0, &["not now"]);
    until(&lane, |s| s.paused.is_some()).await;
    admin::delete_tenant_topics(&bench.settings, &acme).await.unwrap();
    bench.goes_on_without_tenant(lane).await;
}

/// The same while they are being prepared: that they cannot be is known only after they were taken away.
#[tokio::test(flavor = "multi_thread")]
async fn records_that_are_taken_away_while_they_are_prepared_leave_no_pause() {
    let (bench, acme) = Bench::with_tenant_topics().await;
    let copier = bench.copier();
    copier.open.send_replace(false);
    let lane = bench.start_tenant_topics(&copier);
    until(&lane, |s| s.partitions == 6).await;
    fill(&bench.settings, &bench.settings.topic_names().tenant_input(&acme), 0, &["not now"]);
    while copier.prepared.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    admin::delete_tenant_topics(&bench.settings, &acme).await.unwrap();
    until(&lane, |s| s.partitions == 4).await;
    copier.open.send_replace(true);
    bench.goes_on_without_tenant(lane).await;
}

impl Bench {
    /// With the topics of one tenant.
    async fn with_tenant_topics() -> (Bench, TenantId) {
        let mut bench = Bench::new().await;
        bench.settings.tenant_topics = true;
        bench.settings.topic_refresh_milliseconds = 500;
        let acme = TenantId::new("acme").unwrap();
        admin::create_tenant_topics(&bench.settings, &acme).await.unwrap();
        (bench, acme)
    }

    fn start_tenant_topics(&self, copier: &Arc<Copier>) -> Lane {
        let mut config = self.config("w");
        config.pattern = Some(self.settings.topic_names().tenant_input_pattern());
        Lane::start(&self.settings, config, Arc::clone(copier), Arc::new(Unobserved)).unwrap()
    }

    /// Records of others go their way, although the tenant's still could not be prepared.
    async fn goes_on_without_tenant(self, lane: Lane) {
        until(&lane, |s| s.partitions == 4 && s.paused.is_none()).await;
        self.input(numbers(0..10)).await;
        assert_once(&self.outputs(10).await, 10);
        stop(lane).await;
        self.done().await;
    }
}
