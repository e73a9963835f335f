//! The rows of `group_terms`: the search terms of a group, from its reports. Names of functions and files
//! stay as long as the group has reports; the reason and title of a report go with it.

use super::moved::{MovedTexts, list_texts};
use crate::reports::rows::{GroupRow, GroupTexts};
use crate::segments::day_bounds;
use crate::{GroupId, Result, TenantTx};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::one_line;

/// Terms of a group, and of one report.
const MOST_TERMS: usize = 200;
/// Bytes of a group's terms.
const MOST_BYTES: usize = 16 * 1024;
/// Characters of a term.
const TERM_CHARS: usize = 300;
/// Reports of a group that are asked whether they say the same as one that left.
const COMPARED_REPORTS_LIMIT: i64 = 1_000;

/// Returns a text in the form that is stored and searched: in lower case, without the separator of terms.
pub(crate) fn normalize_term(text: &str) -> String {
    one_line(&text.chars().flat_map(char::to_lowercase).collect::<String>(), TERM_CHARS)
}

/// Adds the terms of arriving reports to those of their groups, the newest report first. Removes the reasons
/// and titles of reports that left, unless another report of the group has the same. The groups have to
/// exist, and groups that lost a report have to be locked.
pub(in crate::reports) async fn update_terms<'t>(
    tx: &mut TenantTx,
    arrived: impl Iterator<Item = (GroupRow<'t>, &'t Vec<String>)>,
    left: impl Iterator<Item = (GroupId, &'t GroupTexts)>,
) -> Result<()> {
    let new = terms_of(arrived);
    let left: BTreeSet<(GroupId, &str)> = left.flat_map(|(id, texts)| pair_with_group(id, texts)).collect();
    let groups: BTreeSet<GroupId> = new.keys().copied().chain(left.iter().map(|(id, _)| *id)).collect();
    let losing: Vec<GroupId> = left.iter().map(|(id, _)| *id).collect();
    let (known, days) = read_terms(tx, groups.iter().copied().collect(), &losing).await?;
    // Texts of a deleted group need no work.
    let left = left.into_iter().filter(|(id, _)| known.contains_key(id)).collect();
    let mut gone = find_unused_texts(tx, left, days).await?;
    let moved = Box::pin(list_texts(tx, gone.keys().copied())).await?;
    keep_used_texts(&mut gone, &moved);
    rename_groups(tx, &gone, &moved, days).await?;
    let changed = groups.into_iter().filter_map(|id| {
        let text = known.get(&id).map_or("", String::as_str);
        let forgotten = gone.get(&id).map_or(&[][..], Vec::as_slice);
        let forgotten: Vec<String> = forgotten.iter().map(|text| normalize_term(text)).collect();
        let stay: Vec<&str> =
            text.lines().filter(|line| !forgotten.iter().any(|gone| gone == line)).collect();
        let new = new.get(&id).map_or(&[][..], Vec::as_slice);
        let is_new = new.iter().any(|term| !stay.contains(&term.as_str()));
        let together = if is_new { join_terms(new, &stay) } else { stay.join("\n") };
        (together != text).then_some((id, together))
    });
    write_terms(tx, changed.collect()).await
}

/// Returns the terms that reports add to their groups.
fn terms_of<'t>(
    reports: impl Iterator<Item = (GroupRow<'t>, &'t Vec<String>)>,
) -> BTreeMap<GroupId, Vec<String>> {
    let mut new: BTreeMap<GroupId, Vec<String>> = BTreeMap::new();
    for (row, terms) in reports {
        let kept = new.entry(row.id).or_default();
        let of_group = row.grouping.iter().flat_map(|grouping| [&grouping.title, &grouping.culprit]);
        for text in of_group.chain(terms.iter().take(MOST_TERMS)) {
            let term = normalize_term(text);
            if kept.len() < MOST_TERMS && !term.is_empty() && !kept.contains(&term) {
                kept.push(term);
            }
        }
    }
    new
}

