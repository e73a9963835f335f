//! GitHub: issues of a repository, also of Enterprise Server.

use super::{
    HookProof, PushedCommit, TicketDraft, TicketSearch, TrackerAccount, TrackerCall, TrackerEvent,
    TrackerProtocol, is_path_text, parse_number, text_of,
};
use crate::ticket::{NamedTicket, RemoteTicket, TicketState, TrackerKind};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use unslide_api::feature::hooks::has_hex_signature;
use unslide_model::Secret;

/// The address of GitHub's API, and that of its pages.
const GITHUB_URL: &str = "https://api.github.com";
const GITHUB_PAGES: &str = "https://github.com";
/// Issues of a page: with texts as long as ours it stays below the limit on answers.
const PAGE_LIMIT: usize = 10;
/// How much earlier than the draft an issue may be that has its marker: clocks differ.
const CLOCK_SKEW_MAX: Duration = Duration::minutes(5);

/// See the module.
pub struct Github;

impl Github {
    fn issue(account: &TrackerAccount, id: &str) -> String {
        format!("/repos/{}/issues/{id}", account.project)
    }

    /// Returns the address of the pages of issues.
    fn issue_pages(account: &TrackerAccount) -> String {
        let host =
            if account.url == GITHUB_URL { GITHUB_PAGES } else { account.url.trim_end_matches("/api/v3") };
        format!("{host}/{}/issues/", account.project)
    }

    fn read_issue(account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        let number = text_of(answer, "/number")?;
        let state = match (answer["state"].as_str()?, answer["state_reason"].as_str()) {
            ("open", _) => TicketState::Open,
            (_, Some("not_planned" | "duplicate")) => TicketState::Dropped,
            _ if has_label(answer, "stale") => TicketState::Dropped,
            _ => TicketState::Done,
        };
        let page = format!("{}{number}", Github::issue_pages(account));
        let ticket = RemoteTicket {
            key: format!("#{number}"),
            id: number,
            url: text_of(answer, "/html_url").unwrap_or_default(),
            state,
            fix_version: text_of(answer, "/milestone/title"),
        };
        ticket.check_names(page)
    }
}

fn has_label(issue: &Value, name: &str) -> bool {
    issue["labels"].as_array().into_iter().flatten().any(|label| label["name"] == name)
}

impl TrackerProtocol for Github {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Github
    }

    fn label(&self) -> &'static str {
        "GitHub"
    }

    fn usual_url(&self) -> Option<&'static str> {
        Some(GITHUB_URL)
    }

    fn check_account(&self, account: &TrackerAccount) -> Result<(), String> {
        let is_repository = is_path_text(&account.project) && account.project.matches('/').count() == 1;
        if is_repository { Ok(()) } else { Err("project: a repository such as owner/name".to_owned()) }
    }

    fn authorize(&self, account: &TrackerAccount) -> (&'static str, Secret) {
        ("authorization", Secret::new(format!("Bearer {}", account.token.reveal())))
    }

    fn build_probe(&self, account: &TrackerAccount) -> TrackerCall {
        TrackerCall::get(format!("/repos/{}", account.project))
    }

    fn read_probe(&self, answer: &Value) -> Option<String> {
        let name = text_of(answer, "/full_name")?;
        let issues =
            if answer["has_issues"] == false { "its issues are switched off" } else { "it has issues" };
        Some(format!("the repository {name}: {issues}"))
    }

    fn build_create(&self, account: &TrackerAccount, draft: &TicketDraft) -> TrackerCall {
        let body = format!("{}\n\n<!-- {} -->\n", draft.text, draft.marker_text());
        let issue = json!({"title": draft.title, "body": body, "labels": account.labels});
        TrackerCall::send(Method::POST, format!("/repos/{}/issues", account.project), issue)
    }

    fn read_created(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        Github::read_issue(account, answer)
    }

    /// The list is current, the search lags.
    fn build_search(&self, account: &TrackerAccount, draft: &TicketDraft, page: u32) -> TrackerCall {
        let since = (draft.created_at - CLOCK_SKEW_MAX).format(&Rfc3339).unwrap_or_default();
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("state", "all")
            .append_pair("since", &since)
            .append_pair("sort", "created")
            .append_pair("direction", "desc")
            .append_pair("per_page", &PAGE_LIMIT.to_string())
            .append_pair("page", &page.to_string())
            .finish();
        TrackerCall::get(format!("/repos/{}/issues?{query}", account.project))
    }

    /// The newest come first: behind one that is older than the draft there is none with its marker.
    fn read_search(&self, account: &TrackerAccount, draft: &TicketDraft, answer: &Value) -> TicketSearch {
        let Some(issues) = answer.as_array() else { return TicketSearch::Unreadable };
        let marker = draft.marker_text();
        let has_marker = |issue: &&Value| issue["body"].as_str().is_some_and(|body| body.contains(&marker));
        if let Some(found) = issues.iter().find(has_marker) {
            return Github::read_issue(account, found).map_or(TicketSearch::Unreadable, TicketSearch::Found);
        }
        let oldest = issues.last().and_then(|issue| issue["created_at"].as_str());
        let oldest = oldest.and_then(|at| OffsetDateTime::parse(at, &Rfc3339).ok());
        let is_past = oldest.is_some_and(|at| at < draft.created_at - CLOCK_SKEW_MAX);
        if issues.len() < PAGE_LIMIT || is_past { TicketSearch::Absent } else { TicketSearch::NextPage }
    }

    fn parse_named(&self, account: &TrackerAccount, text: &str) -> Option<NamedTicket> {
        let pages = Github::issue_pages(account);
        let id = parse_number(text, &pages)?.to_string();
        Some(NamedTicket { key: format!("#{id}"), url: format!("{pages}{id}"), id })
    }

    fn build_read(&self, account: &TrackerAccount, id: &str) -> TrackerCall {
        TrackerCall::get(Github::issue(account, id))
    }

    fn read_ticket(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        Github::read_issue(account, answer)
    }

    fn build_comment(&self, account: &TrackerAccount, id: &str, text: &str) -> TrackerCall {
        let path = format!("{}/comments", Github::issue(account, id));
        TrackerCall::send(Method::POST, path, json!({"body": text}))
    }

    fn build_reopen(&self, account: &TrackerAccount, id: &str, _ways: &Value) -> Option<TrackerCall> {
        Some(TrackerCall::send(Method::PATCH, Github::issue(account, id), json!({"state": "open"})))
    }

    fn is_signed(&self, proof: &HookProof<'_>) -> bool {
        let digits = proof.header("x-hub-signature-256").and_then(|text| text.strip_prefix("sha256="));
        has_hex_signature(proof.secret, proof.body, digits)
    }

    fn delivery_header(&self) -> &'static str {
        "x-github-delivery"
    }

    fn read_hook(&self, account_project: &str, headers: &HeaderMap, body: &Value) -> TrackerEvent {
        let repository = body["repository"]["full_name"].as_str().unwrap_or_default();
        if !repository.eq_ignore_ascii_case(account_project) {
            return TrackerEvent::Other;
        }
        match headers.get("x-github-event").and_then(|value| value.to_str().ok()) {
            Some("issues") => TrackerEvent::Tickets(text_of(body, "/issue/number").into_iter().collect()),
            Some("push") => {
                let branch = body["repository"]["default_branch"].as_str().unwrap_or_default();
                if branch.is_empty() || body["ref"] != format!("refs/heads/{branch}") {
                    return TrackerEvent::Other;
                }
                TrackerEvent::Push(read_commits(&body["commits"]))
            }
            _ => TrackerEvent::Other,
        }
    }
}

