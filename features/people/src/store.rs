//! The statements about identity providers and people.

use crate::identity::Identity;
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use std::collections::BTreeSet;
use time::OffsetDateTime;
use unslide_model::{KeyPreset, Scope, Secret};
use unslide_store::keys::{self, NewApiKey};
use unslide_store::sql::ScopesColumn;
use unslide_store::{Result, TenantTx, Uuid};
use utoipa::ToSchema;

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
    /// The scopes of groups.
    pub rules: Vec<SignInRule>,
    /// Hours from a sign-in to the end of its session.
    pub session_hours: i32,
    /// When the settings were changed last.
    pub changed_at: OffsetDateTime,
}

impl SignInProvider {
    /// Returns the scopes of a person with these groups.
    #[must_use]
    pub fn scopes_for(&self, groups: &BTreeSet<String>) -> Vec<Scope> {
        let fits = |rule: &&SignInRule| rule.group == EVERY_PERSON || groups.contains(&rule.group);
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
    rules: Json<Vec<SignInRule>>,
    session_hours: i32,
    changed_at: OffsetDateTime,
}

impl From<ProviderRow> for SignInProvider {
    fn from(row: ProviderRow) -> SignInProvider {
        SignInProvider {
            issuer: row.issuer,
            client_id: row.client_id,
            client_secret: Secret::new(row.client_secret),
            group_claim: row.group_claim,
            rules: row.rules.0,
            session_hours: row.session_hours,
            changed_at: row.changed_at,
        }
    }
}

/// Returns the provider of the transaction's tenant.
pub async fn get_provider(tx: &mut TenantTx) -> Result<Option<SignInProvider>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        ProviderRow,
        r#"SELECT issuer, client_id, client_secret, group_claim, rules AS "rules: Json<Vec<SignInRule>>", session_hours,
                  changed_at
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
                  changed_at
           FROM sign_in_providers WHERE tenant = $1 FOR SHARE"#,
        tenant
    );
    Ok(row.fetch_optional(connection).await?.map(SignInProvider::from))
}

/// Sets the provider of the transaction's tenant. With another issuer, the people of the one before lose their keys.
pub async fn set_provider(tx: &mut TenantTx, provider: &SignInProvider) -> Result<()> {
    let rules = serde_json::to_value(&provider.rules).unwrap_or_default();
    let (connection, tenant, now) = tx.parts();
    // First of all, because it waits for sign-ins that have read the settings before.
    sqlx::query!(
        "INSERT INTO sign_in_providers
             (tenant, issuer, client_id, client_secret, group_claim, rules, session_hours, changed_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (tenant) DO UPDATE SET issuer = $2, client_id = $3, client_secret = $4, group_claim = $5, rules = $6,
             session_hours = $7, changed_at = $8",
        tenant,
        provider.issuer,
        provider.client_id,
        provider.client_secret.reveal(),
        provider.group_claim,
        rules,
        provider.session_hours,
        now
    )
    .execute(connection)
    .await?;
    revoke_people(tx, Some(&provider.issuer)).await
}

/// Removes the provider of the transaction's tenant, and revokes the keys of its people: their sessions end. Returns
/// its issuer.
pub async fn remove_provider(tx: &mut TenantTx) -> Result<Option<String>> {
    let (connection, tenant, _) = tx.parts();
    let removed =
        sqlx::query_scalar!("DELETE FROM sign_in_providers WHERE tenant = $1 RETURNING issuer", tenant);
    let removed = removed.fetch_optional(connection).await?;
    revoke_people(tx, None).await?;
    Ok(removed)
}

/// Returns the keys of the tenant's people.
pub async fn list_person_keys(tx: &mut TenantTx) -> Result<Vec<Uuid>> {
    let (connection, tenant, _) = tx.parts();
    let keys = sqlx::query_scalar!("SELECT key_id FROM people WHERE tenant = $1", tenant);
    Ok(keys.fetch_all(connection).await?)
}

/// Revokes the keys of people of other issuers than one.
async fn revoke_people(tx: &mut TenantTx, except: Option<&str>) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE api_keys k SET revoked_at = $3 FROM people p
         WHERE k.tenant = $1 AND p.tenant = $1 AND p.key_id = k.id AND k.revoked_at IS NULL
           AND ($2::text IS NULL OR p.issuer <> $2)",
        tenant,
        except,
        now
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM people WHERE tenant = $1 AND ($2::text IS NULL OR issuer <> $2)",
        tenant,
        except
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// A person who has signed in.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PersonEntry {
    /// Id of the key that the person acts by, as the audit log names them. Its revocation ends their sessions.
    pub key_id: Uuid,
    /// The person's name at the last sign-in. It identifies no one.
    #[schema(example = "Robin Ito")]
    pub name: String,
    /// The issuer of the person's tokens.
    #[schema(example = "https://login.example.com")]
    pub issuer: String,
    /// The issuer's id of the person.
    #[schema(example = "248289761001")]
    pub subject: String,
    /// The person's scopes at the last sign-in.
    #[schema(value_type = Vec<String>, max_items = 8, example = json!(["reports:read"]))]
    pub scopes: Vec<Scope>,
    /// Number of valid keys that the person made, and that these made.
    pub keys_in_force: i64,
    /// When the key was created (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When the person signed in last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub last_sign_in_at: OffsetDateTime,
    /// When the key was revoked (RFC 3339); absent if it was not.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<OffsetDateTime>,
}