fn pair_with_group(group: GroupId, texts: &GroupTexts) -> impl Iterator<Item = (GroupId, &str)> {
    [&texts.reason, &texts.title].into_iter().flatten().map(move |text| (group, text.as_str()))
}

/// Returns those of these texts, by group, that no other report of the group has, in any case. Only its
/// newest reports are read: an older one adds its words again with its next revision.
async fn find_unused_texts(
    tx: &mut TenantTx,
    left: BTreeSet<(GroupId, &str)>,
    days: DaySpan,
) -> Result<BTreeMap<GroupId, Vec<String>>> {
    let mut gone: BTreeMap<GroupId, Vec<String>> = BTreeMap::new();
    if left.is_empty() {
        return Ok(gone);
    }
    let ids: Vec<GroupId> = left.iter().map(|(id, _)| *id).collect();
    let texts: Vec<String> = left.iter().map(|(_, text)| (*text).to_owned()).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"WITH said AS MATERIALIZED (
               SELECT g.id, lower(s.text) AS text FROM (SELECT DISTINCT id FROM unnest($2::uuid[]) AS u (id)) g
               CROSS JOIN LATERAL (SELECT r.reason, r.title FROM reports r
                                   WHERE r.tenant = $1 AND r.group_id = g.id AND r.received_at >= $5 AND r.received_at < $6
                                   ORDER BY r.received_at DESC LIMIT $4) r
               CROSS JOIN LATERAL (VALUES (r.reason), (r.title)) AS s (text))
           SELECT n.id AS "id!: GroupId", n.text AS "text!" FROM unnest($2, $3::text[]) AS n (id, text)
           WHERE NOT EXISTS (SELECT FROM said s WHERE s.id = n.id AND s.text = lower(n.text))"#,
        tenant,
        &ids as &[GroupId],
        &texts,
        COMPARED_REPORTS_LIMIT,
        days.from,
        days.to
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        gone.entry(row.id).or_default().push(row.text);
    }
    Ok(gone)
}

/// Removes the texts that reports in ClickHouse have, in any case.
fn keep_used_texts(gone: &mut BTreeMap<GroupId, Vec<String>>, moved: &[MovedTexts]) {
    for one in moved {
        let said: Vec<String> =
            [&one.reason, &one.title].into_iter().flatten().map(|text| text.to_lowercase()).collect();
        if let Some(texts) = gone.get_mut(&one.group) {
            texts.retain(|text| !said.contains(&text.to_lowercase()));
        }
    }
    gone.retain(|_, texts| !texts.is_empty());
}

