//! Messages for pagers. Each alert has a key, by which later messages acknowledge or resolve it.
//!
//! Sources: <https://developer.pagerduty.com/docs/events-api-v2/trigger-events/> and, for the limits of fields,
//! <https://raw.githubusercontent.com/PagerDuty/api-schema/main/reference/events-v2/openapiv3.json>;
//! <https://docs.opsgenie.com/docs/alert-api>.

use super::text::{event_link, format_headline, format_plain, mute_link};
use crate::store::events::FiringStep;
use crate::store::messages::ClaimedAlertMessage;
use crate::store::rules::AlertCondition;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use unslide_model::Secret;

/// Characters of the summary of an event of PagerDuty.
const PAGERDUTY_SUMMARY_LIMIT: usize = 1_024;
/// Characters of the message of an alert of Opsgenie.
const OPSGENIE_MESSAGE_LIMIT: usize = 130;
/// Characters of PagerDuty's routing keys.
const ROUTING_KEY_LENGTH: usize = 32;
/// Characters of Opsgenie's keys that are accepted.
const OPSGENIE_KEY_LIMIT: usize = 100;
/// The name of this program for pagers.
const PAGER_CLIENT: &str = "Unslide";
/// The begin of each key of an alert in a pager.
pub const DEDUPLICATION_PREFIX: &str = "unslide-";

/// Checks the key of a PagerDuty integration.
pub fn check_routing_key(secret: &Secret) -> Result<(), String> {
    let key = secret.reveal();
    let is_key = key.len() == ROUTING_KEY_LENGTH && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_key {
        Ok(())
    } else {
        Err(format!(
            "secret: the {ROUTING_KEY_LENGTH} letters and digits of the integration key of PagerDuty"
        ))
    }
}

/// Checks the key of an API integration of Opsgenie.
pub fn check_genie_key(secret: &Secret) -> Result<(), String> {
    let key = secret.reveal();
    let is_key =
        (1..=OPSGENIE_KEY_LIMIT).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if is_key { Ok(()) } else { Err("secret: the key of an API integration of Opsgenie".to_owned()) }
}

/// Returns the last step of the firing that a message is about. Anything else begins an alert.
fn last_step(message: &ClaimedAlertMessage) -> FiringStep {
    let firing = message.named.iter().rev().find_map(|event| event.firing.as_ref());
    firing.map_or(FiringStep::Began, |firing| firing.step)
}

/// Returns the key by which later messages change the alert: the rule of a figure, a firing, a rule and a group, or else the
/// message.
pub fn deduplication_key(message: &ClaimedAlertMessage) -> String {
    if let Some(firing) = message.named.iter().rev().find_map(|event| event.firing.as_ref()) {
        // A figure is good again. Events are not: the next firing has to page again.
        let key =
            if firing.condition == AlertCondition::Figure { firing.rule.uuid() } else { firing.id.uuid() };
        return format!("{DEDUPLICATION_PREFIX}{key}");
    }
    match message.named.as_slice() {
        [only] if only.group.is_some() => {
            let group = only.group.as_ref().map(|group| group.id.to_string()).unwrap_or_default();
            format!("{DEDUPLICATION_PREFIX}{}-{group}", message.rule)
        }
        _ => format!("{DEDUPLICATION_PREFIX}{}", message.id),
    }
}

