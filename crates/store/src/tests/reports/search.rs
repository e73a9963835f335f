//! What groups and their reports are found by.

use super::groups::of_bug;
use crate::GroupId;
use crate::groups::{self as actions, GroupActor, id_of};
use crate::queries::groups::{self, GroupFilter, GroupOrder};
use crate::queries::reports as listed;
use crate::reports::kept_bodies::{BodyChoice, StoredRevision, UnkeptBody, store_choice};
use crate::reports::row_texts::{self, RowTexts};
use crate::reports::{self, Arrival};
use crate::tests::database::{Database, acme, arrival, grouping, image, revised, tenant_id};

const ACTOR: GroupActor<'static> = GroupActor { actor: "test", name: None };

fn with_terms(mut arrival: Arrival, terms: &[&str]) -> Arrival {
    arrival.facts.terms = terms.iter().map(|term| (*term).to_owned()).collect();
    arrival
}

async fn found_of(database: &Database, tenant: &str, text: &str) -> (Vec<String>, usize) {
    let mut tx = database.store.tenant(&tenant_id(tenant)).await.unwrap();
    let filter = GroupFilter { text: Some(text.into()), ..GroupFilter::default() };
    let groups = groups::list_groups(&mut tx, &filter, GroupOrder::LastSeen, None, 100).await.unwrap();
    let filter = listed::ReportFilter { text: Some(text.into()), ..listed::ReportFilter::default() };
    let page = listed::list_reports(&mut tx, &filter, None, 100).await.unwrap();
    let mut titles: Vec<String> = groups.into_iter().map(|group| group.title).collect();
    titles.sort();
    (titles, page.reports.len())
}

/// The titles of the groups that are found, and the number of reports.
async fn found(database: &Database, text: &str) -> (Vec<String>, usize) {
    found_of(database, "acme", text).await
}

fn bugs(titles: &[&str], reports: usize) -> (Vec<String>, usize) {
    (titles.iter().map(|title| (*title).to_owned()).collect(), reports)
}

/// The group of a bug with symbols.
fn group(bug: u8) -> GroupId {
    id_of("com.acme.shop", grouping(bug, false).fingerprint)
}

fn of_eight(n: u8) -> Arrival {
    let mut arrival = of_bug(n, "1.0", 0);
    arrival.facts.grouping = Some(grouping(8, false));
    arrival
}

#[tokio::test]
async fn a_group_is_found_by_what_its_reports_say_and_by_no_pattern() {
    let database = Database::new().await;
    let one = with_terms(of_bug(1, "1.0", 0), &["-[Cart total:]", "Cart.m", "100% out of UMBRELLAS\n"]);
    let two = with_terms(of_bug(2, "1.0", 0), &["Order.pay()", "a_b"]);
    let other = with_terms(of_eight(3), &["Order.cancel()"]);
    database.store(&[one.clone(), two, other]).await;
    assert_eq!(found(&database, "[cart TOT").await, bugs(&["bug 7"], 2));
    assert_eq!(found(&database, "% out of umbrellas").await, bugs(&["bug 7"], 2));
    assert_eq!(found(&database, "order.").await, bugs(&["bug 7", "bug 8"], 3));
    assert_eq!(found(&database, "bug 8").await, bugs(&["bug 8"], 1), "by its title");
    for nothing in ["car%tot", "c_rt", "a\\_b", "total:]\ncart.m", "umbrellas order"] {
        assert_eq!(found(&database, nothing).await, bugs(&[], 0), "{nothing}");
    }
    assert_eq!(found_of(&database, "umbrella", "cart").await, bugs(&[], 0), "another tenant's");
    // A replay changes nothing.
    let before = database.dump().await;
    database.store(&[one]).await;
    assert_eq!(database.dump().await, before);
}

#[tokio::test]
async fn a_name_is_found_however_its_parts_are_separated() {
    let database = Database::new().await;
    let swift = with_terms(of_bug(1, "1.0", 0), &["Cart.total", "-[Basket sum]"]);
    let cpp = with_terms(of_eight(2), &["cafe::Cart::total", "EXC_BAD_ACCESS in cafe::Cart::total"]);
    database.store(&[swift, cpp]).await;
    for text in ["cart.total", "cart::total", "Cart total"] {
        assert_eq!(found(&database, text).await, bugs(&["bug 7", "bug 8"], 2), "{text}");
    }
    for text in ["cafe.cart.total", "cafe.Cart::total", "exc_bad_access in cafe.cart"] {
        assert_eq!(found(&database, text).await, bugs(&["bug 8"], 1), "{text}");
    }
    assert_eq!(found(&database, "basket.sum").await, bugs(&["bug 7"], 1));
    assert_eq!(found(&database, "cart:total").await, bugs(&[], 0));
}

