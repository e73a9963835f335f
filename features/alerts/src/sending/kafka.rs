//! Alerts as records of a topic.

use super::text::message_to_json;
use crate::store::messages::ClaimedAlertMessage;
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_stream::{OutRecord, Producer};

pub struct AlertTopic {
    pub producer: Producer,
    pub name: String,
}

impl AlertTopic {
    /// Writes a message as the JSON that webhooks get.
    ///
    /// # Errors
    /// Returns an error if the broker does not accept the message.
    pub async fn publish_message(
        &self,
        tenant: &TenantId,
        message: &ClaimedAlertMessage,
        public_url: &str,
    ) -> Result<(), String> {
        let record =
            OutRecord::for_topic(self.name.as_str(), message_to_json(message, public_url).to_string())
                .key(tenant.as_str().to_owned())
                .header(headers::TENANT, tenant.as_str().to_owned())
                .header(headers::IDEMPOTENCY_KEY, message.id.to_string());
        self.producer.send_record(&record).await.map(drop).map_err(|error| {
            tracing::warn!(error = %error, "an alert could not be written to Kafka");
            "Kafka did not take it.".to_owned()
        })
    }
}
