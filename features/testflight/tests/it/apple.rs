//! A server that plays Apple's API: it checks tokens, and has pages, cursors that expire, limits and errors.

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use unslide_model::{Clock, SystemClock};

pub const ISSUER: &str = "57246542-96fe-1a63-e053-0824d011072a";
pub const KEY_ID: &str = "2X9R4HXF34";
pub const APP: &str = "com.acme.shop";

/// The crash log of a submission.
#[derive(Clone, Debug)]
pub enum Log {
    /// 404.
    Missing,
    /// A document without data.
    Null,
    Text(String),
}

/// A crash that a tester has sent.
#[derive(Clone, Debug)]
pub struct Submission {
    pub id: String,
    pub created: String,
    pub comment: Option<&'static str>,
    pub log: Log,
}

/// An answer to the next request whose path and query contain a text.
#[derive(Clone, Debug)]
pub struct Fault {
    pub part: &'static str,
    pub status: u16,
    pub retry_after: Option<&'static str>,
    pub body: &'static str,
}

/// What Apple has, and what was asked.
#[derive(Default)]
pub struct Apple {
    /// The newest first.
    pub submissions: Vec<Submission>,
    pub page_size: usize,
    pub faults: Vec<Fault>,
    pub rate: Option<&'static str>,
    /// The host of the next pages, if it is another one.
    pub next_host: Option<String>,
    /// Cursors of before are refused.
    pub cursors: usize,
    /// The paths and queries of requests.
    pub requests: Vec<String>,
    /// The tokens of requests, each once.
    pub tokens: Vec<String>,
}

/// The server, with the private key that it knows.
pub struct AppleServer {
    pub url: String,
    pub port: u16,
    pub private_key: String,
    shared: Arc<Shared>,
}

struct Shared {
    url: String,
    public_key: Vec<u8>,
    apple: Mutex<Apple>,
}

type SharedState = State<Arc<Shared>>;

impl AppleServer {
    pub async fn start() -> AppleServer {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
        let pem = STANDARD.encode(der.as_ref());
        let private_key = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}");
        let public_key = pair.public_key().as_ref().to_vec();
        let apple = Mutex::new(Apple { page_size: 200, ..Apple::default() });
        let shared = Arc::new(Shared { url: url.clone(), public_key, apple });
        let routes = Router::new()
            .route("/v1/apps", get(list_apps))
            .route("/v1/apps/{id}/betaFeedbackCrashSubmissions", get(list_submissions))
            .route("/v1/betaFeedbackCrashSubmissions/{id}/crashLog", get(get_log))
            .layer(from_fn_with_state(shared.clone(), check_request))
            .with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        AppleServer { url, port, private_key, shared }
    }

    /// Changes what Apple has, or reads what was asked.
    pub fn with<T>(&self, change: impl FnOnce(&mut Apple) -> T) -> T {
        change(&mut self.shared.apple.lock())
    }

    /// Adds the newest submission.
    pub fn add(&self, id: &str, comment: Option<&'static str>, log: Log) {
        let created = SystemClock.now().format(&time::format_description::well_known::Rfc3339).unwrap();
        self.with(|apple| {
            apple.submissions.insert(0, Submission { id: id.to_owned(), created, comment, log });
        });
    }

    /// Answers the next request with this text in its path with a status.
    pub fn fail_next(&self, part: &'static str, status: u16) {
        let body = r#"{"errors": [{"status": "0", "code": "SOME_ERROR", "detail": "Apple says no"}]}"#;
        self.with(|apple| apple.faults.push(Fault { part, status, retry_after: None, body }));
    }

    /// Returns the number of requests whose path and query contain a text.
    pub fn count_requests(&self, part: &str) -> usize {
        self.with(|apple| apple.requests.iter().filter(|request| request.contains(part)).count())
    }
}

/// A crash log as text, with one frame in the app.
pub fn crash_text(incident: u8, app: &str) -> String {
    format!(
        "Incident Identifier: 000000{incident:02X}-0000-4000-8000-000000000001\nHardware Model:      iPhone16,1\n\
         Process:             Shop [7]\nIdentifier:          {app}\nVersion:             1.2 (34)\nCode Type:           ARM-64\n\
         Report Version:      104\n\nException Type:  EXC_BAD_ACCESS (SIGSEGV)\nTriggered by Thread:  0\n\nThread 0 Crashed:\n\
         0   Shop                          \t0x0000000100000040 0x100000000 + 64\n\nBinary Images:\n\
         0x100000000 - 0x10000ffff Shop arm64  <0123456789abcdef0123456789abcdef> /private/var/Shop\n"
    )
}