/// Returns people of the transaction's tenant, in the order of their keys, after a position.
pub async fn list_people(
    tx: &mut TenantTx,
    after: Option<(OffsetDateTime, Uuid)>,
    limit: u32,
) -> Result<Vec<PersonEntry>> {
    let (connection, tenant, now) = tx.parts();
    let (at, id) = after.unzip();
    let people = sqlx::query_as!(
        PersonEntry,
        r#"SELECT k.id AS key_id, k.name, p.issuer, p.subject, k.scopes AS "scopes: ScopesColumn",
                  (SELECT count(*) FROM unslide_made_keys(k.id, $1, $2)) AS "keys_in_force!",
                  k.created_at, p.last_sign_in_at, k.revoked_at
           FROM people p JOIN api_keys k ON k.tenant = $1 AND k.id = p.key_id
           WHERE p.tenant = $1 AND ($3::timestamptz IS NULL OR (k.created_at, k.id) > ($3, $4::uuid))
           ORDER BY k.created_at, k.id LIMIT $5"#,
        tenant,
        now,
        at,
        id,
        i64::from(limit)
    );
    Ok(people.fetch_all(connection).await?)
}

/// Returns the key of a person who has signed in before.
pub async fn find_person_key(tx: &mut TenantTx, identity: &Identity) -> Result<Option<Uuid>> {
    let (connection, tenant, _) = tx.parts();
    let key = sqlx::query_scalar!(
        "SELECT key_id FROM people WHERE tenant = $1 AND issuer = $2 AND subject = $3",
        tenant,
        identity.issuer,
        identity.subject
    );
    Ok(key.fetch_optional(connection).await?)
}

/// Records a sign-in: the person's key gets these scopes and this name. Returns the key. A person without a key in force
/// gets one from `entropy`.
pub async fn record_sign_in(
    tx: &mut TenantTx,
    identity: &Identity,
    scopes: &[Scope],
    entropy: &[u8; 30],
) -> Result<Uuid> {
    let names: Vec<String> = scopes.iter().map(Scope::to_string).collect();
    let (connection, tenant, now) = tx.parts();
    // Two sign-ins at once must not make two keys.
    sqlx::query!(
        "SELECT pg_advisory_xact_lock(hashtextextended('person ' || $1 || ' ' || $2 || ' ' || $3, 0))",
        tenant,
        identity.issuer,
        identity.subject
    )
    .execute(&mut *connection)
    .await?;
    let known = sqlx::query_scalar!(
        "UPDATE api_keys k SET scopes = $4, name = $5 FROM people p
         WHERE p.tenant = $1 AND p.issuer = $2 AND p.subject = $3 AND k.tenant = $1 AND k.id = p.key_id
           AND k.revoked_at IS NULL
         RETURNING k.id",
        tenant,
        identity.issuer,
        identity.subject,
        &names,
        identity.name
    )
    .fetch_optional(connection)
    .await?;
    let key_id = match known {
        Some(id) => id,
        None => {
            let new = NewApiKey {
                name: identity.name.clone(),
                scopes: scopes.to_vec(),
                app: None,
                expires_at: None,
            };
            // The text of the key is dropped: only sessions act by it.
            keys::create_key(tx, &new, entropy).await?.0.id
        }
    };
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO people (tenant, issuer, subject, key_id, last_sign_in_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (tenant, issuer, subject) DO UPDATE SET key_id = $4, last_sign_in_at = $5",
        tenant,
        identity.issuer,
        identity.subject,
        key_id,
        now
    )
    .execute(connection)
    .await?;
    Ok(key_id)
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
            rules: vec![
                rule("team", &[], Some(KeyPreset::Triager)),
                rule("leads", &[Scope::TenantAdmin, Scope::Operator], None),
                rule("operator", &[Scope::Operator], None),
            ],
            session_hours: 12,
            changed_at: OffsetDateTime::UNIX_EPOCH,
        };
        let scopes = |groups: &[&str]| {
            provider.scopes_for(&groups.iter().map(|group| (*group).to_owned()).collect::<BTreeSet<_>>())
        };
        assert_eq!(scopes(&["leads"]), [Scope::TenantAdmin]);
        assert_eq!(scopes(&["team", "leads", "other"]).len(), KeyPreset::Triager.scopes().len() + 1);
        assert_eq!(scopes(&["operator"]), []);
        let mut open = provider.clone();
        open.rules.push(rule(EVERY_PERSON, &[Scope::ReportsRead], None));
        assert_eq!(open.scopes_for(&BTreeSet::new()), [Scope::ReportsRead]);
    }
}
