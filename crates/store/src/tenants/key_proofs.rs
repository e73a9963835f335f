//! Keys that requests present, and who they belong to.

use crate::column::{JsonColumn, ScopesColumn, TenantColumn};
use crate::keys::Principal;
use crate::tenants::key_bytes::split_key;
use crate::tenants::{QuotaLimits, TenantStanding};
use crate::{Result, Store, Uuid};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use subtle::ConstantTimeEq;
use time::OffsetDateTime;
use unslide_model::{Scope, TenantId};

/// The public part of a key's text and a hash of its secret: enough to look the key up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyProof {
    prefix: String,
    secret_hash: [u8; 32],
}

impl KeyProof {
    /// Reads a key's text; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<KeyProof> {
        let (prefix, secret) = split_key(text)?;
        Some(KeyProof { prefix: prefix.to_owned(), secret_hash: Sha256::digest(secret.as_bytes()).into() })
    }
}

/// A key and its tenant as the database has them.
struct PrincipalRow {
    prefix: String,
    secret_hash: Vec<u8>,
    id: Uuid,
    tenant: TenantId,
    tenant_version: i64,
    scopes: Vec<Scope>,
    app: Option<String>,
    expires_at: Option<OffsetDateTime>,
    revoked_at: Option<OffsetDateTime>,
    last_used_at: Option<OffsetDateTime>,
    standing: TenantStanding,
    limits: QuotaLimits,
}

/// Selects the rows of keys by their prefixes. The end of the statement says who sends it.
macro_rules! principal_rows {
    ($prefixes:expr, $end:tt) => {
        sqlx::query_as!(
            PrincipalRow,
            r#"SELECT prefix AS "prefix!", secret_hash AS "secret_hash!", id AS "id!",
                      tenant AS "tenant!: TenantColumn", tenant_version AS "tenant_version!",
                      scopes AS "scopes!: ScopesColumn", app, expires_at, revoked_at, last_used_at,
                      tenant_state AS "standing!: TenantStanding",
                      tenant_limits AS "limits!: JsonColumn<QuotaLimits>"
               FROM unslide_key_principals($1) "#
                + $end,
            $prefixes
        )
    };
}

/// Returns the owner of a key's text; `None` for a text that is no key, or a key without an owner as in
/// [`authenticate_all`].
///
/// # Errors
/// Returns an error if the database fails.
pub async fn authenticate(store: &Store, text: &str) -> Result<Option<Principal>> {
    let Some(proof) = KeyProof::parse(text) else { return Ok(None) };
    Ok(authenticate_all(store, std::slice::from_ref(&proof)).await?.remove(&proof))
}

/// Returns the owners of keys, in one statement. A key that is unknown, revoked or over, or of a deleted
/// tenant has none; all of these look the same from outside.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn authenticate_all(store: &Store, proofs: &[KeyProof]) -> Result<HashMap<KeyProof, Principal>> {
    let prefixes = prefixes(proofs);
    let rows = principal_rows!(&prefixes, "-- look-up").fetch_all(store.pool()).await?;
    Ok(owners(store, proofs, &rows))
}

/// Does the same as [`authenticate_all`] for keys that a process has cached, with a statement that can be told
/// from that of a request.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn refresh_all(store: &Store, proofs: &[KeyProof]) -> Result<HashMap<KeyProof, Principal>> {
    let prefixes = prefixes(proofs);
    let rows = principal_rows!(&prefixes, "-- refresh").fetch_all(store.pool()).await?;
    Ok(owners(store, proofs, &rows))
}

fn prefixes(proofs: &[KeyProof]) -> Vec<String> {
    proofs.iter().map(|proof| proof.prefix.clone()).collect()
}

/// Returns the owners of the keys that are in force and have the right secret.
fn owners(store: &Store, proofs: &[KeyProof], rows: &[PrincipalRow]) -> HashMap<KeyProof, Principal> {
    let rows: HashMap<&str, &PrincipalRow> = rows.iter().map(|row| (row.prefix.as_str(), row)).collect();
    let now = store.now();
    let owners = proofs.iter().filter_map(|proof| {
        let row = *rows.get(proof.prefix.as_str())?;
        if !bool::from(proof.secret_hash.as_slice().ct_eq(&row.secret_hash)) {
            return None;
        }
        let principal = Principal {
            tenant: row.tenant.clone(),
            tenant_version: row.tenant_version,
            active: row.standing == TenantStanding::Active,
            key_id: row.id,
            scopes: row.scopes.clone(),
            app: row.app.clone(),
            expires_at: row.expires_at,
            limits: row.limits,
            last_used_at: row.last_used_at,
        };
        Some((proof.clone(), principal.in_force(row.revoked_at, row.standing, now)?))
    });
    owners.collect()
}
