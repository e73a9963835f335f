//! `/console/sign-in` and `/console/sign-out`.

use crate::console::link::is_local;
use crate::console::prelude::*;
use crate::console::session::{cookie, find, token};
use crate::console::shell::html_with;
use crate::limits::pace::ClientPace;
use crate::limits::permits::{Caller, RequestSlot};
use crate::requests::access::{assign, authenticate};
use crate::requests::body::Chunks;
use axum::body::Body;
use axum::extract::Request;
use http::header::SET_COOKIE;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use std::time::Duration;
use unslide_store::keys::Principal;
use unslide_store::{audit, console_sessions};

/// Bytes of the form.
const FORM_BYTES: u64 = 4 << 10;
/// How long the form may take.
const FORM_TIME: Duration = Duration::from_secs(3);
/// Characters of a name.
const LONGEST_NAME: usize = 60;

/// Where a sign-in leads.
#[derive(Debug, Default, Deserialize)]
pub struct BackQuery {
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "console/pages/sign_in.html", askama = escaping)]
struct SignInPage {
    shell: Shell,
    next: String,
    name: String,
    refused: bool,
}

fn back(next: Option<String>) -> String {
    next.filter(|next| is_local(next)).unwrap_or_else(|| "/console".to_owned())
}

/// `GET /console/sign-in`.
pub async fn page(
    State(api): State<Api>,
    Query(query): Query<BackQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let next = back(query.next);
    if find(&headers, &api).await?.is_some() {
        return Ok(Redirect::to(&next).into_response());
    }
    html(&SignInPage { shell: Shell::signed_out(), next, name: String::new(), refused: false })
}

/// What the form holds.
#[derive(Default)]
struct Form {
    key: String,
    name: String,
    next: Option<String>,
}

/// `POST /console/sign-in`: the key is looked up as for the API, and neither kept nor logged.
pub async fn sign_in(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let form = read(&sent(&api, &parts, body).await?);
    let next = back(form.next);
    match authenticate(&parts.extensions, &api, form.key.trim()).await {
        Ok(principal) => begin(&api, &parts, &principal, &form.name, &next).await,
        Err(problem) if problem.kind() == Kind::Unauthorized => {
            let page = SignInPage { shell: Shell::signed_out(), next, name: form.name, refused: true };
            Ok(html_with(StatusCode::UNAUTHORIZED, &page))
        }
        Err(problem) => Err(problem),
    }
}

/// The bytes of the form. The request has no slot while they come: clients without a key that send nothing would hold
/// all slots.
async fn sent(api: &Api, parts: &Parts, body: Body) -> Result<Vec<u8>, Problem> {
    let slot = parts.extensions.get::<RequestSlot>();
    let slot = slot.ok_or_else(|| Problem::internal("a request has no slot"))?;
    slot.release();
    let pace = ClientPace::new(FORM_TIME, FORM_BYTES);
    let mut chunks = Chunks::new(&parts.headers, body, FORM_BYTES, pace)?;
    let mut sent = Vec::new();
    while let Some(piece) = chunks.next().await? {
        sent.extend_from_slice(&piece);
    }
    slot.resume(&api.permits)?;
    Ok(sent)
}

fn read(sent: &[u8]) -> Form {
    let mut form = Form::default();
    for (name, value) in form_urlencoded::parse(sent) {
        match &*name {
            "key" => form.key = value.into_owned(),
            "name" => form.name = shown(&value),
            "next" => form.next = Some(value.into_owned()),
            _ => {}
        }
    }
    form
}

fn shown(name: &str) -> String {
    name.trim().chars().filter(|character| !character.is_control()).take(LONGEST_NAME).collect()
}

async fn begin(
    api: &Api,
    parts: &Parts,
    principal: &Principal,
    name: &str,
    next: &str,
) -> Result<Response, Problem> {
    assign(&parts.extensions, api, Caller::Tenant(principal.tenant.clone()))?;
    let token = api.entropy.session().map_err(Problem::internal)?;
    let mut tx = api.tenant(&principal.tenant).await?;
    let name = Some(name).filter(|name| !name.is_empty());
    console_sessions::begin(&mut tx, principal.key_id, &token, name).await?;
    let key = principal.key_id.to_string();
    audit::append(&mut tx, &key, "console.sign_in", &key, &serde_json::json!({})).await?;
    tx.commit().await?;
    let cookie = cookie(Some(&token), &parts.headers, &parts.extensions)?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to(next)).into_response())
}

/// `POST /console/sign-out`.
pub async fn sign_out(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let session = find(&parts.headers, &api).await?;
    if let (Some(session), Some(token)) = (session, token(&parts.headers)) {
        let tenant = &session.principal.tenant;
        assign(&parts.extensions, &api, Caller::Tenant(tenant.clone()))?;
        let mut tx = api.tenant(tenant).await?;
        console_sessions::end(&mut tx, &token).await?;
        tx.commit().await?;
    }
    let cookie = cookie(None, &parts.headers, &parts.extensions)?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/console/sign-in")).into_response())
}
