//! Reports the lag of symbolizers from the indexer, so that it is known even if no symbolizer runs.

use crate::metrics::Metrics;
use std::time::Duration;
use unslide_model::format_causes;
use unslide_proto::lanes;
use unslide_runtime::Shutdown;
use unslide_stream::{Settings, StreamError, admin, group_lag};

/// Interval between two queries to Kafka.
const ASK_INTERVAL: Duration = Duration::from_secs(30);

/// Sets the gauge of the live lane's lag twice a minute, until the shutdown begins. If Kafka does not answer,
/// the gauge keeps its value.
pub async fn run(kafka: Settings, metrics: Metrics, shutdown: Shutdown) {
    let mut is_failing = false;
    loop {
        let asked = tokio::select! {
            asked = input_lag(&kafka) => asked,
            () = shutdown.wait_until_begun() => return,
        };
        match &asked {
            Ok(records) => metrics.input_lag.set(i64::try_from(*records).unwrap_or(i64::MAX)),
            // One warning per outage is enough.
            Err(_) if is_failing => {}
            Err(error) => {
                tracing::warn!(error = format_causes(error), "what waits for symbolizers is not known");
            }
        }
        is_failing = asked.is_err();
        tokio::select! {
            () = tokio::time::sleep(ASK_INTERVAL) => {}
            () = shutdown.wait_until_begun() => return,
        }
    }
}

/// Returns how many records of the input topics the live lane has not processed.
async fn input_lag(kafka: &Settings) -> Result<u64, StreamError> {
    let names = kafka.topic_names();
    let mut topics = vec![names.input.clone()];
    if kafka.tenant_topics {
        let own = admin::topics_matching(kafka, |topic| names.tenant_of_input(topic).is_some());
        topics.extend(own.await?);
    }
    group_lag(kafka, lanes::consumer_group(&kafka.topic_prefix, lanes::LIVE), topics).await
}
