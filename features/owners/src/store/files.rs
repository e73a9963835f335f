//! Files of owners, one for each version of an app, and one for all others.

use super::apps::begin_epoch;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use unslide_owners_formats::{OwnersLineProblem, OwnersLineProblems};
use unslide_store::sql::{from_row, to_row};
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

unslide_store::ids! {
    /// A file of owners.
    OwnersFileId;
}

/// The most files of an app. The oldest one of a version goes when another is uploaded.
const FILES_LIMIT: i64 = 30;

/// A file to be stored.
#[derive(Clone, Debug)]
pub struct NewOwnersFile {
    pub app: String,
    /// Empty for the file of all versions without one of their own.
    pub version: String,
    pub dialect: String,
    pub content: String,
    pub rules: u64,
    pub problems: OwnersLineProblems,
}

/// A file of owners, without its text.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = OwnersFile)]
pub struct StoredOwnersFile {
    /// Id of the file.
    #[schema(value_type = Uuid)]
    pub id: OwnersFileId,
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The version whose groups it is for; empty for all versions without a file of their own.
    #[schema(example = "4.2.0")]
    pub version: String,
    /// `github` or `gitlab`: the rules by which it is read.
    #[schema(example = "github")]
    pub dialect: String,
    /// Lines with a pattern.
    pub rules: u64,
    /// Lines that are invalid.
    pub problems: u64,
    /// The first of these lines.
    #[schema(max_items = 50)]
    pub first_problems: Vec<OwnersLineProblem>,
    /// Its bytes, which count against `symbol_bytes`.
    pub size: u64,
    /// When it was uploaded (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub uploaded_at: OffsetDateTime,
}

fn read_problems(stored: Value) -> Vec<OwnersLineProblem> {
    serde_json::from_value(stored).unwrap_or_default()
}

/// Returns the stored file of an app and a version, and whether it is this one byte for byte.
pub async fn find_same_version(
    tx: &mut TenantTx,
    new: &NewOwnersFile,
) -> Result<Option<(StoredOwnersFile, bool)>> {
    let stored = list_files(tx, &new.app).await?.into_iter().find(|file| file.version == new.version);
    let Some(stored) = stored else { return Ok(None) };
    let (connection, tenant, _) = tx.parts();
    let is_same = sqlx::query_scalar!(
        r#"SELECT content = $3 AS "same!" FROM owner_files WHERE tenant = $1 AND id = $2"#,
        tenant,
        stored.id as OwnersFileId,
        new.content
    )
    .fetch_optional(connection)
    .await?;
    let is_same = is_same == Some(true) && stored.dialect == new.dialect;
    Ok(Some((stored, is_same)))
}

/// Stores a file in place of the one of its version, and makes the groups of the app due. Returns None if the tenant has too many
/// apps with owners.
pub async fn store_file(tx: &mut TenantTx, new: &NewOwnersFile) -> Result<Option<StoredOwnersFile>> {
    if !begin_epoch(tx, &new.app).await? {
        return Ok(None);
    }
    let first_problems = serde_json::to_value(&new.problems.first).unwrap_or_default();
    let (connection, tenant, now) = tx.parts();
    // A new id, so that what was read from the file before is known to be old.
    let id = sqlx::query_scalar!(
        r#"INSERT INTO owner_files (id, tenant, app, version, dialect, content, rules, problems, first_problems, uploaded_at)
           VALUES (gen_random_uuid(), $1, $2, $3, $4, $5, $6, $7, $8, $9)
           ON CONFLICT (tenant, app, version) DO UPDATE SET id = gen_random_uuid(), dialect = $4, content = $5, rules = $6,
               problems = $7, first_problems = $8, uploaded_at = $9
           RETURNING id AS "id: OwnersFileId""#,
        tenant,
        new.app,
        new.version,
        new.dialect,
        new.content,
        to_row(new.rules),
        to_row(new.problems.count),
        first_problems,
        now
    )
    .fetch_one(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM owner_files WHERE id IN (
             SELECT id FROM owner_files WHERE tenant = $1 AND app = $2 AND version <> ''
             ORDER BY uploaded_at DESC, id OFFSET $3)",
        tenant,
        new.app,
        FILES_LIMIT
    )
    .execute(connection)
    .await?;
    Ok(Some(StoredOwnersFile {
        id,
        app: new.app.clone(),
        version: new.version.clone(),
        dialect: new.dialect.clone(),
        rules: new.rules,
        problems: new.problems.count,
        first_problems: new.problems.first.clone(),
        size: new.content.len() as u64,
        uploaded_at: now,
    }))
}

/// Lists the files of an app, that of all versions first, then the newest.
pub async fn list_files(tx: &mut TenantTx, app: &str) -> Result<Vec<StoredOwnersFile>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT id AS "id: OwnersFileId", app, version, dialect, rules, problems, first_problems, size, uploaded_at
           FROM owner_files WHERE tenant = $1 AND app = $2 ORDER BY version <> '', uploaded_at DESC, id"#,
        tenant,
        app
    )
    .fetch_all(connection)
    .await?;
    let rows = rows.into_iter();
    Ok(rows
        .map(|row| StoredOwnersFile {
            id: row.id,
            app: row.app,
            version: row.version,
            dialect: row.dialect,
            rules: from_row(row.rules),
            problems: from_row(row.problems),
            first_problems: read_problems(row.first_problems),
            size: from_row(row.size),
            uploaded_at: row.uploaded_at,
        })
        .collect())
}

/// Returns the text of a file.
pub async fn read_content(tx: &mut TenantTx, id: OwnersFileId) -> Result<Option<String>> {
    let (connection, tenant, _) = tx.parts();
    let content = sqlx::query_scalar!(
        "SELECT content FROM owner_files WHERE tenant = $1 AND id = $2",
        tenant,
        id as OwnersFileId
    );
    Ok(content.fetch_optional(connection).await?)
}

/// Deletes a file, and makes the groups of its app due. Returns the app and the version; with `app` only of that one.
pub async fn delete_file(
    tx: &mut TenantTx,
    id: OwnersFileId,
    app: Option<&str>,
) -> Result<Option<(String, String)>> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        "SELECT app FROM owner_files WHERE tenant = $1 AND id = $2 AND ($3::text IS NULL OR app = $3)",
        tenant,
        id as OwnersFileId,
        app
    )
    .fetch_optional(connection)
    .await?;
    let Some(app) = found else { return Ok(None) };
    // The app is locked before its files, as by an upload.
    begin_epoch(tx, &app).await?;
    let (connection, tenant, _) = tx.parts();
    let version = sqlx::query_scalar!(
        "DELETE FROM owner_files WHERE tenant = $1 AND id = $2 RETURNING version",
        tenant,
        id as OwnersFileId
    )
    .fetch_optional(connection)
    .await?;
    Ok(version.map(|version| (app, version)))
}
