//! People whom the directory of the tenant has changed: those who left lose their access at once, and those in other groups have
//! the scopes of these from then on.

use super::SignInProvider;
use std::collections::HashMap;
use unslide_model::Scope;
use unslide_site::end_sessions_of_keys;
use unslide_store::directory::{DirectoryChange, DirectoryEntry};
use unslide_store::{KeyId, Result, StoreEvent, TenantTx, audit};

/// Acts on an event of the store.
pub async fn act_on_event(event: &mut StoreEvent<'_>) -> Result<()> {
    match event {
        StoreEvent::DirectoryChanged(tx, change) => apply_change(tx, *change).await,
        _ => Ok(()),
    }
}

/// Ends the access of people who have left, and gives the others the scopes of their groups.
async fn apply_change(tx: &mut TenantTx, change: DirectoryChange<'_>) -> Result<()> {
    let Some(provider) = super::get_provider(tx).await? else { return Ok(()) };
    let keys = find_keys(tx, &provider.issuer, change.entries).await?;
    let (mut left, mut without_scopes, mut scoped) = (Vec::new(), Vec::new(), Vec::new());
    for entry in change.entries {
        for key in keys.get(entry.id.as_str()).into_iter().flatten() {
            if !entry.is_active {
                left.push(*key);
            } else if provider.uses_directory_groups {
                match scopes_text(&provider, entry) {
                    Some(scopes) => scoped.push((*key, scopes)),
                    None => without_scopes.push(*key),
                }
            }
        }
    }
    set_scopes(tx, scoped).await?;
    end_sessions(tx, &without_scopes).await?;
    revoke_people(tx, &left, change.actor).await
}

async fn end_sessions(tx: &mut TenantTx, keys: &[KeyId]) -> Result<()> {
    let keys: Vec<_> = keys.iter().map(|key| key.uuid()).collect();
    end_sessions_of_keys(tx, &keys).await
}

/// Returns the scopes of a person, separated by spaces; None if there are none.
fn scopes_text(provider: &SignInProvider, entry: &DirectoryEntry) -> Option<String> {
    let scopes = provider.scopes_for(entry.groups.iter().map(String::as_str));
    let words: Vec<&str> = scopes.into_iter().map(Scope::as_str).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns the keys of people of an issuer by the id that the directory has for them.
async fn find_keys(
    tx: &mut TenantTx,
    issuer: &str,
    entries: &[DirectoryEntry],
) -> Result<HashMap<String, Vec<KeyId>>> {
    let ids: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT coalesce(directory_id, subject) AS "id!", key_id AS "key_id: KeyId" FROM people
           WHERE tenant = $1 AND issuer = $2 AND coalesce(directory_id, subject) = ANY ($3)"#,
        tenant,
        issuer,
        &ids
    );
    let mut keys: HashMap<String, Vec<KeyId>> = HashMap::new();
    for row in rows.fetch_all(connection).await? {
        keys.entry(row.id).or_default().push(row.key_id);
    }
    Ok(keys)
}

/// Locks keys in the order in which all writers lock them.
async fn lock_keys(tx: &mut TenantTx, keys: &[KeyId]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "SELECT FROM keys WHERE tenant = $1 AND id = ANY ($2) ORDER BY id FOR UPDATE",
        tenant,
        keys as &[KeyId]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Sets the scopes of keys in force. Their sessions have these from the next request on.
async fn set_scopes(tx: &mut TenantTx, scoped: Vec<(KeyId, String)>) -> Result<()> {
    if scoped.is_empty() {
        return Ok(());
    }
    let (keys, scopes): (Vec<KeyId>, Vec<String>) = scoped.into_iter().unzip();
    lock_keys(tx, &keys).await?;
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE keys k SET scopes = string_to_array(n.scopes, ' ') FROM unnest($2::uuid[], $3::text[]) n (id, scopes)
         WHERE k.tenant = $1 AND k.id = n.id AND k.revoked_at IS NULL",
        tenant,
        &keys as &[KeyId],
        &scopes
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Revokes the keys of people with the keys that they made, and ends their sessions. Keys by which other people act stay, even if
/// a person who left has set the identity provider. The next sign-in of a person takes their own key back into force.
async fn revoke_people(tx: &mut TenantTx, people: &[KeyId], actor: &str) -> Result<()> {
    if people.is_empty() {
        return Ok(());
    }
    let (connection, tenant, _) = tx.parts();
    // Waits for keys that are being made by these people, as the revocation of a key with those that it made does.
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('makers of keys', 0))")
        .execute(&mut *connection)
        .await?;
    let keys = sqlx::query_scalar!(
        r#"WITH RECURSIVE made AS (
               SELECT unnest($2::uuid[]) AS id
               UNION
               SELECT k.id FROM made m JOIN keys k ON k.tenant = $1 AND k.made_by = m.id
               WHERE NOT EXISTS (SELECT FROM people p WHERE p.tenant = $1 AND p.key_id = k.id)
           )
           SELECT id AS "id!: KeyId" FROM made"#,
        tenant,
        people as &[KeyId]
    )
    .fetch_all(connection)
    .await?;
    lock_keys(tx, &keys).await?;
    let (connection, tenant, now) = tx.parts();
    let revoked = sqlx::query_scalar!(
        r#"UPDATE keys SET revoked_at = $3 WHERE tenant = $1 AND id = ANY ($2) AND revoked_at IS NULL
           RETURNING id AS "id: KeyId""#,
        tenant,
        &keys as &[KeyId],
        now
    )
    .fetch_all(&mut *connection)
    .await?;
    sqlx::query!(
        "UPDATE people SET retired_at = $3 WHERE tenant = $1 AND key_id = ANY ($2)",
        tenant,
        &revoked as &[KeyId],
        now
    )
    .execute(connection)
    .await?;
    let subjects: Vec<String> = revoked.iter().map(KeyId::to_string).collect();
    let detail = serde_json::json!({"left": true});
    audit::append_entries(tx, actor, "key.revoke", &subjects, &detail).await?;
    end_sessions(tx, &keys).await
}
