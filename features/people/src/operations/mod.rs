//! The settings of a tenant's identity provider, for its administrators.

mod get;
mod list;
mod remove;
mod set;

use crate::store::{SignInFailure, SignInProvider, SignInRule};
use serde::Serialize;
use time::OffsetDateTime;
use unslide_api::feature::ListTable;
use unslide_api::feature::OperationRouter;
use unslide_api::routes;
use unslide_model::TenantId;
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "people see every app that their scopes allow";

/// The list of people as a table.
pub const PEOPLE_TABLES: &[ListTable] = &[ListTable {
    path: "/v1/people",
    name: "people",
    has_pages: true,
    columns: "key_id name issuer subject scopes keys_in_force created_at last_sign_in_at revoked_at",
}];

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(get::get_sign_in, set::set_sign_in, remove::remove_sign_in))
        .routes(routes!(list::list_people))
}

/// The sign-in of a tenant's people.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SignInState {
    /// The identity provider; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<SignInProviderState>,
    /// The path at which people of the tenant sign in.
    #[schema(example = "/console/sso/acme")]
    pub sign_in_path: String,
    /// The path to register as redirect URI at the provider, after the address of the console.
    #[schema(example = "/console/sso/acme/callback")]
    pub callback_path: String,
    /// The path to register at the provider for its notices of sign-outs (back-channel logout), after the address of the
    /// console.
    #[schema(example = "/console/sso/acme/logout")]
    pub sign_out_notice_path: String,
    /// The path to which the provider may lead people back after a sign-out there, after the address of the console.
    #[schema(example = "/console/sso/acme/signed-out")]
    pub signed_out_path: String,
    /// Why people cannot sign in now: the provider's document cannot be read. Only after the settings were set with `force`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Sign-ins that failed in the last seven days, the newest five of each outcome. Only if the settings are read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50)]
    pub failures: Vec<SignInFailure>,
}

/// The identity provider of a tenant, without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SignInProviderState {
    /// The issuer's URL.
    #[schema(example = "https://login.example.com")]
    pub issuer: String,
    /// The client as the provider knows it.
    #[schema(example = "unslide")]
    pub client_id: String,
    /// True if a client secret is set. It is never shown.
    pub has_client_secret: bool,
    /// The claim that names a person's groups.
    #[schema(example = "groups")]
    pub group_claim: String,
    /// The claim with the id that the tenant's directory has for a person, if it is not `sub`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "oid")]
    pub directory_claim: Option<String>,
    /// True if the groups that come by SCIM decide, and not those of tokens.
    pub directory_groups: bool,
    /// True if the provider leads people back after a sign-out there.
    pub return_after_sign_out: bool,
    /// The scopes that sign-ins request besides `openid`; absent if the provider's document decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 20, example = json!(["profile", "groups"]))]
    pub scopes: Option<Vec<String>>,
    /// The scopes of groups.
    #[schema(max_items = 50)]
    pub rules: Vec<SignInRule>,
    /// Hours from a sign-in to the end of its session.
    #[schema(minimum = 1, maximum = 24)]
    pub session_hours: i32,
    /// When the settings were changed last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

impl SignInState {
    fn from_provider(provider: Option<SignInProvider>, tenant: &TenantId) -> SignInState {
        let provider = provider.map(|provider| SignInProviderState {
            issuer: provider.issuer,
            client_id: provider.client_id,
            has_client_secret: !provider.client_secret.is_empty(),
            group_claim: provider.group_claim,
            directory_claim: provider.directory_claim,
            directory_groups: provider.uses_directory_groups,
            return_after_sign_out: provider.returns_after_sign_out,
            scopes: provider.scopes,
            rules: provider.rules,
            session_hours: provider.session_hours,
            changed_at: provider.changed_at,
        });
        SignInState {
            provider,
            sign_in_path: format!("{}/{tenant}", crate::pages::SSO_PATH),
            callback_path: format!("{}/{tenant}/callback", crate::pages::SSO_PATH),
            sign_out_notice_path: format!("{}/{tenant}/logout", crate::pages::SSO_PATH),
            signed_out_path: format!("{}/{tenant}/signed-out", crate::pages::SSO_PATH),
            problem: None,
            failures: Vec::new(),
        }
    }
}
