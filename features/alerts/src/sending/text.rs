//! Writes the texts of messages.

use crate::store::events::{AlertEvent, AlertGroup, EventReason};
use crate::store::messages::ClaimedAlertMessage;
use crate::store::rules::TemplateType;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use unslide_report::text::escape_line;

/// The most bytes of a text: the limit of the strictest chat.
const ALERT_TEXT_BYTES: usize = 2_000;

/// Returns the subject: the event, or the number of events.
pub fn format_headline(message: &ClaimedAlertMessage) -> String {
    match message.named.as_slice() {
        [one] if message.events == 1 => escape_line(&one.headline).into_owned(),
        _ => format!("{}: {} alerts", escape_line(&message.rule_name), message.events),
    }
}

/// Returns the URL of an event's page, if the console's address is known.
pub fn event_link(event: &AlertEvent, public_url: &str) -> String {
    if public_url.is_empty() { String::new() } else { format!("{public_url}{}", event.path) }
}

/// Returns the URL of the page that acknowledges the firing of an event, if the console's address is known.
pub fn acknowledge_link(event: &AlertEvent, public_url: &str) -> Option<String> {
    let path = event.firing.as_ref()?.acknowledge_path.as_ref()?;
    (!public_url.is_empty()).then(|| format!("{public_url}{path}"))
}

/// Returns the URL of the page that mutes the rule of a message, if the console's address is known.
pub fn mute_link(message: &ClaimedAlertMessage, public_url: &str) -> Option<String> {
    let path = message.mute_path.as_ref()?;
    (!public_url.is_empty()).then(|| format!("{public_url}{path}"))
}

/// Returns the whole as lines of text, at most 2,000 bytes. No character in it changes how it is read.
pub fn format_plain(message: &ClaimedAlertMessage, public_url: &str) -> String {
    let mut text = format_headline(message);
    let mute = mute_link(message, public_url).map(|link| format!("\nMute: {link}")).unwrap_or_default();
    let mut told = 0;
    for event in &message.named {
        let lines = event_lines(event, event_rule_name(event, message), message.events > 1, public_url);
        if text.len() + lines.len() + mute.len() + 40 > ALERT_TEXT_BYTES {
            break;
        }
        text.push_str(&lines);
        told += 1;
    }
    if message.events > told {
        text.push_str(&format!("\nand {} more", message.events - told));
    }
    text + &mute
}

fn event_lines(event: &AlertEvent, rule_name: &str, with_headline: bool, public_url: &str) -> String {
    let what = if with_headline { escape_line(&event.headline).into_owned() } else { String::new() };
    let acknowledge = acknowledge_link(event, public_url).map(|link| format!("Acknowledge: {link}"));
    let links = [event_link(event, public_url), acknowledge.unwrap_or_default()];
    let lines = [what].into_iter().chain(describe_event(event, rule_name)).chain(links);
    lines.filter(|line| !line.is_empty()).map(|line| format!("\n{line}")).collect()
}

/// Returns the details of an event beside its headline, as lines without control characters. Some may be empty.
pub fn describe_event(event: &AlertEvent, rule_name: &str) -> [String; 4] {
    let of = [event.app.as_str(), event.version.as_str()].map(escape_line).join(" ").trim().to_owned();
    let counts = event.group.as_ref().map(describe_group).unwrap_or_default();
    let detail = escape_line(&event.detail).into_owned();
    [detail, counts, of, format!("Rule: {}", escape_line(rule_name))]
}

/// Returns the short name and the counts of a group.
fn describe_group(group: &AlertGroup) -> String {
    let count = |number: i64, one: &str, many: &str| {
        if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
    };
    let name = group.short_id.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    let reports = count(group.reports, "report", "reports");
    format!("{name}{reports}, {}", count(group.devices, "device", "devices"))
}

/// Returns the name of the rule that an event is of: of a firing that was escalated, the rule that fires.
pub fn event_rule_name<'m>(event: &'m AlertEvent, message: &'m ClaimedAlertMessage) -> &'m str {
    event.firing.as_ref().map_or(&message.rule_name, |firing| &firing.rule_name)
}