#[tokio::test]
async fn a_group_is_found_by_its_id_and_its_short_id() {
    let database = Database::new().await;
    database.store(&[of_bug(1, "1.0", 0), of_eight(2)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let eight = groups::find_group(&mut tx, group(8), None).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    let short = eight.short_id.unwrap();
    for text in
        [eight.id.to_string(), short.to_lowercase(), format!("https://crashes.example.com/groups/{short}")]
    {
        assert_eq!(found(&database, &text).await, bugs(&["bug 8"], 1), "{text}");
    }
    assert_eq!(found_of(&database, "umbrella", &short).await, bugs(&[], 0), "another tenant's");
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    actions::merge_groups(&mut tx, group(7), &[group(8)], None, ACTOR).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(found(&database, &short).await.0, ["bug 7"], "the group that it is merged into");
}

#[tokio::test]
async fn late_symbols_bring_their_names_and_leave_no_group_behind() {
    let database = Database::new().await;
    let first = with_terms(arrival(3), &["device_name"]);
    database.store(std::slice::from_ref(&first)).await;
    assert_eq!(found(&database, "device_name").await.1, 1);
    let better = revised(&first, 2, image(1, false, Some(1)));
    database.store(&[with_terms(better.clone(), &["Cart.total", "Cart.swift"])]).await;
    assert_eq!(found(&database, "cart.swift").await.1, 1);
    assert_eq!(found(&database, "device_name").await, bugs(&[], 0), "the provisional group is gone");
    // The same group again, with a better answer.
    let better = Arrival { revision: 3, ..better };
    database.store(&[with_terms(better, &["Cart.inlined"])]).await;
    assert_eq!(found(&database, "cart.inlined").await.1, 1);
    assert_eq!(database.number("SELECT count(*) FROM group_terms").await, 1);
}

#[tokio::test]
async fn better_symbols_bring_the_culprits_file_whichever_revision_comes_first() {
    let first = of_bug(1, "1.0", 0);
    let mut better = Arrival { revision: 2, ..first.clone() };
    let mut without = first;
    without.facts.grouping.as_mut().unwrap().culprit = "Cart.total".into();
    better.facts.grouping.as_mut().unwrap().culprit = "Cart.total (Cart.swift)".into();
    for order in [[&without, &better], [&better, &without]] {
        let database = Database::new().await;
        for one in order {
            database.store(std::slice::from_ref(one)).await;
        }
        let culprits = "SELECT count(*) FROM groups WHERE culprit = 'Cart.total (Cart.swift)'";
        assert_eq!(database.number(culprits).await, 1);
    }
}

#[tokio::test]
async fn a_target_is_found_by_what_is_merged_into_it() {
    let database = Database::new().await;
    let one = with_terms(of_bug(1, "1.0", 0), &["Basket.sum"]);
    let other = with_terms(of_eight(2), &["Order.pay"]);
    database.store(&[one, other]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    actions::merge_groups(&mut tx, group(7), &[group(8)], None, ACTOR).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(found(&database, "order.pay").await, bugs(&["bug 7"], 1));
    assert_eq!(found(&database, "basket.sum").await, bugs(&["bug 7"], 1));
    database.store(&[with_terms(of_eight(3), &["Order.refund"])]).await;
    assert_eq!(found(&database, "order.refund").await, bugs(&["bug 7"], 2));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    actions::split_group(&mut tx, group(7), group(8), None, ACTOR).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(found(&database, "order.pay").await, bugs(&["bug 8"], 2));
}

#[tokio::test]
async fn the_reason_of_a_deleted_report_finds_nothing_unless_another_gives_it() {
    let database = Database::new().await;
    let saying = |n: u8, reason: &str| {
        let mut arrival = with_terms(of_bug(n, "1.0", 0), &[reason, "Cart.total"]);
        arrival.facts.reason = Some(reason.to_owned());
        arrival
    };
    database.store(&[saying(1, "Card of Ann"), saying(2, "no stock"), saying(3, "no stock")]).await;
    let delete = async |n: u8| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert!(reports::delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap());
        tx.commit().await.unwrap();
    };
    assert_eq!(found(&database, "card of ann").await, bugs(&["bug 7"], 3));
    delete(1).await;
    assert_eq!(found(&database, "card of ann").await, bugs(&[], 0));
    delete(2).await;
    assert_eq!(found(&database, "no stock").await, bugs(&["bug 7"], 1));
    assert_eq!(found(&database, "cart.total").await, bugs(&["bug 7"], 1));
    delete(3).await;
    assert_eq!(database.number("SELECT count(*) FROM group_terms").await, 0);
}

/// A report of a group that says a reason and calls its group so.
fn saying(n: u8, bug: u8, reason: &str, title: &str) -> Arrival {
    let mut arrival = with_terms(of_bug(n, "1.0", 0), &[reason, "Cart.total"]);
    arrival.facts.reason = Some(reason.to_owned());
    arrival.facts.grouping.as_mut().unwrap().fingerprint = grouping(bug, false).fingerprint;
    title.clone_into(&mut arrival.facts.grouping.as_mut().unwrap().title);
    arrival
}

/// Groups, terms and reports that have a text, whatever they have it as.
async fn rows_with(database: &Database, text: &str) -> i64 {
    let count = |table: &str| {
        format!("(SELECT count(*) FROM {table} t WHERE position('{text}' IN lower(to_jsonb(t)::text)) > 0)")
    };
    let counts = ["groups", "group_terms", "reports"].map(count).join(" + ");
    database.number(&format!("SELECT {counts}")).await
}

#[tokio::test]
async fn a_report_that_leaves_its_group_takes_its_own_words_along() {
    let database = Database::new().await;
    let first = saying(1, 7, "Card\0 of Ann", "A card of Ann");
    database
        .store(&[first.clone(), saying(2, 7, "no stock", "No stock"), saying(3, 7, "no stock", "Sold")])
        .await;
    assert_eq!(found(&database, "of ann").await, bugs(&["A card of Ann"], 3));
    // Late symbols: another bug.
    let moved = saying(1, 8, "Card\0 of Ann", "A card of Ann");
    database.store(&[Arrival { revision: 2, ..moved }]).await;
    assert_eq!(found(&database, "of ann").await, bugs(&["A card of Ann"], 1));
    assert_eq!(found(&database, "no stock").await, bugs(&["No stock"], 2), "the smallest title that is left");
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete_report(&mut tx, first.report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(rows_with(&database, "ann").await, 0);
    // What another report says as well stays, as a title too.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete_report(&mut tx, arrival(2).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(found(&database, "no stock").await, bugs(&["No stock"], 1));
}

/// A reason that is cut where it is kept, whatever does not show in it.
fn long_reason(n: u8) -> String {
    let hidden = ["", "  ", "\u{1}\t", "\0 \0"][usize::from(n % 4)];
    format!("{hidden}Card of\0 Ann\u{7} {n} {}", "İx".repeat(usize::from(n) * 40))
}

#[tokio::test]
async fn nothing_stays_of_what_a_report_says_no_longer() {
    let database = Database::new().await;
    let mut rest = Vec::new();
    for n in 1..=12_u8 {
        let reason = long_reason(n);
        // As the report's reader gives it.
        let mut first = saying(n, 7, &reason, &format!("{}{reason}", if n % 2 == 0 { "ANN " } else { "" }));
        first.facts.terms = vec![unslide_model::one_line(&reason, 300), "Cart.total".into()];
        database.store(std::slice::from_ref(&first)).await;
        rest.push(first);
    }
    // The same group with other words; another group; deleted.
    for (n, first) in rest.iter().enumerate() {
        let n = u8::try_from(n).unwrap() + 1;
        let (bug, title) = if n % 3 == 0 { (7, "no stock") } else { (8, "Sold") };
        if n % 3 == 2 {
            let mut tx = database.store.tenant(&acme()).await.unwrap();
            assert!(reports::delete_report(&mut tx, first.report_id, 0, None).await.unwrap());
            tx.commit().await.unwrap();
        } else {
            database.store(&[Arrival { revision: 2, ..saying(n, bug, "no stock", title) }]).await;
        }
    }
    assert_eq!(rows_with(&database, "ann").await, 0);
    assert_eq!(rows_with(&database, "no stock").await, 11, "the reports that said it again, and the groups");
    assert_eq!(found(&database, "cart.total").await, bugs(&["Sold", "no stock"], 8));
}

#[tokio::test]
async fn a_title_in_another_case_goes_with_its_last_report() {
    let database = Database::new().await;
    database.store(&[saying(1, 7, "of ann", "A CARD OF ANN")]).await;
    // The group keeps the smaller title, which is the other one's only in another case.
    database.store(&[saying(2, 7, "none", "a card of Ann"), saying(3, 7, "none", "b")]).await;
    for n in [1, 2] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert!(reports::delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap());
        tx.commit().await.unwrap();
    }
    assert_eq!(rows_with(&database, "ann").await, 0);
}

#[tokio::test]
async fn the_title_of_the_only_stored_report_goes_with_it_where_retention_removed_the_others() {
    let database = Database::new().await;
    let old = of_bug(1, "1.0", 3);
    database.store(&[old, saying(2, 7, "Card of Ann", "A card of Ann")]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let before = crate::tests::database::start().date() - time::Duration::DAY;
    assert_eq!(crate::retention::expire_reports(&mut tx, before, 10).await.unwrap(), 1);
    assert!(reports::delete_report(&mut tx, arrival(2).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(rows_with(&database, "ann").await, 0);
    assert_eq!(found(&database, "cart.total").await, bugs(&["crash"], 0), "its kind");
    // The next report names it again.
    database.store(&[saying(3, 7, "no stock", "No stock")]).await;
    assert_eq!(found(&database, "cart.total").await, bugs(&["No stock"], 1));
}

#[tokio::test]
async fn reports_of_several_groups_are_listed_in_the_order_of_their_arrival() {
    let database = Database::new().await;
    let reports: Vec<Arrival> = (1..=30)
        .map(|n| {
            let bug = 7 + n % 3;
            let mut arrival =
                with_terms(of_bug(n, if n > 20 { "2.0" } else { "1.0" }, (n % 4).into()), &["Order.pay"]);
            arrival.facts.grouping = Some(grouping(bug, false));
            arrival
        })
        .collect();
    database.store(&reports).await;
    let mut expected: Vec<_> = reports.iter().filter(|one| one.facts.version == "1.0").collect();
    expected.sort_by_key(|one| (one.received_at, one.report_id));
    let expected: Vec<_> = expected.into_iter().rev().map(|one| one.report_id).collect();
    let filter = listed::ReportFilter {
        text: Some("order.pay".into()),
        version: Some("1.0".into()),
        ..listed::ReportFilter::default()
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = listed::list_reports(&mut tx, &filter, after.as_ref(), 7).await.unwrap();
        found.extend(page.reports.into_iter().map(|report| report.report_id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, expected);
    assert_eq!(listed::count_reports(&mut tx, &filter).await.unwrap(), 20);
}

/// Drops the body of a stored report, as a cap does.
async fn drop_body(database: &Database, arrival: &Arrival) {
    let dropped = UnkeptBody {
        report: StoredRevision {
            received_at: arrival.received_at,
            report_id: arrival.report_id,
            variant: 0,
            revision: arrival.revision,
        },
        like: (arrival.report_id, 0),
        kept_bodies: 1,
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let choice = BodyChoice { dropped: vec![dropped], drops_waiting: true, ..BodyChoice::default() };
    assert_eq!(store_choice(&mut tx, &choice).await.unwrap(), 1);
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn texts_are_replaced_in_rows_without_bodies_and_in_the_title_and_terms_of_their_group() {
    let database = Database::new().await;
    let (one, two) =
        (saying(1, 7, "no cart of ann", "cart of ann"), saying(2, 7, "no cart of bob", "cart of bob"));
    database.store(&[one.clone(), two.clone()]).await;
    drop_body(&database, &one).await;
    let reports = [(one.report_id, 0), (two.report_id, 0)];
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert_eq!(row_texts::read_row_texts(&mut tx, &reports).await.unwrap(), [], "of another tenant");
    drop(tx);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let rows = row_texts::read_row_texts(&mut tx, &reports).await.unwrap();
    let said: Vec<_> =
        rows.iter().map(|row| (row.report_id, row.reason.as_deref(), row.title.as_deref())).collect();
    assert_eq!(
        said,
        [(one.report_id, Some("no cart of ann"), Some("cart of ann"))],
        "the other one has a body"
    );
    let replace = |text: Option<String>| text.map(|text| text.replace("ann", "[scrubbed:name]"));
    let scrubbed: Vec<RowTexts> = rows
        .into_iter()
        .map(|row| RowTexts { reason: replace(row.reason.clone()), title: replace(row.title.clone()), ..row })
        .collect();
    // A row whose report has its body again is not touched.
    let with_body = RowTexts { report_id: two.report_id, reason: None, ..scrubbed[0].clone() };
    let replaced = row_texts::replace_row_texts(&mut tx, &[scrubbed[0].clone(), with_body]).await.unwrap();
    assert_eq!(replaced, 1);
    tx.commit().await.unwrap();
    assert_eq!(rows_with(&database, "of ann").await, 0);
    assert_eq!(found(&database, "no cart of [scrubbed:name]").await, bugs(&["cart of [scrubbed:name]"], 2));
    assert_eq!(found(&database, "cart of bob").await.1, 2);
}