async fn check_request(State(shared): SharedState, request: Request, next: Next) -> Response {
    let asked = request.uri().to_string();
    let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let token = authorization.and_then(|text| text.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
    let (fault, rate) = {
        let mut apple = shared.apple.lock();
        apple.requests.push(asked.clone());
        if !apple.tokens.contains(&token) {
            apple.tokens.push(token.clone());
        }
        let at = apple.faults.iter().position(|fault| asked.contains(fault.part));
        (at.map(|at| apple.faults.remove(at)), apple.rate)
    };
    if let Some(fault) = fault {
        let mut headers = HeaderMap::new();
        if let Some(seconds) = fault.retry_after {
            headers.insert("retry-after", seconds.parse().unwrap());
        }
        return (StatusCode::from_u16(fault.status).unwrap(), headers, fault.body).into_response();
    }
    if let Err(why) = check_token(&token, &shared.public_key) {
        let error = json!({"errors": [{"status": "401", "code": "NOT_AUTHORIZED", "detail": why}]});
        return (StatusCode::UNAUTHORIZED, Json(error)).into_response();
    }
    let mut response = next.run(request).await;
    if let Some(rate) = rate {
        response.headers_mut().insert("x-rate-limit", rate.parse().unwrap());
    }
    response
}

fn check_token(token: &str, public_key: &[u8]) -> Result<(), &'static str> {
    let parts: Vec<&str> = token.split('.').collect();
    let [head, claims, signature] = parts.as_slice() else { return Err("no token") };
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "no base64")?;
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public_key);
    key.verify(format!("{head}.{claims}").as_bytes(), &signature).map_err(|_| "another key")?;
    let read = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
    let (head, claims) = (read(head), read(claims));
    if head != json!({"alg": "ES256", "kid": KEY_ID, "typ": "JWT"}) || claims["iss"] != ISSUER {
        return Err("another issuer");
    }
    let (begin, end) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
    let now = SystemClock.now().unix_timestamp();
    let is_valid = begin <= now && end > now && end - begin <= 1_200 && claims["aud"] == "appstoreconnect-v1";
    if is_valid { Ok(()) } else { Err("expired") }
}

fn refuse_parameter(detail: &str) -> Response {
    let error = json!({"errors": [{"status": "400", "code": "PARAMETER_ERROR.INVALID", "detail": detail}]});
    (StatusCode::BAD_REQUEST, Json(error)).into_response()
}

async fn list_apps(Query(query): Query<HashMap<String, String>>) -> Response {
    assert_eq!(query["fields[apps]"], "bundleId");
    let app = |id: &str, bundle: &str| json!({"type": "apps", "id": id, "attributes": {"bundleId": bundle}});
    // The filter finds more than it names.
    let all = [("123", APP), ("124", "com.acme.shopping"), ("125", "com.acme.bank")];
    let wanted: Vec<&str> = query["filter[bundleId]"].split(',').collect();
    let found = all.iter().filter(|(_, bundle)| wanted.iter().any(|wanted| bundle.starts_with(wanted)));
    let found: Vec<Value> = found.map(|(id, bundle)| app(id, bundle)).collect();
    Json(json!({"data": found, "links": {"self": "x"}})).into_response()
}

async fn list_submissions(
    State(shared): SharedState,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let apple = shared.apple.lock();
    let limit: usize = query["limit"].parse().unwrap();
    if limit > 1 && query.get("sort").map(String::as_str) != Some("-createdDate") {
        return refuse_parameter("the sort is not that of the test");
    }
    let from = match query.get("cursor").map(|cursor| cursor.split_once('-').unwrap()) {
        None => 0,
        Some((cursors, from)) if cursors == apple.cursors.to_string() => from.parse().unwrap(),
        Some(_) => return refuse_parameter("the cursor has expired"),
    };
    let fields: Vec<&str> = query["fields[betaFeedbackCrashSubmissions]"].split(',').collect();
    let size = limit.min(apple.page_size);
    let all: &[Submission] = if id == "123" { &apple.submissions } else { &[] };
    let page = all.iter().skip(from).take(size).map(|one| {
        let mut attributes =
            json!({"createdDate": one.created, "comment": one.comment, "email": "robin@example.com"});
        attributes.as_object_mut().unwrap().retain(|name, _| fields.contains(&name.as_str()));
        json!({"type": "betaFeedbackCrashSubmissions", "id": one.id, "attributes": attributes})
    });
    let page: Vec<Value> = page.collect();
    let mut links = json!({"self": "x"});
    if from + size < all.len() {
        let host = apple.next_host.as_ref().unwrap_or(&shared.url);
        links["next"] = format!(
            "{host}/v1/apps/{id}/betaFeedbackCrashSubmissions?cursor={}-{}&limit={limit}&sort=-createdDate&fields%5BbetaFeedbackCrashSubmissions%5D={}",
            apple.cursors,
            from + size,
            fields.join(",")
        )
        .into();
    }
    Json(json!({"data": page, "links": links, "meta": {"paging": {"total": all.len()}}})).into_response()
}

async fn get_log(State(shared): SharedState, Path(id): Path<String>) -> Response {
    let apple = shared.apple.lock();
    let found = apple.submissions.iter().find(|one| one.id == id).map(|one| one.log.clone());
    match found.unwrap_or(Log::Missing) {
        Log::Missing => {
            let error = json!({"errors": [{"status": "404", "code": "NOT_FOUND", "detail": "no log"}]});
            (StatusCode::NOT_FOUND, Json(error)).into_response()
        }
        Log::Null => Json(json!({"data": null})).into_response(),
        Log::Text(text) => {
            let log = json!({"type": "betaCrashLogs", "id": "a+/=", "attributes": {"logText": text}});
            Json(json!({"data": log})).into_response()
        }
    }
}
