//! The statements about identity providers and people.

mod failures;
mod hints;
mod leaving;
mod notices;
mod people;

pub use failures::{KEPT_FOR, NewFailure, SignInFailure, list_failures, record_failure};
pub use hints::{add_sign_out_hint, take_sign_out_hint};
pub use notices::record_notice;
pub use people::{
    PersonEntry, find_keys_of, find_person_key, forget_directory_ids, list_people, list_person_keys,
    record_sign_in,
};

use crate::NAME;
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use std::collections::BTreeSet;
use time::{Duration, OffsetDateTime};
use unslide_model::{KeyPreset, Scope, Secret};
use unslide_store::tables::OwnedTable;
use unslide_store::{Result, StoreHook, TenantTx, Uuid};
use utoipa::ToSchema;

/// The tables of the feature, and its part in transactions that change the directory of a tenant.
pub const PEOPLE_HOOK: StoreHook = StoreHook {
    tables: &[
        OwnedTable::new("sign_in_providers"),
        OwnedTable::new("people"),
        OwnedTable::kept_for("sign_in_failures", KEPT_FOR),
        OwnedTable::kept_for("sign_out_hints", Duration::ZERO),
        OwnedTable::kept_for("sign_out_notices", notices::NOTICES_KEPT_FOR),
    ],
    on_event: Some(|event| Box::pin(leaving::act_on_event(event))),
    ..StoreHook::new(NAME)
};

/// Rules of one provider.
pub const MAX_RULES: usize = 50;
/// The group of a rule that is for every person of the provider.
pub const EVERY_PERSON: &str = "*";

/// The scopes of a group's members.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignInRule {
    /// The group, as the provider names it in the claim; `*` for every person.
    #[schema(min_length = 1, max_length = 200, example = "crash-team")]
    pub group: String,
    /// Scopes of its members. Absent with a preset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, max_items = 8, example = json!(["reports:read"]))]
    pub scopes: Vec<Scope>,
    /// The preset of keys that its members have, instead of scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "triager")]
    pub preset: Option<KeyPreset>,
}

impl SignInRule {
    /// Returns the scopes of the group's members.
    pub fn granted_scopes(&self) -> impl Iterator<Item = Scope> {
        let preset = self.preset.map(KeyPreset::scopes).unwrap_or_default();
        self.scopes.iter().chain(preset).copied()
    }
}

/// The identity provider of a tenant.
#[derive(Clone, Debug)]
pub struct SignInProvider {
    /// The issuer's URL, which tokens name.
    pub issuer: String,
    /// The client as the provider knows it.
    pub client_id: String,
    /// Empty for a public client.
    pub client_secret: Secret,
    /// The claim that names a person's groups.
    pub group_claim: String,
    /// The claim with the id that the directory of the tenant has for a person; the subject if absent.
    pub directory_claim: Option<String>,
    /// True if the groups of the directory decide, and not those of tokens.
    pub uses_directory_groups: bool,
    /// True if the provider leads a person back after a sign-out there.
    pub returns_after_sign_out: bool,
    /// The scopes that sign-ins request; chosen by the provider's document if absent.
    pub scopes: Option<Vec<String>>,
    /// The scopes of groups.
    pub rules: Vec<SignInRule>,
    /// Hours from a sign-in to the end of its session.
    pub session_hours: i32,
    /// When the settings were changed last.
    pub changed_at: OffsetDateTime,
    /// The key that changed them; None for settings of earlier versions.
    pub set_by: Option<Uuid>,
}

impl SignInProvider {
    /// Returns the scopes of a person with these groups.
    #[must_use]
    pub fn scopes_for<'g>(&self, groups: impl IntoIterator<Item = &'g str>) -> Vec<Scope> {
        let groups: BTreeSet<&str> = groups.into_iter().collect();
        let fits = |rule: &&SignInRule| rule.group == EVERY_PERSON || groups.contains(rule.group.as_str());
        let scopes: BTreeSet<Scope> =
            self.rules.iter().filter(fits).flat_map(SignInRule::granted_scopes).collect();
        // An identity provider of a tenant makes no operators, whatever its settings say.
        scopes.into_iter().filter(|scope| *scope != Scope::Operator).collect()
    }
}

struct ProviderRow {
    issuer: String,
    client_id: String,
    client_secret: String,
    group_claim: String,
    directory_claim: Option<String>,
    uses_directory_groups: bool,
    returns_after_sign_out: bool,
    scopes: Option<Vec<String>>,
    rules: Json<Vec<SignInRule>>,
    session_hours: i32,
    changed_at: OffsetDateTime,
    set_by: Option<Uuid>,
}

