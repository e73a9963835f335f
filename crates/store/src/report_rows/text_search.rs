//! Groups by the texts of their reports.

use super::groups::GroupRows;
use crate::groups::find_short_ids;
use crate::number::to_row;
use crate::reports::normalize_term;
use crate::{GroupId, Result, TenantTx};
use std::collections::BTreeSet;
use unslide_model::GroupRef;

/// The groups by which reports are found.
const MOST_FOUND: i64 = 10_000;

/// Returns the groups, merged or not, that have a report with a text; at most [`MOST_FOUND`], those that were
/// seen last.
pub(crate) async fn find_by_text(tx: &mut TenantTx, text: &str) -> Result<Vec<GroupId>> {
    let named = find_named(tx, text).await?;
    let patterns: Vec<String> =
        list_spellings(&normalize_term(text)).iter().map(|text| build_like_pattern(text)).collect();
    let (connection, tenant, _) = tx.parts();
    let mut found = sqlx::query_scalar!(
        r#"SELECT DISTINCT found AS "id!: GroupId" FROM unnest($1::text[]) AS p (pattern)
           CROSS JOIN LATERAL unslide_groups_like(p.pattern, $2) found"#,
        &patterns,
        MOST_FOUND + 1
    )
    .fetch_all(&mut *connection)
    .await?;
    if to_row(found.len() as u64) > MOST_FOUND {
        let newest = sqlx::query_scalar!(
            r#"SELECT g.id AS "id: GroupId" FROM (SELECT DISTINCT found FROM unnest($2::text[]) AS p (pattern)
                               CROSS JOIN LATERAL unslide_groups_like(p.pattern, NULL) found) f
             JOIN groups g ON g.tenant = $1 AND g.id = f.found ORDER BY g.last_seen DESC LIMIT $3"#,
            tenant,
            &patterns,
            MOST_FOUND
        );
        found = newest.fetch_all(connection).await?;
    }
    found.extend(named);
    Ok(found)
}

/// Returns the group that a text names by its id or its short id, with the groups that are merged into it.
async fn find_named(tx: &mut TenantTx, text: &str) -> Result<Vec<GroupId>> {
    let id = match text.parse() {
        Ok(GroupRef::Id(id)) => Some(GroupId::from_uuid(id)),
        Ok(GroupRef::ShortId(name)) => find_short_ids(tx, &[name]).await?.pop().flatten(),
        Err(_) => None,
    };
    match id {
        Some(id) => Ok(GroupRows::find_for_group(tx, id).await?.ids),
        None => Ok(Vec::new()),
    }
}

/// Returns a text with its separators as each language writes them: `Cart.total`, `Cart::total` and `Cart total` are one name.
/// Spaces may also separate words of a sentence around a name.
fn list_spellings(text: &str) -> BTreeSet<String> {
    let dots = text.replace("::", ".");
    let only_dots = dots.replace(' ', ".");
    let colons = [dots.replace('.', "::"), only_dots.replace('.', "::")];
    colons.into_iter().chain([text.to_owned(), only_dots.replace('.', " "), dots, only_dots]).collect()
}

/// Returns a pattern of LIKE for texts that contain this one.
fn build_like_pattern(text: &str) -> String {
    let plain = text.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_");
    format!("%{plain}%")
}
