//! The owner of a group, from a stored report.

use crate::owners::owner_world::{APP, BUILD, OwnerWorld};
use serde_json::Value;
use unslide_store::groups::{GroupActor, MergeOutcome, merge_groups, split_group};
use unslide_world::{tenant_id, wait_until};

/// Owners of the tests.
pub const FILE: &str = "* @acme/all\n/Sources/Cart/ @acme/cart\n/Sources/Kit/ @acme/kit @lee\n";
const INLINED: [(&str, &str, bool); 2] =
    [("Sum.total", "Sources/Kit/Sum.swift", true), ("Cart.add", "Sources/Cart/Cart.swift", false)];

#[tokio::test]
async fn the_owner_is_that_of_the_culprits_file_even_if_it_is_inlined() {
    let world = OwnerWorld::start().await;
    let group = world.store_report(1, 1, &INLINED).await;
    assert_eq!(world.owners(group).await["outcome"], "waiting");
    world.set_root().await.expect_status(200);
    world.upload("", FILE).await;
    let found = world.wait_for_look(group).await;
    assert_eq!((&found["outcome"], &found["owners"]), (&"owned".into(), &vec!["@acme/kit", "@lee"].into()));
    let why = &found["explanation"];
    assert_eq!(why["function"], "Sum.total");
    assert_eq!(why["frame"], 0);
    assert_eq!(why["path"], format!("{BUILD}Sources/Kit/Sum.swift"));
    assert_eq!(why["repository_path"], "Sources/Kit/Sum.swift");
    assert_eq!(why["rewrite"]["from"], BUILD);
    assert_eq!((&why["lines"][0]["line"], &why["lines"][0]["pattern"]), (&3.into(), &"/Sources/Kit/".into()));
    // A group that is new after the file is looked at, too.
    let cart = world.store_report(2, 1, &INLINED[1..]).await;
    assert_eq!(world.wait_for_look(cart).await["owners"], Value::from(vec!["@acme/cart"]));
    world.stop().await;
}

