//! The values that more of a group's reports have than of its app's.

use crate::own_keys::keyed_reports::{APP, group_of, with_keys};
use serde_json::json;
use unslide_harness::database::{TestDatabase, acme};
use unslide_own_keys::store::{StandingOutValue, find_standing_out};

#[tokio::test]
async fn values_in_a_larger_share_of_a_group_than_of_its_app_stand_out() {
    let database = TestDatabase::new(&[]).await;
    let of_group = (0..10).map(|n| {
        let flag = if n < 8 { "new" } else { "old" };
        with_keys(n, 1, json!({"checkout": flag, "plan": "free", "run": n.to_string()}))
    });
    let of_app = (10..40).map(|n| {
        let flag = if n < 14 { "new" } else { "old" };
        with_keys(n, 2, json!({"checkout": flag, "plan": "free", "run": n.to_string()}))
    });
    // Too few to stand out.
    let few = (40..44).map(|n| with_keys(n, 3, json!({"rare": "yes"})));
    let reports: Vec<_> = of_group.chain(of_app).chain(few).collect();
    database.store(&reports).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let expected =
        StandingOutValue { key: "checkout".into(), value: "new".into(), in_group: (8, 10), in_app: (12, 44) };
    assert_eq!(find_standing_out(&mut tx, APP, group_of(1)).await.unwrap()[0], expected);
    assert_eq!(find_standing_out(&mut tx, APP, group_of(3)).await.unwrap(), []);
    assert_eq!(find_standing_out(&mut tx, APP, group_of(9)).await.unwrap(), []);
}
