//! `POST /chat/slack/{id}`: Slack tells of pressed buttons. The request is answered at once; the work comes after it.
//!
//! The signature is checked before anything of the body is believed. A press that Slack sends again acts once.

use crate::ChatExtension;
use crate::ids::SlackAppId;
use crate::sealing::SecretKind;
use crate::slack::is_signed;
use crate::store::{self, NewSlackAction};
use axum::extract::{Request, State};
use axum::routing::post;
use axum::{Extension, Router};
use http::StatusCode;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use std::sync::Arc;
use unslide_api::feature::hooks::{parse_hook_id, read_hook_body, refuse_unsigned, take_hook_secret};
use unslide_api::feature::operation::{Kind, Path, Problem};
use unslide_api::feature::{Api, Storage};
use unslide_model::{TenantId, json};
use unslide_store::GroupId;

/// The most bytes of a request. A button repeats its message.
const REQUEST_BYTES_LIMIT: u64 = 256 << 10;
/// The most bytes of a name or an id in a request.
const WORD_BYTES_LIMIT: usize = 200;
/// Buttons of one request that are read: Slack sends one.
const ACTIONS_LIMIT: usize = 5;

/// The begin of the path; the tenant and the id of the Slack app follow.
const REQUESTS_PATH: &str = "/chat/slack/";

/// Returns the route of Slack.
pub fn routes() -> Router<Api> {
    Router::new().route("/chat/slack/{id}", post(receive_request))
}

/// Returns the path of the requests of a Slack app.
pub fn request_path(tenant: &TenantId, app: SlackAppId) -> String {
    format!("{REQUESTS_PATH}{tenant}.{app}")
}

fn no_app() -> Problem {
    Problem::new(Kind::NotFound, "there is no such Slack app")
}

async fn receive_request(
    State(storage): State<Arc<Storage>>,
    Extension(chat): ChatExtension,
    Path(id): Path<String>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let (parts, body) = request.into_parts();
    let (tenant, id) = parse_hook_id::<SlackAppId>(&id).ok_or_else(no_app)?;
    let mut tx = storage.tenant(&tenant).await?;
    let row = store::get_app(&mut tx).await?.filter(|row| row.id == id).ok_or_else(no_app)?;
    tx.rollback();
    let body = read_hook_body(&storage, &tenant, &parts, body, REQUEST_BYTES_LIMIT).await?;
    let sealer = chat.sealer.as_ref().ok_or_else(no_app)?;
    let secret = sealer.open(&tenant, SecretKind::Signing, &row.sealed_signing_secret);
    let secret = take_hook_secret(secret, &tenant, "signing_secret of the Slack app")?;
    if !is_signed(&parts.headers, &body, &secret, storage.clock.now()) {
        return Err(refuse_unsigned());
    }
    let actions = read_actions(&body, &row.team).map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    if actions.is_empty() {
        return Ok(StatusCode::OK);
    }
    let mut tx = storage.tenant(&tenant).await?;
    for action in &actions {
        if !store::add_action(&mut tx, action).await? {
            return Err(Problem::new(Kind::LimitReached, "too many buttons wait; press it again later"));
        }
    }
    tx.commit().await?;
    Ok(StatusCode::OK)
}

