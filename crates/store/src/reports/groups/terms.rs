//! The rows of `group_terms`: the words of its reports that a group is found by. Terms of a report that has left stay as
//! long as the group has others, like the title.

use crate::reports::rows::GroupRow;
use crate::{Result, TenantTx, Uuid};
use std::collections::BTreeMap;

/// Terms of a group, and of one report.
const MOST_TERMS: usize = 200;
/// Bytes of a group's terms.
const MOST_BYTES: usize = 16 * 1024;
/// Characters of a term.
const TERM_CHARS: usize = 300;

/// A text as it is kept and looked for: in lower case, without what separates terms.
pub(crate) fn term(text: &str) -> String {
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.flat_map(char::to_lowercase).take(TERM_CHARS).collect::<String>().trim().to_owned()
}

/// Adds the terms of reports to those of their groups, the newest report first. The groups have to be there.
pub(super) async fn add<'t>(
    tx: &mut TenantTx,
    reports: impl Iterator<Item = (GroupRow<'t>, &'t Vec<String>)>,
) -> Result<()> {
    let mut new: BTreeMap<Uuid, Vec<String>> = BTreeMap::new();
    for (row, terms) in reports {
        let kept = new.entry(row.id).or_default();
        let of_group = row.grouping.iter().flat_map(|grouping| [&grouping.title, &grouping.culprit]);
        for text in of_group.chain(terms.iter().take(MOST_TERMS)) {
            let term = term(text);
            if kept.len() < MOST_TERMS && !term.is_empty() && !kept.contains(&term) {
                kept.push(term);
            }
        }
    }
    let known = read(tx, new.keys().copied().collect()).await?;
    let changed = new.into_iter().filter_map(|(id, new)| {
        let text = known.get(&id).map_or("", String::as_str);
        let known: Vec<&str> = text.lines().collect();
        let is_new = new.iter().any(|term| !known.contains(&term.as_str()));
        is_new.then(|| (id, together(&new, &known))).filter(|(_, together)| together != text)
    });
    write(tx, changed.collect()).await
}

/// The new terms and those of before, as far as they fit.
fn together(new: &[String], known: &[&str]) -> String {
    let mut bytes = 0;
    let older = known.iter().copied().filter(|term| !new.iter().any(|new| new == term));
    let kept = new.iter().map(String::as_str).chain(older).take(MOST_TERMS).take_while(|term| {
        bytes += term.len() + 1;
        bytes <= MOST_BYTES
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// Takes away what a deleted report gave as its reason, unless another report of the group gives the same: a reason may
/// have personal data.
pub(super) async fn forget_reason(tx: &mut TenantTx, group: Uuid, reason: Option<&str>) -> Result<()> {
    let Some(reason) = reason else { return Ok(()) };
    let gone = term(reason);
    let known = read(tx, vec![group]).await?;
    let Some(terms) = known.get(&group).filter(|terms| terms.lines().any(|term| term == gone)) else {
        return Ok(());
    };
    let (connection, tenant, _) = tx.parts();
    // Of the newest reports: an older one brings its reason back with its next revision.
    let stays = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM (SELECT reason FROM reports WHERE tenant = $1 AND group_id = $2
                          ORDER BY received_at DESC LIMIT 1000) r WHERE r.reason = $3) AS "stays!""#,
        tenant,
        group,
        reason
    )
    .fetch_one(connection)
    .await?;
    if stays {
        return Ok(());
    }
    let left: Vec<&str> = terms.lines().filter(|term| *term != gone).collect();
    write(tx, vec![(group, left.join("\n"))]).await
}

/// The terms of groups, under lock.
async fn read(tx: &mut TenantTx, groups: Vec<Uuid>) -> Result<BTreeMap<Uuid, String>> {
    if groups.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT group_id, terms FROM group_terms WHERE tenant = $1 AND group_id = ANY ($2)
         ORDER BY group_id FOR UPDATE",
        tenant,
        &groups
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(|row| (row.group_id, row.terms)).collect())
}

async fn write(tx: &mut TenantTx, changed: Vec<(Uuid, String)>) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let (groups, terms): (Vec<Uuid>, Vec<String>) = changed.into_iter().unzip();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO group_terms (tenant, group_id, terms)
         SELECT $1, n.group_id, n.terms FROM unnest($2::uuid[], $3::text[]) AS n (group_id, terms) ORDER BY n.group_id
         ON CONFLICT (tenant, group_id) DO UPDATE SET terms = EXCLUDED.terms",
        tenant,
        &groups,
        &terms
    )
    .execute(connection)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_terms_stay_within_the_bounds() {
        let new: Vec<String> = (0..150).map(|n| format!("new {n}")).collect();
        let known: Vec<String> = (0..MOST_TERMS).map(|n| format!("known {n}")).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let kept = together(&new, &known);
        assert_eq!(kept.lines().count(), MOST_TERMS);
        assert!(kept.starts_with("new 0\n") && kept.ends_with("\nknown 49"));
        let long: Vec<String> = (0..MOST_TERMS).map(|n| format!("{n:0>300}")).collect();
        assert!((MOST_BYTES - 301..=MOST_BYTES).contains(&together(&long, &known).len()));
    }

    #[test]
    fn a_term_is_one_line_in_lower_case() {
        assert_eq!(term(" -[Cart\ntotal:]\0 "), "-[cart total:]");
        assert_eq!(term("ÄÖ"), "äö");
        assert_eq!(term(&"İ".repeat(400)).chars().count(), TERM_CHARS);
    }
}
