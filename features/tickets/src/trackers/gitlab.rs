//! GitLab: issues of a project.

use super::github::read_commits;
use super::signature::has_standard_signature;
use super::{
    HookProof, TicketDraft, TicketSearch, TrackerAccount, TrackerCall, TrackerEvent, TrackerProtocol,
    encode_segment, is_path_text, parse_number, text_of,
};
use crate::ticket::{NamedTicket, RemoteTicket, TicketState, TrackerKind};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use unslide_api::feature::hooks::is_same_secret;
use unslide_model::Secret;

/// The address of GitLab.com.
const GITLAB_URL: &str = "https://gitlab.com";
/// How far the time of a signed hook may be from now, in seconds.
const HOOK_SECONDS_MAX: u64 = 300;

/// See the module.
pub struct Gitlab;

impl Gitlab {
    fn project(account: &TrackerAccount) -> String {
        format!("/api/v4/projects/{}", encode_segment(&account.project))
    }

    /// Returns the address of the pages of issues.
    fn issue_pages(account: &TrackerAccount) -> String {
        format!("{}/{}/-/issues/", account.url, account.project)
    }

    fn read_issue(account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        let id = text_of(answer, "/iid")?;
        let is_elsewhere = !answer["duplicated_to_id"].is_null() || !answer["moved_to_id"].is_null();
        let is_stale = answer["labels"].as_array().into_iter().flatten().any(|label| label == "stale");
        let state = match answer["state"].as_str()? {
            "opened" => TicketState::Open,
            _ if is_elsewhere || is_stale => TicketState::Dropped,
            _ => TicketState::Done,
        };
        let fix_version = text_of(answer, "/milestone/title");
        let page = format!("{}{id}", Gitlab::issue_pages(account));
        let url = text_of(answer, "/web_url").unwrap_or_default();
        RemoteTicket { key: format!("#{id}"), id, url, state, fix_version }.check_names(page)
    }
}

