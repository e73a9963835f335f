//! Cards for chats that take links and no buttons: Microsoft Teams, Discord and Google Chat.
//!
//! Texts of crashes are hostile: a channel gets each as characters, without mentions, links or markup.
//!
//! Sources: <https://learn.microsoft.com/adaptive-cards/authoring-cards/text-features> (text runs have no Markdown);
//! <https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using> (28 KB);
//! <https://discord.com/developers/docs/resources/webhook> and <https://discord.com/developers/docs/resources/message>
//! (limits of embeds); <https://developers.google.com/workspace/chat/api/reference/rest/v1/spaces.messages/create>.

use super::pagers::deduplication_key;
use super::text::{
    acknowledge_link, describe_event, event_link, event_rule_name, format_headline, mute_link,
};
use crate::store::messages::ClaimedAlertMessage;
use serde_json::{Value, json};
use unslide_model::Secret;
use unslide_report::text::escape_line;

/// Characters of a title. Escaped for Discord it has at most twice as many, and Discord takes 256.
const CARD_TITLE_LIMIT: usize = 120;
/// The most characters of a line of a card.
const CARD_LINE_LIMIT: usize = 200;
/// Events that a card shows.
const CARD_EVENTS_LIMIT: usize = 10;
/// Bytes of the events of a card of Teams, as JSON. Teams takes 28 KB a message.
const TEAMS_BYTES_LIMIT: usize = 24_000;
/// Bytes of the events of a card of Google Chat, as JSON. It takes 32,000 a message.
const GOOGLE_BYTES_LIMIT: usize = 28_000;
/// Characters of the events of an embed of Discord, less the line that counts the others and the link that mutes. Discord takes 4,096.
const DISCORD_CHARACTERS_LIMIT: usize = 3_600;
/// The word of the link that mutes the rule.
const MUTE_WORD: &str = "Mute";
/// Invisible, and no part of an address or of a function of a card.
const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// An event of a card. Its texts are not escaped for a channel.
struct CardEvent {
    lines: Vec<String>,
    /// The words and addresses of its links.
    links: Vec<(&'static str, String)>,
}

/// The texts of a card, not escaped for a channel.
struct CardText {
    title: String,
    events: Vec<CardEvent>,
    count: i64,
    /// The address of the page that mutes the rule.
    mute: Option<String>,
}

impl CardText {
    fn from_message(message: &ClaimedAlertMessage, public_url: &str) -> CardText {
        let events = message.named.iter().take(CARD_EVENTS_LIMIT).map(|event| {
            let headline = (message.events > 1).then(|| escape_line(&event.headline).into_owned());
            let described = describe_event(event, event_rule_name(event, message));
            let lines = headline.into_iter().chain(described).filter(|line| !line.is_empty());
            let open = Some(event_link(event, public_url)).filter(|link| !link.is_empty());
            let acknowledge = acknowledge_link(event, public_url);
            let links = [("Open", open), ("Acknowledge", acknowledge)];
            CardEvent {
                lines: lines.map(|line| clean_text(&line, CARD_LINE_LIMIT)).collect(),
                links: links.into_iter().filter_map(|(word, link)| Some((word, link?))).collect(),
            }
        });
        let title = clean_text(&format_headline(message), CARD_TITLE_LIMIT);
        let mute = mute_link(message, public_url);
        CardText { title, events: events.collect(), count: message.events, mute }
    }

