//! The trackers: one entry of [`TRACKERS`] for each, with its requests, its answers and its hooks. Nothing else names one.
//!
//! Sources: "REST API v3" and "v2" of Jira, "REST API endpoints for issues" and "Webhook events and payloads" of GitHub, "Issues
//! API" and "Webhook events" of GitLab, the schema and "Webhooks" of Linear.

mod client;
mod github;
mod gitlab;
mod jira;
mod linear;
mod signature;

pub use client::{ANSWER_BYTES_LIMIT, TICKETS_SECTION, TrackerClient, TrackerFailure};

use crate::ticket::{NamedTicket, RemoteTicket, TicketMarker, TrackerKind};
use http::{HeaderMap, Method};
use serde_json::Value;
use time::{Duration, OffsetDateTime};
use unslide_model::Secret;

/// Every tracker.
const TRACKERS: [&dyn TrackerProtocol; 5] =
    [&github::Github, &gitlab::Gitlab, &jira::JIRA_CLOUD, &jira::JIRA_DATA_CENTER, &linear::Linear];

impl TrackerKind {
    /// Returns the protocol of the product.
    pub fn protocol(self) -> &'static dyn TrackerProtocol {
        let found = TRACKERS.into_iter().find(|tracker| tracker.kind() == self);
        found.unwrap_or(&github::Github)
    }
}

/// The account for requests to a tracker, and the project of its tickets.
#[derive(Clone, Debug)]
pub struct TrackerAccount {
    /// The address of the API, without a slash at its end.
    pub url: String,
    pub project: String,
    /// The e-mail address that belongs to the token, for trackers that need it.
    pub account: Option<String>,
    pub token: Secret,
    pub issue_type: Option<String>,
    pub labels: Vec<String>,
    pub fields: Option<Value>,
}

/// A request to a tracker.
#[derive(Clone, Debug)]
pub struct TrackerCall {
    pub method: Method,
    /// The path and the query behind the address of the API.
    pub path: String,
    pub body: Option<Value>,
}

impl TrackerCall {
    fn get(path: String) -> TrackerCall {
        TrackerCall { method: Method::GET, path, body: None }
    }

    fn send(method: Method, path: String, body: Value) -> TrackerCall {
        TrackerCall { method, path, body: Some(body) }
    }
}

/// A ticket to be made.
#[derive(Clone, Debug)]
pub struct TicketDraft {
    pub title: String,
    /// Markdown, at most [`TicketDraft::TEXT_LIMIT`] bytes.
    pub text: String,
    /// The address of the group's page; None if the console's address is not known.
    pub link: Option<String>,
    pub marker: TicketMarker,
    pub created_at: OffsetDateTime,
}

impl TicketDraft {
    /// Jira takes 32,767 characters, with the marks of its own format.
    pub const TEXT_LIMIT: usize = 28_000;

    /// Returns the marker as trackers without a field for it have it in the text.
    fn marker_text(&self) -> String {
        format!("unslide-ticket-{}", self.marker.uuid().simple())
    }
}

/// An answer to a search for a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketSearch {
    Found(RemoteTicket),
    /// The tickets go on on the next page.
    NextPage,
    Absent,
    /// The answer is none of the tracker, or has a ticket that is none.
    Unreadable,
}

/// A commit on the default branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedCommit {
    pub revision: String,
    pub message: String,
    pub committed_at: Option<OffsetDateTime>,
}

/// The content of a hook, as far as it matters. It is a hint: tickets are read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackerEvent {
    /// These tickets may have changed, by ids or names.
    Tickets(Vec<String>),
    /// Commits have reached the default branch.
    Push(Vec<PushedCommit>),
    Other,
}

/// The parts of a hook that prove its sender.
#[derive(Clone, Copy, Debug)]
pub struct HookProof<'h> {
    pub headers: &'h HeaderMap,
    pub body: &'h [u8],
    pub secret: &'h Secret,
    pub now: OffsetDateTime,
}

impl HookProof<'_> {
    /// Returns a header's text.
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Everything that tells one tracker from another: pure functions that make requests and read answers.
pub trait TrackerProtocol: Sync {
    fn kind(&self) -> TrackerKind;

    /// Returns its name for people.
    fn label(&self) -> &'static str;

    /// Returns the address of its API, if there is one for all customers.
    fn usual_url(&self) -> Option<&'static str>;

    /// Checks the account, as far as it can be without a request.
    ///
    /// # Errors
    /// Returns the field and what is wrong with it.
    fn check_account(&self, account: &TrackerAccount) -> Result<(), String>;

