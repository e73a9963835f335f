//! How each kind of receiver wants a message, and how it says that it took it.
//!
//! Sources: Standard Webhooks 1.0 (webhooks; headers and signature); Slack "Sending messages using incoming
//! webhooks"; Feishu "Custom bot usage guide" (the sign has the text to sign as its key); DingTalk "Custom robot
//! security settings"; WeCom "Group robot configuration".

use super::cards::{add_query, build_discord, build_google_chat, build_teams, google_chat_url};
use super::pagers::{build_opsgenie, build_pagerduty, check_genie_key, check_routing_key};
use super::receiver::{AlertRequest, ReceiverAnswer};
use super::text::{fill_template, format_plain, message_to_json};
use crate::store::events::AlertEvent;
use crate::store::messages::{ClaimedAlertMessage, DeliveryFailure};
use crate::store::rules::AlertChannel;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use unslide_api::feature::operation::is_ticket_url;
use unslide_api::feature::webhook_signature::WebhookSigner;
use unslide_model::Secret;
use unslide_store::GroupId;

/// Characters of a receiver's answer that an error repeats.
const LONGEST_ANSWER: usize = 200;

/// A ticket in another system, which a receiver has made of a group.
#[derive(Debug, PartialEq, Eq)]
pub struct MadeTicket {
    pub group: GroupId,
    pub url: String,
}

/// Checks that a channel can sign with a secret. The empty secret means none.
///
/// # Errors
/// Returns a text that says what is wrong with the secret.
pub fn check_secret(channel: AlertChannel, secret: &Secret) -> Result<(), String> {
    match channel {
        AlertChannel::Pagerduty => check_routing_key(secret),
        AlertChannel::Opsgenie => check_genie_key(secret),
        _ if secret.is_empty() => Ok(()),
        AlertChannel::Webhook => WebhookSigner::from_secret(secret).map(drop),
        AlertChannel::Feishu | AlertChannel::Dingtalk => Ok(()),
        AlertChannel::Kafka => Err("secret: kafka has none".to_owned()),
        AlertChannel::Slack
        | AlertChannel::Wecom
        | AlertChannel::Teams
        | AlertChannel::Discord
        | AlertChannel::GoogleChat
        | AlertChannel::Mail => Err(format!("secret: {channel} has none; the address is what is secret")),
    }
}

fn sign_body(key: &[u8], signed: &[u8]) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| "the secret cannot be used")?;
    mac.update(signed);
    Ok(STANDARD.encode(mac.finalize().into_bytes()))
}

/// Builds the request for a message, at a time in seconds since 1970.
///
/// # Errors
/// Returns an error if the secret cannot be used.
pub fn build_request(
    message: &ClaimedAlertMessage,
    public_url: &str,
    now: i64,
) -> Result<AlertRequest, String> {
    let text = format_plain(message, public_url);
    let mut url = message.address.clone();
    let mut headers = vec![("idempotency-key", message.id.to_string())];
    let secret = message.secret.reveal();
    let body = match message.channel {
        AlertChannel::Webhook => build_webhook(message, public_url, now, &mut headers)?,
        // Text in angle brackets is a mention or a link.
        AlertChannel::Slack => {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            json!({"text": text}).to_string()
        }
        AlertChannel::Feishu => {
            // A tag could be a mention.
            let mut body = json!({"msg_type": "text", "content": {"text": text.replace('<', "‹")}});
            if !secret.is_empty() {
                let sign = sign_body(format!("{now}\n{secret}").as_bytes(), b"")?;
                body["timestamp"] = now.to_string().into();
                body["sign"] = sign.into();
            }
            body.to_string()
        }
        AlertChannel::Dingtalk => {
            if !secret.is_empty() {
                let millis = now.saturating_mul(1_000);
                let sign = sign_body(secret.as_bytes(), format!("{millis}\n{secret}").as_bytes())?;
                url = add_query(&url, &[("timestamp", &millis.to_string()), ("sign", &sign)]);
            }
            json!({"msgtype": "text", "text": {"content": text}}).to_string()
        }
        AlertChannel::Wecom => json!({"msgtype": "text", "text": {"content": text}}).to_string(),
        AlertChannel::Teams => build_teams(message, public_url),
        AlertChannel::Discord => {
            // With it an error of the message is one of the answer.
            url = add_query(&url, &[("wait", "true")]);
            build_discord(message, public_url)
        }
        AlertChannel::GoogleChat => {
            url = google_chat_url(message);
            build_google_chat(message, public_url)
        }
        AlertChannel::Pagerduty => build_pagerduty(message, public_url),
        AlertChannel::Opsgenie => {
            headers.push(("authorization", format!("GenieKey {secret}")));
            let request = build_opsgenie(message, public_url);
            url = request.url;
            request.body
        }
        AlertChannel::Mail | AlertChannel::Kafka => return Err("it is not sent by HTTP".to_owned()),
    };
    // Only webhooks have another.
    Ok(AlertRequest { url, headers, content_type: message.content_type, body })
}