impl TrackerProtocol for Gitlab {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Gitlab
    }

    fn label(&self) -> &'static str {
        "GitLab"
    }

    fn usual_url(&self) -> Option<&'static str> {
        Some(GITLAB_URL)
    }

    fn check_account(&self, account: &TrackerAccount) -> Result<(), String> {
        let is_named = is_path_text(&account.project) && account.project.contains('/');
        if is_named { Ok(()) } else { Err("project: the path of a project such as group/name".to_owned()) }
    }

    fn authorize(&self, account: &TrackerAccount) -> (&'static str, Secret) {
        ("private-token", account.token.clone())
    }

    fn build_probe(&self, account: &TrackerAccount) -> TrackerCall {
        TrackerCall::get(Gitlab::project(account))
    }

    fn read_probe(&self, answer: &Value) -> Option<String> {
        Some(format!("the project {}", text_of(answer, "/path_with_namespace")?))
    }

    fn build_create(&self, account: &TrackerAccount, draft: &TicketDraft) -> TrackerCall {
        let text = format!("{}\n\n<!-- {} -->\n", draft.text, draft.marker_text());
        let issue = json!({"title": draft.title, "description": text, "labels": account.labels.join(","), "issue_type": "issue"});
        TrackerCall::send(Method::POST, format!("{}/issues", Gitlab::project(account)), issue)
    }

    fn read_created(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        Gitlab::read_issue(account, answer)
    }

    fn build_search(&self, account: &TrackerAccount, draft: &TicketDraft, page: u32) -> TrackerCall {
        let marker = draft.marker_text();
        let query = format!("search={marker}&in=description&state=all&scope=all&page={page}");
        TrackerCall::get(format!("{}/issues?{query}", Gitlab::project(account)))
    }

    fn read_search(&self, account: &TrackerAccount, draft: &TicketDraft, answer: &Value) -> TicketSearch {
        let marker = draft.marker_text();
        let has_marker =
            |issue: &&Value| issue["description"].as_str().is_some_and(|text| text.contains(&marker));
        match answer.as_array().map(|issues| issues.iter().find(has_marker)) {
            None => TicketSearch::Unreadable,
            Some(None) => TicketSearch::Absent,
            Some(Some(found)) => {
                Gitlab::read_issue(account, found).map_or(TicketSearch::Unreadable, TicketSearch::Found)
            }
        }
    }

    fn parse_named(&self, account: &TrackerAccount, text: &str) -> Option<NamedTicket> {
        let pages = Gitlab::issue_pages(account);
        let id = parse_number(text, &pages)?.to_string();
        Some(NamedTicket { key: format!("#{id}"), url: format!("{pages}{id}"), id })
    }

    fn build_read(&self, account: &TrackerAccount, id: &str) -> TrackerCall {
        TrackerCall::get(format!("{}/issues/{id}", Gitlab::project(account)))
    }

    fn read_ticket(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        Gitlab::read_issue(account, answer)
    }

    fn build_comment(&self, account: &TrackerAccount, id: &str, text: &str) -> TrackerCall {
        let path = format!("{}/issues/{id}/notes", Gitlab::project(account));
        TrackerCall::send(Method::POST, path, json!({"body": text}))
    }

    fn build_reopen(&self, account: &TrackerAccount, id: &str, _ways: &Value) -> Option<TrackerCall> {
        let path = format!("{}/issues/{id}", Gitlab::project(account));
        Some(TrackerCall::send(Method::PUT, path, json!({"state_event": "reopen"})))
    }

    /// A request with a signature has to pass it, and never falls back to the token in clear.
    fn is_signed(&self, proof: &HookProof<'_>) -> bool {
        let Some(signatures) = proof.header("webhook-signature") else {
            return is_same_secret(proof.secret, proof.header("x-gitlab-token"));
        };
        let (Some(id), Some(at)) = (proof.header("webhook-id"), proof.header("webhook-timestamp")) else {
            return false;
        };
        let age = at.parse::<i64>().map(|at| proof.now.unix_timestamp().abs_diff(at));
        if !age.is_ok_and(|age| age <= HOOK_SECONDS_MAX) {
            return false;
        }
        let signed = [format!("{id}.{at}.").as_bytes(), proof.body].concat();
        has_standard_signature(proof.secret, &signed, signatures)
    }

    fn delivery_header(&self) -> &'static str {
        "idempotency-key"
    }

    fn read_hook(&self, account_project: &str, _headers: &HeaderMap, body: &Value) -> TrackerEvent {
        let project = body["project"]["path_with_namespace"].as_str().unwrap_or_default();
        if !project.eq_ignore_ascii_case(account_project) {
            return TrackerEvent::Other;
        }
        match body["object_kind"].as_str() {
            Some("issue" | "work_item") => {
                TrackerEvent::Tickets(text_of(body, "/object_attributes/iid").into_iter().collect())
            }
            Some("push") => {
                let branch = body["project"]["default_branch"].as_str().unwrap_or_default();
                if branch.is_empty() || body["ref"] != format!("refs/heads/{branch}") {
                    return TrackerEvent::Other;
                }
                TrackerEvent::Push(read_commits(&body["commits"]))
            }
            _ => TrackerEvent::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::hmac::{HMAC_SHA256, Key, sign};
    use time::OffsetDateTime;

    /// Returns whether a hook with these headers is taken.
    fn is_taken(headers: &[(&'static str, String)]) -> bool {
        let pairs = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let headers: HeaderMap = pairs.collect();
        let secret = Secret::new("a-hook-secret-of-the-test");
        let now = OffsetDateTime::from_unix_timestamp(1_795_000_000).unwrap();
        Gitlab.is_signed(&HookProof { headers: &headers, body: b"{}", secret: &secret, now })
    }

    fn signed(at: i64, body: &str) -> Vec<(&'static str, String)> {
        use base64::Engine;
        let signed = format!("d1.{at}.{body}");
        let signature = sign(&Key::new(HMAC_SHA256, b"a-hook-secret-of-the-test"), signed.as_bytes());
        let signature = base64::engine::general_purpose::STANDARD.encode(signature.as_ref());
        vec![
            ("webhook-id", "d1".to_owned()),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", format!("v1,b3RoZXI= v1,{signature}")),
        ]
    }

    #[test]
    fn a_signed_hook_never_falls_back_to_the_token() {
        let token = ("x-gitlab-token", "a-hook-secret-of-the-test".to_owned());
        assert!(is_taken(std::slice::from_ref(&token)));
        assert!(!is_taken(&[("x-gitlab-token", "another".to_owned())]) && !is_taken(&[]));
        assert!(is_taken(&signed(1_795_000_000, "{}")));
        let with_token = |mut headers: Vec<_>| {
            headers.push(token.clone());
            is_taken(&headers)
        };
        assert!(!with_token(signed(1_795_000_000, "{ }")), "other bytes");
        assert!(!with_token(signed(1_794_999_000, "{}")), "too old");
        for at in [i64::MIN, i64::MAX] {
            assert!(!with_token(signed(at, "{}")), "{at}");
        }
    }
}
