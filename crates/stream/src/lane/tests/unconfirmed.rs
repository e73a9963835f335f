//! Records that the broker has written and not confirmed.

use super::*;
use crate::tests::lossy_broker::LossyBroker;

/// Writes each record to one partition of the output, and no account.
struct Repeater(Copier);

impl Processor for Repeater {
    fn prepare_batch(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        let repeat = |record: &Record| {
            let mut done = self.0.one(record);
            done.outputs.iter_mut().for_each(|output| output.key = Some("one partition".into()));
            done
        };
        let done = batch.iter().map(repeat).collect();
        Box::pin(async move { Ok(done) })
    }

    fn refuse_record(&self, record: &Record, why: &Refusal) -> Done {
        self.0.refuse_record(record, why)
    }

    fn account_records(&self, _: &[&Done]) -> Vec<OutRecord> {
        Vec::new()
    }

    fn on_committed(&self, _: &[&Record], _: &[&Done]) {}
}

/// Lets the broker come back once the client has given its records up.
struct ComeBack(LossyBroker);

impl Observer for ComeBack {
    fn record_produced(&self, bytes: usize) {
        if bytes == 0 {
            self.0.come_back();
        }
    }
}

/// The connection breaks between the write and its confirmation, and the transaction is aborted before the client can ask
/// again. Were its producer to go on, the broker would take the next record for that one, and confirm it unwritten.
/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_record_that_was_written_and_not_confirmed_is_written() {
    let bench = Bench::new().await;
    let broker = LossyBroker::start().await;
    let through = Settings { bootstrap: broker.address(), ..bench.settings.clone() };
    let mut config = bench.config("w");
    config.timings.transaction = Duration::from_secs(5);
    let copier = Arc::into_inner(bench.copier()).unwrap();
    let observer = Arc::new(ComeBack(broker.clone()));
    let lane = Lane::start(&through, config, Arc::new(Repeater(copier)), observer).unwrap();
    bench.input_at(0, ["first".to_owned()]);
    until(&lane, |s| s.records == 1).await;
    broker.lose_confirmation();
    bench.input_at(0, ["second".to_owned()]);
    until(&lane, |s| s.records == 2).await;
    assert_eq!(broker.lost_count(), 1);
    let outputs = bench.read(&bench.settings.topic_names().output).await;
    let texts: Vec<_> = outputs.iter().map(|record| record.value.clone().unwrap()).collect();
    assert_eq!(texts, ["first", "second"]);
    stop(lane).await;
    bench.done().await;
}
