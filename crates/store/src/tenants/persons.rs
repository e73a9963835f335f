//! Persons: users, installations and sessions, as rows name them. Of an id only a hash is kept. Data of a person
//! that was erased is not stored again if it arrived before the erasure.

use crate::column::words;
use crate::groups::lock_for_merges;
use crate::{Result, TenantTx};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use time::{Date, OffsetDateTime};
use utoipa::ToSchema;

words! {
    /// Kind of an id that tells persons apart.
    #[derive(PartialOrd, Ord, ToSchema)]
    pub enum PersonKind {
        /// A user of an app, as the app names it.
        User = "user",
        /// An app on one device.
        Installation = "installation",
        /// One run of an app.
        Session = "session",
    }
}

/// First half of the SHA-256 of an id.
pub type PersonHash = [u8; 16];

/// Returns the hash of an id, as columns have it.
#[must_use]
pub fn hash_person(id: &str) -> PersonHash {
    let digest: [u8; 32] = Sha256::digest(id.as_bytes()).into();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}

/// A person, as rows name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PersonKey {
    /// The kind of the id.
    pub kind: PersonKind,
    /// The hash of the id.
    pub hash: PersonHash,
}

impl PersonKey {
    /// Returns the key of an id. The ids of sessions are compared without their case.
    #[must_use]
    pub fn from_id(kind: PersonKind, id: &str) -> PersonKey {
        let hash = match kind {
            PersonKind::Session => hash_person(&id.to_lowercase()),
            PersonKind::User | PersonKind::Installation => hash_person(id),
        };
        PersonKey { kind, hash }
    }
}

/// A person of data that is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedPerson {
    /// Index of the data in its batch.
    pub place: usize,
    /// The person.
    pub key: PersonKey,
    /// When the data arrived first.
    pub received_at: OffsetDateTime,
}

/// A day of sessions of a person.
#[derive(Clone, Copy, Debug)]
pub struct PersonDay {
    /// A user or an installation.
    pub key: PersonKey,
    /// The day on which the sessions began.
    pub day: Date,
    /// Sessions that arrived later are not listed.
    pub received_before: OffsetDateTime,
    /// The most sessions that are listed.
    pub limit: u32,
}

/// A session of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonSession {
    /// The app.
    pub app: String,
    /// The id of the session within the app.
    pub id: String,
}

/// Sessions whose rows are to be erased.
#[derive(Clone, Copy, Debug)]
pub struct ErasedSessions<'t> {
    /// Their ids, in every case of letters that rows may have.
    pub ids: &'t [String],
    /// Their apps; `None` if they are unknown.
    pub apps: Option<&'t [String]>,
    /// Rows that arrived later stay.
    pub received_before: OffsetDateTime,
}

/// The number of rows that were erased from a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasedRows {
    /// The table.
    pub table: &'static str,
    /// The number of rows.
    pub rows: u64,
}

/// Returns the places in `arrived` of data that belongs to a person who was erased after the data had arrived. One
/// statement.
pub async fn find_erased(tx: &mut TenantTx, arrived: &[ArrivedPerson]) -> Result<BTreeSet<usize>> {
    if arrived.is_empty() {
        return Ok(BTreeSet::new());
    }
    let indexes: Vec<i32> = (0..).take(arrived.len()).collect();
    let kinds: Vec<&str> = arrived.iter().map(|person| person.key.kind.as_str()).collect();
    let hashes: Vec<&[u8]> = arrived.iter().map(|person| person.key.hash.as_slice()).collect();
    let times: Vec<OffsetDateTime> = arrived.iter().map(|person| person.received_at).collect();
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        r#"SELECT a.index AS "index!"
           FROM person_secrets s
           CROSS JOIN unnest($2::integer[], $3::text[], $4::bytea[], $5::timestamptz[]) AS a (index, kind, id_hash, received_at)
           JOIN erased_persons e ON e.tenant = $1 AND e.kind = a.kind
               AND e.person_hash = sha256(s.secret || sha256(s.secret || convert_to(a.kind, 'UTF8') || a.id_hash))
           WHERE s.tenant = $1 AND e.erased_at > a.received_at"#,
        tenant,
        &indexes,
        &kinds as &[&str],
        &hashes as &[&[u8]],
        &times
    )
    .fetch_all(connection)
    .await?;
    let index = |found: i32| usize::try_from(found).ok();
    Ok(found.into_iter().filter_map(index).filter_map(|index| Some(arrived.get(index)?.place)).collect())
}

/// Records that persons are erased at a time, and returns the keyed hash of each, in the order of the keys. Waits
/// for transactions that store reports of the tenant: later ones see the record.
pub async fn record_erased(
    tx: &mut TenantTx,
    keys: &BTreeSet<PersonKey>,
    erased_at: OffsetDateTime,
) -> Result<Vec<Vec<u8>>> {
    lock_for_merges(tx).await?;
    let kinds: Vec<&str> = keys.iter().map(|key| key.kind.as_str()).collect();
    let hashes: Vec<&[u8]> = keys.iter().map(|key| key.hash.as_slice()).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO person_secrets (tenant, secret)
         VALUES ($1, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))) ON CONFLICT DO NOTHING",
        tenant
    )
    .execute(&mut *connection)
    .await?;
    let recorded = sqlx::query_scalar!(
        r#"WITH persons AS (
               SELECT p.place, p.kind,
                      sha256(s.secret || sha256(s.secret || convert_to(p.kind, 'UTF8') || p.id_hash)) AS person_hash
               FROM person_secrets s
               CROSS JOIN unnest($2::text[], $3::bytea[]) WITH ORDINALITY AS p (kind, id_hash, place)
               WHERE s.tenant = $1),
           recorded AS (
               INSERT INTO erased_persons AS e (tenant, kind, person_hash, erased_at)
               SELECT $1, p.kind, p.person_hash, $4 FROM persons p ORDER BY p.kind, p.person_hash
               ON CONFLICT (tenant, kind, person_hash)
               DO UPDATE SET erased_at = greatest(e.erased_at, EXCLUDED.erased_at))
           SELECT p.person_hash AS "person_hash!" FROM persons p ORDER BY p.place"#,
        tenant,
        &kinds as &[&str],
        &hashes as &[&[u8]],
        erased_at
    )
    .fetch_all(connection)
    .await?;
    Ok(recorded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_sessions_are_compared_without_their_case() {
        let key = |kind, id| PersonKey::from_id(kind, id);
        assert_eq!(key(PersonKind::Session, "AB-1"), key(PersonKind::Session, "ab-1"));
        assert_ne!(key(PersonKind::User, "AB-1"), key(PersonKind::User, "ab-1"));
    }
}
