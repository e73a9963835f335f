//! A list that no index answers, of a tenant with many reports.

use crate::limits::shares::until_locks;
use crate::reports::{A, crash, store};
use crate::world::{Browser, World};
use serde_json::Value;
use std::time::Duration;
use unslide_model::Scope;

/// More than two steps of a list compare.
const REPORTS: u32 = 11_000;
/// Longer than a page compares reports.
const SLOW: Duration = Duration::from_millis(2_100);

/// Does what `answered` does while the table of reports is locked, until the time of a page is over.
async fn slowly<T>(world: &World, answered: impl Future<Output = T>) -> T {
    let mut locking = world.connect().await;
    for statement in ["BEGIN", "LOCK TABLE reports IN ACCESS EXCLUSIVE MODE"] {
        sqlx::query(statement).execute(&mut locking).await.unwrap();
    }
    let unlocked = async {
        until_locks(world, 1).await;
        tokio::time::sleep(SLOW).await;
        sqlx::query("ROLLBACK").execute(&mut locking).await.unwrap();
    };
    let (answer, ()) = tokio::join!(answered, unlocked);
    sqlx::Connection::close(locking).await.unwrap();
    answer
}

#[tokio::test]
async fn a_page_that_takes_long_says_how_far_it_searched_and_the_next_ones_go_on() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let older = format!(
        "INSERT INTO reports SELECT c.* FROM reports r CROSS JOIN generate_series(1, {REPORTS}) n
         CROSS JOIN LATERAL jsonb_populate_record(r, jsonb_build_object('report_id', md5(n::text)::uuid,
             'received_at', r.received_at - n * interval '1 millisecond', 'model', 'iPhone' || n % 5000)) c"
    );
    world.execute(&older).await;
    let path = "/v1/reports?model=iPhone4999&limit=10";
    let first = slowly(&world, world.get(path, &key)).await.expect_status(200);
    let time = |page: &Value| page["searched_to"].as_str().unwrap_or_else(|| panic!("{page}")).to_owned();
    let ids = |page: &Value| -> Vec<Value> {
        page["items"].as_array().unwrap().iter().map(|report| report["id"].clone()).collect()
    };
    assert_eq!(ids(&first).len(), 1, "{first}");
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = slowly(&world, world.get(&format!("{path}&cursor={cursor}"), &key)).await.expect_status(200);
    assert!(time(&second) < time(&first), "{second}");
    let browser = Browser::signed_in(&world, &key).await;
    let page = format!("/console/reports?model=iPhone4999&cursor={cursor}");
    let page = slowly(&world, browser.fetch_page(&page)).await;
    assert!(
        page.contains("Searched back to reports received") && page.contains(">Search older</a>"),
        "{page}"
    );
    let cursor = second["next_cursor"].as_str().unwrap();
    let last = world.get(&format!("{path}&cursor={cursor}"), &key).await.expect_status(200);
    assert!(last.get("next_cursor").is_none() && last.get("searched_to").is_none(), "{last}");
    let whole = world.get(path, &key).await.expect_status(200);
    assert_eq!(ids(&whole), [ids(&first), ids(&second), ids(&last)].concat());
    world.stop().await;
}
