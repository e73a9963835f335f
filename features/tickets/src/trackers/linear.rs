//! Linear: issues of a team. The id of an issue is ours to choose, so that a second request makes none.

use super::client::describe_error;
use super::{
    HookProof, TicketDraft, TicketSearch, TrackerAccount, TrackerCall, TrackerEvent, TrackerFailure,
    TrackerProtocol, is_issue_number, strip_address, text_of,
};
use crate::ticket::{NamedTicket, RemoteTicket, TicketState, TrackerKind};
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::{Value, json};
use time::Duration;
use unslide_api::feature::hooks::has_hex_signature;
use unslide_model::Secret;
use unslide_store::Uuid;

/// The address of Linear's API.
const LINEAR_URL: &str = "https://api.linear.app";
const LINEAR_PAGES: &str = "https://linear.app";
/// The members of an issue that are read.
const ISSUE_FIELDS: &str = "id identifier url autoClosedAt state { type }";
/// How far the time of a hook may be from now. Linear repeats one after an hour and after six.
const HOOK_AGE_MAX: Duration = Duration::hours(7);

/// See the module.
pub struct Linear;

fn query(text: &str, variables: &Value) -> TrackerCall {
    TrackerCall::send(Method::POST, "/graphql".to_owned(), json!({"query": text, "variables": variables}))
}

/// Returns the address of Linear's pages.
fn linear_pages(account: &TrackerAccount) -> &str {
    if account.url == LINEAR_URL { LINEAR_PAGES } else { &account.url }
}

/// The part of a hook that says when it was sent. The headers are not signed.
#[derive(Deserialize)]
struct HookTime {
    /// The time of sending, in milliseconds since 1970.
    #[serde(rename = "webhookTimestamp")]
    at: i64,
}

fn read_issue(account: &TrackerAccount, issue: &Value) -> Option<RemoteTicket> {
    let kind = issue["state"]["type"].as_str()?;
    let state = match kind {
        "completed" if !issue["autoClosedAt"].is_null() => TicketState::Dropped,
        "completed" => TicketState::Done,
        "canceled" | "duplicate" => TicketState::Dropped,
        _ => TicketState::Open,
    };
    let key = text_of(issue, "/identifier")?;
    let page = format!("{}/issue/{key}", linear_pages(account));
    let (id, url) = (text_of(issue, "/id")?, text_of(issue, "/url").unwrap_or_default());
    RemoteTicket { id, key, url, state, fix_version: None }.check_names(page)
}

