//! The statements about people who have signed in, and about the keys that they act by.

use crate::identity::Identity;
use serde::Serialize;
use time::{Duration, OffsetDateTime};
use unslide_model::Scope;
use unslide_store::keys::{self, NewApiKey};
use unslide_store::sql::ScopesColumn;
use unslide_store::{Result, TenantTx, Uuid};
use utoipa::ToSchema;

/// How long a person has been away when their key is retired. A session lasts a day at most.
const RETIRED_AFTER: Duration = Duration::days(90);
/// Characters of a subject that tell people of one name apart.
const SUBJECT_CHARACTERS: usize = 8;

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
           FROM people p JOIN keys k ON k.tenant = $1 AND k.id = p.key_id
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

/// Returns the keys of the tenant's people.
pub async fn list_person_keys(tx: &mut TenantTx) -> Result<Vec<Uuid>> {
    let (connection, tenant, _) = tx.parts();
    let keys = sqlx::query_scalar!("SELECT key_id FROM people WHERE tenant = $1", tenant);
    Ok(keys.fetch_all(connection).await?)
}

/// Returns the keys of the people of an issuer, or of one of them.
pub async fn find_keys_of(tx: &mut TenantTx, issuer: &str, subject: Option<&str>) -> Result<Vec<Uuid>> {
    let (connection, tenant, _) = tx.parts();
    let keys = sqlx::query_scalar!(
        "SELECT key_id FROM people WHERE tenant = $1 AND issuer = $2 AND ($3::text IS NULL OR subject = $3)",
        tenant,
        issuer,
        subject
    );
    Ok(keys.fetch_all(connection).await?)
}

/// Returns the key of a person who has signed in before.
pub async fn find_person_key(tx: &mut TenantTx, identity: &Identity) -> Result<Option<Uuid>> {
    Ok(find_keys_of(tx, &identity.issuer, Some(&identity.subject)).await?.pop())
}

/// Forgets the ids that the directory has for people: the next sign-in of each has the right one.
pub async fn forget_directory_ids(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("UPDATE people SET directory_id = NULL WHERE tenant = $1", tenant)
        .execute(connection)
        .await?;
    Ok(())
}

/// Retires the keys of people of other issuers than one.
pub(super) async fn retire_people(tx: &mut TenantTx, except: Option<&str>) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "WITH retired AS (
             UPDATE keys k SET revoked_at = $3 FROM people p
             WHERE k.tenant = $1 AND p.tenant = $1 AND p.key_id = k.id AND k.revoked_at IS NULL
               AND ($2::text IS NULL OR p.issuer <> $2)
             RETURNING k.id)
         UPDATE people p SET retired_at = $3 FROM retired r WHERE p.tenant = $1 AND p.key_id = r.id",
        tenant,
        except,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Retires the keys of people who have long been away and made no keys that are in force: they count among the tenant's.
async fn retire_absent_people(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "WITH retired AS (
             UPDATE keys k SET revoked_at = $2 FROM people p
             WHERE k.tenant = $1 AND p.tenant = $1 AND p.key_id = k.id AND k.revoked_at IS NULL
               AND p.last_sign_in_at < $3 AND NOT EXISTS (SELECT FROM unslide_made_keys(k.id, $1, $2))
             RETURNING k.id)
         UPDATE people p SET retired_at = $2 FROM retired r WHERE p.tenant = $1 AND p.key_id = r.id",
        tenant,
        now,
        now - RETIRED_AFTER
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the name by which the person is shown: with the beginning of the subject if another person in force has the same
/// name.
async fn choose_name(tx: &mut TenantTx, identity: &Identity) -> Result<String> {
    let (connection, tenant, _) = tx.parts();
    let is_taken = sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM people p JOIN keys k ON k.tenant = $1 AND k.id = p.key_id
               WHERE p.tenant = $1 AND k.revoked_at IS NULL AND k.name = $2 AND (p.issuer, p.subject) <> ($3, $4)
           ) AS "is_taken!""#,
        tenant,
        identity.name,
        identity.issuer,
        identity.subject
    );
    if !is_taken.fetch_one(connection).await? {
        return Ok(identity.name.clone());
    }
    let start: String = identity.subject.chars().take(SUBJECT_CHARACTERS).collect();
    Ok(format!("{} ({start})", identity.name))
}

/// Records a sign-in: the person's key gets these scopes and this name. Returns the key and the name. A person without a key
/// in force gets one from `entropy`, as if `made_by` had made it; a retired key comes back into force.
pub async fn record_sign_in(
    tx: &mut TenantTx,
    identity: &Identity,
    scopes: &[Scope],
    made_by: Option<Uuid>,
    entropy: &[u8; 30],
) -> Result<(Uuid, String)> {
    let names: Vec<String> = scopes.iter().map(Scope::to_string).collect();
    let (connection, tenant, now) = tx.parts();
    // Two sign-ins at once must not make two keys, and two people must not get one name.
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('people of ' || $1::text, 0))", tenant)
        .execute(connection)
        .await?;
    let name = choose_name(tx, identity).await?;
    let (connection, tenant, _) = tx.parts();
    let known = sqlx::query_scalar!(
        "UPDATE keys k SET scopes = $4, name = $5, revoked_at = NULL FROM people p
         WHERE p.tenant = $1 AND p.issuer = $2 AND p.subject = $3 AND k.tenant = $1 AND k.id = p.key_id
           AND (k.revoked_at IS NULL OR k.revoked_at = p.retired_at)
         RETURNING k.id",
        tenant,
        identity.issuer,
        identity.subject,
        &names,
        name
    )
    .fetch_optional(connection)
    .await?;
    let key_id = match known {
        Some(id) => id,
        None => {
            retire_absent_people(tx).await?;
            let new = NewApiKey { name: name.clone(), scopes: scopes.to_vec(), app: None, expires_at: None };
            // The text of the key is dropped: only sessions act by it.
            keys::create_for_person(tx, &new, entropy, made_by).await?.id
        }
    };
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO people (tenant, issuer, subject, key_id, last_sign_in_at, directory_id) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (tenant, issuer, subject)
         DO UPDATE SET key_id = $4, last_sign_in_at = $5, retired_at = NULL, directory_id = $6",
        tenant,
        identity.issuer,
        identity.subject,
        key_id,
        now,
        identity.directory_id
    )
    .execute(connection)
    .await?;
    Ok((key_id, name))
}
