//! Jira: issues of a project, in the cloud and in a data center.

use super::{
    HookProof, TicketDraft, TicketSearch, TrackerAccount, TrackerCall, TrackerEvent, TrackerProtocol,
    encode_segment, is_issue_number, strip_address, text_of,
};
use crate::ticket::{NamedTicket, RemoteTicket, TicketState, TrackerKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use time::Duration;
use unslide_api::feature::hooks::has_hex_signature;
use unslide_model::Secret;

/// Jira in the cloud.
pub const JIRA_CLOUD: Jira = Jira { is_cloud: true };
/// Jira in a data center.
pub const JIRA_DATA_CENTER: Jira = Jira { is_cloud: false };
/// The type of new issues, unless the tenant names another one.
const USUAL_TYPE: &str = "Bug";
/// Resolutions that are no fix, in lower case. They are free text; these come with Jira.
const DROPPED_RESOLUTIONS: [&str; 8] = [
    "won't do",
    "won't fix",
    "duplicate",
    "cannot reproduce",
    "declined",
    "incomplete",
    "known error",
    "rejected",
];

/// See the module.
pub struct Jira {
    is_cloud: bool,
}

impl Jira {
    fn path(&self, rest: &str) -> String {
        format!("/rest/api/{}/{rest}", if self.is_cloud { 3 } else { 2 })
    }

    fn issue_path(&self, id: &str, rest: &str) -> String {
        self.path(&format!("issue/{}{rest}", encode_segment(id)))
    }

    /// Returns a text in the format of the product. The texts of devices stay in a block that nothing in them ends.
    fn format_text(&self, text: &str, link: Option<&str>) -> Value {
        if !self.is_cloud {
            let safe = text.replace("{noformat}", "{\u{200b}noformat}");
            let link = link.map(|link| format!("[{link}]\n")).unwrap_or_default();
            return Value::String(format!("{link}{{noformat}}\n{safe}\n{{noformat}}"));
        }
        let mut content = Vec::new();
        if let Some(link) = link {
            let mark = json!([{"type": "link", "attrs": {"href": link}}]);
            content.push(
                json!({"type": "paragraph", "content": [{"type": "text", "text": link, "marks": mark}]}),
            );
        }
        content.push(json!({"type": "codeBlock", "attrs": {"language": "markdown"},
            "content": [{"type": "text", "text": text}]}));
        json!({"type": "doc", "version": 1, "content": content})
    }

    fn read_issue(account: &TrackerAccount, issue: &Value) -> Option<RemoteTicket> {
        let (id, key) = (text_of(issue, "/id")?, text_of(issue, "/key")?);
        let fields = &issue["fields"];
        let resolution = fields["resolution"]["name"].as_str().unwrap_or_default().to_lowercase();
        let state = match fields["status"]["statusCategory"]["key"].as_str() {
            Some("done") if DROPPED_RESOLUTIONS.contains(&resolution.as_str()) => TicketState::Dropped,
            Some("done") => TicketState::Done,
            _ => TicketState::Open,
        };
        let versions = fields["fixVersions"].as_array().into_iter().flatten();
        // Of several the lowest: the bug is fixed from there on.
        let fix_version = versions
            .filter_map(|version| version["name"].as_str())
            .min_by(|one, other| unslide_model::compare_versions(one, other));
        let url = format!("{}/browse/{key}", account.url);
        let fix_version = fix_version.map(str::to_owned);
        RemoteTicket { id, url: url.clone(), key, state, fix_version }.check_names(url)
    }
}

impl TrackerProtocol for Jira {
    fn kind(&self) -> TrackerKind {
        if self.is_cloud { TrackerKind::JiraCloud } else { TrackerKind::JiraDataCenter }
    }

    fn label(&self) -> &'static str {
        if self.is_cloud { "Jira Cloud" } else { "Jira Data Center" }
    }

    fn usual_url(&self) -> Option<&'static str> {
        None
    }

    fn check_account(&self, account: &TrackerAccount) -> Result<(), String> {
        let key = &account.project;
        let is_key = (2..=40).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_key {
            return Err("project: the key of a project such as SHOP".to_owned());
        }
        if self.is_cloud && account.account.is_none() {
            return Err("account: the e-mail address of the account that the token belongs to".to_owned());
        }
        if account.labels.iter().any(|label| label.contains(' ')) {
            return Err("labels: Jira's have no spaces".to_owned());
        }
        Ok(())
    }

    fn authorize(&self, account: &TrackerAccount) -> (&'static str, Secret) {
        let token = account.token.reveal();
        let value = match &account.account {
            Some(name) => format!("Basic {}", STANDARD.encode(format!("{name}:{token}"))),
            None => format!("Bearer {token}"),
        };
        ("authorization", Secret::new(value))
    }

    /// Its index lags.
    fn settle_time(&self) -> Duration {
        Duration::minutes(3)
    }

    fn build_probe(&self, account: &TrackerAccount) -> TrackerCall {
        TrackerCall::get(self.path(&format!("project/{}", account.project)))
    }

    fn read_probe(&self, answer: &Value) -> Option<String> {
        let key = text_of(answer, "/key")?;
        let types = answer["issueTypes"].as_array().into_iter().flatten();
        let types: Vec<&str> = types.filter_map(|one| one["name"].as_str()).take(20).collect();
        Some(format!("the project {key}, with the issue types {}", types.join(", ")))
    }

    fn build_create(&self, account: &TrackerAccount, draft: &TicketDraft) -> TrackerCall {
        let issue_type = account.issue_type.as_deref().unwrap_or(USUAL_TYPE);
        let mut labels = account.labels.clone();
        labels.push(draft.marker_text());
        let mut fields = json!({
            "project": {"key": account.project},
            "issuetype": {"name": issue_type},
            "summary": draft.title,
            "labels": labels,
            "description": self.format_text(&draft.text, draft.link.as_deref()),
        });
        if let (Some(more), Some(fields)) =
            (account.fields.as_ref().and_then(Value::as_object), fields.as_object_mut())
        {
            for (name, value) in more {
                fields.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        TrackerCall::send(Method::POST, self.path("issue"), json!({"fields": fields}))
    }

    /// The answer has the id and the key only: a new issue is open.
    fn read_created(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        Jira::read_issue(account, answer)
    }

    fn build_search(&self, account: &TrackerAccount, draft: &TicketDraft, _page: u32) -> TrackerCall {
        let jql = format!(
            "project = \"{}\" AND labels = \"{}\" ORDER BY created",
            account.project,
            draft.marker_text()
        );
        let fields = ["status", "resolution", "fixVersions"];
        if self.is_cloud {
            let body = json!({"jql": jql, "fields": fields, "maxResults": 2});
            return TrackerCall::send(Method::POST, self.path("search/jql"), body);
        }
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("jql", &jql)
            .append_pair("fields", &fields.join(","))
            .append_pair("maxResults", "2")
            .finish();
        TrackerCall::get(self.path(&format!("search?{query}")))
    }

    fn read_search(&self, account: &TrackerAccount, _: &TicketDraft, answer: &Value) -> TicketSearch {
        match answer["issues"].as_array().map(|issues| issues.first()) {
            None => TicketSearch::Unreadable,
            Some(None) => TicketSearch::Absent,
            Some(Some(found)) => {
                Jira::read_issue(account, found).map_or(TicketSearch::Unreadable, TicketSearch::Found)
            }
        }
    }

    fn parse_named(&self, account: &TrackerAccount, text: &str) -> Option<NamedTicket> {
        let text = text.trim();
        let name = match strip_address(text, &format!("{}/browse/", account.url)) {
            Some(rest) => rest.split(['/', '?', '#']).next()?,
            None => text,
        };
        let key = name.to_ascii_uppercase();
        let (project, number) = key.rsplit_once('-')?;
        let is_key = project == account.project && is_issue_number(number);
        is_key.then(|| NamedTicket { id: key.clone(), url: format!("{}/browse/{key}", account.url), key })
    }

    fn build_read(&self, _account: &TrackerAccount, id: &str) -> TrackerCall {
        TrackerCall::get(self.issue_path(id, "?fields=status,resolution,fixVersions"))
    }

    fn read_ticket(&self, account: &TrackerAccount, answer: &Value) -> Option<RemoteTicket> {
        Jira::read_issue(account, answer)
    }

    fn build_comment(&self, _account: &TrackerAccount, id: &str, text: &str) -> TrackerCall {
        TrackerCall::send(
            Method::POST,
            self.issue_path(id, "/comment"),
            json!({"body": self.format_text(text, None)}),
        )
    }

    fn build_ways(&self, _account: &TrackerAccount, id: &str) -> Option<TrackerCall> {
        Some(TrackerCall::get(self.issue_path(id, "/transitions")))
    }

    /// Names of transitions are translated and edited: the category of their end decides.
    fn build_reopen(&self, _account: &TrackerAccount, id: &str, ways: &Value) -> Option<TrackerCall> {
        let all: Vec<&Value> = ways["transitions"].as_array().into_iter().flatten().collect();
        let leads_to = |key: &str| all.iter().find(|one| one["to"]["statusCategory"]["key"] == key);
        let way = leads_to("new").or_else(|| leads_to("indeterminate"))?;
        let body = json!({"transition": {"id": way["id"]}});
        Some(TrackerCall::send(Method::POST, self.issue_path(id, "/transitions"), body))
    }

    fn is_signed(&self, proof: &HookProof<'_>) -> bool {
        let digits = proof.header("x-hub-signature").and_then(|text| text.strip_prefix("sha256="));
        has_hex_signature(proof.secret, proof.body, digits)
    }

    fn delivery_header(&self) -> &'static str {
        "x-atlassian-webhook-identifier"
    }

    fn read_hook(&self, _account_project: &str, _headers: &HeaderMap, body: &Value) -> TrackerEvent {
        let is_issue = body["webhookEvent"].as_str().is_some_and(|event| event.starts_with("jira:issue_"));
        if !is_issue {
            return TrackerEvent::Other;
        }
        // A linked ticket has its key until it is read for the first time.
        let names = [text_of(body, "/issue/id"), text_of(body, "/issue/key")];
        TrackerEvent::Tickets(names.into_iter().flatten().collect())
    }
}
