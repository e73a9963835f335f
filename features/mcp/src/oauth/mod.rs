//! Access of assistants by OAuth: a person signs in at the identity provider of their tenant, and gives an assistant access as
//! themselves, as the protocol's authorization has it. This service is the authorization server of its own resource.
//!
//! `metadata` has the documents that clients read first, `client`, `client_document` and `register` the clients, `request` a request
//! for access, `token` codes and tokens, `token_text` their texts, `fields` the parameters of requests, `service_url` the addresses,
//! and `failure` refusals. The page on which a person decides is among the pages.

mod client;
mod client_document;
mod failure;
pub mod fields;
pub mod metadata;
mod register;
pub mod request;
pub mod service_url;
mod token;
pub mod token_text;

use crate::settings::McpApiSettings;
use axum::routing::{get, post};
use axum::{Extension, Router};
use client_document::ClientDocuments;
use fields::RequestFields;
use http::{Extensions, HeaderMap};
use metadata::{RESOURCE_DOCUMENT_PATH, SERVER_DOCUMENT_PATH};
use request::AuthorizationRequest;
use service_url::{MCP_PATH, ServiceUrl};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::intake::ClientAddress;
use unslide_api::feature::operation::{Api, Problem};
use unslide_api::feature::path_keys::AddressRates;

const TOKEN_PATH: &str = "/oauth/token";
const REGISTER_PATH: &str = "/oauth/register";
const REVOKE_PATH: &str = "/oauth/revoke";

/// Requests of clients of one address in a second, and seconds' worth of them at once. An office is one address.
const ADDRESS_REQUESTS_PER_SECOND: f64 = 5.0;
const ADDRESS_BURST_SECONDS: f64 = 60.0;

/// State of the feature in one process of the api.
pub struct Mcp {
    public_url: String,
    documents: ClientDocuments,
    /// Requests of clients come without a key.
    addresses: AddressRates,
}

/// The state of the feature, as routes and pages take it.
pub type McpExtension = Extension<Arc<Mcp>>;

impl Mcp {
    pub fn new(settings: McpApiSettings) -> Mcp {
        Mcp {
            documents: ClientDocuments::new(&settings.mcp),
            public_url: settings.public_url,
            addresses: AddressRates::new(ADDRESS_REQUESTS_PER_SECOND, ADDRESS_BURST_SECONDS),
        }
    }

    /// Returns the address of the service.
    pub fn service_url(&self, headers: &HeaderMap) -> ServiceUrl {
        ServiceUrl::from_request(&self.public_url, headers)
    }

    /// Reads the request of a client for access.
    ///
    /// # Errors
    /// Returns what is wrong, for the person.
    pub async fn read_request(
        &self,
        fields: &RequestFields,
        service: &ServiceUrl,
    ) -> Result<AuthorizationRequest, String> {
        AuthorizationRequest::read(fields, service, &self.documents).await
    }

    /// Counts a request of a client's address.
    fn take_request(&self, storage: &Storage, extensions: &Extensions) -> Result<(), Problem> {
        match extensions.get::<ClientAddress>() {
            Some(ClientAddress(address)) => {
                self.addresses.take_request(storage.clock.monotonic_micros(), *address)
            }
            None => Ok(()),
        }
    }
}

/// Returns the routes that clients use.
pub fn routes() -> Router<Api> {
    let resource = format!("{RESOURCE_DOCUMENT_PATH}{MCP_PATH}");
    Router::new()
        .route(RESOURCE_DOCUMENT_PATH, get(metadata::describe_resource))
        .route(&resource, get(metadata::describe_resource))
        .route(&format!("{resource}/{{tenant}}"), get(metadata::describe_tenant_resource))
        .route(SERVER_DOCUMENT_PATH, get(metadata::describe_server))
        .route(REGISTER_PATH, post(register::register_client))
        .route(TOKEN_PATH, post(token::issue_tokens))
        .route(REVOKE_PATH, post(token::revoke_token))
}
