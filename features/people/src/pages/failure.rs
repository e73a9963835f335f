//! Sign-ins that fail: the page for the person, the line in the log, and the entry for the tenant's administrators. All have
//! the same reason, and name what to change.

use super::retry_links;
use crate::People;
use crate::fetch::FetchError;
use crate::identity::GroupClaim;
use crate::provider::{ProviderError, describe_refusal};
use crate::store::{self, NewFailure, SignInProvider};
use axum::response::Response;
use http::StatusCode;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::Problem;
use unslide_model::{TenantId, one_line};
use unslide_site::{Shell, Template, escaping, filters, html_with};

/// Groups that a message names.
const MAX_NAMED_GROUPS: usize = 10;
/// Characters of each.
const MAX_GROUP_CHARACTERS: usize = 60;

/// A sign-in that failed.
pub struct SignInRefusal {
    outcome: &'static str,
    status: StatusCode,
    /// For the person.
    reason: String,
    /// For the log, if the reason does not say all. It may name servers of the operator.
    cause: Option<String>,
    /// For the tenant's administrators, if the reason does not say all.
    detail: Option<String>,
    subject: Option<String>,
    next: Option<String>,
    /// The page of the provider on which the person signs out there.
    sign_out: Option<String>,
}

impl SignInRefusal {
    fn new(outcome: &'static str, status: StatusCode, reason: impl Into<String>) -> SignInRefusal {
        let reason = reason.into();
        SignInRefusal {
            outcome,
            status,
            reason,
            cause: None,
            detail: None,
            subject: None,
            next: None,
            sign_out: None,
        }
    }

    pub fn needs_https() -> SignInRefusal {
        let reason = "This page came over plain HTTP, and browsers keep a sign-in only over HTTPS or from this machine.";
        SignInRefusal::new("foreign_answer", StatusCode::BAD_REQUEST, reason)
    }

    /// The answer belongs to no sign-in of this browser.
    pub fn foreign() -> SignInRefusal {
        let reason =
            "This sign-in was not begun in this browser, took more than 30 minutes, or is finished already.";
        SignInRefusal::new("foreign_answer", StatusCode::BAD_REQUEST, reason)
    }

    /// The provider led the browser back with an error.
    pub fn declined(error: &str, description: Option<&str>) -> SignInRefusal {
        let advice = match error {
            "invalid_scope" => {
                " It refused the requested scopes: an administrator of your tenant can set others with `unslide sso set \
                 --scope`, or allow them for the client at the provider."
            }
            "access_denied" => " You or the provider declined.",
            "temporarily_unavailable" | "server_error" => " Try again later.",
            "unauthorized_client" | "unsupported_response_type" => {
                " The client at the provider must allow the authorization code flow."
            }
            _ => "",
        };
        let answer = describe_refusal(Some(error), description);
        let reason = format!("The identity provider did not sign you in{answer}.{advice}");
        SignInRefusal::new("declined", StatusCode::FORBIDDEN, reason)
    }

    /// No group of the person has scopes.
    pub fn no_scopes(provider: &SignInProvider, groups: &GroupClaim) -> SignInRefusal {
        let reason = explain_groups(provider, groups);
        SignInRefusal::new("no_scopes", StatusCode::FORBIDDEN, reason)
    }

    /// The directory of the tenant says that the person has left.
    pub fn deactivated() -> SignInRefusal {
        let reason = "The directory of your organization says that your account is not active. An administrator there \
                      activates it, or assigns it to this application; the directory sends that by SCIM.";
        SignInRefusal::new("deactivated", StatusCode::FORBIDDEN, reason)
    }

    /// The groups of the directory decide, and it has not sent the person.
    pub fn unknown_in_directory() -> SignInRefusal {
        let reason = "The groups of your organization's directory decide who may sign in, and it has not sent your account \
                      by SCIM yet, or with another externalId than the claim that `unslide sso show` names.";
        SignInRefusal::new("no_scopes", StatusCode::FORBIDDEN, reason)
    }

    /// The token lacks the claim by which the directory knows the person.
    pub fn no_directory_id(claim: &str) -> SignInRefusal {
        let reason = format!(
            "The token has no claim {claim}, by which the directory of your organization knows you. An administrator of your \
             tenant has the provider put it into ID tokens, or names another claim with `unslide sso set --directory-claim`."
        );
        SignInRefusal::new("no_scopes", StatusCode::FORBIDDEN, reason)
    }

    /// The provider failed, or its token is not valid. Strangers see the page, so that it names no server; the log does.
    pub fn from_provider(error: &ProviderError) -> SignInRefusal {
        let cause = Some(error.explain_causes());
        let refusal = match error {
            ProviderError::Token(wrong) => {
                let reason = format!("The identity provider's token is not valid: {wrong}.");
                SignInRefusal::new("token_refused", StatusCode::FORBIDDEN, reason)
            }
            ProviderError::Resting(_) | ProviderError::Fetch(FetchError::Unreachable(_)) => {
                let reason = "The identity provider does not answer. Try again in a few seconds.";
                SignInRefusal::new("provider_failed", StatusCode::BAD_GATEWAY, reason)
            }
            ProviderError::Fetch(_) | ProviderError::Answer(_) | ProviderError::Code(_) => {
                let reason = "The identity provider does not answer as it should. Try again, or ask an administrator of \
                              your tenant: `unslide sso show` says why.";
                SignInRefusal::new("provider_failed", StatusCode::BAD_GATEWAY, reason)
            }
        };
        SignInRefusal { cause, detail: Some(error.to_string()), ..refusal }
    }

