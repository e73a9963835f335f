//! `PUT /v1/chat/slack` sets the Slack app of the tenant.

use super::{EVERY_APP, ShownSlackApp};
use crate::sealing::{SEALING_KEY, SecretKind};
use crate::slack::{SlackAccount, SlackBody, SlackCall, SlackFailure};
use crate::store::{self, NewSlackAppRow, SlackAppRow};
use crate::{Chat, ChatExtension};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, Charge, JsonBody, Kind, Problem, TenantAdmin, is_text, problems,
};
use unslide_model::{Secret, TenantId};
use unslide_store::audit;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, RateLimited);

/// Units of a change, which asks Slack: as many as those of ten reports.
const SET_UNITS: usize = 10;
/// The most reports before a group is posted.
const REPORTS_LIMIT: i64 = 1_000_000_000;
/// The most bytes of a secret.
const SECRET_BYTES_LIMIT: usize = 500;

/// A Slack app to be set.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSlackApp {
    /// The bot token, `xoxb-…`. It is stored encrypted and never shown. If absent, the one that is set stays.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 500)]
    pub bot_token: Option<Secret>,
    /// The signing secret of the Slack app. It is stored encrypted and never shown. If absent, the one that is set stays.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 500)]
    pub signing_secret: Option<Secret>,
    /// Id of the channel, which the bot is a member of. Threads that exist stay in their channel.
    #[schema(min_length = 2, max_length = 40, example = "C0123ABCD")]
    pub channel: String,
    /// A new group is posted when it has this many reports; 1 if absent.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    pub reports: Option<i64>,
    /// The only app (bundle identifier) whose groups are posted; all apps if absent.
    #[serde(default)]
    #[schema(max_length = 255)]
    pub app: Option<String>,
    /// Id of the workspace; needed only with `force`. Slack says it otherwise.
    #[serde(default)]
    #[schema(max_length = 40, example = "T0123ABCD")]
    pub team: Option<String>,
    /// `true` sets the Slack app even if Slack cannot be asked now; otherwise it is refused.
    #[serde(default)]
    pub force: bool,
}

/// Set the Slack app
///
/// Slack is asked for the workspace of the token, and the setting is refused with the answer if that fails. Then new groups are posted to
/// the channel, one thread for each. Buttons work when Slack sends its requests to `request_url`. With another workspace it begins again,
/// with another `request_url`: threads and accounts of the former one are forgotten.
#[utoipa::path(put, path = "/v1/chat/slack", tag = "chat", operation_id = "set_slack",
    request_body = NewSlackApp,
    responses((status = 200, description = "The Slack app is set.", body = ShownSlackApp), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_slack(
    State(storage): State<Arc<Storage>>,
    Extension(chat): ChatExtension,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewSlackApp>,
) -> Result<Json<ShownSlackApp>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let wrong = |detail: String| Problem::new(Kind::InvalidBody, detail);
    check_new(&new).map_err(wrong)?;
    Charge::for_reports(&storage.capacity, access.tenant(), access.principal.limits.units_per_second)?
        .charge_reports(SET_UNITS)?;
    let tenant = access.tenant();
    let Some(sealer) = &chat.sealer else {
        return Err(wrong(format!(
            "This service keeps no secrets of Slack apps. The operator sets {SEALING_KEY}."
        )));
    };
    let mut tx = storage.tenant(tenant).await?;
    let former = store::get_app(&mut tx).await?;
    // The next step waits for Slack, and must not hold a connection.
    tx.rollback();
    let account = read_account(&chat, tenant, &new, former.as_ref()).map_err(wrong)?;
    let (team, problem) = match (find_team(&chat, &account).await, &new.team) {
        (Ok(team), Some(named)) if team != *named => {
            return Err(wrong(format!("team: the token is of the workspace {team}")));
        }
        (Ok(team), _) => (team, None),
        (Err(failure), Some(named)) if new.force => (named.clone(), Some(failure.to_string())),
        (Err(failure), _) => {
            return Err(wrong(format!("{failure} `force` with `team` sets the Slack app nevertheless")));
        }
    };
    let is_moved = former.as_ref().is_some_and(|row| row.team != team);
    let sealed_signing_secret = match (filter_given(new.signing_secret.as_ref()), former) {
        (Some(secret), _) => sealer.seal(tenant, SecretKind::Signing, secret).map_err(Problem::internal)?,
        // The secret of a workspace opens requests of no other one.
        (None, Some(row)) if row.team == team => row.sealed_signing_secret,
        (None, _) => return Err(wrong("signing_secret: the signing secret of the Slack app".to_owned())),
    };
    let row = NewSlackAppRow {
        team,
        channel: new.channel,
        sealed_token: sealer.seal(tenant, SecretKind::Token, &account.token).map_err(Problem::internal)?,
        sealed_signing_secret,
        reports: new.reports.unwrap_or(1),
        app: new.app.filter(|app| !app.is_empty()),
        problem,
    };
    let mut tx = storage.tenant(tenant).await?;
    if is_moved {
        // Threads, pressed buttons and accounts are of the former workspace, and an id of a person may be another person's here.
        store::remove_app(&mut tx).await?;
    }
    store::set_app(&mut tx, &row).await?;
    let detail = json!({"team": row.team, "channel": row.channel, "forced": row.problem.is_some()});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "slack.set", "slack", &detail).await?;
    let row = store::get_app(&mut tx).await?.ok_or_else(|| Problem::internal("the Slack app is gone"))?;
    tx.commit().await?;
    Ok(Json(ShownSlackApp::from_row(&chat, tenant, row)))
}

