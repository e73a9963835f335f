//! `POST /v1/chat/slack/test`.

use super::EVERY_APP;
use crate::slack::{SlackAccount, SlackBody, SlackCall};
use crate::{Chat, ChatExtension, store};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Charge, Problem, TenantAdmin, problems};
use utoipa::ToSchema;

problems!(Failures: RateLimited);

/// Units of a test, as many as those of ten reports.
const TEST_UNITS: usize = 10;

/// A test of the Slack app: the request that was sent, without the token, and its answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SlackTest {
    /// True if Slack took the message.
    pub ok: bool,
    /// The address of the request.
    #[schema(example = "https://slack.com/api/chat.postMessage")]
    pub url: String,
    /// The body of the request.
    #[schema(value_type = Object)]
    pub sent: Value,
    /// The status of the answer; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 200)]
    pub status: Option<u16>,
    /// What the answer says, or why there is none.
    #[schema(example = "the message is in the channel C0123ABCD")]
    pub answer: String,
}

/// Posts a message to a channel.
async fn post_test(chat: &Chat, account: &SlackAccount, channel: &str) -> SlackTest {
    let sent = json!({"channel": channel, "text": "This is a test of Unslide.", "unfurl_links": false});
    let Some(client) = &chat.client else {
        let answer = "TLS cannot be set up".to_owned();
        return SlackTest { ok: false, url: String::new(), sent, status: None, answer };
    };
    let call = SlackCall { method: "chat.postMessage", body: SlackBody::Json(sent.clone()) };
    let exchange = client.send_shown(account, &call).await;
    let (ok, answer) = match exchange.outcome {
        Ok(_) => (true, format!("the message is in the channel {channel}")),
        Err(failure) => (false, failure.to_string()),
    };
    SlackTest { ok, url: exchange.url, sent, status: exchange.status, answer }
}

/// Test the Slack app
///
/// Posts a message to the channel with the stored token, and returns what was sent and answered. Of the answer only the word of an error is
/// shown.
#[utoipa::path(post, path = "/v1/chat/slack/test", tag = "chat", operation_id = "test_slack",
    responses((status = 200, description = "What was sent and answered.", body = SlackTest), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn test_slack(
    State(storage): State<Arc<Storage>>,
    Extension(chat): ChatExtension,
    access: Access<TenantAdmin>,
) -> Result<Json<SlackTest>, Problem> {
    access.require_every_app(EVERY_APP)?;
    Charge::for_reports(&storage.capacity, access.tenant(), access.principal.limits.units_per_second)?
        .charge_reports(TEST_UNITS)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let row = store::get_app(&mut tx).await?;
    // The next step waits for Slack, and must not hold a connection.
    tx.rollback();
    let missing = || "There is no Slack app: set it first.".to_owned();
    let opened =
        row.ok_or_else(missing).and_then(|row| Ok((chat.open_account(access.tenant(), &row)?, row.channel)));
    Ok(Json(match opened {
        Ok((account, channel)) => post_test(&chat, &account, &channel).await,
        Err(answer) => SlackTest { ok: false, url: String::new(), sent: Value::Null, status: None, answer },
    }))
}
