//! A server that plays Slack's Web API: channels with messages, tokens, limits, errors, and answers that are lost.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

pub const TOKEN: &str = "xoxb-a-token-of-the-test";
pub const TEAM: &str = "T0123TEAM";
pub const CHANNEL: &str = "C0123SHOP";

/// Characters that Slack takes in a section.
const SECTION_CHARACTERS_LIMIT: usize = 3_000;
/// Messages of a page, so that a search has several.
const PAGE_MESSAGES: usize = 2;

/// Something that goes wrong with the next request of a method.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An answer with status 200 and the word of an error.
    Word(&'static str),
    /// An answer with this status, and a `Retry-After`.
    Limited(u32),
    /// It is done, and the answer never comes.
    LostAnswer,
}

/// The messages, and the requests so far.
#[derive(Default)]
pub struct Played {
    pub messages: Vec<Value>,
    /// Texts that one person alone sees.
    pub ephemeral: Vec<Value>,
    pub faults: Vec<(&'static str, Fault)>,
    /// Methods and their arguments.
    pub requests: Vec<(String, Value)>,
}

/// The server.
pub struct SlackServer {
    pub url: String,
    pub port: u16,
    shared: Arc<Mutex<Played>>,
}

impl SlackServer {
    pub async fn start() -> SlackServer {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Mutex::default());
        let routes = Router::new().fallback(answer_request).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        SlackServer { url: format!("http://127.0.0.1:{port}/api"), port, shared }
    }

    /// Changes what Slack has, or reads what was asked.
    pub fn with<T>(&self, change: impl FnOnce(&mut Played) -> T) -> T {
        change(&mut self.shared.lock())
    }

    pub fn fail_next(&self, method: &'static str, fault: Fault) {
        self.with(|played| played.faults.push((method, fault)));
    }

    /// Returns the messages that begin a thread.
    pub fn parents(&self) -> Vec<Value> {
        self.with(|played| played.messages.iter().filter(|one| one["thread_ts"].is_null()).cloned().collect())
    }

    /// Returns the messages that are in a thread.
    pub fn replies(&self) -> Vec<Value> {
        self.with(|played| {
            played.messages.iter().filter(|one| !one["thread_ts"].is_null()).cloned().collect()
        })
    }

    pub fn count_requests(&self, method: &str) -> usize {
        self.with(|played| played.requests.iter().filter(|(name, _)| name == method).count())
    }
}

async fn answer_request(
    State(shared): State<Arc<Mutex<Played>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let method = uri.path().strip_prefix("/api/").unwrap_or_default().to_owned();
    let is_json = headers["content-type"].to_str().unwrap().starts_with("application/json");
    let arguments: Value = if is_json {
        serde_json::from_slice(&body).unwrap()
    } else {
        form_urlencoded::parse(&body)
            .map(|(name, value)| (name.into_owned(), Value::from(value.into_owned())))
            .collect()
    };
    let fault = {
        let mut played = shared.lock();
        played.requests.push((method.clone(), arguments.clone()));
        let at = played.faults.iter().position(|(of, _)| *of == method);
        at.map(|at| played.faults.remove(at).1)
    };
    let reply = |value: Value| (StatusCode::OK, value.to_string()).into_response();
    let refuse = |word: &str| json!({"ok": false, "error": word});
    if headers.get("authorization").is_none_or(|value| *value != format!("Bearer {TOKEN}")) {
        return reply(refuse("invalid_auth"));
    }
    // Methods that read take no JSON.
    if is_json && method.starts_with("conversations.") {
        return reply(refuse("invalid_arguments"));
    }
    match fault {
        Some(Fault::Word(word)) => reply(refuse(word)),
        Some(Fault::Limited(seconds)) => {
            let limited = (StatusCode::TOO_MANY_REQUESTS, [("retry-after", seconds.to_string())]);
            (limited.0, limited.1, refuse("ratelimited").to_string()).into_response()
        }
        Some(Fault::LostAnswer) => {
            play(&mut shared.lock(), &method, &arguments);
            std::future::pending().await
        }
        None => reply(play(&mut shared.lock(), &method, &arguments)),
    }
}

fn has_long_section(message: &Value) -> bool {
    let blocks = message["blocks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let length = |block: &Value| block["text"]["text"].as_str().map_or(0, |text| text.chars().count());
    blocks.iter().any(|block| length(block) > SECTION_CHARACTERS_LIMIT) || blocks.len() > 50
}

fn play(played: &mut Played, method: &str, arguments: &Value) -> Value {
    let refuse = |word: &str| json!({"ok": false, "error": word});
    if method == "auth.test" {
        return json!({"ok": true, "team_id": TEAM, "team": "Example", "user_id": "U0BOT"});
    }
    if arguments["channel"] != CHANNEL {
        return refuse("channel_not_found");
    }
    let ts = arguments["ts"].as_str().unwrap_or_default().to_owned();
    match method {
        "chat.postMessage" => {
            if has_long_section(arguments) {
                return refuse("invalid_blocks");
            }
            let ts = format!("{}.000100", 1_795_773_600 + played.requests.len());
            let mut message = arguments.clone();
            message["ts"] = ts.clone().into();
            played.messages.push(message);
            json!({"ok": true, "channel": CHANNEL, "ts": ts})
        }
        "chat.update" => {
            let Some(found) = played.messages.iter_mut().find(|one| one["ts"] == ts.as_str()) else {
                return refuse("message_not_found");
            };
            *found = arguments.clone();
            json!({"ok": true, "channel": CHANNEL, "ts": ts})
        }
        "chat.postEphemeral" => {
            played.ephemeral.push(arguments.clone());
            json!({"ok": true, "message_ts": "1.0"})
        }
        "conversations.history" | "conversations.replies" => {
            let is_reply = method == "conversations.replies";
            let in_thread = |one: &&Value| match is_reply {
                true => one["thread_ts"] == ts.as_str(),
                false => one["thread_ts"].is_null(),
            };
            let begin: usize = arguments["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
            let all: Vec<Value> = played.messages.iter().filter(in_thread).rev().cloned().collect();
            let end = (begin + PAGE_MESSAGES).min(all.len());
            let next = if end < all.len() { end.to_string() } else { String::new() };
            json!({"ok": true, "messages": all[begin..end], "response_metadata": {"next_cursor": next}})
        }
        _ => refuse("unknown_method"),
    }
}