/// Returns the condition that an event fulfils, as a word, or `sent` or `test` if a person asked for it.
fn event_condition(event: &AlertEvent, message: &ClaimedAlertMessage) -> &'static str {
    match event.reason {
        EventReason::Condition => {
            event.firing.as_ref().map_or(message.condition, |firing| firing.condition).as_str()
        }
        EventReason::Sent => "sent",
        EventReason::Test => "test",
    }
}

/// Returns the whole as JSON, for webhooks.
pub fn message_to_json(message: &ClaimedAlertMessage, public_url: &str) -> Value {
    let events = message.named.iter().map(|event| {
        let group = event.group.as_ref().map(|group| {
            json!({"id": group.id, "short_id": group.short_id, "reports": group.reports,
                   "affected_devices": group.devices})
        });
        json!({
            "condition": event_condition(event, message),
            "group": group,
            "firing": event.firing.as_ref().map(|firing| {
                json!({"id": firing.id, "rule": firing.rule, "rule_name": firing.rule_name, "step": firing.step,
                       "acknowledge_link": acknowledge_link(event, public_url)})
            }),
            "occurred_at": event.occurred_at.format(&Rfc3339).unwrap_or_default(),
            "headline": event.headline,
            "detail": event.detail,
            "app": event.app,
            "version": event.version,
            "link": event_link(event, public_url),
        })
    });
    json!({
        "type": "alert",
        "id": message.id,
        "created_at": message.created_at.format(&Rfc3339).unwrap_or_default(),
        "rule": {"id": message.rule, "name": message.rule_name, "condition": message.condition},
        "count": message.events,
        "mute_link": mute_link(message, public_url),
        "events": events.collect::<Vec<_>>(),
    })
}

/// Replaces the fields of a template. Each is escaped for its place between the quotes of a JSON text, or as
/// a value of a form.
pub fn fill_template(template: &str, message: &ClaimedAlertMessage, public_url: &str) -> String {
    let first = message.named.first();
    let of_first = |read: fn(&AlertEvent) -> &str| first.map(read).unwrap_or_default().to_owned();
    let group = first.and_then(|event| event.group.as_ref());
    let of_group = |read: fn(&AlertGroup) -> String| group.map(read).unwrap_or_default();
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let field = after.split_once("}}").and_then(|(name, after)| {
            let value = match name.trim() {
                "headline" => format_headline(message),
                "detail" => of_first(|event| &event.detail),
                "app" => of_first(|event| &event.app),
                "version" => of_first(|event| &event.version),
                "link" => first.map(|event| event_link(event, public_url)).unwrap_or_default(),
                "mute_link" => mute_link(message, public_url).unwrap_or_default(),
                "count" => message.events.to_string(),
                "rule" => first
                    .map_or(message.rule_name.as_str(), |event| event_rule_name(event, message))
                    .to_owned(),
                "condition" => {
                    first.map(|event| event_condition(event, message)).unwrap_or_default().to_owned()
                }
                "group" => of_group(|group| group.id.to_string()),
                "short_id" => of_group(|group| group.short_id.clone().unwrap_or_default()),
                "reports" => of_group(|group| group.reports.to_string()),
                "devices" => of_group(|group| group.devices.to_string()),
                "text" => format_plain(message, public_url),
                _ => return None,
            };
            Some((value, after))
        });
        match field {
            Some((value, after)) => {
                filled.push_str(&escaped_for(message.content_type, value));
                rest = after;
            }
            None => {
                filled.push_str("{{");
                rest = after;
            }
        }
    }
    filled + rest
}

