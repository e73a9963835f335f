//! The document of an identity provider (OpenID Connect Discovery), as far as sign-ins need it.

use crate::token::{is_algorithm, list_algorithms};
use serde_json::Value;

/// Where the document is, below the issuer.
pub const DOCUMENT_PATH: &str = "/.well-known/openid-configuration";

/// The document of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderDocument {
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub keys_url: String,
    pub end_session_endpoint: Option<String>,
    /// Scopes of all clients. One client may get fewer.
    scopes: Option<Vec<String>>,
    prompts: Option<Vec<String>>,
    client_authentications: Option<Vec<String>>,
}

impl ProviderDocument {
    /// Reads the document of an issuer. Members that no sign-in needs may be anything.
    ///
    /// # Errors
    /// Returns what is wrong, for the tenant.
    pub fn from_json(json: &Value, issuer: &str) -> Result<ProviderDocument, String> {
        let text = |member: &str| json.get(member).and_then(Value::as_str).map(str::to_owned);
        let require = |member: &str| text(member).ok_or_else(|| format!("its document has no {member}"));
        let named = require("issuer")?;
        if named != issuer {
            return Err(format!(
                "its document names another issuer, {}: set that one if it is yours",
                named.chars().take(200).collect::<String>()
            ));
        }
        let list = |member: &str| -> Option<Vec<String>> {
            let words = json.get(member)?.as_array()?.iter();
            Some(words.filter_map(|word| word.as_str().map(str::to_owned)).collect())
        };
        if let Some(signed_with) = list("id_token_signing_alg_values_supported")
            && !signed_with.iter().any(|algorithm| is_algorithm(algorithm))
        {
            return Err(format!(
                "it signs ID tokens with {}, and none of these is among {}",
                signed_with.join(", "),
                list_algorithms()
            ));
        }
        Ok(ProviderDocument {
            authorization_endpoint: require("authorization_endpoint")?,
            token_endpoint: require("token_endpoint")?,
            keys_url: require("jwks_uri")?,
            end_session_endpoint: text("end_session_endpoint"),
            scopes: list("scopes_supported"),
            prompts: list("prompt_values_supported"),
            client_authentications: list("token_endpoint_auth_methods_supported"),
        })
    }

    /// Returns the scopes that a sign-in requests besides `openid` if the settings name none. `refusals` is how often the
    /// provider has refused scopes in this sign-in: then fewer are requested, because a client may get fewer than the
    /// provider has.
    pub fn choose_scopes<'s>(&self, group_claim: &'s str, refusals: u8) -> Vec<&'s str> {
        let has =
            |scope: &str| self.scopes.as_ref().is_some_and(|scopes| scopes.iter().any(|own| own == scope));
        let takes_profile = self.scopes.is_none() || has("profile");
        let profile = takes_profile.then_some("profile");
        // Several products give groups only to clients that request a scope of that name.
        let groups =
            (has(group_claim) && !["openid", "profile"].contains(&group_claim)).then_some(group_claim);
        let chosen: Vec<&str> = match refusals {
            0 => profile.into_iter().chain(groups).collect(),
            1 if groups.is_some() => profile.into_iter().collect(),
            _ => Vec::new(),
        };
        chosen
    }

    /// Returns the value of `prompt` with which the provider lets a person choose another account.
    pub fn choose_prompt(&self) -> &'static str {
        let has = |prompt: &str| {
            self.prompts.as_ref().is_none_or(|prompts| prompts.iter().any(|own| own == prompt))
        };
        if has("select_account") { "select_account" } else { "login" }
    }

    /// Returns true if the client's secret goes into the form of the request and not into its header.
    pub fn takes_secret_in_form(&self) -> bool {
        self.client_authentications.as_ref().is_some_and(|methods| {
            let has = |method: &str| methods.iter().any(|own| own == method);
            has("client_secret_post") && !has("client_secret_basic")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(more: &Value) -> Result<ProviderDocument, String> {
        let mut json = json!({"issuer": "https://a", "authorization_endpoint": "https://a/authorize",
            "token_endpoint": "https://a/token", "jwks_uri": "https://a/keys"});
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ProviderDocument::from_json(&json, "https://a")
    }

    #[test]
    fn a_document_may_have_members_of_any_type_except_those_that_a_sign_in_needs() {
        let odd = json!({"scopes_supported": "openid", "claims_supported": 7, "prompt_values_supported": null,
            "id_token_signing_alg_values_supported": {}, "end_session_endpoint": [], "display_values_supported": [1]});
        let read = document(&odd).unwrap();
        assert_eq!((read.end_session_endpoint, read.scopes), (None, None));
        assert!(document(&json!({"jwks_uri": 7})).unwrap_err().contains("jwks_uri"));
        // Microsoft Entra's document for all its tenants.
        let common = document(&json!({"issuer": "https://login.microsoftonline.com/{tenantid}/v2.0"}));
        assert!(
            common.unwrap_err().contains("another issuer, https://login.microsoftonline.com/{tenantid}/v2.0")
        );
        let shared = document(&json!({"id_token_signing_alg_values_supported": ["HS256"]}));
        assert!(shared.unwrap_err().contains("HS256"));
        assert!(document(&json!({"id_token_signing_alg_values_supported": ["HS256", "RS512"]})).is_ok());
    }

    #[test]
    fn fewer_scopes_are_requested_after_each_refusal() {
        let all = document(&json!({"scopes_supported": ["openid", "profile", "groups"]})).unwrap();
        let chosen = |document: &ProviderDocument, claim| {
            (0..3).map(|refusals| document.choose_scopes(claim, refusals).join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&all, "groups"), ["profile groups", "profile", ""]);
        assert_eq!(chosen(&all, "roles"), ["profile", "", ""]);
        let bare = document(&json!({"scopes_supported": ["openid"]})).unwrap();
        assert_eq!(chosen(&bare, "groups"), ["", "", ""]);
        assert_eq!(chosen(&document(&json!({})).unwrap(), "groups"), ["profile", "", ""]);
    }

    #[test]
    fn another_account_is_chosen_as_the_provider_takes_it() {
        let prompt = |prompts: Value| document(&prompts).unwrap().choose_prompt();
        assert_eq!(prompt(json!({})), "select_account");
        assert_eq!(prompt(json!({"prompt_values_supported": ["none", "login", "consent"]})), "login");
        assert_eq!(prompt(json!({"prompt_values_supported": ["login", "select_account"]})), "select_account");
    }
}