/// Renames groups with a title among these texts to the smallest title of the reports that are left.
async fn rename_groups(
    tx: &mut TenantTx,
    gone: &BTreeMap<GroupId, Vec<String>>,
    moved: &[MovedTexts],
    days: DaySpan,
) -> Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    let (ids, texts): (Vec<GroupId>, Vec<String>) =
        gone.iter().flat_map(|(id, texts)| texts.iter().map(|text| (*id, text.clone()))).unzip();
    let (moved_groups, moved_titles): (Vec<GroupId>, Vec<String>) =
        moved.iter().filter_map(|one| Some((one.group, one.title.clone()?))).unzip();
    let (connection, tenant, _) = tx.parts();
    // If retention has removed all others, the kind at least is known.
    sqlx::query!(
        r#"UPDATE groups g
           SET title = coalesce((SELECT min(r.title COLLATE "C")
                                 FROM ((SELECT title FROM reports
                                        WHERE tenant = $1 AND group_id = g.id AND received_at >= $7 AND received_at < $8
                                        ORDER BY received_at DESC LIMIT $4)
                                       UNION ALL
                                       SELECT m.title FROM unnest($5::uuid[], $6::text[]) AS m (id, title)
                                       WHERE m.id = g.id) r), g.kind)
           FROM unnest($2::uuid[], $3::text[]) AS n (id, text)
           WHERE g.tenant = $1 AND g.id = n.id AND lower(g.title) = lower(n.text)"#,
        tenant,
        &ids as &[GroupId],
        &texts,
        COMPARED_REPORTS_LIMIT,
        &moved_groups as &[GroupId],
        &moved_titles,
        days.from,
        days.to
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Joins the new terms and those of before, as far as they fit.
fn join_terms(new: &[String], known: &[&str]) -> String {
    let mut bytes = 0;
    let older = known.iter().copied().filter(|term| !new.iter().any(|new| new == term));
    let kept = new.iter().map(String::as_str).chain(older).take(MOST_TERMS).take_while(|term| {
        bytes += term.len() + 1;
        bytes <= MOST_BYTES
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// The days of the newest reports of groups that lose a report: a statement that has them as parameters locks no others.
#[derive(Clone, Copy)]
struct DaySpan {
    from: OffsetDateTime,
    to: OffsetDateTime,
}

/// Reads the terms of groups, under lock, and the days of the newest reports of those that lose a report.
async fn read_terms(
    tx: &mut TenantTx,
    groups: Vec<GroupId>,
    losing: &[GroupId],
) -> Result<(BTreeMap<GroupId, String>, DaySpan)> {
    let mut days = DaySpan { from: OffsetDateTime::UNIX_EPOCH, to: OffsetDateTime::UNIX_EPOCH };
    if groups.is_empty() {
        return Ok((BTreeMap::new(), days));
    }
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT t.group_id AS "group_id: GroupId", t.terms, d.first, d.last
           FROM group_terms t
           LEFT JOIN LATERAL (
               SELECT min(n.day) FILTER (WHERE n.newer < $4::bigint) AS first, max(n.day) AS last
               FROM (SELECT c.day, sum(sum(c.reports)) OVER (ORDER BY c.day DESC) - sum(c.reports) AS newer
                     FROM group_day_counts c
                     WHERE c.tenant = $1 AND c.group_id = t.group_id AND t.group_id = ANY ($3)
                     GROUP BY c.day) n) d ON true
           WHERE t.tenant = $1 AND t.group_id = ANY ($2)
           ORDER BY t.group_id FOR UPDATE OF t"#,
        tenant,
        &groups as &[GroupId],
        losing as &[GroupId],
        COMPARED_REPORTS_LIMIT
    );
    let rows = rows.fetch_all(connection).await?;
    let (first, last) =
        (rows.iter().filter_map(|row| row.first).min(), rows.iter().filter_map(|row| row.last).max());
    if let Some((first, last)) = first.zip(last) {
        days = DaySpan { from: day_bounds(first).0, to: day_bounds(last).1 };
    }
    Ok((rows.into_iter().map(|row| (row.group_id, row.terms)).collect(), days))
}

async fn write_terms(tx: &mut TenantTx, changed: Vec<(GroupId, String)>) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let (groups, terms): (Vec<GroupId>, Vec<String>) = changed.into_iter().unzip();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO group_terms (tenant, group_id, terms)
         SELECT $1, n.group_id, n.terms FROM unnest($2::uuid[], $3::text[]) AS n (group_id, terms) ORDER BY n.group_id
         ON CONFLICT (tenant, group_id) DO UPDATE SET terms = EXCLUDED.terms",
        tenant,
        &groups as &[GroupId],
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
        let kept = join_terms(&new, &known);
        assert_eq!(kept.lines().count(), MOST_TERMS);
        assert!(kept.starts_with("new 0\n") && kept.ends_with("\nknown 49"));
        let long: Vec<String> = (0..MOST_TERMS).map(|n| format!("{n:0>300}")).collect();
        assert!((MOST_BYTES - 301..=MOST_BYTES).contains(&join_terms(&long, &known).len()));
    }

    #[test]
    fn a_term_is_one_line_in_lower_case() {
        assert_eq!(normalize_term(" -[Cart\ntotal:]\0 "), "-[cart total:]");
        assert_eq!(normalize_term("ÄÖ"), "äö");
        assert_eq!(normalize_term(&"İ".repeat(400)).chars().count(), TERM_CHARS);
    }
}
