//! The protocol with identity providers: discovery, the request of a code, and the verified token.

use crate::binding::SignInSecret;
use crate::fetch::{FetchError, GuardedHttp};
use crate::identity::Identity;
use crate::settings::SignInSettings;
use crate::store::SignInProvider;
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreJwsSigningAlgorithm, CoreProviderMetadata,
};
use openidconnect::{
    AuthType, AuthorizationCode, ClientId, ClientSecret, CsrfToken, DiscoveryError, EndpointMaybeSet,
    EndpointNotSet, EndpointSet, IssuerUrl, Nonce, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl,
    RequestTokenError, Scope, TokenResponse,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::error::Error;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::{TenantId, first_bytes, format_causes};

/// How long the document and keys of a provider are used.
const METADATA_LIFETIME: Duration = Duration::from_secs(300);
/// Providers with a document in memory.
const MAX_METADATA: usize = 1_000;
/// The most bytes of an error's text.
const MAX_ERROR_BYTES: usize = 500;
/// Algorithms of tokens: those with a public key, so that no one who knows only that key can sign.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 5] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// The client of a provider whose document was read.
type DiscoveredClient = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// Result of the library to come.
type Pending<'p, T> = Pin<Box<dyn Future<Output = T> + Send + 'p>>;

/// The reason why a provider did not sign a person in. The texts are for the tenant, their sources for the operator.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("{0}")]
    Fetch(#[from] FetchError),
    #[error("the identity provider does not answer as the protocol requires: {0}")]
    Answer(#[source] Box<dyn Error + Send + Sync>),
    #[error("the identity provider refused the code: {0}")]
    Code(String),
    #[error("the token of the identity provider is not valid: {0}")]
    Token(#[source] Box<dyn Error + Send + Sync>),
}

impl ProviderError {
    /// Returns the text of the error with those of its causes, cut to a few hundred bytes.
    pub fn explain_causes(&self) -> String {
        cut_text(&format_causes(self))
    }
}

fn cut_text(text: &str) -> String {
    first_bytes(text, MAX_ERROR_BYTES).to_owned()
}

impl From<DiscoveryError<FetchError>> for ProviderError {
    fn from(error: DiscoveryError<FetchError>) -> ProviderError {
        match error {
            DiscoveryError::Request(error) => ProviderError::Fetch(error),
            error => ProviderError::Answer(error.into()),
        }
    }
}

/// Documents of providers, which are kept for a while.
pub struct Providers {
    http: GuardedHttp,
    known: Mutex<BTreeMap<TenantId, KnownProvider>>,
}

struct KnownProvider {
    issuer: String,
    read_at: Instant,
    metadata: CoreProviderMetadata,
}

impl Providers {
    pub fn new(settings: &SignInSettings) -> Providers {
        Providers { http: GuardedHttp::new(settings), known: Mutex::default() }
    }

    /// Returns the document of a provider, with its keys.
    ///
    /// # Errors
    /// Returns an error if the issuer may not be reached, does not answer, or has another name.
    pub async fn discover(
        &self,
        tenant: &TenantId,
        issuer: &str,
    ) -> Result<CoreProviderMetadata, ProviderError> {
        if let Some(known) = self.known.lock().get(tenant)
            && known.issuer == issuer
            && known.read_at.elapsed() < METADATA_LIFETIME
        {
            return Ok(known.metadata.clone());
        }
        self.http.check_address(issuer).map_err(FetchError::Address)?;
        let url = IssuerUrl::new(issuer.to_owned()).map_err(|error| ProviderError::Answer(error.into()))?;
        // The compiler cannot prove for every lifetime that the library's future is Send.
        let reading: Pending<'_, _> = Box::pin(CoreProviderMetadata::discover_async(url, &self.http));
        let metadata = reading.await?;
        let mut known = self.known.lock();
        if known.len() >= MAX_METADATA {
            known.clear();
        }
        let read =
            KnownProvider { issuer: issuer.to_owned(), read_at: Instant::now(), metadata: metadata.clone() };
        known.insert(tenant.clone(), read);
        Ok(metadata)
    }

    /// Checks that an issuer may be reached, as far as that is known before its name is looked up.
    ///
    /// # Errors
    /// Returns what is wrong with it, for the tenant.
    pub fn check_issuer(&self, issuer: &str) -> Result<(), String> {
        let url = self.http.check_address(issuer)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err("the URL of an issuer has neither a query nor a fragment".to_owned());
        }
        Ok(())
    }

    /// Forgets the document of a tenant's provider: its keys may have changed.
    pub fn forget_provider(&self, tenant: &TenantId) {
        self.known.lock().remove(tenant);
    }

    /// Returns the address at the provider at which a person signs in.
    ///
    /// # Errors
    /// Returns an error if the provider does not answer.
    pub async fn sign_in_url(
        &self,
        tenant: &TenantId,
        provider: &SignInProvider,
        redirect: &str,
        secret: &SignInSecret,
    ) -> Result<String, ProviderError> {
        let metadata = self.discover(tenant, &provider.issuer).await?;
        // Several products give groups only to clients that ask for a scope of that name.
        let has_group_scope = metadata
            .scopes_supported()
            .is_some_and(|scopes| scopes.iter().any(|scope| scope.as_str() == provider.group_claim));
        let client = build_client(metadata, provider, redirect)?;
        let verifier = PkceCodeVerifier::new(secret.derive_verifier());
        let (state, nonce) = (CsrfToken::new(secret.derive_state()), Nonce::new(secret.derive_nonce()));
        let request = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, move || state, move || nonce)
            .add_scope(Scope::new("profile".to_owned()))
            .add_scopes(has_group_scope.then(|| Scope::new(provider.group_claim.clone())))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        let (url, _, _) = request.url();
        Ok(url.to_string())
    }

    /// Exchanges a code for a token, and returns the person that the verified token names.
    ///
    /// # Errors
    /// Returns an error if the provider does not answer, or the token is not valid.
    pub async fn redeem_code(
        &self,
        tenant: &TenantId,
        provider: &SignInProvider,
        redirect: &str,
        secret: &SignInSecret,
        code: String,
    ) -> Result<Identity, ProviderError> {
        let metadata = self.discover(tenant, &provider.issuer).await?;
        let client = build_client(metadata, provider, redirect)?;
        let request = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|error| ProviderError::Answer(error.into()))?
            .set_pkce_verifier(PkceCodeVerifier::new(secret.derive_verifier()));
        let asking: Pending<'_, _> = Box::pin(request.request_async(&self.http));
        let answer = asking.await.map_err(|error| match error {
            RequestTokenError::Request(error) => ProviderError::Fetch(error),
            RequestTokenError::ServerResponse(refusal) => ProviderError::Code(cut_text(&refusal.to_string())),
            error => ProviderError::Answer(error.into()),
        })?;
        let token = answer.id_token().ok_or_else(|| ProviderError::Token("there is no ID token".into()))?;
        let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS);
        let claims = token
            .claims(&verifier, &Nonce::new(secret.derive_nonce()))
            .map_err(|error| ProviderError::Token(error.into()))?;
        Ok(Identity::from_token(claims, &token.to_string(), &provider.group_claim))
    }
}

/// Returns the client of a provider. A client secret is sent as the provider's document says.
fn build_client(
    metadata: CoreProviderMetadata,
    provider: &SignInProvider,
    redirect: &str,
) -> Result<DiscoveredClient, ProviderError> {
    let redirect =
        RedirectUrl::new(redirect.to_owned()).map_err(|error| ProviderError::Answer(error.into()))?;
    let methods = metadata.token_endpoint_auth_methods_supported();
    let takes_body_only = methods.is_some_and(|methods| {
        methods.contains(&CoreClientAuthMethod::ClientSecretPost)
            && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic)
    });
    let auth_type = if takes_body_only { AuthType::RequestBody } else { AuthType::BasicAuth };
    let secret = Some(provider.client_secret.reveal()).filter(|secret| !secret.is_empty());
    let secret = secret.map(|secret| ClientSecret::new(secret.to_owned()));
    let client_id = ClientId::new(provider.client_id.clone());
    let client = CoreClient::from_provider_metadata(metadata, client_id, secret);
    Ok(client.set_redirect_uri(redirect).set_auth_type(auth_type))
}
