//! Keys that requests present, and who they belong to.

use super::api_text::HashedText;
use super::kinds::{KeyKind, KeyPlace};
use super::{API_KEYS, Principal, api_text, is_usable, path_text};
use crate::column::{JsonColumn, ScopesColumn, TenantColumn};
use crate::tenants::{QuotaLimits, TenantStanding};
use crate::{Result, Store, Uuid};
use std::collections::HashMap;
use subtle::ConstantTimeEq;
use time::OffsetDateTime;
use unslide_model::{Scope, TenantId};

/// The kind of a key, the public part of its text and a hash of its secret: enough to look the key up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyProof {
    kind: &'static KeyKind,
    prefix: String,
    hash: [u8; 32],
}

impl KeyProof {
    /// Reads the text of a key of a kind; `None` for any other text. A text with a wrong form costs no look-up.
    #[must_use]
    pub fn parse(kind: &'static KeyKind, text: &str) -> Option<KeyProof> {
        let hashed = match kind.place {
            KeyPlace::Header => api_text::hash_text(text),
            KeyPlace::Path(_) | KeyPlace::HeaderBelow(_) => path_text::hash_text(kind, text),
        };
        hashed.map(|HashedText { prefix, hash }| KeyProof { kind, prefix, hash })
    }

    /// Returns the kind that the key was presented as.
    #[must_use]
    pub fn kind(&self) -> &'static KeyKind {
        self.kind
    }
}

/// A key in force and what its tenant may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOwner {
    /// The kind of the key.
    pub kind: &'static KeyKind,
    /// The id of the key's row.
    pub key_id: Uuid,
    /// Names the key in logs and dead letters.
    pub prefix: String,
    /// The key's tenant.
    pub tenant: TenantId,
    /// The version of the tenant: each change of its state, limits and grouping rules changes it.
    pub tenant_version: i64,
    /// False if the tenant is suspended.
    pub active: bool,
    /// The key's scopes.
    pub scopes: Vec<Scope>,
    /// The apps that the key is for; empty for all.
    pub apps: Vec<String>,
    /// When the key expires.
    pub expires_at: Option<OffsetDateTime>,
    /// The limits of the key's tenant.
    pub limits: QuotaLimits,
    /// When the key was used last, as far as that is written.
    pub last_used_at: Option<OffsetDateTime>,
}

impl KeyOwner {
    /// Returns the principal of an API key; `None` for a key of another kind, which gives no operation of the API.
    #[must_use]
    pub fn into_principal(self) -> Option<Principal> {
        (*self.kind == API_KEYS).then(|| Principal {
            tenant: self.tenant,
            tenant_version: self.tenant_version,
            active: self.active,
            key_id: self.key_id,
            scopes: self.scopes,
            app: self.apps.into_iter().next(),
            expires_at: self.expires_at,
            limits: self.limits,
            last_used_at: self.last_used_at,
        })
    }
}

/// A key and its tenant as the database has them.
struct OwnerRow {
    kind: String,
    prefix: String,
    key_hash: Vec<u8>,
    id: Uuid,
    tenant: TenantId,
    tenant_version: i64,
    scopes: Vec<Scope>,
    apps: Vec<String>,
    expires_at: Option<OffsetDateTime>,
    revoked_at: Option<OffsetDateTime>,
    last_used_at: Option<OffsetDateTime>,
    standing: TenantStanding,
    limits: QuotaLimits,
}

/// Selects the rows of keys by their kinds and prefixes. The end of the statement says who sends it.
macro_rules! owner_rows {
    ($store:expr, $proofs:expr, $end:tt) => {{
        let kinds: Vec<String> = $proofs.iter().map(|proof| proof.kind.name.to_owned()).collect();
        let prefixes: Vec<String> = $proofs.iter().map(|proof| proof.prefix.clone()).collect();
        sqlx::query_as!(
            OwnerRow,
            r#"SELECT kind AS "kind!", prefix AS "prefix!", key_hash AS "key_hash!", id AS "id!",
                      tenant AS "tenant!: TenantColumn", tenant_version AS "tenant_version!",
                      scopes AS "scopes!: ScopesColumn", apps AS "apps!", expires_at, revoked_at, last_used_at,
                      tenant_state AS "standing!: TenantStanding",
                      tenant_limits AS "limits!: JsonColumn<QuotaLimits>"
               FROM unslide_key_owners($1, $2) "#
                + $end,
            &kinds,
            &prefixes
        )
        .fetch_all($store.pool())
        .await?
    }};
}

/// Returns the owner of an API key's text; `None` for a text that is no API key, or a key without an owner as in
/// [`authenticate_all`].
///
/// # Errors
/// Returns an error if the database fails.
pub async fn authenticate(store: &Store, text: &str) -> Result<Option<Principal>> {
    let Some(proof) = KeyProof::parse(&API_KEYS, text) else { return Ok(None) };
    let owner = authenticate_all(store, std::slice::from_ref(&proof)).await?.remove(&proof);
    Ok(owner.and_then(KeyOwner::into_principal))
}

/// Returns the owners of keys, in one statement. A key that is unknown, of another kind, revoked or over, or of a deleted
/// tenant has none; all of these look the same from outside.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn authenticate_all(store: &Store, proofs: &[KeyProof]) -> Result<HashMap<KeyProof, KeyOwner>> {
    let rows = owner_rows!(store, proofs, "-- look-up");
    Ok(owners(store, proofs, &rows))
}

/// Does the same as [`authenticate_all`] for keys that a process has cached, with a statement that can be told
/// from that of a request.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn refresh_all(store: &Store, proofs: &[KeyProof]) -> Result<HashMap<KeyProof, KeyOwner>> {
    let rows = owner_rows!(store, proofs, "-- refresh");
    Ok(owners(store, proofs, &rows))
}

/// Returns the owners of the keys that are in force and have the right secret.
fn owners(store: &Store, proofs: &[KeyProof], rows: &[OwnerRow]) -> HashMap<KeyProof, KeyOwner> {
    // Two tenants may have keys with the same prefix.
    let mut by_prefix: HashMap<(&str, &str), Vec<&OwnerRow>> = HashMap::new();
    for row in rows {
        by_prefix.entry((row.kind.as_str(), row.prefix.as_str())).or_default().push(row);
    }
    let now = store.now();
    let owners = proofs.iter().filter_map(|proof| {
        let rows = by_prefix.get(&(proof.kind.name, proof.prefix.as_str()))?;
        let row = rows.iter().find(|row| bool::from(proof.hash.as_slice().ct_eq(&row.key_hash)))?;
        if !is_usable(row.revoked_at, row.expires_at, row.standing, now) {
            return None;
        }
        let owner = KeyOwner {
            kind: proof.kind,
            key_id: row.id,
            prefix: row.prefix.clone(),
            tenant: row.tenant.clone(),
            tenant_version: row.tenant_version,
            active: row.standing == TenantStanding::Active,
            scopes: row.scopes.clone(),
            apps: row.apps.clone(),
            expires_at: row.expires_at,
            limits: row.limits,
            last_used_at: row.last_used_at,
        };
        Some((proof.clone(), owner))
    });
    owners.collect()
}
