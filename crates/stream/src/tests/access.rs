//! The check of rights, at a broker that denies nothing. One that does is in the end-to-end tests.

use super::installation;
use crate::access::{AccessOutcome, KafkaLogin, RELAY_TRANSACTION, check_access};
use crate::topics::admin;
use crate::{FencedProducer, OutRecord, Settings};
use unslide_testkit::servers;

async fn outcomes(settings: &Settings, login: KafkaLogin) -> Vec<AccessOutcome> {
    let findings = check_access(settings, login).await.unwrap();
    findings.into_iter().map(|finding| finding.outcome).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_there_is_told_and_one_that_may_be_made_is_not_made() {
    let mut settings = Settings::single_broker(servers::kafka());
    settings.topic_prefix = format!("{}.", servers::unique("access"));
    settings.tenant_topics = true;
    let api = check_access(&settings, KafkaLogin::Api).await.unwrap();
    let absent = api.iter().filter(|finding| finding.outcome == AccessOutcome::NoTopic);
    assert_eq!(absent.count(), settings.topic_names().all().len(), "{api:?}");
    let migrate = outcomes(&settings, KafkaLogin::Migrate).await;
    let (granted, untried): (Vec<_>, Vec<_>) =
        migrate.into_iter().partition(|outcome| *outcome == AccessOutcome::Granted);
    // Topics of tenants may be made; whether one could be described is not known before there is one.
    assert_eq!(granted.len(), settings.topic_names().all().len() + 2);
    assert!(matches!(untried[..], [AccessOutcome::Untried(_), AccessOutcome::Untried(_)]), "{untried:?}");
    let made = admin::topics_matching(&settings, |topic| topic.starts_with(&settings.topic_prefix)).await;
    assert_eq!(made.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_disturbs_no_producer_that_runs_under_the_same_transactional_id() {
    let settings = installation().await;
    let relay = FencedProducer::start(&settings, RELAY_TRANSACTION).await.unwrap();
    let record = OutRecord::for_topic(settings.topic_names().symbol_events.as_str(), "one").key("a");
    relay.send_all(std::slice::from_ref(&record)).await.unwrap();
    for login in KafkaLogin::ALL {
        let found = outcomes(&settings, login).await;
        assert!(found.iter().all(|outcome| *outcome == AccessOutcome::Granted), "{login:?}: {found:?}");
    }
    relay.send_all(&[record]).await.unwrap();
    admin::delete_topics(&settings).await.unwrap();
}