fn escaped_for(content_type: TemplateType, value: String) -> String {
    match content_type {
        TemplateType::Json => {
            let quoted = Value::String(value).to_string();
            quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default().to_owned()
        }
        TemplateType::Form => form_urlencoded::byte_serialize(value.as_bytes()).collect(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::store::rules::{AlertChannel, AlertCondition};
    use crate::store::{AlertMessageId, AlertRuleId};
    use time::OffsetDateTime;
    use unslide_model::Secret;
    use unslide_store::Uuid;

    pub fn message(channel: AlertChannel, headlines: &[&str], events: i64) -> ClaimedAlertMessage {
        let event = |headline: &&str| AlertEvent {
            occurred_at: OffsetDateTime::UNIX_EPOCH,
            headline: (*headline).to_owned(),
            detail: "Cart.total".to_owned(),
            app: "shop".to_owned(),
            version: "2.0".to_owned(),
            path: "/console/groups/1".to_owned(),
            reason: EventReason::Condition,
            group: Some(AlertGroup {
                id: unslide_store::GroupId::from_uuid(Uuid::from_u128(7)),
                short_id: Some("SHOP-1A2B".to_owned()),
                reports: 12,
                devices: 1,
            }),
            firing: None,
        };
        ClaimedAlertMessage {
            id: AlertMessageId::from_uuid(Uuid::from_u128(5)),
            attempt: 1,
            created_at: OffsetDateTime::UNIX_EPOCH,
            rule: AlertRuleId::from_uuid(Uuid::from_u128(6)),
            rule_name: "bugs".to_owned(),
            condition: AlertCondition::NewGroup,
            channel,
            address: Secret::new("https://example.com/hook"),
            secret: Secret::default(),
            sealed: None,
            template: String::new(),
            content_type: TemplateType::Json,
            mute_path: Some("/console/mute/token".to_owned()),
            events,
            named: headlines.iter().map(event).collect(),
        }
    }

    #[test]
    fn a_text_tells_of_each_event_and_of_how_many_more() {
        let one = message(AlertChannel::Slack, &["New: a\nb"], 1);
        let text = format_plain(&one, "https://unslide.example.com");
        assert_eq!(
            text,
            "New: a\\nb\nCart.total\nSHOP-1A2B: 12 reports, 1 device\nshop 2.0\nRule: bugs\nhttps://unslide.example.com/console/groups/1\nMute: https://unslide.example.com/console/mute/token"
        );
        let many = message(AlertChannel::Slack, &["New: a", "New: b"], 30);
        assert_eq!(
            format_plain(&many, ""),
            concat!(
                "bugs: 30 alerts\nNew: a\nCart.total\nSHOP-1A2B: 12 reports, 1 device\nshop 2.0\nRule: bugs\n",
                "New: b\nCart.total\nSHOP-1A2B: 12 reports, 1 device\nshop 2.0\nRule: bugs\nand 28 more"
            )
        );
        let long = "x".repeat(900);
        let much = message(AlertChannel::Slack, &[long.as_str(); 5], 5);
        assert!(format_plain(&much, "").len() <= ALERT_TEXT_BYTES);
        assert!(format_plain(&much, "").ends_with("\nand 3 more"));
    }

    #[test]
    fn a_template_stays_json_whatever_is_put_in() {
        let one = message(AlertChannel::Webhook, &["say \"hi\" \\ {{app}}"], 1);
        let filled = fill_template(
            r#"{"msg":"{{ headline }} in {{app}} {{version}}","n":{{count}},"x":"{{nope}} {{",
                "who":"{{short_id}} {{condition}} {{reports}}/{{devices}}"}"#,
            &one,
            "",
        );
        let read: Value = serde_json::from_str(&filled).unwrap();
        assert_eq!(read["msg"], "say \"hi\" \\ {{app}} in shop 2.0");
        assert_eq!(read["who"], "SHOP-1A2B new_group 12/1");
        assert_eq!((&read["n"], &read["x"]), (&json!(1), &json!("{{nope}} {{")));
    }

    #[test]
    fn a_template_stays_a_form_whatever_is_put_in() {
        let mut one = message(AlertChannel::Webhook, &["a&to=1 +\u{e9}%\n{{app}}"], 1);
        one.content_type = TemplateType::Form;
        let filled = fill_template("to=%2B15550100&n={{count}}&text={{headline}} in {{app}}", &one, "");
        let read: Vec<(String, String)> = form_urlencoded::parse(filled.as_bytes()).into_owned().collect();
        let expected = [("to", "+15550100"), ("n", "1"), ("text", "a&to=1 +\u{e9}%\\n{{app}} in shop")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