    /// Renders events until the limit is reached. Returns them, and the line that counts the others.
    fn render_events<T>(
        &self,
        limit: usize,
        render: impl Fn(&CardEvent) -> T,
        measure: impl Fn(&T) -> usize,
    ) -> (Vec<T>, Option<String>) {
        let (mut rendered, mut size) = (Vec::new(), 0);
        for event in &self.events {
            let event = render(event);
            size += measure(&event);
            if size > limit {
                break;
            }
            rendered.push(event);
        }
        let left = self.count - i64::try_from(rendered.len()).unwrap_or(i64::MAX);
        (rendered, (left > 0).then(|| format!("and {left} more")))
    }
}

/// Cuts a text, and breaks what clients of chats find in any text: addresses, mentions by name, and functions of cards.
fn clean_text(text: &str, limit: usize) -> String {
    let mut cleaned: String = text.chars().take(limit).collect();
    for (found, before) in [("://", ":"), ("www.", "www"), ("{{", "{"), ("@", "@")] {
        let rest = found.strip_prefix(before).unwrap_or_default();
        cleaned = cleaned.replace(found, &format!("{before}{ZERO_WIDTH_SPACE}{rest}"));
    }
    cleaned.chars().take(limit).collect()
}

/// Returns the bytes of a value as JSON.
fn json_bytes(value: &Value) -> usize {
    value.to_string().len()
}

/// Adds parameters to the query of a secret address.
pub fn add_query(url: &Secret, parameters: &[(&str, &str)]) -> Secret {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    let joint = if url.reveal().contains('?') { '&' } else { '?' };
    Secret::new(format!("{}{joint}{query}", url.reveal()))
}

/// Builds the body for a workflow of Teams. Text runs have no markup, so nothing is escaped.
pub fn build_teams(message: &ClaimedAlertMessage, public_url: &str) -> String {
    let card = CardText::from_message(message, public_url);
    let block = |text: &str| json!({"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text}]});
    let render = |event: &CardEvent| {
        let mut items: Vec<Value> = event.lines.iter().map(|line| block(line)).collect();
        if !event.links.is_empty() {
            let action =
                |(word, url): &(&str, String)| json!({"type": "Action.OpenUrl", "title": word, "url": url});
            let actions: Vec<Value> = event.links.iter().map(action).collect();
            items.push(json!({"type": "ActionSet", "actions": actions}));
        }
        json!({"type": "Container", "separator": true, "items": items})
    };
    let (events, more) = card.render_events(TEAMS_BYTES_LIMIT, render, json_bytes);
    let title = json!({"type": "TextRun", "text": card.title, "size": "Medium", "weight": "Bolder"});
    let mut body = vec![json!({"type": "RichTextBlock", "inlines": [title]})];
    body.extend(events);
    body.extend(more.map(|more| block(&more)));
    body.extend(card.mute.map(|url| {
        json!({"type": "ActionSet", "actions": [{"type": "Action.OpenUrl", "title": MUTE_WORD, "url": url}]})
    }));
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
            },
        }],
    })
    .to_string()
}

