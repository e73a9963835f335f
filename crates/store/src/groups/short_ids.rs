//! Short names of groups, such as `SHOP-1A2B`: a part of the app's name, and the first digits of the group's id
//! in base 32. If another group has the name already, it gets more digits.

use crate::{GroupId, Result, TenantTx};
use std::collections::BTreeSet;
use unslide_model::short_id::{DIGIT_COUNTS, DIGITS, PREFIX_CHARS, normalize_short_id};

/// Prefix of an app without ASCII characters in its name.
const NO_PREFIX: &str = "APP";

/// Gives names to new groups, each with its app. A group that has a name keeps it.
pub(crate) async fn name_groups(tx: &mut TenantTx, groups: &[(GroupId, &str)]) -> Result<()> {
    let mut unnamed = groups.to_vec();
    for digits in DIGIT_COUNTS {
        if unnamed.is_empty() {
            break;
        }
        let named = insert_names(tx, &unnamed, digits).await?;
        unnamed.retain(|(id, _)| !named.contains(id));
        if !unnamed.is_empty() {
            let has_name = find_named(tx, &unnamed).await?;
            unnamed.retain(|(id, _)| !has_name.contains(id));
        }
    }
    Ok(())
}

/// Inserts the names of groups that no other group has. Returns the groups that have one now.
async fn insert_names(
    tx: &mut TenantTx,
    groups: &[(GroupId, &str)],
    digits: usize,
) -> Result<BTreeSet<GroupId>> {
    let ids: Vec<GroupId> = groups.iter().map(|(id, _)| *id).collect();
    let names: Vec<String> = groups.iter().map(|(id, app)| build_short_id(app, *id, digits)).collect();
    let (connection, tenant, _) = tx.parts();
    let named = sqlx::query_scalar!(
        r#"INSERT INTO group_short_ids (tenant, short_id, group_id)
         SELECT $1, n.short_id, n.id FROM unnest($2::text[], $3::uuid[]) AS n (short_id, id)
         ORDER BY n.short_id, n.id ON CONFLICT DO NOTHING RETURNING group_id AS "group_id: GroupId""#,
        tenant,
        &names,
        &ids as &[GroupId]
    )
    .fetch_all(connection)
    .await?;
    Ok(named.into_iter().collect())
}

async fn find_named(tx: &mut TenantTx, groups: &[(GroupId, &str)]) -> Result<BTreeSet<GroupId>> {
    let ids: Vec<GroupId> = groups.iter().map(|(id, _)| *id).collect();
    let (connection, tenant, _) = tx.parts();
    let named = sqlx::query_scalar!(
        r#"SELECT group_id AS "group_id: GroupId" FROM group_short_ids WHERE tenant = $1 AND group_id = ANY ($2)"#,
        tenant,
        &ids as &[GroupId]
    )
    .fetch_all(connection)
    .await?;
    Ok(named.into_iter().collect())
}

/// Returns the groups with these short names, in their places; `None` if no group has or had the name. A group
/// that was replaced is returned itself: its id leads on.
pub async fn find_short_ids(tx: &mut TenantTx, names: &[String]) -> Result<Vec<Option<GroupId>>> {
    let names: Vec<String> = names.iter().map(|name| normalize_short_id(name).unwrap_or_default()).collect();
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT s.group_id AS "group_id?: GroupId" FROM unnest($2::text[]) WITH ORDINALITY AS n (short_id, place)
           LEFT JOIN group_short_ids s ON s.tenant = $1 AND s.short_id = n.short_id ORDER BY n.place"#,
        tenant,
        &names
    )
    .fetch_all(connection)
    .await?)
}

fn build_short_id(app: &str, id: GroupId, digits: usize) -> String {
    let number = id.uuid().as_u128();
    // 25 digits of five bits each from the front, and one of the three bits that are left.
    let digit = |place: usize| {
        let value = if place < 25 { (number >> (123 - place * 5)) & 31 } else { number & 7 };
        char::from(DIGITS[usize::try_from(value).unwrap_or(0)])
    };
    let digits: String = (0..digits).map(digit).collect();
    format!("{}-{digits}", app_prefix(app))
}

/// Returns the beginning of the last part of an app's name, in capitals.
fn app_prefix(app: &str) -> String {
    let parts = app.rsplit('.').map(|part| {
        let plain = part.chars().filter(char::is_ascii_alphanumeric);
        plain.map(|letter| letter.to_ascii_uppercase()).take(PREFIX_CHARS).collect::<String>()
    });
    { parts }.find(|part| !part.is_empty()).unwrap_or_else(|| NO_PREFIX.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_part_of_the_app_and_digits_of_the_id() {
        let id = GroupId::from_uuid(crate::Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
        assert_eq!(build_short_id("com.example.shop", id, 4), "SHOP-04HM");
        assert_eq!(build_short_id("com.example.my-great-app", id, 4), "MYGREATA-04HM");
        assert_eq!(build_short_id("com.example.\u{5546}\u{5e97}", id, 4), "EXAMPLE-04HM");
        assert_eq!(build_short_id("", id, 4), "APP-04HM");
        let whole = build_short_id("a", id, 26);
        assert_eq!(whole.len(), 28);
        assert_eq!(normalize_short_id(&whole), Some(whole));
    }
}