#[tokio::test]
async fn each_reason_for_no_owner_is_told_apart_and_none_is_a_wrong_owner() {
    let world = OwnerWorld::start().await;
    world.set_root().await.expect_status(200);
    let cases = [
        ("Cart.add", "Sources/Cart/Cart.swift", "cleared"),
        ("Pay.go", "Sources/Pay/Pay.swift", "unmatched"),
        ("Kit.go", "/Users/ci/build/shop2/Sources/Cart/Cart.swift", "unmapped"),
        ("Lib.go", "Pods/Lib/Lib.swift", "dependency"),
        ("Macro.go", "<compiler-generated>", "generated"),
        ("Bare.go", "", "no_source"),
    ];
    let mut groups = Vec::new();
    for (n, (function, file, outcome)) in (1..).zip(cases) {
        groups.push((world.store_report(n, 1, &[(function, file, false)]).await, outcome));
    }
    for (group, outcome) in &groups {
        let expected = if *outcome == "no_source" { "no_source" } else { "no_file" };
        assert_eq!(world.wait_for_look(*group).await["outcome"], expected, "{outcome}");
    }
    world.upload("", "/Sources/Cart/\n/Pod?/ @acme/pods\n").await;
    for (group, outcome) in &groups {
        let found = world.wait_for_look(*group).await;
        assert_eq!((&found["outcome"], &found["owners"]), (&(*outcome).into(), &Value::Array(Vec::new())));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_new_file_other_rewrites_and_late_symbols_make_a_group_due() {
    let world = OwnerWorld::start().await;
    world.upload("", FILE).await;
    let group = world.store_report(1, 1, &INLINED[1..]).await;
    assert_eq!(world.wait_for_look(group).await["outcome"], "unmapped");
    world.set_root().await.expect_status(200);
    assert_eq!(world.wait_for_look(group).await["owners"], Value::from(vec!["@acme/cart"]));
    // A revision of the report that was read names another function.
    world.store_report(1, 2, &INLINED).await;
    assert_eq!(world.wait_for_look(group).await["owners"], Value::from(vec!["@acme/kit", "@lee"]));
    world.upload("", "* @acme/new\n").await;
    assert_eq!(world.wait_for_look(group).await["owners"], Value::from(vec!["@acme/new"]));
    // A file of the version of the report goes before that of all versions, until it is deleted.
    let own = world.upload("1.0", "* @acme/one\n").await;
    world.upload("2.0", "* @acme/two\n").await;
    assert_eq!(world.wait_for_look(group).await["owners"], Value::from(vec!["@acme/one"]));
    let path = format!("/v1/owners/{}", own["id"].as_str().unwrap());
    assert_eq!(world.delete(&path, &world.key).await.status, 204);
    assert_eq!(world.wait_for_look(group).await["owners"], Value::from(vec!["@acme/new"]));
    world.stop().await;
}

#[tokio::test]
async fn a_report_that_cannot_be_read_does_not_stop_the_looks_at_others() {
    let world = OwnerWorld::start().await;
    world.set_root().await.expect_status(200);
    let damaged = world.store_report(1, 1, &INLINED).await;
    let good = world.store_report(2, 1, &INLINED).await;
    world.execute("UPDATE report_bodies SET body = '\\x00'").await;
    // The second one is stored again as it was.
    world.store_report(2, 2, &INLINED).await;
    world.upload("", FILE).await;
    assert_eq!(world.wait_for_look(good).await["outcome"], "owned");
    let failures = "SELECT max(failures)::bigint FROM group_owners";
    assert!(wait_until(async || world.number(failures).await > 0).await);
    let found = world.owners(damaged).await;
    assert_eq!((&found["outcome"], &found["is_due"]), (&"waiting".into(), &true.into()));
    world.stop().await;
}

#[tokio::test]
async fn the_owner_stays_known_after_the_reports_of_a_group_are_deleted() {
    let world = OwnerWorld::start().await;
    world.set_root().await.expect_status(200);
    world.upload("", FILE).await;
    let group = world.store_report(1, 1, &INLINED).await;
    assert_eq!(world.wait_for_look(group).await["outcome"], "owned");
    let report = world.owners(group).await["report"].as_str().unwrap().to_owned();
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let id = report.parse().unwrap();
    assert!(unslide_store::reports::delete_report(&mut tx, id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    if world.get(&format!("/v1/groups/{group}"), &world.key).await.status == 200 {
        world.upload("", "* @acme/new\n").await;
        assert_eq!(world.wait_for_look(group).await["owners"], Value::from(vec!["@acme/new"]));
    }
    let listed = world.get(&format!("/v1/owners?app={APP}"), &world.key).await.expect_status(200);
    assert_eq!(listed["app"], APP);
    world.stop().await;
}

#[tokio::test]
async fn a_new_file_is_resolved_without_a_report_and_the_same_file_changes_nothing() {
    let world = OwnerWorld::start().await;
    world.set_root().await.expect_status(200);
    let first = world.upload("", FILE).await;
    let cart = world.store_report(1, 1, &INLINED[1..]).await;
    let kit = world.store_report(2, 1, &INLINED).await;
    for group in [cart, kit] {
        assert_eq!(world.wait_for_look(group).await["outcome"], "owned");
    }
    // No report can be read from now on.
    world.execute("UPDATE report_bodies SET body = '\\x00'").await;
    let epoch = "SELECT epoch FROM owner_apps";
    let before = world.number(epoch).await;
    let audited = "SELECT count(*) FROM audit_log";
    let entries = world.number(audited).await;
    assert_eq!(world.upload("", FILE).await["id"], first["id"]);
    world.set_root().await.expect_status(200);
    assert_eq!((world.number(epoch).await, world.number(audited).await - entries), (before, 1));
    world.upload("", "/Sources/Cart/ @acme/new\n/Sources/Kit/ @acme/kit @lee\n").await;
    assert_eq!(world.wait_for_look(cart).await["owners"], Value::from(vec!["@acme/new"]));
    let unchanged = world.wait_for_look(kit).await;
    assert_eq!(unchanged["owners"], Value::from(vec!["@acme/kit", "@lee"]));
    assert_eq!(unchanged["explanation"]["lines"][0]["line"], 2);
    // The same lines for both: one statement ends the looks.
    world.upload("1.0", "/Sources/Cart/ @acme/new\n/Sources/Kit/ @acme/kit @lee\n# a comment\n").await;
    let at = world.wait_for_look(kit).await;
    assert_eq!(at["explanation"]["file_version"], "1.0");
    world.upload("1.0", "/Sources/Cart/ @acme/new\n/Sources/Kit/ @acme/kit @lee\n# another one\n").await;
    world.wait_for_look(cart).await;
    assert_eq!(world.wait_for_look(kit).await["explanation"], at["explanation"]);
    assert_eq!(world.number("SELECT sum(failures)::bigint FROM group_owners").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn a_file_of_a_newer_version_counts_once_the_group_has_reports_of_it() {
    let world = OwnerWorld::start().await;
    world.set_root().await.expect_status(200);
    world.upload("1.0", "* @acme/one\n").await;
    world.upload("2.0", "* @acme/two\n").await;
    let group = world.store_version(1, 1, "1.0", &INLINED).await;
    assert_eq!(world.wait_for_look(group).await["owners"], Value::from(vec!["@acme/one"]));
    world.execute("UPDATE groups SET last_version = '2.0'; UPDATE report_bodies SET body = '\\x00'").await;
    world.upload("3.0", "* @acme/three\n").await;
    let found = world.wait_for_look(group).await;
    assert_eq!((&found["owners"][0], &found["explanation"]["version"]), (&"@acme/two".into(), &"2.0".into()));
    world.stop().await;
}

#[tokio::test]
async fn merged_and_split_groups_are_looked_at_again() {
    let world = OwnerWorld::start().await;
    world.set_root().await.expect_status(200);
    world.upload("", FILE).await;
    let cart = world.store_report(1, 1, &INLINED[1..]).await;
    let kit = world.store_report(2, 1, &INLINED).await;
    assert_eq!(world.wait_for_look(cart).await["owners"], Value::from(vec!["@acme/cart"]));
    world.wait_for_look(kit).await;
    let actor = GroupActor { actor: "key", name: None };
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    assert_eq!(merge_groups(&mut tx, cart, &[kit], None, actor).await.unwrap(), MergeOutcome::Done);
    tx.commit().await.unwrap();
    // The newest report is one of the group that was merged.
    assert_eq!(world.wait_for_look(cart).await["owners"], Value::from(vec!["@acme/kit", "@lee"]));
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    assert_eq!(split_group(&mut tx, cart, kit, None, actor).await.unwrap(), MergeOutcome::Done);
    tx.commit().await.unwrap();
    assert_eq!(world.wait_for_look(cart).await["owners"], Value::from(vec!["@acme/cart"]));
    assert_eq!(world.wait_for_look(kit).await["owners"], Value::from(vec!["@acme/kit", "@lee"]));
    world.stop().await;
}
