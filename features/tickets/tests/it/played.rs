//! A server that plays the API of a tracker: it has tickets, checks tokens, and has limits, errors and slow answers.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub const TOKEN: &str = "a-token-of-the-test";
/// The id of Linear's team.
pub const TEAM: &str = "7f0d1c2b-0000-4000-8000-000000000001";

/// The product that is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    Github,
    Gitlab,
    JiraCloud,
    JiraDataCenter,
    Linear,
}

/// A ticket of the server.
#[derive(Clone, Debug, Default)]
pub struct PlayedTicket {
    pub number: usize,
    /// The text with its format, and the labels.
    pub text: String,
    pub title: String,
    pub is_closed: bool,
    /// Why it was closed, in the product's words.
    pub reason: Option<&'static str>,
    pub version: Option<&'static str>,
    pub comments: Vec<String>,
    /// The id that the client chose.
    pub own_id: Option<String>,
}

/// Something that goes wrong with the next request whose method and path contain a text.
#[derive(Clone, Debug)]
pub struct Fault {
    pub part: &'static str,
    pub kind: FaultKind,
}

#[derive(Clone, Debug)]
pub enum FaultKind {
    /// An answer with this status, and nothing done.
    Status(u16, &'static [(&'static str, &'static str)], Value),
    /// It is done, and the answer never comes.
    LostAnswer,
    /// It is done after this time, and the client has gone by then.
    DoneLater(Duration),
    /// It is done, and answered after this time: by then the answer is old.
    OldAnswer(Duration),
}

/// The tickets, and the requests so far.
#[derive(Default)]
pub struct Played {
    pub tickets: Vec<PlayedTicket>,
    pub faults: Vec<Fault>,
    /// Method, path and body.
    pub requests: Vec<(String, String)>,
    /// Transitions of Jira that are left out.
    pub has_no_way_back: bool,
    /// It takes requests, and answers none.
    pub is_dead: bool,
    /// The time that each answer takes.
    pub delay: Duration,
}

/// The server.
pub struct TrackerServer {
    pub product: Product,
    pub url: String,
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    product: Product,
    url: String,
    played: Mutex<Played>,
}

impl TrackerServer {
    pub async fn start(product: Product) -> TrackerServer {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}");
        let shared = Arc::new(Shared { product, url: url.clone(), played: Mutex::default() });
        let routes = Router::new().fallback(answer_request).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        TrackerServer { product, url, port, shared }
    }

    /// Changes what the tracker has, or reads what was asked.
    pub fn with<T>(&self, change: impl FnOnce(&mut Played) -> T) -> T {
        change(&mut self.shared.played.lock())
    }

    pub fn add_fault(&self, part: &'static str, kind: FaultKind) {
        self.with(|played| played.faults.push(Fault { part, kind }));
    }

    pub fn fail_next(&self, part: &'static str, status: u16) {
        self.add_fault(part, FaultKind::Status(status, &[], json!({"message": "The tracker says no"})));
    }

    /// Returns the number of requests whose method and path contain a text.
    pub fn count_requests(&self, part: &str) -> usize {
        self.with(|played| played.requests.iter().filter(|(request, _)| request.contains(part)).count())
    }

    /// Returns the number of requests to make a ticket.
    pub fn count_creations(&self) -> usize {
        let is_creation = |request: &str| request == self.creation() || request.contains("issueCreate");
        self.with(|played| played.requests.iter().filter(|(request, _)| is_creation(request)).count())
    }

    pub fn project(&self) -> &'static str {
        match self.product {
            Product::Github | Product::Gitlab => "example/shop",
            Product::JiraCloud | Product::JiraDataCenter => "SHOP",
            Product::Linear => TEAM,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self.product {
            Product::Github => "github",
            Product::Gitlab => "gitlab",
            Product::JiraCloud => "jira_cloud",
            Product::JiraDataCenter => "jira_data_center",
            Product::Linear => "linear",
        }
    }

    /// Returns the part of a request that makes a ticket.
    pub fn creation(&self) -> &'static str {
        match self.product {
            Product::Github => "POST /repos/example/shop/issues",
            Product::Gitlab => "POST /api/v4/projects/example%2Fshop/issues",
            Product::JiraCloud => "POST /rest/api/3/issue",
            Product::JiraDataCenter => "POST /rest/api/2/issue",
            Product::Linear => "issueCreate",
        }
    }
}

