//! The protocol with identity providers: discovery, the request of a code, and the verified token.

mod document;
mod memory;

pub use document::ProviderDocument;

use crate::binding::SignInSecret;
use crate::fetch::{FetchError, GuardedHttp};
use crate::settings::SignInSettings;
use crate::store::SignInProvider;
use crate::token::{Claims, Expected, KeySet, TokenError, TokenPurpose, read_signed};
use document::DOCUMENT_PATH;
use memory::{KnownProvider, ProviderMemory};
use reqwest::Url;
use serde_json::Value;
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_api::feature::operation::Problem;
use unslide_model::{TenantId, first_bytes, format_causes};
use unslide_runtime::fairness::{FairPermit, FairSemaphore};

/// The most bytes of an error's text.
const MAX_ERROR_BYTES: usize = 500;
/// Requests that wait for providers: in one process, and for one tenant. Others of the tenant keep their requests if its
/// provider is slow.
const MAX_WAITING: u32 = 256;
const MAX_WAITING_PER_TENANT: u32 = 16;

/// The reason why a provider did not sign a person in. The texts are for the tenant, their sources for the operator.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("{0}")]
    Fetch(#[from] FetchError),
    /// It was slow or away a moment ago, and is not asked again yet.
    #[error("the identity provider did not answer {0} s ago, and is asked again in a few seconds")]
    Resting(u64),
    #[error("the identity provider does not answer as the protocol requires: {0}")]
    Answer(String),
    #[error("the identity provider refused the code: {0}")]
    Code(String),
    #[error("the token of the identity provider is not valid: {0}")]
    Token(#[from] TokenError),
}

impl ProviderError {
    /// Returns the text of the error with those of its causes, cut to a few hundred bytes.
    pub fn explain_causes(&self) -> String {
        first_bytes(&format_causes(self), MAX_ERROR_BYTES).to_owned()
    }
}

/// What a sign-in asks of the provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignInRequest {
    /// How often the provider has refused the scopes of this sign-in.
    pub refusals: u8,
    /// True if the person wants to choose an account.
    pub chooses_account: bool,
}

/// The parameters of a sign-out at the provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignOutRequest<'r> {
    /// The ID token of the session that has ended.
    pub id_token: Option<&'r str>,
    /// The address to which the provider leads the person back.
    pub return_to: Option<&'r str>,
}

/// The token that a code was exchanged for.
#[derive(Debug)]
pub struct RedeemedCode {
    pub claims: Claims,
    pub id_token: String,
}

/// The providers of all tenants, with what is remembered of them.
pub struct Providers {
    http: GuardedHttp,
    memory: ProviderMemory,
    waiting: FairSemaphore<TenantId>,
}

impl Providers {
    pub fn new(settings: &SignInSettings) -> Providers {
        Providers {
            http: GuardedHttp::new(settings),
            memory: ProviderMemory::default(),
            waiting: FairSemaphore::new("sign-ins", MAX_WAITING, MAX_WAITING_PER_TENANT),
        }
    }

    /// Takes a permit to wait for a tenant's provider.
    ///
    /// # Errors
    /// Too many sign-ins of the tenant wait already.
    pub fn begin_waiting(&self, tenant: &TenantId) -> Result<FairPermit<TenantId>, Problem> {
        Ok(self.waiting.try_acquire(tenant, 1)?)
    }

    /// Returns the document of a provider, with its keys.
    ///
    /// # Errors
    /// Returns an error if the issuer may not be reached, does not answer, or has another name.
    pub async fn discover(
        &self,
        tenant: &TenantId,
        issuer: &str,
    ) -> Result<Arc<KnownProvider>, ProviderError> {
        if let Some(known) = self.memory.find(tenant, issuer)? {
            return Ok(known);
        }
        let read = self.read_provider(issuer).await;
        let (document, keys) = self.note_failure(tenant, issuer, read)?;
        Ok(self.memory.keep(tenant, issuer, document, keys))
    }

