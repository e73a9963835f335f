//! The accounts as which people of a workspace act.

use crate::ids::SlackAccountKeyId;
use ring::digest::{SHA256, digest};
use time::{Duration, OffsetDateTime};
use unslide_model::Scope;
use unslide_store::{KeyId, Result, TenantTx};

/// How long a link to the console works.
const LINK_LIFETIME: Duration = Duration::minutes(15);
/// How long a person acts without signing in again: an account that ended at the identity provider must not act on.
const ACCOUNT_LIFETIME: Duration = Duration::days(30);

/// A person of a workspace, with an account and its key, which is in force.
#[derive(Clone, Debug)]
pub struct SlackPerson {
    pub key_id: SlackAccountKeyId,
    pub name: String,
    /// True if the key may change groups.
    pub can_change: bool,
    /// The only app of the key.
    pub app: Option<String>,
}

/// A link to the console that connects a person of a workspace to an account.
#[derive(Clone, Debug)]
pub struct SlackLink {
    pub team: String,
    pub slack_user: String,
    pub user_name: String,
    pub ends_at: OffsetDateTime,
}

/// Returns the account of a person, if its key is in force.
pub async fn find_person(tx: &mut TenantTx, team: &str, slack_user: &str) -> Result<Option<SlackPerson>> {
    let (connection, tenant, now) = tx.parts();
    let person = sqlx::query_as!(
        SlackPerson,
        r#"SELECT p.key_id AS "key_id: SlackAccountKeyId", p.name, $5 = ANY (k.scopes) AS "can_change!", k.apps[1] AS app
           FROM slack_people p JOIN keys k ON k.tenant = $1 AND k.id = p.key_id AND k.kind = 'api'
           WHERE p.tenant = $1 AND p.team = $2 AND p.slack_user = $3 AND p.ends_at > $4
             AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $4)"#,
        tenant,
        team,
        slack_user,
        now,
        Scope::GroupsWrite.as_str()
    );
    Ok(person.fetch_optional(connection).await?)
}

/// Returns the hash by which a link is stored.
#[must_use]
pub fn hash_link_token(token: &[u8; 32]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token).as_ref());
    hash
}

/// Stores a link by the hash of its token.
pub async fn add_link(
    tx: &mut TenantTx,
    token_hash: &[u8; 32],
    team: &str,
    slack_user: &str,
    user_name: &str,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "WITH former AS (DELETE FROM slack_links WHERE tenant = $1 AND team = $3 AND slack_user = $4 RETURNING 1)
         INSERT INTO slack_links (tenant, token_hash, team, slack_user, user_name, ends_at)
         SELECT $1, $2, $3, $4, $5, $6 FROM (SELECT count(*) FROM former) f",
        tenant,
        token_hash.as_slice(),
        team,
        slack_user,
        user_name,
        now + LINK_LIFETIME
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns a link that works.
pub async fn find_link(tx: &mut TenantTx, token_hash: &[u8; 32]) -> Result<Option<SlackLink>> {
    let (connection, tenant, now) = tx.parts();
    let link = sqlx::query_as!(
        SlackLink,
        "SELECT team, slack_user, user_name, ends_at FROM slack_links WHERE tenant = $1 AND token_hash = $2 AND ends_at > $3",
        tenant,
        token_hash.as_slice(),
        now
    );
    Ok(link.fetch_optional(connection).await?)
}

/// Takes a link that works: it works no second time.
pub async fn use_link(tx: &mut TenantTx, token_hash: &[u8; 32]) -> Result<Option<SlackLink>> {
    let (connection, tenant, now) = tx.parts();
    let link = sqlx::query_as!(
        SlackLink,
        "DELETE FROM slack_links WHERE tenant = $1 AND token_hash = $2 AND ends_at > $3
         RETURNING team, slack_user, user_name, ends_at",
        tenant,
        token_hash.as_slice(),
        now
    );
    Ok(link.fetch_optional(connection).await?)
}

/// Has a person of a workspace act as the account of a key.
pub async fn link_person(
    tx: &mut TenantTx,
    link: &SlackLink,
    key_id: SlackAccountKeyId,
    name: &str,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO slack_people (tenant, team, slack_user, key_id, name, ends_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (tenant, team, slack_user) DO UPDATE SET key_id = $4, name = $5, ends_at = $6",
        tenant,
        link.team,
        link.slack_user,
        key_id as SlackAccountKeyId,
        name,
        now + ACCOUNT_LIFETIME
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends the accounts of keys: their people connect them again, if they may still sign in.
pub(super) async fn end_accounts(tx: &mut TenantTx, keys: &[KeyId]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    let ended = sqlx::query!(
        "DELETE FROM slack_people WHERE tenant = $1 AND key_id = ANY ($2)",
        tenant,
        keys as &[KeyId]
    );
    ended.execute(connection).await?;
    Ok(())
}
