//! Finds the tenant of a record before the rest of it is read.

use crate::failure::IndexerError;
use crate::pipeline::resources::Resources;
use crate::records::{Content, dead_letter, event, ledger};
use crate::topics::Topics;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_proto::topics::TopicNames;
use unslide_runtime::Host;
use unslide_stream::{Record, Signatures};

/// The rules that find the tenant of a record. Cheap to clone.
#[derive(Clone)]
pub struct OwnerRules {
    content: Content,
    topics: Topics,
    names: Arc<TopicNames>,
    signatures: Arc<Signatures>,
}

impl OwnerRules {
    /// Creates the rules for the records of one reader.
    pub fn new(resources: &Resources) -> OwnerRules {
        OwnerRules {
            content: resources.content,
            topics: resources.topics.clone(),
            names: Arc::new(resources.kafka.topic_names()),
            signatures: Arc::clone(&resources.signatures),
        }
    }

    /// Returns the tenant of each record, or `None` if it names none that can be trusted.
    ///
    /// # Errors
    /// Returns an error if the CPU pool has shut down.
    pub async fn find_owners(
        &self,
        host: &Host,
        records: Vec<Record>,
    ) -> Result<(Vec<Record>, Vec<Option<TenantId>>), IndexerError> {
        let (rules, now) = (self.clone(), host.clock.now());
        let told = host.cpu.run(move || {
            // A record that panics here panics in its reader too, and becomes a dead letter there.
            let owner =
                |record| catch_unwind(AssertUnwindSafe(|| rules.find_owner(record, now))).unwrap_or(None);
            let owners = records.iter().map(owner).collect();
            (records, owners)
        });
        Ok(told.await?)
    }

    /// Returns true if a record that names no trusted tenant may have named one before: gateways' keys
    /// change.
    pub fn may_change(&self) -> bool {
        self.content.is_of_gateways()
    }

    fn find_owner(&self, record: &Record, now: OffsetDateTime) -> Option<TenantId> {
        if let Some(owner) = self.topics.tenant_of(&self.names, &record.at.topic) {
            return Some(owner);
        }
        match self.content {
            // Only symbolizers write the outputs.
            Content::Reports => record.headers.get_tenant(),
            Content::Ledger => ledger::read_entry(record).ok()?.tenant().cloned(),
            Content::DeadLetters => dead_letter::read_dead_letter(record, now).tenant,
            Content::Events(_) => event::verify_owner(record, &self.signatures, now).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::event::tests::PAYLOADS;
    use unslide_proto::headers;
    use unslide_stream::{GatewayKey, Headers, RecordRef, SignatureSettings};

    const KEY: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

    fn owner(content: Content, required: bool, topic: &str, tenant: Option<&str>) -> Option<String> {
        let keys =
            vec![GatewayKey { name: "edge".into(), public_key: KEY.into(), tenants: vec!["acme".into()] }];
        let names = Arc::new(unslide_stream::Settings::default().topic_names());
        let rules = OwnerRules {
            content,
            topics: Topics { shared: names.output.clone(), tenants: true },
            names,
            signatures: Arc::new(Signatures::new(&SignatureSettings { required, keys })),
        };
        let record = Record {
            at: RecordRef { topic: topic.into(), partition: 0, offset: 7 },
            time_millis: Some(1_763_600_000_000),
            key: None,
            value: Some("{}".into()),
            headers: tenant
                .map_or(Headers::new(), |tenant| Headers::new().with(headers::TENANT, tenant.to_owned())),
        };
        rules.find_owner(&record, OffsetDateTime::UNIX_EPOCH).map(|tenant| tenant.to_string())
    }

    /// Proves: sender
    #[test]
    fn a_record_counts_for_the_tenant_that_its_topic_or_its_sender_may_name() {
        let names = unslide_stream::Settings::default().topic_names();
        let acme = Some("acme".to_owned());
        let reports = |topic: &str, tenant| owner(Content::Reports, true, topic, tenant);
        assert_eq!(reports(&names.output, Some("acme")), acme);
        assert_eq!(reports(&names.output, Some("No Tenant")), None);
        assert_eq!(reports(&names.output, None), None);
        let own = names.tenant_output(&TenantId::new("acme").unwrap());
        assert_eq!(reports(&own, Some("umbrella")), acme, "a topic says whose it is");
        let events = Content::Events(&PAYLOADS);
        assert_eq!(owner(events, false, &names.metrics, Some("acme")), acme);
        assert_eq!(owner(events, true, &names.metrics, Some("acme")), None, "it is not signed");
        assert_eq!(owner(Content::DeadLetters, true, &names.dead_letter, Some("acme")), acme);
        assert_eq!(
            owner(Content::Ledger, true, &names.ledger, Some("acme")),
            None,
            "a header of it says nothing"
        );
    }
}