async fn answer_request(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let value: Value = serde_json::from_str(&body).unwrap_or_default();
    // Linear has one path for everything: the words of its query are a part of the request.
    let words = value["query"].as_str().unwrap_or_default();
    let request = format!("{method} {uri} {words}").trim().to_owned();
    let (fault, is_dead, delay) = {
        let mut played = shared.played.lock();
        played.requests.push((request.clone(), body.clone()));
        let at = played.faults.iter().position(|fault| request.contains(fault.part));
        (at.map(|at| played.faults.remove(at)), played.is_dead, played.delay)
    };
    if is_dead {
        return std::future::pending().await;
    }
    tokio::time::sleep(delay).await;
    let is_authorized = ["authorization", "private-token"].iter().any(|name| {
        let given = headers.get(*name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        given == TOKEN || given == format!("Bearer {TOKEN}") || given.starts_with("Basic ")
    });
    if !is_authorized || !headers.contains_key("user-agent") {
        return (StatusCode::UNAUTHORIZED, json!({"message": "Bad credentials"}).to_string()).into_response();
    }
    match fault.map(|fault| fault.kind) {
        Some(FaultKind::Status(status, more, body)) => {
            let mut response = (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response();
            for (name, value) in more {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            response
        }
        Some(FaultKind::LostAnswer) => {
            play(&shared, &method, &uri, &value);
            std::future::pending().await
        }
        Some(FaultKind::DoneLater(time)) => {
            // The client's end does not end it.
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                play(&shared, &method, &uri, &value);
            });
            std::future::pending().await
        }
        Some(FaultKind::OldAnswer(time)) => {
            let (status, answer) = play(&shared, &method, &uri, &value);
            tokio::time::sleep(time).await;
            (StatusCode::from_u16(status).unwrap(), answer.to_string()).into_response()
        }
        None => {
            let (status, answer) = play(&shared, &method, &uri, &value);
            let body = if answer.is_null() { String::new() } else { answer.to_string() };
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
    }
}

fn play(shared: &Shared, method: &Method, uri: &Uri, body: &Value) -> (u16, Value) {
    let mut played = shared.played.lock();
    match shared.product {
        Product::Github => play_github(&mut played, shared, method, uri, body),
        Product::Gitlab => play_gitlab(&mut played, shared, method, uri, body),
        Product::JiraCloud | Product::JiraDataCenter => {
            play_jira(&mut played, shared.product, method, uri, body)
        }
        Product::Linear => play_linear(&mut played, shared, body),
    }
}

impl Played {
    fn add(&mut self, title: &Value, text: String) -> &mut PlayedTicket {
        let number = self.tickets.len() + 1;
        let title = title.as_str().unwrap().to_owned();
        self.tickets.push(PlayedTicket { number, title, text, ..PlayedTicket::default() });
        self.tickets.last_mut().unwrap()
    }

    fn find(&mut self, number: &str) -> Option<&mut PlayedTicket> {
        let number: usize = number.parse().ok()?;
        self.tickets.iter_mut().find(|ticket| ticket.number == number)
    }
}

fn github_issue(shared: &Shared, ticket: &PlayedTicket) -> Value {
    json!({"id": 3000 + ticket.number, "number": ticket.number, "title": ticket.title, "body": ticket.text,
        "state": if ticket.is_closed { "closed" } else { "open" }, "state_reason": ticket.reason,
        "html_url": format!("{}/example/shop/issues/{}", shared.url, ticket.number), "labels": [],
        "milestone": ticket.version.map(|title| json!({"title": title}))})
}

fn play_github(
    played: &mut Played,
    shared: &Shared,
    method: &Method,
    uri: &Uri,
    body: &Value,
) -> (u16, Value) {
    let Some(rest) = uri.path().strip_prefix("/repos/example/shop") else {
        return (404, json!({"message": "Not Found"}));
    };
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    match (method.as_str(), parts.as_slice()) {
        ("GET", []) => (200, json!({"full_name": "example/shop", "has_issues": true})),
        ("GET", ["issues"]) => {
            let query = decode_query(uri.query().unwrap_or_default());
            let number = |name: &str| query.iter().find(|(key, _)| key == name).unwrap().1.parse().unwrap();
            let (page, per_page): (usize, usize) = (number("page"), number("per_page"));
            // The newest first.
            let newest = played.tickets.iter().rev().skip((page - 1) * per_page).take(per_page);
            (200, newest.map(|ticket| github_issue(shared, ticket)).collect())
        }
        ("POST", ["issues"]) => {
            let text = body["body"].as_str().unwrap().to_owned();
            let ticket = played.add(&body["title"], text).clone();
            (201, github_issue(shared, &ticket))
        }
        (_, ["issues", number, rest @ ..]) => {
            let Some(ticket) = played.find(number) else { return (404, json!({"message": "Not Found"})) };
            match (method.as_str(), rest) {
                ("PATCH", []) => {
                    (ticket.is_closed, ticket.reason) = (body["state"] == "closed", Some("reopened"));
                }
                ("POST", ["comments"]) => ticket.comments.push(body["body"].as_str().unwrap().to_owned()),
                _ => {}
            }
            let ticket = ticket.clone();
            (if *method == Method::POST { 201 } else { 200 }, github_issue(shared, &ticket))
        }
        _ => (404, json!({"message": "Not Found"})),
    }
}

fn gitlab_issue(shared: &Shared, ticket: &PlayedTicket) -> Value {
    json!({"id": 300 + ticket.number, "iid": ticket.number, "title": ticket.title, "description": ticket.text,
        "state": if ticket.is_closed { "closed" } else { "opened" },
        "web_url": format!("{}/example/shop/-/issues/{}", shared.url, ticket.number), "labels": [],
        "duplicated_to_id": ticket.reason.map(|_| 7), "milestone": ticket.version.map(|title| json!({"title": title}))})
}

fn play_gitlab(
    played: &mut Played,
    shared: &Shared,
    method: &Method,
    uri: &Uri,
    body: &Value,
) -> (u16, Value) {
    let Some(rest) = uri.path().strip_prefix("/api/v4/projects/example%2Fshop") else {
        return (404, json!({"message": "404 Project Not Found"}));
    };
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    match (method.as_str(), parts.as_slice()) {
        ("GET", []) => (200, json!({"path_with_namespace": "example/shop"})),
        ("GET", ["issues"]) => {
            let query = uri.query().unwrap();
            let search = query.split('&').find_map(|pair| pair.strip_prefix("search=")).unwrap();
            let found = played.tickets.iter().filter(|ticket| ticket.text.contains(search));
            (200, found.map(|ticket| gitlab_issue(shared, ticket)).collect())
        }
        ("POST", ["issues"]) => {
            let text = body["description"].as_str().unwrap().to_owned();
            let ticket = played.add(&body["title"], text).clone();
            (201, gitlab_issue(shared, &ticket))
        }
        (_, ["issues", number, rest @ ..]) => {
            let Some(ticket) = played.find(number) else { return (404, json!({"message": "404 Not found"})) };
            match (method.as_str(), rest) {
                ("PUT", []) => (ticket.is_closed, ticket.reason) = (body["state_event"] == "close", None),
                ("POST", ["notes"]) => ticket.comments.push(body["body"].as_str().unwrap().to_owned()),
                _ => {}
            }
            (200, gitlab_issue(shared, &ticket.clone()))
        }
        _ => (404, json!({"message": "404 Not found"})),
    }
}

fn jira_issue(ticket: &PlayedTicket) -> Value {
    let versions: Vec<Value> = ticket.version.iter().map(|name| json!({"name": name})).collect();
    json!({"id": (10_000 + ticket.number).to_string(), "key": format!("SHOP-{}", ticket.number), "fields": {
        "status": {"name": "x", "statusCategory": {"key": if ticket.is_closed { "done" } else { "new" }}},
        "resolution": ticket.reason.map(|name| json!({"name": name})), "fixVersions": versions}})
}

fn play_jira(
    played: &mut Played,
    product: Product,
    method: &Method,
    uri: &Uri,
    body: &Value,
) -> (u16, Value) {
    let version = if product == Product::JiraCloud { 3 } else { 2 };
    let Some(rest) = uri.path().strip_prefix(&format!("/rest/api/{version}/")) else {
        return (404, json!({"errorMessages": ["dead link"]}));
    };
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    let search = |played: &Played, jql: &str| {
        let label = jql.split('"').nth(3).unwrap();
        let found: Vec<Value> =
            played.tickets.iter().filter(|ticket| ticket.text.contains(label)).map(jira_issue).collect();
        json!({"issues": found})
    };
    match (method.as_str(), parts.as_slice()) {
        ("GET", ["project", "SHOP"]) => (200, json!({"key": "SHOP", "issueTypes": [{"name": "Bug"}]})),
        ("POST", ["issue"]) => {
            let fields = &body["fields"];
            assert_eq!(fields["project"]["key"], "SHOP");
            assert_eq!(fields["description"].is_object(), product == Product::JiraCloud);
            let ticket =
                played.add(&fields["summary"], format!("{} {}", fields["description"], fields["labels"]));
            (
                201,
                json!({"id": (10_000 + ticket.number).to_string(), "key": format!("SHOP-{}", ticket.number)}),
            )
        }
        ("POST", ["search", "jql"]) if product == Product::JiraCloud => {
            (200, search(played, body["jql"].as_str().unwrap()))
        }
        ("GET", ["search"]) if product == Product::JiraDataCenter => {
            let query: Vec<(String, String)> = decode_query(uri.query().unwrap());
            let jql = query.iter().find(|(name, _)| name == "jql").unwrap().1.clone();
            (200, search(played, &jql))
        }
        (_, ["issue", id, rest @ ..]) => {
            let number = id.strip_prefix("SHOP-").unwrap_or_else(|| id.strip_prefix("100").unwrap());
            let number = number.trim_start_matches('0').to_owned();
            let has_no_way_back = played.has_no_way_back;
            let Some(ticket) = played.find(&number) else {
                return (404, json!({"errorMessages": ["Issue does not exist"]}));
            };
            match (method.as_str(), rest) {
                ("GET", ["transitions"]) => {
                    let done =
                        json!({"id": "31", "name": "Fertig", "to": {"statusCategory": {"key": "done"}}});
                    let back = json!({"id": "11", "name": "Offen", "to": {"statusCategory": {"key": "new"}}});
                    let all = if has_no_way_back { vec![done] } else { vec![done, back] };
                    return (200, json!({"transitions": all}));
                }
                ("POST", ["transitions"]) => {
                    ticket.is_closed = body["transition"]["id"] == "31";
                    return (204, Value::Null);
                }
                ("POST", ["comment"]) => ticket.comments.push(body["body"].to_string()),
                _ => {}
            }
            (if *method == Method::POST { 201 } else { 200 }, jira_issue(&ticket.clone()))
        }
        _ => (410, json!({"errorMessages": ["gone"]})),
    }
}

fn decode_query(query: &str) -> Vec<(String, String)> {
    let url = reqwest::Url::parse(&format!("http://localhost/?{query}")).unwrap();
    url.query_pairs().into_owned().collect()
}

fn linear_issue(shared: &Shared, ticket: &PlayedTicket) -> Value {
    let state = match (ticket.is_closed, ticket.reason) {
        (true, Some(reason)) => reason,
        (true, None) => "completed",
        (false, _) => "unstarted",
    };
    let id = ticket.own_id.clone().unwrap_or_else(|| linear_id(ticket.number));
    json!({"id": id, "identifier": format!("ENG-{}", ticket.number), "autoClosedAt": null, "state": {"type": state},
        "url": format!("{}/example/issue/ENG-{}/x", shared.url, ticket.number)})
}

fn linear_id(number: usize) -> String {
    format!("7f0d1c2b-0000-4000-8000-{number:012}")
}

fn play_linear(played: &mut Played, shared: &Shared, body: &Value) -> (u16, Value) {
    let (query, variables) = (body["query"].as_str().unwrap(), &body["variables"]);
    let fail =
        |text: &str| (200, json!({"errors": [{"message": text, "extensions": {"code": "INVALID_INPUT"}}]}));
    if query.contains("team(id:") {
        return (200, json!({"data": {"team": {"id": TEAM, "key": "ENG", "name": "Engineers"}}}));
    }
    if query.contains("issueCreate") {
        let input = &variables["i"];
        if played.tickets.iter().any(|ticket| ticket.own_id.as_deref() == input["id"].as_str()) {
            return fail("an issue with this id exists");
        }
        let ticket = played.add(&input["title"], input["description"].as_str().unwrap().to_owned());
        ticket.own_id = input["id"].as_str().map(str::to_owned);
        let issue = linear_issue(shared, &ticket.clone());
        return (200, json!({"data": {"issueCreate": {"success": true, "issue": issue}}}));
    }
    let id = variables["id"].as_str().or_else(|| variables["i"]["issueId"].as_str()).unwrap().to_owned();
    let is_it = |ticket: &&mut PlayedTicket| {
        ticket.own_id.as_ref() == Some(&id)
            || linear_id(ticket.number) == id
            || format!("ENG-{}", ticket.number) == id
    };
    let Some(ticket) = played.tickets.iter_mut().find(is_it) else {
        return fail("Entity not found: Issue");
    };
    if query.contains("commentCreate") {
        ticket.comments.push(variables["i"]["body"].as_str().unwrap().to_owned());
        return (200, json!({"data": {"commentCreate": {"success": true}}}));
    }
    if query.contains("issueUpdate") {
        assert_eq!(variables["i"]["stateId"], "state-unstarted");
        (ticket.is_closed, ticket.reason) = (false, None);
        return (200, json!({"data": {"issueUpdate": {"success": true}}}));
    }
    if query.contains("states") {
        let states = ["triage", "unstarted", "completed"]
            .map(|kind| json!({"id": format!("state-{kind}"), "type": kind}));
        return (200, json!({"data": {"issue": {"team": {"states": {"nodes": states}}}}}));
    }
    (200, json!({"data": {"issue": linear_issue(shared, &ticket.clone())}}))
}