fn filter_given(secret: Option<&Secret>) -> Option<&Secret> {
    secret.filter(|secret| !secret.is_empty())
}

/// Returns the account of a request, with the stored token if it gives none.
fn read_account(
    chat: &Chat,
    tenant: &TenantId,
    new: &NewSlackApp,
    former: Option<&SlackAppRow>,
) -> Result<SlackAccount, String> {
    match (filter_given(new.bot_token.as_ref()), former) {
        (Some(token), _) => Ok(SlackAccount { token: token.clone() }),
        (None, Some(row)) => chat.open_account(tenant, row),
        (None, None) => Err("bot_token: the token of the bot, xoxb-…".to_owned()),
    }
}

/// Asks Slack for the workspace of a token.
async fn find_team(chat: &Chat, account: &SlackAccount) -> Result<String, SlackFailure> {
    let no_tls = || SlackFailure::Account("TLS cannot be set up".to_owned());
    let client = chat.client.as_ref().ok_or_else(no_tls)?;
    let answer =
        client.send(account, &SlackCall { method: "auth.test", body: SlackBody::Form(Vec::new()) }).await?;
    let team = answer["team_id"].as_str().filter(|team| is_slack_id(team));
    team.map(str::to_owned).ok_or(SlackFailure::Unreadable)
}

/// Returns true for an id of a workspace or a channel.
fn is_slack_id(text: &str) -> bool {
    (2..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn check_new(new: &NewSlackApp) -> Result<(), String> {
    if !is_slack_id(&new.channel) {
        return Err("channel: the id of a channel, such as C0123ABCD".to_owned());
    }
    if !new.team.as_ref().is_none_or(|team| is_slack_id(team)) {
        return Err("team: the id of a workspace, such as T0123ABCD".to_owned());
    }
    let is_plain = |secret: &Secret| {
        secret.reveal().len() <= SECRET_BYTES_LIMIT
            && secret.reveal().bytes().all(|byte| byte.is_ascii_graphic())
    };
    for (field, secret) in [("bot_token", &new.bot_token), ("signing_secret", &new.signing_secret)] {
        if !secret.as_ref().is_none_or(is_plain) {
            return Err(format!(
                "{field}: at most {SECRET_BYTES_LIMIT} printable ASCII characters, no spaces"
            ));
        }
    }
    if filter_given(new.signing_secret.as_ref()).is_some_and(|secret| secret.reveal().len() < 16) {
        return Err("signing_secret: at least 16 characters".to_owned());
    }
    if !new.app.as_ref().is_none_or(|app| app.is_empty() || is_text(app, 255)) {
        return Err("app: at most 255 bytes, no control characters".to_owned());
    }
    if new.reports.is_some_and(|reports| !(1..=REPORTS_LIMIT).contains(&reports)) {
        return Err(format!("reports: 1 to {REPORTS_LIMIT}"));
    }
    Ok(())
}