/// Reads the commits of a push, as GitHub and GitLab have them.
pub fn read_commits(commits: &Value) -> Vec<PushedCommit> {
    let read = |commit: &Value| {
        let at = commit["timestamp"].as_str().and_then(|at| OffsetDateTime::parse(at, &Rfc3339).ok());
        let (revision, message) = (text_of(commit, "/id")?, text_of(commit, "/message")?);
        (revision.len() <= 64).then_some(PushedCommit { revision, message, committed_at: at })
    };
    commits.as_array().into_iter().flatten().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_store::Uuid;

    #[test]
    fn a_search_ends_behind_issues_that_are_older_than_the_draft() {
        let account = TrackerAccount {
            url: GITHUB_URL.to_owned(),
            project: "example/shop".to_owned(),
            account: None,
            token: Secret::default(),
            issue_type: None,
            labels: Vec::new(),
            fields: None,
        };
        let draft = TicketDraft {
            title: String::new(),
            text: String::new(),
            link: None,
            marker: crate::ticket::TicketMarker::from_uuid(Uuid::nil()),
            created_at: OffsetDateTime::from_unix_timestamp(1_795_000_000).unwrap(),
        };
        let page = |last: Option<Value>| {
            let newer = json!({"number": 7, "body": "x", "created_at": "2026-11-18T12:00:00Z"});
            let issues: Vec<Value> = vec![newer; PAGE_LIMIT - 1].into_iter().chain(last).collect();
            Github.read_search(&account, &draft, &issues.into())
        };
        assert_eq!(page(Some(json!({"created_at": "2026-11-18T11:05:00Z"}))), TicketSearch::NextPage);
        assert_eq!(page(Some(json!({"created_at": "2026-11-18T11:00:00Z"}))), TicketSearch::Absent);
        assert_eq!(page(None), TicketSearch::Absent, "the last page");
        let own = json!({"number": 8, "body": draft.marker_text(), "state": "open"});
        let TicketSearch::Found(found) = page(Some(own)) else { panic!("it is not found") };
        assert_eq!(
            (found.key.as_str(), found.url.as_str()),
            ("#8", "https://github.com/example/shop/issues/8")
        );
        assert_eq!(page(Some(json!({"body": draft.marker_text()}))), TicketSearch::Unreadable);
        assert_eq!(Github.read_search(&account, &draft, &json!({})), TicketSearch::Unreadable);
    }
}