impl From<ProviderRow> for SignInProvider {
    fn from(row: ProviderRow) -> SignInProvider {
        SignInProvider {
            issuer: row.issuer,
            client_id: row.client_id,
            client_secret: Secret::new(row.client_secret),
            group_claim: row.group_claim,
            directory_claim: row.directory_claim,
            uses_directory_groups: row.uses_directory_groups,
            returns_after_sign_out: row.returns_after_sign_out,
            scopes: row.scopes,
            rules: row.rules.0,
            session_hours: row.session_hours,
            changed_at: row.changed_at,
            set_by: row.set_by,
        }
    }
}

/// Returns the provider of the transaction's tenant.
pub async fn get_provider(tx: &mut TenantTx) -> Result<Option<SignInProvider>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        ProviderRow,
        r#"SELECT issuer, client_id, client_secret, group_claim, rules AS "rules: Json<Vec<SignInRule>>", session_hours,
                  changed_at, scopes, set_by, directory_claim, uses_directory_groups,
                  returns_after_sign_out
           FROM sign_in_providers WHERE tenant = $1"#,
        tenant
    );
    Ok(row.fetch_optional(connection).await?.map(SignInProvider::from))
}

/// Returns the provider as [`get_provider`] does, and keeps others from changing it until the transaction ends.
pub async fn lock_provider(tx: &mut TenantTx) -> Result<Option<SignInProvider>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        ProviderRow,
        r#"SELECT issuer, client_id, client_secret, group_claim, rules AS "rules: Json<Vec<SignInRule>>", session_hours,
                  changed_at, scopes, set_by, directory_claim, uses_directory_groups,
                  returns_after_sign_out
           FROM sign_in_providers WHERE tenant = $1 FOR SHARE"#,
        tenant
    );
    Ok(row.fetch_optional(connection).await?.map(SignInProvider::from))
}

/// Sets the provider of the transaction's tenant. With another issuer, the keys of the people of the one before are retired.
pub async fn set_provider(tx: &mut TenantTx, provider: &SignInProvider) -> Result<()> {
    let rules = serde_json::to_value(&provider.rules).unwrap_or_default();
    let (connection, tenant, now) = tx.parts();
    // First of all, because it waits for sign-ins that have read the settings before.
    sqlx::query!(
        "INSERT INTO sign_in_providers
             (tenant, issuer, client_id, client_secret, group_claim, rules, session_hours, changed_at, scopes, set_by,
              directory_claim, uses_directory_groups, returns_after_sign_out)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (tenant) DO UPDATE SET issuer = $2, client_id = $3, client_secret = $4, group_claim = $5, rules = $6,
             session_hours = $7, changed_at = $8, scopes = $9, set_by = $10, directory_claim = $11,
             uses_directory_groups = $12, returns_after_sign_out = $13",
        tenant,
        provider.issuer,
        provider.client_id,
        provider.client_secret.reveal(),
        provider.group_claim,
        rules,
        provider.session_hours,
        now,
        provider.scopes.as_deref(),
        provider.set_by,
        provider.directory_claim,
        provider.uses_directory_groups,
        provider.returns_after_sign_out
    )
    .execute(connection)
    .await?;
    people::retire_people(tx, Some(&provider.issuer)).await
}

/// Removes the provider of the transaction's tenant, and retires the keys of its people. Returns its issuer.
pub async fn remove_provider(tx: &mut TenantTx) -> Result<Option<String>> {
    let (connection, tenant, _) = tx.parts();
    let removed =
        sqlx::query_scalar!("DELETE FROM sign_in_providers WHERE tenant = $1 RETURNING issuer", tenant);
    let removed = removed.fetch_optional(connection).await?;
    people::retire_people(tx, None).await?;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(group: &str, scopes: &[Scope], preset: Option<KeyPreset>) -> SignInRule {
        SignInRule { group: group.to_owned(), scopes: scopes.to_vec(), preset }
    }

    #[test]
    fn scopes_are_those_of_all_rules_that_fit_and_never_operator() {
        let provider = SignInProvider {
            issuer: "https://login.example.com".to_owned(),
            client_id: "unslide".to_owned(),
            client_secret: Secret::default(),
            group_claim: "groups".to_owned(),
            directory_claim: None,
            uses_directory_groups: false,
            returns_after_sign_out: false,
            scopes: None,
            rules: vec![
                rule("team", &[], Some(KeyPreset::Triager)),
                rule("leads", &[Scope::TenantAdmin, Scope::Operator], None),
                rule("operator", &[Scope::Operator], None),
            ],
            session_hours: 12,
            changed_at: OffsetDateTime::UNIX_EPOCH,
            set_by: None,
        };
        let scopes = |groups: &[&str]| provider.scopes_for(groups.iter().copied());
        assert_eq!(scopes(&["leads"]), [Scope::TenantAdmin]);
        assert_eq!(scopes(&["team", "leads", "other"]).len(), KeyPreset::Triager.scopes().len() + 1);
        assert_eq!(scopes(&["operator"]), []);
        let mut open = provider.clone();
        open.rules.push(rule(EVERY_PERSON, &[Scope::ReportsRead], None));
        assert_eq!(open.scopes_for([]), [Scope::ReportsRead]);
    }
}