/// Cuts a text after a number of characters.
fn cut_text(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

/// Returns the details of a message that both pagers show: the rule, and the app and the version of its newest event.
fn describe_details(message: &ClaimedAlertMessage) -> Value {
    let newest = message.named.last();
    json!({
        "rule": message.rule_name,
        "app": newest.map(|event| event.app.as_str()).unwrap_or_default(),
        "version": newest.map(|event| event.version.as_str()).unwrap_or_default(),
        "count": message.events.to_string(),
    })
}

/// Returns the link of the newest event, if the console's address is known.
fn newest_link(message: &ClaimedAlertMessage, public_url: &str) -> Option<String> {
    message.named.last().map(|event| event_link(event, public_url)).filter(|link| !link.is_empty())
}

/// Builds the body of a request to PagerDuty.
pub fn build_pagerduty(message: &ClaimedAlertMessage, public_url: &str) -> String {
    let action = match last_step(message) {
        FiringStep::Began | FiringStep::Escalated => "trigger",
        FiringStep::Acknowledged => "acknowledge",
        FiringStep::Recovered => "resolve",
    };
    let mut body = json!({
        "routing_key": message.secret.reveal(),
        "event_action": action,
        "dedup_key": deduplication_key(message),
    });
    if action == "trigger" {
        let mut details = describe_details(message);
        details["text"] = format_plain(message, public_url).into();
        let app = message.named.last().map(|event| event.app.as_str()).filter(|app| !app.is_empty());
        body["payload"] = json!({
            "summary": cut_text(&format_headline(message), PAGERDUTY_SUMMARY_LIMIT),
            "source": app.unwrap_or(PAGER_CLIENT),
            "severity": "error",
            "timestamp": message.created_at.format(&Rfc3339).unwrap_or_default(),
            "custom_details": details,
        });
        body["client"] = PAGER_CLIENT.into();
        if let Some(link) = newest_link(message, public_url) {
            body["client_url"] = link.as_str().into();
            body["links"] = json!([{"href": link, "text": "Open the console"}]);
            if let (Some(mute), Some(links)) = (mute_link(message, public_url), body["links"].as_array_mut())
            {
                links.push(json!({"href": mute, "text": "Mute the rule"}));
            }
        }
    }
    body.to_string()
}

/// A request to Opsgenie, without its headers.
pub struct OpsgenieRequest {
    pub url: Secret,
    pub body: String,
}

/// Builds a request to Opsgenie: a new alert, or an action on the alert with the same alias.
pub fn build_opsgenie(message: &ClaimedAlertMessage, public_url: &str) -> OpsgenieRequest {
    let alerts = format!("{}/v2/alerts", message.address.reveal().trim_end_matches('/'));
    let alias = deduplication_key(message);
    let action = match last_step(message) {
        FiringStep::Began | FiringStep::Escalated => None,
        FiringStep::Acknowledged => Some("acknowledge"),
        FiringStep::Recovered => Some("close"),
    };
    let text = format_plain(message, public_url);
    let (url, body) = match action {
        None => {
            let message_text = cut_text(&format_headline(message), OPSGENIE_MESSAGE_LIMIT);
            let details = describe_details(message);
            let body = json!({"message": message_text, "alias": alias, "description": text, "details": details,
                              "source": PAGER_CLIENT});
            (alerts, body)
        }
        Some(action) => {
            let url = format!("{alerts}/{alias}/{action}?identifierType=alias");
            (url, json!({"source": PAGER_CLIENT, "note": text}))
        }
    };
    OpsgenieRequest { url: Secret::new(url), body: body.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::message;
    use super::*;
    use crate::store::events::EventFiring;
    use crate::store::rules::AlertChannel;
    use crate::store::{AlertFiringId, AlertRuleId};
    use unslide_store::Uuid;

    fn firing_message(channel: AlertChannel, steps: &[FiringStep]) -> ClaimedAlertMessage {
        let headlines = vec!["launch_time_p90 of shop is 1,900.0 ms"; steps.len()];
        let mut message = message(channel, &headlines, 1);
        message.address = Secret::new("https://api.eu.opsgenie.com/");
        message.secret = Secret::new("0123456789abcdef0123456789abcdef");
        for (event, step) in message.named.iter_mut().zip(steps) {
            let id = AlertFiringId::from_uuid(Uuid::from_u128(9));
            let rule = AlertRuleId::from_uuid(Uuid::from_u128(8));
            event.group = None;
            let (rule_name, condition) = ("launches".to_owned(), AlertCondition::Figure);
            event.firing =
                Some(EventFiring { id, rule, rule_name, condition, step: *step, acknowledge_path: None });
        }
        message
    }

    #[test]
    fn the_last_step_of_a_firing_decides_what_a_pager_does() {
        use FiringStep::{Acknowledged, Began, Escalated, Recovered};
        let key = format!("unslide-{}", Uuid::from_u128(8));
        for (steps, action, path) in [
            (&[Began][..], "trigger", "/v2/alerts".to_owned()),
            (&[Escalated], "trigger", "/v2/alerts".to_owned()),
            (
                &[Began, Acknowledged],
                "acknowledge",
                format!("/v2/alerts/{key}/acknowledge?identifierType=alias"),
            ),
            (&[Began, Recovered], "resolve", format!("/v2/alerts/{key}/close?identifierType=alias")),
            (&[Recovered, Began], "trigger", "/v2/alerts".to_owned()),
        ] {
            let message = firing_message(AlertChannel::Pagerduty, steps);
            let body: Value = serde_json::from_str(&build_pagerduty(&message, "")).unwrap();
            assert_eq!(body["event_action"], action, "{steps:?}");
            assert_eq!(body["dedup_key"], key.as_str());
            let request = build_opsgenie(&message, "");
            assert_eq!(request.url.reveal(), format!("https://api.eu.opsgenie.com{path}"), "{steps:?}");
        }
    }

    #[test]
    fn texts_are_as_long_as_pagers_take() {
        let long = "é".repeat(3_000);
        let message = message(AlertChannel::Opsgenie, &[&long], 1);
        let body: Value = serde_json::from_str(&build_opsgenie(&message, "").body).unwrap();
        assert_eq!(body["message"].as_str().unwrap().chars().count(), 130);
        let body: Value = serde_json::from_str(&build_pagerduty(&message, "")).unwrap();
        assert_eq!(body["payload"]["summary"].as_str().unwrap().chars().count(), 1_024);
        let group = message.named[0].group.as_ref().unwrap().id;
        assert_eq!(body["dedup_key"], format!("unslide-{}-{group}", message.rule));
    }

    #[test]
    fn keys_of_pagers_are_of_their_form() {
        for (is_key, key) in [("0123456789abcdef0123456789ABCDEF", true), ("short", false), ("", false)]
            .map(|(key, is_key)| (is_key, key))
        {
            assert_eq!(check_routing_key(&Secret::new(key)).is_ok(), is_key, "{key}");
        }
        for (key, is_key) in [("eb243592-faa2-4ba2-a551-1afdf565c889", true), ("a b", false), ("", false)] {
            assert_eq!(check_genie_key(&Secret::new(key)).is_ok(), is_key, "{key}");
        }
    }
}