impl TrackerProtocol for Linear {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Linear
    }

    fn label(&self) -> &'static str {
        "Linear"
    }

    fn usual_url(&self) -> Option<&'static str> {
        Some(LINEAR_URL)
    }

    fn check_account(&self, account: &TrackerAccount) -> Result<(), String> {
        let is_id = |text: &str| Uuid::parse_str(text).is_ok();
        if !is_id(&account.project) {
            return Err("project: the id (UUID) of a team".to_owned());
        }
        if !account.labels.iter().all(|label| is_id(label)) {
            return Err("labels: the ids (UUID) of labels".to_owned());
        }
        Ok(())
    }

    fn authorize(&self, account: &TrackerAccount) -> (&'static str, Secret) {
        let token = account.token.reveal();
        // A personal key comes without the word.
        let value = if token.starts_with("lin_api_") { token.to_owned() } else { format!("Bearer {token}") };
        ("authorization", Secret::new(value))
    }

    /// A request that arrives late has the same id.
    fn settle_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Errors beside an issue concern parts of it: the issue exists.
    fn find_failure(&self, answer: &Value) -> Option<TrackerFailure> {
        let first = answer["errors"].get(0)?;
        let has_issue = |pointer: &str| answer.pointer(pointer).is_some_and(|id| !id.is_null());
        if has_issue("/data/issueCreate/issue/id") || has_issue("/data/issue/id") {
            return None;
        }
        let words = describe_error(first);
        Some(match first["extensions"]["code"].as_str() {
            Some("RATELIMITED") => TrackerFailure::Limited { status: 400, pause: None },
            Some("AUTHENTICATION_ERROR") => TrackerFailure::Unauthorized(words),
            Some("FORBIDDEN") => TrackerFailure::Forbidden(words),
            Some("INTERNAL_SERVER_ERROR") => TrackerFailure::Server(500),
            _ if words.to_lowercase().contains("not found") => TrackerFailure::Missing { status: 404, words },
            _ => TrackerFailure::Refused { status: 400, words },
        })
    }

    fn build_probe(&self, account: &TrackerAccount) -> TrackerCall {
        query("query($id: String!) { team(id: $id) { id key name } }", &json!({"id": account.project}))
    }

    fn read_probe(&self, answer: &Value) -> Option<String> {
        let team = &answer["data"]["team"];
        Some(format!("the team {} ({})", text_of(team, "/name")?, text_of(team, "/key")?))
    }

    fn build_create(&self, account: &TrackerAccount, draft: &TicketDraft) -> TrackerCall {
        let text = format!(
            "mutation($i: IssueCreateInput!) {{ issueCreate(input: $i) {{ success issue {{ {ISSUE_FIELDS} }} }} }}"
        );
        let issue = json!({"id": draft.marker, "teamId": account.project, "title": draft.title, "description": draft.text,
            "labelIds": account.labels});
        query(&text, &json!({"i": issue}))
    }

    fn read_created(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        read_issue(account, &answer["data"]["issueCreate"]["issue"])
    }

    fn searches_by_id(&self) -> bool {
        true
    }

    fn build_search(&self, account: &TrackerAccount, draft: &TicketDraft, _page: u32) -> TrackerCall {
        self.build_read(account, &draft.marker.to_string())
    }

    fn read_search(&self, account: &TrackerAccount, _: &TicketDraft, answer: &Value) -> TicketSearch {
        if answer["data"]["issue"].is_null() {
            return TicketSearch::Absent;
        }
        self.read_ticket(account, answer).map_or(TicketSearch::Unreadable, TicketSearch::Found)
    }

    fn parse_named(&self, account: &TrackerAccount, text: &str) -> Option<NamedTicket> {
        let (text, pages) = (text.trim(), format!("{}/", linear_pages(account)));
        // The address has the workspace before the issue.
        let name = match strip_address(text, &pages).and_then(|rest| rest.split_once("issue/")) {
            Some((_, rest)) => rest.split(['/', '?', '#']).next()?,
            None => text,
        };
        let (team, number) = name.rsplit_once('-')?;
        let is_team = (1..=20).contains(&team.len()) && team.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_team || !is_issue_number(number) {
            return None;
        }
        let key = name.to_ascii_uppercase();
        // The workspace is known when the issue is read.
        let url = if text.contains("://") { text.to_owned() } else { format!("{pages}issue/{key}") };
        Some(NamedTicket { id: key.clone(), key, url })
    }

    fn build_read(&self, _account: &TrackerAccount, id: &str) -> TrackerCall {
        query(&format!("query($id: String!) {{ issue(id: $id) {{ {ISSUE_FIELDS} }} }}"), &json!({"id": id}))
    }

    fn read_ticket(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        read_issue(account, &answer["data"]["issue"])
    }

    fn build_comment(&self, _account: &TrackerAccount, id: &str, text: &str) -> TrackerCall {
        let mutation = "mutation($i: CommentCreateInput!) { commentCreate(input: $i) { success } }";
        query(mutation, &json!({"i": {"issueId": id, "body": text}}))
    }

    /// States belong to the team of the issue, which may have moved.
    fn build_ways(&self, _account: &TrackerAccount, id: &str) -> Option<TrackerCall> {
        let text = "query($id: String!) { issue(id: $id) { team { states { nodes { id type } } } } }";
        Some(query(text, &json!({"id": id})))
    }

    fn build_reopen(&self, _account: &TrackerAccount, id: &str, ways: &Value) -> Option<TrackerCall> {
        let states = ways.pointer("/data/issue/team/states/nodes")?.as_array()?;
        let find = |kind: &str| states.iter().find(|state| state["type"] == kind);
        let state = find("unstarted").or_else(|| find("backlog")).or_else(|| find("started"))?;
        let text =
            "mutation($id: String!, $i: IssueUpdateInput!) { issueUpdate(id: $id, input: $i) { success } }";
        Some(query(text, &json!({"id": id, "i": {"stateId": state["id"]}})))
    }

    fn is_signed(&self, proof: &HookProof<'_>) -> bool {
        let is_signed = has_hex_signature(proof.secret, proof.body, proof.header("linear-signature"));
        let is_recent = |time: HookTime| {
            let age = proof.now.unix_timestamp().abs_diff(time.at / 1_000);
            age <= HOOK_AGE_MAX.whole_seconds().unsigned_abs()
        };
        is_signed && unslide_model::json::from_slice(proof.body).is_ok_and(is_recent)
    }

    fn delivery_header(&self) -> &'static str {
        "linear-delivery"
    }

    fn read_hook(&self, _account_project: &str, _headers: &HeaderMap, body: &Value) -> TrackerEvent {
        if body["type"] != "Issue" {
            return TrackerEvent::Other;
        }
        let names = [text_of(body, "/data/id"), text_of(body, "/data/identifier")];
        TrackerEvent::Tickets(names.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::hmac::{HMAC_SHA256, Key, sign};
    use time::OffsetDateTime;

    fn is_taken(body: &str) -> bool {
        let signature = sign(&Key::new(HMAC_SHA256, b"a-hook-secret-of-the-test"), body.as_bytes());
        let digits: String = signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let headers = HeaderMap::from_iter([
            ("linear-signature".parse().unwrap(), digits.parse().unwrap()),
            // It is not signed.
            ("linear-timestamp".parse().unwrap(), "1795000000000".parse().unwrap()),
        ]);
        let secret = Secret::new("a-hook-secret-of-the-test");
        let now = OffsetDateTime::from_unix_timestamp(1_795_000_000).unwrap();
        Linear.is_signed(&HookProof { headers: &headers, body: body.as_bytes(), secret: &secret, now })
    }

    #[test]
    fn the_signed_time_of_a_hook_counts() {
        assert!(is_taken(r#"{"webhookTimestamp": 1794999999000}"#));
        // As late as the last repetition, and later.
        assert!(is_taken(r#"{"webhookTimestamp": 1794978400000}"#));
        for body in [
            r#"{"webhookTimestamp": 1794900000000}"#.to_owned(),
            format!(r#"{{"webhookTimestamp": {}}}"#, i64::MIN),
            format!(r#"{{"webhookTimestamp": {}}}"#, i64::MAX),
            "{}".to_owned(),
            "[".to_owned(),
        ] {
            assert!(!is_taken(&body), "{body}");
        }
    }

    #[test]
    fn errors_beside_an_issue_are_no_failure() {
        let issue = json!({"id": "7f0d1c2b", "identifier": "ENG-1", "state": {"type": "triage"}});
        let errors = json!([{"message": "a label was not set"}]);
        let made = json!({"errors": errors, "data": {"issueCreate": {"success": true, "issue": issue}}});
        assert_eq!(Linear.find_failure(&made), None);
        assert_eq!(Linear.find_failure(&json!({"errors": errors, "data": {"issue": issue}})), None);
        for without in [json!({"issueCreate": null}), json!({"issueCreate": {"issue": null}}), Value::Null] {
            let failed = Linear.find_failure(&json!({"errors": errors, "data": without}));
            assert!(matches!(failed, Some(TrackerFailure::Refused { .. })), "{failed:?}");
        }
    }
}
