//! The messages about a group. Texts of crashes are plain text: Slack finds no mention, link or markup in them.

use crate::ids::SlackMarkerId;
use reqwest::Url;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_api::feature::site::group_link;
use unslide_store::groups::GroupStatus;
use unslide_store::queries::groups::ListedGroup;

/// The types of the metadata by which the messages of a thread are found again.
pub const MARKER_EVENT: &str = "unslide_group";
pub const REPLY_EVENT: &str = "unslide_regression";

/// Characters of a title and of a line. Slack takes 3,000 of a section after escaping, which makes five of one.
const SLACK_TEXT_LIMIT: usize = 500;

/// Escapes what Slack reads in any text. Control characters become spaces.
pub fn escape_slack(text: &str) -> String {
    let cut = text.chars().take(SLACK_TEXT_LIMIT).map(|c| if c.is_control() { ' ' } else { c });
    cut.collect::<String>().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn plain_text(text: &str) -> Value {
    json!({"type": "plain_text", "text": escape_slack(text), "emoji": false})
}

/// Returns the state of a group in words.
fn describe_state(group: &ListedGroup) -> String {
    let state = match (group.status, &group.resolved_in, &group.resolved_after) {
        (GroupStatus::Resolved, Some(version), _) => format!("resolved in {version}"),
        (GroupStatus::Resolved, None, Some(_)) => "resolved in the next version".to_owned(),
        (status, ..) => status.as_str().to_owned(),
    };
    let assignee = group.assignee.as_ref().filter(|name| !name.is_empty());
    assignee.map_or(state.clone(), |name| format!("{state}, assigned to {name}"))
}

/// Returns the address of a group's ticket, if Slack takes it for a button.
fn ticket_address(group: &ListedGroup) -> Option<&str> {
    let url = group.ticket_url.as_deref().filter(|url| !url.is_empty())?;
    Url::parse(url).is_ok_and(|parsed| parsed.has_host()).then_some(url)
}

/// Builds the first message of a group's thread, as the arguments of `chat.postMessage` and `chat.update`.
pub fn build_parent(group: &ListedGroup, channel: &str, marker: SlackMarkerId, public_url: &str) -> Value {
    let count =
        |number: i64, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let mut facts = vec![group.shown_id()];
    let texts = [&group.culprit, &group.app, &group.last_version];
    facts.extend(texts.into_iter().filter(|text| !text.is_empty()).cloned());
    facts.push(count(group.reports, "report", "reports"));
    facts.push(count(group.affected_devices, "device", "devices"));
    let button = |action: &str, word: &str| {
        json!({"type": "button", "action_id": action, "value": group.id.to_string(),
               "text": {"type": "plain_text", "text": word, "emoji": false}})
    };
    let mut buttons = Vec::new();
    if matches!(group.status, GroupStatus::Open | GroupStatus::Regressed) {
        buttons.push(button("resolve_next", "Resolve in next version"));
        buttons.push(button("ignore", "Ignore"));
    }
    buttons.push(button("assign_me", "Assign to me"));
    let link = |action: &str, word: &str, url: String| {
        let mut open = button(action, word);
        open["url"] = url.into();
        open
    };
    buttons.push(match ticket_address(group) {
        Some(url) => link("open_ticket", "Open the ticket", url.to_owned()),
        None => button("make_ticket", "Make a ticket"),
    });
    buttons.extend(group_link(public_url, group.id).map(|url| link("open", "Open", url)));
    json!({
        "channel": channel,
        "text": escape_slack(&format!("{}: {}", group.shown_id(), group.title)),
        "mrkdwn": false,
        "parse": "none",
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
        "metadata": {"event_type": MARKER_EVENT, "event_payload": {"marker": marker.to_string()}},
        "blocks": [
            {"type": "section", "text": plain_text(&group.title)},
            {"type": "section", "text": plain_text(&facts.join(" · "))},
            {"type": "context", "elements": [plain_text(&format!("State: {}", describe_state(group)))]},
            {"type": "actions", "block_id": "group", "elements": buttons},
        ],
    })
}

/// Returns the metadata of the reply about a regression.
fn reply_payload(marker: SlackMarkerId, back_at: OffsetDateTime) -> Value {
    json!({"marker": marker.to_string(), "back_at": back_at.format(&Rfc3339).unwrap_or_default()})
}

/// Builds the reply about a group that came back, which is shown in the channel, too.
pub fn build_reply(
    group: &ListedGroup,
    channel: &str,
    ts: &str,
    marker: SlackMarkerId,
    back_at: OffsetDateTime,
) -> Value {
    let version = group.regressed_in.as_deref().unwrap_or_default();
    let text = format!("{} is back in version {version}: {}", group.shown_id(), group.title);
    json!({
        "channel": channel,
        "thread_ts": ts,
        "reply_broadcast": true,
        "text": escape_slack(&text),
        "mrkdwn": false,
        "parse": "none",
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
        "metadata": {"event_type": REPLY_EVENT, "event_payload": reply_payload(marker, back_at)},
        "blocks": [{"type": "section", "text": plain_text(&text)}],
    })
}