fn build_webhook(
    message: &ClaimedAlertMessage,
    public_url: &str,
    now: i64,
    headers: &mut Vec<(&'static str, String)>,
) -> Result<String, String> {
    let body = if message.template.is_empty() {
        message_to_json(message, public_url).to_string()
    } else {
        fill_template(&message.template, message, public_url)
    };
    headers.push(("webhook-id", message.id.to_string()));
    headers.push(("webhook-timestamp", now.to_string()));
    if !message.secret.is_empty() {
        let signer = WebhookSigner::from_secret(&message.secret).map_err(|_| "the secret cannot be used")?;
        headers.push(("webhook-signature", signer.sign_message(&message.id.to_string(), now, &body)));
    }
    Ok(body)
}

/// Checks that the receiver accepted the message. Some chats answer with status 200 and an error.
///
/// # Errors
/// Returns the receiver's answer, for the tenant. For a receiver in the operator's networks it is the status
/// alone: a rule must not read the answers of servers there.
pub fn check_answer(channel: AlertChannel, answer: &ReceiverAnswer) -> Result<(), DeliveryFailure> {
    let ReceiverAnswer { status, body, is_in_networks, retry_after } = answer;
    let refused = || {
        let text: String = String::from_utf8_lossy(body).chars().take(LONGEST_ANSWER).collect();
        let text = if *is_in_networks {
            format!("The receiver answered with HTTP {status} and did not take the message")
        } else {
            format!("The receiver answered with HTTP {status}: {}", unslide_report::text::escape_line(&text))
        };
        DeliveryFailure { text, is_final: is_final(channel, *status), pause: *retry_after }
    };
    if !(200..300).contains(status) {
        return Err(refused());
    }
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_taken = match channel {
        AlertChannel::Mail
        | AlertChannel::Kafka
        | AlertChannel::Pagerduty
        | AlertChannel::Opsgenie
        // The answer repeats the message, and may be longer than what is read of it.
        | AlertChannel::Discord
        | AlertChannel::GoogleChat
        // It says only that the workflow has begun.
        | AlertChannel::Teams => true,
        // A service compatible with Slack may say so.
        AlertChannel::Webhook | AlertChannel::Slack => answer["ok"] != false,
        AlertChannel::Feishu => answer["code"] == 0,
        AlertChannel::Dingtalk | AlertChannel::Wecom => answer["errcode"] == 0,
    };
    if is_taken { Ok(()) } else { Err(refused()) }
}

/// Returns true if a chat will never take the message: its webhook is gone, or it refuses the card.
fn is_final(channel: AlertChannel, status: u16) -> bool {
    match channel {
        AlertChannel::Slack => matches!(status, 404 | 410),
        AlertChannel::Teams | AlertChannel::Discord | AlertChannel::GoogleChat => {
            matches!(status, 400 | 401 | 403 | 404 | 410 | 413)
        }
        _ => false,
    }
}

/// Returns the address of the ticket that a webhook has made of the only group of a message: `ticket_url` of its answer.
pub fn find_ticket(message: &ClaimedAlertMessage, answer: &ReceiverAnswer) -> Option<MadeTicket> {
    let [AlertEvent { group: Some(group), .. }] = message.named.as_slice() else { return None };
    let answer: Value = serde_json::from_slice(&answer.body).ok()?;
    let url = answer["ticket_url"].as_str().filter(|url| !url.is_empty() && is_ticket_url(url))?;
    let is_webhook = message.channel == AlertChannel::Webhook;
    is_webhook.then(|| MadeTicket { group: group.id, url: url.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::message;
    use super::*;
    use crate::store::events::AlertGroup;

    fn made(channel: AlertChannel, secret: &str) -> AlertRequest {
        let mut message = message(channel, &["New: <!channel> & co"], 1);
        message.secret = Secret::new(secret);
        build_request(&message, "", 1_600_000_000).unwrap()
    }

    #[test]
    fn a_webhook_with_a_secret_is_signed() {
        let sent = made(AlertChannel::Webhook, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let names: Vec<&str> = sent.headers.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["idempotency-key", "webhook-id", "webhook-timestamp", "webhook-signature"]);
        let read: Value = serde_json::from_str(&sent.body).unwrap();
        assert_eq!((&read["count"], &read["events"][0]["app"]), (&json!(1), &json!("shop")));
    }

    #[test]
    fn texts_mention_nobody() {
        let body = |channel| serde_json::from_str::<Value>(&made(channel, "").body).unwrap();
        let text = body(AlertChannel::Slack);
        assert!(text["text"].as_str().unwrap().starts_with("New: &lt;!channel&gt; &amp; co\n"), "{text}");
        let text = body(AlertChannel::Feishu);
        assert!(text["content"]["text"].as_str().unwrap().starts_with("New: ‹!channel> & co\n"), "{text}");
        assert_eq!(text["sign"], Value::Null);
    }

    #[test]
    fn chats_are_signed_in_their_own_ways() {
        let feishu: Value = serde_json::from_str(&made(AlertChannel::Feishu, "word").body).unwrap();
        let expected = sign_body(b"1600000000\nword", b"").unwrap();
        assert_eq!((&feishu["timestamp"], &feishu["sign"]), (&json!("1600000000"), &json!(expected)));
        let dingtalk = made(AlertChannel::Dingtalk, "word");
        let expected = sign_body(b"word", b"1600000000000\nword").unwrap();
        let query = form_urlencoded::byte_serialize(expected.as_bytes()).collect::<String>();
        assert_eq!(
            dingtalk.url.reveal(),
            format!("https://example.com/hook?timestamp=1600000000000&sign={query}")
        );
    }

    #[test]
    fn an_error_in_an_answer_of_status_200_is_an_error() {
        for (taken, channel, status, body) in [
            (true, AlertChannel::Slack, 200, "ok"),
            (true, AlertChannel::Webhook, 204, ""),
            (true, AlertChannel::Webhook, 200, r#"{"ok":true}"#),
            (false, AlertChannel::Webhook, 200, r#"{"ok":false}"#),
            (true, AlertChannel::Slack, 200, r#"{"ok":true}"#),
            (false, AlertChannel::Slack, 200, r#"{"ok":false,"error":"channel_not_found"}"#),
            (false, AlertChannel::Webhook, 302, ""),
            (false, AlertChannel::Slack, 404, "no_service"),
            (true, AlertChannel::Feishu, 200, r#"{"code":0,"msg":"success"}"#),
            (false, AlertChannel::Feishu, 200, r#"{"code":19021,"msg":"sign match fail"}"#),
            (true, AlertChannel::Dingtalk, 200, r#"{"errcode":0,"errmsg":"ok"}"#),
            (false, AlertChannel::Wecom, 200, r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#),
            (false, AlertChannel::Wecom, 200, "<html>"),
        ] {
            let answer = |is_in_networks| ReceiverAnswer {
                status,
                body: body.into(),
                is_in_networks,
                retry_after: None,
            };
            let checked = check_answer(channel, &answer(false));
            assert_eq!(checked.is_ok(), taken, "{channel} {status} {body}");
            if let Err(DeliveryFailure { text, .. }) = checked {
                assert!(text.contains(body), "{text}");
                let hidden = check_answer(channel, &answer(true)).unwrap_err().text;
                assert!(body.is_empty() || !hidden.contains(body), "{hidden}");
            }
        }
        let answer = ReceiverAnswer {
            status: 502,
            body: b"down\x1b[2J".into(),
            is_in_networks: false,
            retry_after: None,
        };
        let failure = check_answer(AlertChannel::Webhook, &answer).unwrap_err();
        assert_eq!(failure.text, "The receiver answered with HTTP 502: down\\u{1b}[2J");
    }

    #[test]
    fn a_chat_without_its_webhook_is_not_tried_again() {
        use AlertChannel::{Discord, GoogleChat, Slack, Teams, Webhook};
        for (channel, status, is_final) in [
            (Discord, 404, true),
            (Discord, 400, true),
            (Discord, 429, false),
            (GoogleChat, 403, true),
            (GoogleChat, 503, false),
            (Teams, 401, true),
            (Teams, 408, false),
            (Slack, 410, true),
            (Slack, 403, false),
            (Webhook, 404, false),
        ] {
            let retry_after = (status == 429).then_some(time::Duration::seconds(7));
            let answer = ReceiverAnswer { status, body: Vec::new(), is_in_networks: false, retry_after };
            let failure = check_answer(channel, &answer).unwrap_err();
            assert_eq!((failure.is_final, failure.pause), (is_final, retry_after), "{channel} {status}");
        }
    }

    #[test]
    fn a_webhook_that_makes_a_ticket_of_one_group_answers_with_its_address() {
        let group = AlertGroup {
            id: GroupId::from_uuid(unslide_store::Uuid::from_u128(7)),
            short_id: None,
            reports: 3,
            devices: 2,
        };
        let sent = |channel, groups: usize| {
            let mut message = message(channel, &["New: boom", "New: bang"][..groups], 2);
            message.named.iter_mut().for_each(|event| event.group = Some(group.clone()));
            message
        };
        let url = "https://tickets.example.com/SHOP-17";
        let made = format!(r#"{{"ticket_url":"{url}"}}"#);
        let find = |channel, groups, body: &str| {
            let answer =
                ReceiverAnswer { status: 201, body: body.into(), is_in_networks: false, retry_after: None };
            find_ticket(&sent(channel, groups), &answer).map(|ticket| (ticket.group, ticket.url))
        };
        assert_eq!(find(AlertChannel::Webhook, 1, &made), Some((group.id, url.to_owned())));
        // Which of two groups it is of is not known.
        assert_eq!(find(AlertChannel::Webhook, 2, &made), None);
        assert_eq!(find(AlertChannel::Slack, 1, &made), None);
        for body in [
            "ok",
            "{}",
            r#"{"ticket_url":""}"#,
            r#"{"ticket_url":"javascript:alert(1)"}"#,
            r#"{"ticket_url":7}"#,
        ] {
            assert_eq!(find(AlertChannel::Webhook, 1, body), None, "{body}");
        }
    }

    #[test]
    fn a_secret_is_one_that_the_channel_can_use() {
        for (fine, channel, secret) in [
            (true, AlertChannel::Webhook, ""),
            (true, AlertChannel::Webhook, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            (false, AlertChannel::Webhook, "word"),
            (false, AlertChannel::Webhook, "whsec_word"),
            (true, AlertChannel::Dingtalk, "SECword"),
            (false, AlertChannel::Slack, "word"),
        ] {
            assert_eq!(check_secret(channel, &Secret::new(secret)).is_ok(), fine, "{channel} {secret}");
        }
    }
}
