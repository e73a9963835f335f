//! Linear: issues of a team. The id of an issue is ours to choose, so that a second request makes none.

use super::client::describe_error;
use super::signature::has_hex_signature;
use super::{
    HookProof, NamedTicket, TicketDraft, TicketSearch, TrackerAccount, TrackerCall, TrackerEvent,
    TrackerFailure, TrackerProtocol, text_of,
};
use crate::ticket::{RemoteTicket, TicketState, TrackerKind};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use time::Duration;
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

fn read_issue(issue: &Value) -> Option<RemoteTicket> {
    let kind = issue["state"]["type"].as_str()?;
    let state = match kind {
        "completed" if !issue["autoClosedAt"].is_null() => TicketState::Dropped,
        "completed" => TicketState::Done,
        "canceled" | "duplicate" => TicketState::Dropped,
        _ => TicketState::Open,
    };
    Some(RemoteTicket {
        id: text_of(issue, "/id")?,
        key: text_of(issue, "/identifier")?,
        url: text_of(issue, "/url")?,
        state,
        fix_version: None,
    })
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

    fn find_failure(&self, answer: &Value) -> Option<TrackerFailure> {
        let first = answer["errors"].get(0)?;
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

    fn read_created(&self, _account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        read_issue(&answer["data"]["issueCreate"]["issue"])
    }

    fn build_search(&self, account: &TrackerAccount, draft: &TicketDraft, _page: u32) -> TrackerCall {
        self.build_read(account, &draft.marker.to_string())
    }

    fn read_search(&self, account: &TrackerAccount, _: &TicketDraft, answer: &Value) -> TicketSearch {
        self.read_ticket(account, answer).map_or(TicketSearch::Absent, TicketSearch::Found)
    }

    fn parse_named(&self, _account: &TrackerAccount, text: &str) -> Option<NamedTicket> {
        let text = text.trim();
        let name = match text.split_once("/issue/") {
            Some((_, rest)) => rest.split('/').next()?,
            None => text,
        };
        let (team, number) = name.rsplit_once('-')?;
        let is_team = (1..=20).contains(&team.len()) && team.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_team || number.parse::<u64>().is_err() {
            return None;
        }
        let key = name.to_ascii_uppercase();
        // The address has the workspace, which is known when the issue is read.
        let url = if text.contains("://") { text.to_owned() } else { format!("{LINEAR_PAGES}/issue/{key}") };
        Some(NamedTicket { id: key.clone(), key, url })
    }

    fn build_read(&self, _account: &TrackerAccount, id: &str) -> TrackerCall {
        query(&format!("query($id: String!) {{ issue(id: $id) {{ {ISSUE_FIELDS} }} }}"), &json!({"id": id}))
    }

    fn read_ticket(&self, _account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        read_issue(&answer["data"]["issue"])
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
        let at = proof.header("linear-timestamp").and_then(|text| text.parse::<i64>().ok());
        let is_late = at
            .is_some_and(|at| (proof.now.unix_timestamp() - at / 1_000).abs() > HOOK_AGE_MAX.whole_seconds());
        is_signed && !is_late
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