    /// Reads the document and the keys of an issuer, whatever is remembered.
    ///
    /// # Errors
    /// As [`discover`](Providers::discover).
    pub async fn read_provider(&self, issuer: &str) -> Result<(ProviderDocument, KeySet), ProviderError> {
        let address = format!("{}{DOCUMENT_PATH}", issuer.trim_end_matches('/'));
        let json = self.http.get_json(&address).await?;
        let document = ProviderDocument::from_json(&json, issuer).map_err(ProviderError::Answer)?;
        self.check_page("authorization_endpoint", &document.authorization_endpoint)
            .map_err(ProviderError::Answer)?;
        let keys = self.read_keys(&document).await?;
        if keys.is_empty() {
            return Err(ProviderError::Answer("it publishes no key that verifies ID tokens".to_owned()));
        }
        Ok((document, keys))
    }

    async fn read_keys(&self, document: &ProviderDocument) -> Result<KeySet, ProviderError> {
        Ok(KeySet::from_json(&self.http.get_json(&document.keys_url).await?))
    }

    /// Checks an address of the provider to which browsers are led. It may be in a network that this service does not
    /// reach, but without HTTPS only in those that the operator names.
    fn check_page(&self, member: &str, address: &str) -> Result<Url, String> {
        let url = Url::parse(address).map_err(|error| format!("its {member} is not a URL: {error}"))?;
        if url.scheme() != "https" && !(url.scheme() == "http" && self.http.check_address(address).is_ok()) {
            return Err(format!("its {member} does not begin with https://"));
        }
        Ok(url)
    }