/// Reads the buttons of a request of this workspace. Other kinds of requests have none.
fn read_actions(body: &[u8], team: &str) -> Result<Vec<NewSlackAction>, &'static str> {
    let payload = form_urlencoded::parse(body).find(|(name, _)| name == "payload");
    let (_, payload) = payload.ok_or("payload: the field of the form is missing")?;
    let payload: Value = json::from_slice(payload.as_bytes()).map_err(|_| "payload: not JSON")?;
    if payload["team"]["id"] != team {
        return Err("team: the Slack app is set for another workspace");
    }
    if payload["type"] != "block_actions" {
        return Ok(Vec::new());
    }
    let word = |value: &Value| {
        let text = value.as_str().filter(|text| (1..=WORD_BYTES_LIMIT).contains(&text.len()));
        text.filter(|text| !text.chars().any(char::is_control)).map(str::to_owned)
    };
    let user = word(&payload["user"]["id"]).ok_or("user: the id is missing")?;
    let channel = word(&payload["channel"]["id"]).ok_or("channel: the id is missing")?;
    let name = ["name", "username"].iter().find_map(|member| word(&payload["user"][member]));
    let message = payload["container"]["message_ts"].as_str().unwrap_or_default();
    let actions = payload["actions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let read = actions.iter().take(ACTIONS_LIMIT).filter_map(|pressed| {
        let action = word(&pressed["action_id"])?;
        let group: GroupId = pressed["value"].as_str()?.parse().ok()?;
        // A press that is sent again has the same time.
        let press = [&user, &channel, message, &action, &group.to_string(), pressed["action_ts"].as_str()?]
            .join("\n");
        let mut id = [0; 32];
        id.copy_from_slice(digest(&SHA256, press.as_bytes()).as_ref());
        Some(NewSlackAction {
            id,
            slack_user: user.clone(),
            user_name: name.clone().unwrap_or_else(|| user.clone()),
            channel: channel.clone(),
            action,
            group,
        })
    });
    // Opening a link is answered, and nothing is done.
    Ok(read.filter(|pressed| !["open", "open_ticket"].contains(&pressed.action.as_str())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(payload: &Value) -> Vec<u8> {
        form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", &payload.to_string())
            .finish()
            .into_bytes()
    }

    #[test]
    fn a_request_names_its_workspace_its_person_and_a_group() {
        let pressed = |action: &str, value: &str, at: &str| {
            json!({"type": "block_actions", "team": {"id": "T1"}, "user": {"id": "U1", "name": "robin"},
                "channel": {"id": "C1"}, "container": {"message_ts": "1.0"},
                "actions": [{"action_id": action, "value": value, "action_ts": at}]})
        };
        let group = "0b5c1d2e-0000-4000-8000-000000000001";
        let read = |payload: &Value| read_actions(&form(payload), "T1");
        let one = read(&pressed("ignore", group, "7.1")).unwrap();
        let names = (one[0].slack_user.as_str(), one[0].user_name.as_str(), one[0].action.as_str());
        assert_eq!((one.len(), names), (1, ("U1", "robin", "ignore")));
        assert_eq!(read(&pressed("ignore", group, "7.1")).unwrap()[0].id, one[0].id, "sent again");
        assert_ne!(read(&pressed("ignore", group, "7.2")).unwrap()[0].id, one[0].id, "pressed again");
        for link in ["open", "open_ticket"] {
            assert_eq!(read(&pressed(link, group, "7.1")).unwrap().len(), 0);
        }
        assert_eq!(read(&pressed("ignore", "SHOP-1'--", "7.1")).unwrap().len(), 0);
        assert!(read_actions(&form(&pressed("ignore", group, "7.1")), "T2").is_err());
        let mut nameless = pressed("ignore", group, "7.1");
        nameless["user"] = json!({"id": "U\n1"});
        assert!(read(&nameless).is_err());
        assert!(read_actions(b"payload=%7B", "T1").is_err() && read_actions(b"", "T1").is_err());
        assert_eq!(read(&json!({"type": "view_submission", "team": {"id": "T1"}})).unwrap().len(), 0);
    }

    #[test]
    fn the_path_of_requests_names_tenant_and_app() {
        let tenant = TenantId::new("acme").unwrap();
        let app: SlackAppId = "00000000-0000-0000-0000-000000000005".parse().unwrap();
        let path = request_path(&tenant, app);
        assert_eq!(parse_hook_id(path.strip_prefix(REQUESTS_PATH).unwrap()), Some((tenant, app)));
        for text in ["", "acme", "acme.x", "."] {
            assert_eq!(parse_hook_id::<SlackAppId>(text), None, "{text}");
        }
    }
}