    /// Returns the header that authorizes a request.
    fn authorize(&self, account: &TrackerAccount) -> (&'static str, Secret);

    /// Returns how long after a request without an answer a ticket may still appear in a search.
    fn settle_time(&self) -> Duration {
        Duration::minutes(1)
    }

    /// Returns the reason for which an answer with a status of success is none.
    fn find_failure(&self, _answer: &Value) -> Option<TrackerFailure> {
        None
    }

    /// Asks for the project, to test the account.
    fn build_probe(&self, account: &TrackerAccount) -> TrackerCall;

    /// Returns a sentence about the project, or None if the answer is not that of the tracker.
    fn read_probe(&self, answer: &Value) -> Option<String>;

    fn build_create(&self, account: &TrackerAccount, draft: &TicketDraft) -> TrackerCall;

    fn read_created(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket>;

    /// Returns true if a search asks for the ticket by its id: "not found" then says that there is none.
    fn searches_by_id(&self) -> bool {
        false
    }

    /// Searches for the ticket with the marker of a draft. `page` counts from 1.
    fn build_search(&self, account: &TrackerAccount, draft: &TicketDraft, page: u32) -> TrackerCall;

    fn read_search(&self, account: &TrackerAccount, draft: &TicketDraft, answer: &Value) -> TicketSearch;

    /// Returns the id, the name and the address of a ticket that a person names by one of them.
    fn parse_named(&self, account: &TrackerAccount, text: &str) -> Option<NamedTicket>;

    fn build_read(&self, account: &TrackerAccount, id: &str) -> TrackerCall;

    fn read_ticket(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket>;

    fn build_comment(&self, account: &TrackerAccount, id: &str, text: &str) -> TrackerCall;

    /// Asks for the ways to open a ticket again, if the tracker has several.
    fn build_ways(&self, _account: &TrackerAccount, _id: &str) -> Option<TrackerCall> {
        None
    }

    /// Opens a ticket again. `ways` is the answer about them. Returns None if no way leads there.
    fn build_reopen(&self, account: &TrackerAccount, id: &str, ways: &Value) -> Option<TrackerCall>;

    /// Returns true if a hook is signed with the secret, in constant time.
    fn is_signed(&self, proof: &HookProof<'_>) -> bool;

    /// Returns the header that is the same in each repetition of a delivery.
    fn delivery_header(&self) -> &'static str;

    /// Reads a hook that is signed.
    fn read_hook(&self, account_project: &str, headers: &HeaderMap, body: &Value) -> TrackerEvent;
}

/// Returns a member of an object as a text, also if it is a number.
fn text_of(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the number of a ticket that is named as `17`, `#17`, or the address that begins with `pages`.
fn parse_number(text: &str, pages: &str) -> Option<u64> {
    let text = text.trim();
    let number = match strip_address(text, pages) {
        Some(rest) => rest.split(['/', '?', '#']).next()?,
        None => text.strip_prefix('#').unwrap_or(text),
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|number| is_number && *number > 0)
}

/// Returns true for the number in the name of an issue, such as `17` of `SHOP-17`.
fn is_issue_number(text: &str) -> bool {
    (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns what follows `begin` in an address, in any case of letters.
fn strip_address<'t>(text: &'t str, begin: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(begin.len())?;
    head.eq_ignore_ascii_case(begin).then_some(rest)
}

/// Returns true for a text of 1 to 200 printable ASCII characters without spaces and the separators of a query.
fn is_path_text(text: &str) -> bool {
    (1..=200).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        && !text.contains("..")
        && !text.starts_with('/')
        && !text.ends_with('/')
}

/// Returns a text as one segment of a path.
fn encode_segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_one_protocol() {
        for kind in TrackerKind::ALL {
            assert_eq!(kind.protocol().kind(), kind);
        }
    }

    #[test]
    fn a_ticket_is_named_by_its_number_or_its_address() {
        let pages = "https://github.com/acme/shop/issues/";
        for text in [
            "17",
            "#17",
            " #17 ",
            "https://github.com/acme/shop/issues/17",
            "https://github.com/Acme/shop/issues/17/",
            "https://github.com/acme/shop/issues/17#issuecomment-1",
        ] {
            assert_eq!(parse_number(text, pages), Some(17), "{text}");
        }
        for text in [
            "",
            "0",
            "+17",
            "SHOP-17",
            "https://github.com/acme/shop/issues",
            "/17",
            "acme/other/issues/17",
            "é17",
            "https://github.com/acme/other/issues/17",
            "https://example.org/?https://github.com/acme/shop/issues/17",
        ] {
            assert_eq!(parse_number(text, pages), None, "{text}");
        }
    }
}
