//! `/console/oauth/authorize`: a person decides whether an assistant gets access as themselves. Nothing leads to the assistant before.

use super::account_name;
use crate::oauth::fields::RequestFields;
use crate::oauth::metadata::require_sign_in;
use crate::oauth::request::AuthorizationRequest;
use crate::oauth::service_url::{AUTHORIZE_PATH, ServiceUrl};
use crate::oauth::token_text::{OAuthSecret, hash_bytes};
use crate::oauth::{Mcp, McpExtension};
use crate::store::{self, NewMcpGrant};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::operation::{Access, Kind, Problem, ReportsRead};
use unslide_api::feature::{Keys, Storage};
use unslide_model::Scope;
use unslide_site::{
    RETURN_PATH_BYTES_LIMIT, SentForm, Shell, SignedIn, Template, escaping, filters, render_html,
};
use unslide_store::{KeyId, audit};

/// Characters of a name on the page.
const ACCOUNT_NAME_LIMIT: usize = 60;

#[derive(Template)]
#[template(path = "mcp/consent.html", askama = escaping)]
struct ConsentPage {
    shell: Shell,
    tenant: String,
    /// The name as which the assistant would act.
    account: String,
    request: AuthorizationRequest,
    /// True if the assistant asks to change groups, and the account may do so.
    may_change: bool,
    /// The parameters of the request, which the form sends again.
    query: String,
}

/// Leads the browser to the assistant. The content security policy keeps a form from leading to another host; a page may.
#[derive(Template)]
#[template(path = "mcp/answered.html", askama = escaping)]
struct AnsweredPage {
    shell: Shell,
    next: String,
    is_allowed: bool,
}

/// `GET`: shows who asks for what.
pub async fn ask_person(
    State(storage): State<Arc<Storage>>,
    mcp: McpExtension,
    signed: SignedIn<ReportsRead>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let service = mcp.service_url(&headers);
    let request = read_request(&storage, &mcp, &signed.access, &service, &query).await?;
    let principal = &signed.access.principal;
    let account = account_name(&signed.viewer, principal).chars().take(ACCOUNT_NAME_LIMIT).collect();
    let may_change = request.scopes.contains(&Scope::GroupsWrite) && principal.has_scope(Scope::GroupsWrite);
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Give an assistant access");
    let tenant = signed.access.tenant().to_string();
    render_html(&ConsentPage { shell, tenant, account, request, may_change, query })
}

/// `POST`: leads back to the assistant, with a code if the person allows it.
pub async fn take_decision(
    State(keys): State<Arc<Keys>>,
    mcp: McpExtension,
    signed: SignedIn<ReportsRead>,
    headers: HeaderMap,
    form: SentForm,
) -> Result<Response, Problem> {
    let service = mcp.service_url(&headers);
    let query = form.field_text("request");
    let request = read_request(&keys.storage, &mcp, &signed.access, &service, &query).await?;
    let is_allowed = form.field_text("decision") == "allow";
    let next = match is_allowed {
        true => {
            let code = begin_grant(&keys, &signed.access, &request, form.has_field("change")).await?;
            request.answer_url(&service, ("code", &code))
        }
        false => request.answer_url(&service, ("error", "access_denied")),
    };
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Give an assistant access");
    render_html(&AnsweredPage { shell, next, is_allowed })
}

/// Reads a request, which is for the tenant of the session.
async fn read_request(
    storage: &Storage,
    mcp: &Mcp,
    access: &Access<ReportsRead>,
    service: &ServiceUrl,
    query: &str,
) -> Result<AuthorizationRequest, Problem> {
    require_sign_in(storage, Some(access.tenant())).await?;
    let refused = |why: String| Problem::new(Kind::InvalidParameter, why);
    if AUTHORIZE_PATH.len() + 1 + query.len() > RETURN_PATH_BYTES_LIMIT {
        return Err(refused(format!("the address has more than {RETURN_PATH_BYTES_LIMIT} bytes")));
    }
    let fields = RequestFields::parse(query.as_bytes());
    let request = mcp.read_request(&fields, service).await.map_err(refused)?;
    match &request.resource.tenant {
        Some(tenant) if tenant != access.tenant() => {
            let own = access.tenant();
            Err(refused(format!(
                "you are signed in to {own}, and the assistant asks for {tenant}: sign out first"
            )))
        }
        _ => Ok(request),
    }
}

/// Begins the grant of a request. Returns its code.
async fn begin_grant(
    keys: &Keys,
    access: &Access<ReportsRead>,
    request: &AuthorizationRequest,
    may_change: bool,
) -> Result<String, Problem> {
    let principal = &access.principal;
    let is_given = |scope: &Scope| *scope == Scope::ReportsRead || may_change && principal.has_scope(*scope);
    let scopes: Vec<Scope> = request.scopes.iter().copied().filter(is_given).collect();
    let code = keys.entropy.generate_token().map_err(Problem::internal)?;
    let new = NewMcpGrant {
        key_id: KeyId::from_uuid(principal.key_id),
        client_hash: hash_bytes(&request.client.id),
        client_name: &request.client.name,
        redirect_host: request.redirect_host(),
        redirect_hash: hash_bytes(&request.asked_redirect),
        scopes: &scopes,
        names_tenant: request.resource.tenant.is_some(),
        code_hash: hash_bytes(code),
        code_challenge: request.challenge,
    };
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    let id = store::add_grant(&mut tx, &new).await?;
    let detail = json!({"client": new.client_name, "redirect_host": new.redirect_host, "scopes": scopes});
    let actor = principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "mcp.grant", &id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(OAuthSecret::Code(code).write_text(access.tenant()))
}