    pub fn with_subject(self, subject: &str) -> SignInRefusal {
        SignInRefusal { subject: Some(subject.to_owned()), ..self }
    }

    pub fn with_next(self, next: Option<String>) -> SignInRefusal {
        SignInRefusal { next, ..self }
    }

    pub fn with_sign_out(self, sign_out: Option<String>) -> SignInRefusal {
        SignInRefusal { sign_out, ..self }
    }
}

/// Returns why none of a person's groups has scopes, and what an administrator changes.
fn explain_groups(provider: &SignInProvider, groups: &GroupClaim) -> String {
    let claim = &provider.group_claim;
    match groups {
        GroupClaim::Absent => format!(
            "The token has no claim {claim}, so your groups are not known. An administrator of your tenant has the provider \
             put it into ID tokens, or names another claim with `unslide sso set --group-claim`."
        ),
        GroupClaim::LeftOut => format!(
            "You are in more groups than Microsoft Entra puts into a token, so the token has no claim {claim}. An \
             administrator of your tenant limits the claim to the groups assigned to the application, or uses app roles with \
             `unslide sso set --group-claim roles`."
        ),
        GroupClaim::Unreadable => format!(
            "The claim {claim} of the token is neither a text, a list of texts nor an object of roles. An administrator of \
             your tenant names another claim with `unslide sso set --group-claim`; a dot leads into an object."
        ),
        GroupClaim::Groups(groups) if groups.is_empty() => {
            format!("The claim {claim} of the token is empty: the provider names no group of yours.")
        }
        GroupClaim::Groups(groups) => {
            let shown =
                groups.iter().take(MAX_NAMED_GROUPS).map(|group| one_line(group, MAX_GROUP_CHARACTERS));
            let shown = shown.collect::<Vec<_>>().join(", ");
            let more = match groups.len().saturating_sub(MAX_NAMED_GROUPS) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let is_path = |group: &str| {
                let leaf = group.rsplit('/').next();
                group.starts_with('/') && provider.rules.iter().any(|rule| Some(rule.group.as_str()) == leaf)
            };
            let hint = match groups.iter().find(|group| is_path(group)) {
                Some(path) => format!(
                    " The provider writes full paths: the rule must name {}.",
                    one_line(path, MAX_GROUP_CHARACTERS)
                ),
                None => String::new(),
            };
            format!(
                "None of your groups may use this console: no rule names {shown}{more}.{hint} Ask an administrator of your \
                 tenant."
            )
        }
    }
}

#[derive(Template)]
#[template(path = "people/failed.html", askama = escaping)]
struct FailedPage {
    shell: Shell,
    reason: String,
    again: String,
    other: String,
    sign_out: Option<String>,
}

/// Counts and logs a failed sign-in, records it for the tenant's administrators, and returns its page.
pub async fn refuse(
    storage: &Storage,
    people: &People,
    tenant: &TenantId,
    refusal: SignInRefusal,
) -> Response {
    people.count_outcome(refusal.outcome);
    let reason = refusal.cause.as_deref().unwrap_or(&refusal.reason);
    let (outcome, subject) = (refusal.outcome, refusal.subject.as_deref().unwrap_or_default());
    if outcome == "foreign_answer" {
        // Anyone can cause it at any time, without a provider.
        tracing::info!(%tenant, outcome, reason, "a person could not sign in");
    } else {
        tracing::warn!(%tenant, outcome, subject, reason, "a person could not sign in");
        let reason = refusal.detail.as_deref().unwrap_or(&refusal.reason);
        let new = NewFailure { outcome, subject: refusal.subject.as_deref(), reason };
        if let Err(problem) = record(storage, tenant, new).await {
            problem.log_fault("");
        }
    }
    render_failure(tenant, refusal)
}

async fn record(storage: &Storage, tenant: &TenantId, new: NewFailure<'_>) -> Result<(), Problem> {
    let mut tx = storage.tenant(tenant).await?;
    store::record_failure(&mut tx, new).await?;
    Ok(tx.commit().await?)
}

fn render_failure(tenant: &TenantId, refusal: SignInRefusal) -> Response {
    let (again, other) = retry_links(tenant, refusal.next.as_deref());
    let SignInRefusal { reason, sign_out, status, .. } = refusal;
    html_with(status, &FailedPage { shell: Shell::signed_out(), reason, again, other, sign_out })
}

/// Returns the page of a tenant at which no one signs in.
pub fn no_provider(tenant: &TenantId) -> Response {
    let reason = "There is no such tenant, or it has no identity provider. Sign in with a key.";
    render_failure(tenant, SignInRefusal::new("foreign_answer", StatusCode::NOT_FOUND, reason))
}