    /// Remembers for some seconds that a provider does not answer, so that the next sign-ins do not wait for it, too.
    fn note_failure<T>(
        &self,
        tenant: &TenantId,
        issuer: &str,
        answer: Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        if let Err(ProviderError::Fetch(FetchError::Unreachable(_))) = &answer {
            self.memory.note_failure(tenant, issuer);
        }
        answer
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

    /// Forgets what is remembered of a tenant's provider.
    pub fn forget_provider(&self, tenant: &TenantId) {
        self.memory.forget(tenant);
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
        request: SignInRequest,
    ) -> Result<String, ProviderError> {
        let known = self.discover(tenant, &provider.issuer).await?;
        let chosen = match &provider.scopes {
            Some(scopes) => scopes.iter().map(String::as_str).collect(),
            None => known.document.choose_scopes(&provider.group_claim, request.refusals),
        };
        let scopes: Vec<&str> =
            std::iter::once("openid").chain(chosen.into_iter().filter(|scope| *scope != "openid")).collect();
        let page = self.check_page("authorization_endpoint", &known.document.authorization_endpoint);
        let mut url = page.map_err(ProviderError::Answer)?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &provider.client_id)
            .append_pair("redirect_uri", redirect)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &secret.derive_state())
            .append_pair("nonce", &secret.derive_nonce())
            .append_pair("code_challenge", &secret.derive_challenge())
            .append_pair("code_challenge_method", "S256");
        if request.chooses_account {
            url.query_pairs_mut().append_pair("prompt", known.document.choose_prompt());
        }
        Ok(url.into())
    }

    /// Returns true if this sign-in can be begun once more with fewer scopes.
    pub async fn may_ask_for_less(&self, tenant: &TenantId, provider: &SignInProvider, refusals: u8) -> bool {
        let Ok(known) = self.discover(tenant, &provider.issuer).await else { return false };
        let chosen = |refusals| known.document.choose_scopes(&provider.group_claim, refusals);
        provider.scopes.is_none() && chosen(refusals) != chosen(refusals.saturating_add(1))
    }

    /// Returns the page of the provider on which a person signs out there, if it has one.
    pub async fn sign_out_url(
        &self,
        tenant: &TenantId,
        provider: &SignInProvider,
        request: SignOutRequest<'_>,
    ) -> Option<String> {
        let known = self.discover(tenant, &provider.issuer).await.ok()?;
        let page = known.document.end_session_endpoint.as_ref()?;
        let mut url = self.check_page("end_session_endpoint", page).ok()?;
        url.query_pairs_mut().append_pair("client_id", &provider.client_id);
        let members = [("id_token_hint", request.id_token), ("post_logout_redirect_uri", request.return_to)];
        for (name, value) in members {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        Some(url.into())
    }

    /// Exchanges a code for a token, and returns it with its verified claims.
    ///
    /// # Errors
    /// Returns an error if the provider does not answer, or the token is not valid.
    pub async fn redeem_code(
        &self,
        tenant: &TenantId,
        provider: &SignInProvider,
        redirect: &str,
        secret: &SignInSecret,
        code: &str,
        now: OffsetDateTime,
    ) -> Result<RedeemedCode, ProviderError> {
        let known = self.discover(tenant, &provider.issuer).await?;
        let verifier = secret.derive_verifier();
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", &verifier),
        ];
        let client_secret = provider.client_secret.reveal();
        let basic = (!client_secret.is_empty() && !known.document.takes_secret_in_form())
            .then_some((provider.client_id.as_str(), client_secret));
        if basic.is_none() {
            form.push(("client_id", &provider.client_id));
            if !client_secret.is_empty() {
                form.push(("client_secret", client_secret));
            }
        }
        let answer = self.http.post_form(&known.document.token_endpoint, &form, basic).await;
        let answer = self.note_failure(tenant, &provider.issuer, answer.map_err(ProviderError::Fetch))?;
        let member =
            |name: &str| answer.json.as_ref().and_then(|json| json.get(name)).and_then(Value::as_str);
        if !answer.status.is_success() {
            let refusal = describe_refusal(member("error"), member("error_description"));
            return Err(ProviderError::Code(format!("status {}{refusal}", answer.status.as_u16())));
        }
        let token = member("id_token").ok_or(TokenError::Absent)?;
        let purpose = TokenPurpose::SignIn { nonce: &secret.derive_nonce() };
        let claims = self.verify_token(tenant, provider, token, purpose, now).await?;
        Ok(RedeemedCode { claims, id_token: token.to_owned() })
    }

    /// Checks a token of a provider. If no known key fits, the provider may have new ones: they are read once more.
    ///
    /// # Errors
    /// As [`redeem_code`](Providers::redeem_code).
    pub async fn verify_token(
        &self,
        tenant: &TenantId,
        provider: &SignInProvider,
        token: &str,
        purpose: TokenPurpose<'_>,
        now: OffsetDateTime,
    ) -> Result<Claims, ProviderError> {
        let known = self.discover(tenant, &provider.issuer).await?;
        let claims = match read_signed(token, &known.keys) {
            Err(TokenError::NoKey | TokenError::Signature) if known.may_read_keys_again() => {
                let keys = self.read_keys(&known.document).await;
                let keys = self.note_failure(tenant, &provider.issuer, keys)?;
                let document = known.document.clone();
                let known = self.memory.keep(tenant, &provider.issuer, document, keys);
                known.forbid_reading_keys();
                read_signed(token, &known.keys)?
            }
            read => read?,
        };
        let expected = Expected { issuer: &provider.issuer, client_id: &provider.client_id, now };
        claims.check(&expected, purpose)?;
        Ok(claims)
    }
}

/// Returns the error of a provider's answer as the end of a sentence.
pub fn describe_refusal(error: Option<&str>, description: Option<&str>) -> String {
    let clean = |text: &str| -> String {
        let shown = text.chars().map(|character| if character.is_control() { ' ' } else { character });
        first_bytes(&shown.collect::<String>(), 200).to_owned()
    };
    let error = error.map(|error| format!(", {}", clean(error))).unwrap_or_default();
    let description = description.map(|text| format!(": {}", clean(text))).unwrap_or_default();
    format!("{error}{description}")
}
