//! The request of a client for access, as the browser of a person brings it.

use super::client::{McpClient, is_loopback};
use super::client_document::ClientDocuments;
use super::fields::RequestFields;
use super::service_url::{McpResource, ServiceUrl};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use unslide_model::Scope;

/// The scopes that the protocol uses. The first one is needed for anything.
pub const MCP_SCOPES: [Scope; 2] = [Scope::ReportsRead, Scope::GroupsWrite];
/// The most bytes of the text that goes back to the client.
const STATE_BYTES_LIMIT: usize = 500;

/// A request that can be shown to a person.
#[derive(Clone, Debug)]
pub struct AuthorizationRequest {
    pub client: McpClient,
    pub redirect: Url,
    /// The same address as the client wrote it. It writes it again when it exchanges the code.
    pub asked_redirect: String,
    pub state: Option<String>,
    /// The scopes that the client asks for.
    pub scopes: Vec<Scope>,
    /// The SHA-256 of the client's verifier (PKCE).
    pub challenge: [u8; 32],
    pub resource: McpResource,
}

impl AuthorizationRequest {
    /// Reads the parameters of a request. None of the errors leads to an address of the client: a stranger could make the client.
    ///
    /// # Errors
    /// Returns what is wrong, for the person.
    pub async fn read(
        fields: &RequestFields,
        service: &ServiceUrl,
        documents: &ClientDocuments,
    ) -> Result<AuthorizationRequest, String> {
        let id = fields.require("client_id")?;
        let client = match McpClient::read_registered(id) {
            Some(client) => client,
            None if id.contains("://") => {
                documents.find_client(id).await.map_err(|why| format!("client_id: {why}"))?
            }
            None => return Err("client_id: unknown, the assistant has to register again".to_owned()),
        };
        let asked_redirect = fields.require("redirect_uri")?.to_owned();
        let redirect = client.find_redirect(&asked_redirect);
        let redirect = redirect.ok_or("redirect_uri: not one of the client's")?;
        if fields.require("response_type")? != "code" {
            return Err("response_type: only code".to_owned());
        }
        let state = fields.find("state")?;
        if state.is_some_and(|state| state.len() > STATE_BYTES_LIMIT) {
            return Err(format!("state: at most {STATE_BYTES_LIMIT} bytes"));
        }
        let challenge = fields.require("code_challenge")?;
        if fields.require("code_challenge_method")? != "S256" {
            return Err("code_challenge_method: only S256".to_owned());
        }
        let challenge = URL_SAFE_NO_PAD.decode(challenge).ok().and_then(|bytes| bytes.try_into().ok());
        let challenge = challenge.ok_or("code_challenge: not a SHA-256 in base64url")?;
        let resource = service.parse_resource(fields.require("resource")?);
        let resource = resource.ok_or("resource: not the address of an MCP server of this service")?;
        let scopes = read_scopes(fields.find("scope")?.unwrap_or_default());
        Ok(AuthorizationRequest {
            client,
            redirect,
            asked_redirect,
            state: state.map(str::to_owned),
            scopes,
            challenge,
            resource,
        })
    }

    /// Returns the host to which the code goes, as a person sees it.
    pub fn redirect_host(&self) -> &str {
        self.redirect.host_str().unwrap_or_default()
    }

    /// Returns true if the code goes to a program on the person's computer.
    pub fn leads_to_own_computer(&self) -> bool {
        is_loopback(&self.redirect)
    }

    /// Returns the address that leads back to the client, with the answer.
    pub fn answer_url(&self, service: &ServiceUrl, answer: (&str, &str)) -> String {
        let mut url = self.redirect.clone();
        let (name, value) = answer;
        let mut query = url.query_pairs_mut();
        query.append_pair(name, value).append_pair("iss", service.issuer());
        if let Some(state) = &self.state {
            query.append_pair("state", state);
        }
        drop(query);
        url.into()
    }
}

/// Reads the scopes that a client asks for. Others than those of the protocol, such as `offline_access`, mean nothing here.
fn read_scopes(text: &str) -> Vec<Scope> {
    let asks = |scope: &Scope| text.split_ascii_whitespace().any(|word| word == scope.as_str());
    MCP_SCOPES.into_iter().filter(|scope| *scope == Scope::ReportsRead || asks(scope)).collect()
}