/// Escapes each character that Discord's Markdown could obey.
fn escape_discord(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Builds the body for a webhook of Discord. No text of it mentions anyone.
pub fn build_discord(message: &ClaimedAlertMessage, public_url: &str) -> String {
    let card = CardText::from_message(message, public_url);
    let render = |event: &CardEvent| {
        let links: Vec<String> = event.links.iter().map(|(word, url)| format!("[{word}](<{url}>)")).collect();
        let links = Some(links.join(" · ")).filter(|links| !links.is_empty());
        let lines: Vec<String> = event.lines.iter().map(|line| escape_discord(line)).chain(links).collect();
        lines.join("\n")
    };
    // Two characters between two events.
    let (mut events, more) =
        card.render_events(DISCORD_CHARACTERS_LIMIT, render, |text| text.chars().count() + 2);
    events.extend(more);
    events.extend(card.mute.map(|url| format!("[{MUTE_WORD}](<{url}>)")));
    json!({
        "embeds": [{"title": escape_discord(&card.title), "description": events.join("\n\n")}],
        "allowed_mentions": {"parse": []},
    })
    .to_string()
}

/// Escapes a text for the small HTML of Google Chat's cards.
fn escape_google(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Builds the body for a webhook of Google Chat. Messages about the same bug are in one thread.
pub fn build_google_chat(message: &ClaimedAlertMessage, public_url: &str) -> String {
    let card = CardText::from_message(message, public_url);
    let paragraph = |html: String| json!({"textParagraph": {"text": html}});
    let render = |event: &CardEvent| {
        let lines: Vec<String> = event.lines.iter().map(|line| escape_google(line)).collect();
        let mut widgets = vec![paragraph(lines.join("<br>"))];
        if !event.links.is_empty() {
            let button =
                |(word, url): &(&str, String)| json!({"text": word, "onClick": {"openLink": {"url": url}}});
            let buttons: Vec<Value> = event.links.iter().map(button).collect();
            widgets.push(json!({"buttonList": {"buttons": buttons}}));
        }
        json!({"widgets": widgets})
    };
    let (events, more) = card.render_events(GOOGLE_BYTES_LIMIT, render, json_bytes);
    let mut sections =
        vec![json!({"widgets": [paragraph(format!("<b>{}</b>", escape_google(&card.title)))]})];
    sections.extend(events);
    sections.extend(more.map(|more| json!({"widgets": [paragraph(more)]})));
    sections.extend(card.mute.map(|url| {
        let button = json!({"text": MUTE_WORD, "onClick": {"openLink": {"url": url}}});
        json!({"widgets": [{"buttonList": {"buttons": [button]}}]})
    }));
    let key = match message.named.as_slice() {
        [only] if only.firing.is_none() => only.group.as_ref().map(|group| format!("unslide-{}", group.id)),
        _ => None,
    };
    json!({
        "cardsV2": [{"cardId": "unslide", "card": {"sections": sections}}],
        "thread": {"threadKey": key.unwrap_or_else(|| deduplication_key(message))},
    })
    .to_string()
}

/// Adds the id that makes a post to Google Chat idempotent, and the choice to begin a thread that is missing.
pub fn google_chat_url(message: &ClaimedAlertMessage) -> Secret {
    let id = message.id.to_string();
    let option = ("messageReplyOption", "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD");
    add_query(&message.address, &[option, ("requestId", id.as_str())])
}

#[cfg(test)]
mod tests {
    use super::super::channels::build_request;
    use super::super::text::tests::message;
    use super::*;
    use crate::store::rules::AlertChannel;

    /// Texts that a chat could obey: mentions, links, markup and functions, in the forms of all chats.
    const HOSTILE_TEXTS: [&str; 16] = [
        "@everyone @here",
        "<!channel> <!here>",
        "<@U012AB3CD> <@&165511591545143296> <@!1>",
        "<users/all>",
        "<at>team</at>",
        "[sign in](https://evil.example.com)",
        "<https://evil.example.com|sign in>",
        "<a href=\"https://evil.example.com\">sign in</a>",
        "https://evil.example.com www.example.com",
        "**bold** __under__ *i* ~~s~~ ||spoiler|| `code`",
        "# heading\n> quote\n- item\n```block",
        "<b>x</b><br><img src=x>",
        "{{DATE(2026-11-29T00:00:00Z,SHORT)}}",
        "&lt;b&gt; &amp;",
        "\u{202e}txt.exe\u{1b}[2J\0",
        "<t:1700000000:R> <#1> :boom: </ask:1>",
    ];

    fn hostile_message(channel: AlertChannel, text: &str) -> ClaimedAlertMessage {
        let mut hostile = message(channel, &[text, text], 2);
        for event in &mut hostile.named {
            (event.detail, event.app, event.version) = (text.to_owned(), text.to_owned(), text.to_owned());
        }
        text.clone_into(&mut hostile.rule_name);
        hostile
    }

    fn build_body(message: &ClaimedAlertMessage) -> Value {
        let request = build_request(message, "https://unslide.example.com", 1_600_000_000).unwrap();
        serde_json::from_str(&request.body).unwrap()
    }

    /// Calls a function with each text of a JSON document and its key.
    fn visit_texts(value: &Value, key: &str, visit: &mut dyn FnMut(&str, &str)) {
        match value {
            Value::String(text) => visit(key, text),
            Value::Array(items) => items.iter().for_each(|item| visit_texts(item, key, visit)),
            Value::Object(fields) => fields.iter().for_each(|(key, item)| visit_texts(item, key, visit)),
            _ => {}
        }
    }

    #[test]
    fn hostile_texts_are_characters_in_teams() {
        for text in HOSTILE_TEXTS {
            let body = build_body(&hostile_message(AlertChannel::Teams, text));
            let mut runs = 0;
            visit_texts(&body["attachments"][0]["content"]["body"], "", &mut |key, text| match key {
                // Markdown is obeyed in blocks of text and in facts alone.
                "type" => assert!(!matches!(text, "TextBlock" | "FactSet"), "{text}"),
                "text" => {
                    runs += 1;
                    assert!(
                        !text.contains("://") && !text.contains("{{") && !text.contains("www."),
                        "{text}"
                    );
                    assert!(!text.contains(['\u{202e}', '\u{1b}', '\0']), "{text:?}");
                }
                "url" => assert!(text.starts_with("https://unslide.example.com/console/"), "{text}"),
                _ => {}
            });
            assert_eq!(runs, 1 + 2 * 5, "{text}");
            assert_eq!(body["attachments"][0]["content"].get("msteams"), None, "mentions are entities of it");
        }
    }

    #[test]
    fn hostile_texts_are_characters_in_discord() {
        for hostile in HOSTILE_TEXTS {
            let body = build_body(&hostile_message(AlertChannel::Discord, hostile));
            assert_eq!(body["allowed_mentions"], json!({"parse": []}));
            let embed = &body["embeds"][0];
            let description = embed["description"].as_str().unwrap();
            let links = "[Open](<https://unslide.example.com/console/groups/1>)";
            assert_eq!(description.matches(links).count(), 2, "{description}");
            let mute = "[Mute](<https://unslide.example.com/console/mute/token>)";
            assert_eq!(description.matches(mute).count(), 1, "{description}");
            let texts = description.replace(links, "").replace(mute, "");
            for text in [embed["title"].as_str().unwrap(), &texts] {
                let mut characters = text.chars();
                while let Some(c) = characters.next() {
                    // Each mark is escaped, and what a backslash escapes is a mark.
                    assert!(!c.is_ascii_punctuation() || c == '\\', "{text}");
                    assert!(
                        c != '\\' || characters.next().is_some_and(|c| c.is_ascii_punctuation()),
                        "{text}"
                    );
                }
                assert!(!text.contains(['\u{202e}', '\u{1b}', '\0']), "{text:?}");
            }
        }
    }

    #[test]
    fn hostile_texts_are_characters_in_google_chat() {
        for hostile in HOSTILE_TEXTS {
            let body = build_body(&hostile_message(AlertChannel::GoogleChat, hostile));
            assert_eq!(body.get("text"), None, "mentions are obeyed there");
            visit_texts(&body["cardsV2"][0]["card"], "", &mut |key, text| match key {
                "url" => assert!(text.starts_with("https://unslide.example.com/console/"), "{text}"),
                _ => {
                    let plain = text.replace("<br>", "").replace("<b>", "").replace("</b>", "");
                    assert!(!plain.contains(['<', '>']) && !plain.contains("://"), "{text}");
                    let known = ["&amp;", "&lt;", "&gt;"];
                    let marks: usize = known.iter().map(|mark| plain.matches(mark).count()).sum();
                    assert_eq!(plain.matches('&').count(), marks, "{text}");
                }
            });
        }
    }

    #[test]
    fn hostile_texts_are_characters_in_slack() {
        for hostile in HOSTILE_TEXTS {
            let body = build_body(&hostile_message(AlertChannel::Slack, hostile));
            let text = body["text"].as_str().unwrap();
            assert!(!text.contains(['<', '>', '\u{202e}', '\u{1b}', '\0']), "{text:?}");
        }
    }

    #[test]
    fn cards_keep_within_the_limits_of_their_chats() {
        for text in ["é*".repeat(3_000), "<&>\"".repeat(2_000), "\u{1f4a5}".repeat(9_000)] {
            for count in [1, 20] {
                let build = |channel| {
                    let mut long = hostile_message(channel, &text);
                    long.named = vec![long.named[0].clone(); count];
                    long.events = 10_000;
                    build_request(&long, "https://unslide.example.com", 1_600_000_000).unwrap().body
                };
                assert!(build(AlertChannel::Teams).len() <= 28 << 10);
                assert!(build(AlertChannel::GoogleChat).len() <= 32_000);
                let discord: Value = serde_json::from_str(&build(AlertChannel::Discord)).unwrap();
                let embed = &discord["embeds"][0];
                let characters = |name: &str| embed[name].as_str().unwrap().chars().count();
                assert!((1..=256).contains(&characters("title")));
                assert!((1..=4_096).contains(&characters("description")), "{}", characters("description"));
                let description = embed["description"].as_str().unwrap();
                assert!(description.contains("Open") && description.contains(" more"), "{description}");
            }
        }
    }

    #[test]
    fn a_bug_has_one_thread_and_a_message_one_id_in_google_chat() {
        let thread = |message: &ClaimedAlertMessage| build_body(message)["thread"]["threadKey"].clone();
        let one = message(AlertChannel::GoogleChat, &["New: boom"], 1);
        let group = one.named[0].group.as_ref().unwrap().id;
        assert_eq!(thread(&one), json!(format!("unslide-{group}")));
        let many = message(AlertChannel::GoogleChat, &["New: boom", "New: bang"], 2);
        assert_eq!(thread(&many), json!(format!("unslide-{}", many.id)));
        let request = build_request(&one, "", 1_600_000_000).unwrap();
        assert_eq!(
            request.url.reveal(),
            format!(
                "https://example.com/hook?messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD&requestId={}",
                one.id
            )
        );
    }
}
