//! Limits and errors of Apple's API.

use crate::testflight::apple::{APP, AppleServer, Fault, Log, crash_text};
use crate::testflight::inbox::{poll, read_inbox, set_and_poll, start_world};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

/// Returns the time from the end of a poll to the next one.
fn pause(state: &Value) -> Duration {
    let at = |name: &str| OffsetDateTime::parse(state["key"][name].as_str().unwrap(), &Rfc3339).unwrap();
    at("next_poll_at") - at("polled_at")
}

fn problem(state: &Value) -> &str {
    state["key"]["problem"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn the_limits_that_apple_names_are_kept_also_if_a_person_asks() {
    let apple = AppleServer::start().await;
    let world = start_world(&apple).await;
    let admin = world.create_master_key("acme").await;
    let first = set_and_poll(&world, &admin, &apple).await;
    assert_eq!((problem(&first), pause(&first)), ("", Duration::minutes(15)));
    let limited = |retry_after| Fault { part: "limit=200&fields", status: 429, retry_after, body: "{}" };
    apple.with(|apple| apple.faults.push(limited(Some("600"))));
    let named = poll(&world, &admin).await;
    assert!(problem(&named).contains("429"), "{named}");
    assert_eq!(pause(&named), Duration::minutes(10));
    // A poll that a person asks for waits as well.
    let asked = apple.count_requests("");
    world.post("/v1/testflight/poll", &admin, "").await.expect_status(202);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(apple.count_requests(""), asked);
    assert_eq!(read_inbox(&world, &admin).await["key"]["next_poll_at"], named["key"]["next_poll_at"]);

    // Without Retry-After, the pauses grow.
    let end = async || {
        let again = "UPDATE testflight_keys SET not_before = NULL, failures = 0, next_poll_at = now() + interval '1 hour'";
        world.execute(again).await;
    };
    end().await;
    apple.with(|apple| apple.faults.push(limited(None)));
    assert_eq!(pause(&poll(&world, &admin).await), Duration::minutes(1));
    world.execute("UPDATE testflight_keys SET not_before = NULL").await;
    apple.with(|apple| apple.faults.push(limited(None)));
    assert_eq!(pause(&poll(&world, &admin).await), Duration::minutes(2));

    // A tenth of the requests of an hour is left to others.
    end().await;
    for n in 1..=3 {
        apple.add(&format!("sub-{n}"), None, Log::Text(crash_text(n, APP)));
    }
    apple.with(|apple| apple.rate = Some("user-hour-lim:3500;user-hour-rem:350;"));
    let used_up = poll(&world, &admin).await;
    assert_eq!((problem(&used_up), pause(&used_up)), ("", Duration::minutes(15)));
    assert_eq!((&used_up["submissions"]["waiting"], apple.count_requests("crashLog")), (&json!(3), 0));
    apple.with(|apple| apple.rate = Some("user-hour-lim:3500;user-hour-rem:3400;"));
    end().await;
    assert_eq!(poll(&world, &admin).await["submissions"]["sent"], 3);
    world.stop().await;
}

#[tokio::test]
async fn a_refused_key_is_asked_with_once_more_and_then_waits_for_a_person() {
    let apple = AppleServer::start().await;
    let world = start_world(&apple).await;
    let admin = world.create_master_key("acme").await;
    set_and_poll(&world, &admin, &apple).await;
    apple.add("sub-1", None, Log::Text(crash_text(1, APP)));
    // A token that is refused in the middle of a poll is replaced once.
    apple.fail_next("crashLog", 401);
    let renewed = poll(&world, &admin).await;
    assert_eq!((problem(&renewed), &renewed["submissions"]["sent"]), ("", &json!(1)));
    for _ in 0..2 {
        apple.fail_next("limit=200&fields", 401);
    }
    let asked = apple.count_requests("");
    let refused = poll(&world, &admin).await;
    assert!(problem(&refused).contains("revoked or expired"), "{refused}");
    assert_eq!(pause(&refused), Duration::days(1));
    assert!(apple.count_requests("") <= asked + 2, "no storm");
    apple.with(|apple| apple.faults.clear());
    apple.fail_next("limit=200&fields", 403);
    let forbidden = poll(&world, &admin).await;
    assert!(problem(&forbidden).contains(APP) && problem(&forbidden).contains("Developer"), "{forbidden}");
    assert_eq!(pause(&forbidden), Duration::days(1));
    // Errors of Apple's servers, also such that are no JSON.
    for status in [500, 502, 503, 406] {
        let body = "<html>Bad Gateway</html>";
        apple.with(|apple| {
            apple.faults.push(Fault { part: "limit=200&fields", status, retry_after: None, body });
        });
        let failed = poll(&world, &admin).await;
        assert!(problem(&failed).contains(&status.to_string()), "{failed}");
        assert!(pause(&failed) >= Duration::minutes(1) && pause(&failed) <= Duration::hours(1));
    }
    apple.with(|apple| {
        apple.faults.push(Fault {
            part: "limit=200&fields",
            status: 200,
            retry_after: None,
            body: "no JSON",
        });
    });
    assert!(problem(&poll(&world, &admin).await).contains("documentation"));
    let healed = poll(&world, &admin).await;
    assert_eq!((problem(&healed), pause(&healed)), ("", Duration::minutes(15)));
    // A key with an end is not used after it.
    world.execute("UPDATE testflight_keys SET expires_at = now() - interval '1 second'").await;
    let asked = apple.count_requests("");
    let expired = poll(&world, &admin).await;
    assert!(problem(&expired).contains("set a new one"), "{expired}");
    assert_eq!(apple.count_requests(""), asked);
    world.stop().await;
}

#[tokio::test]
async fn no_request_goes_to_another_address_than_apples() {
    let (apple, other) = (AppleServer::start().await, AppleServer::start().await);
    for n in 1..=3 {
        apple.add(&format!("sub-{n}"), None, Log::Text(crash_text(n, APP)));
    }
    let world = start_world(&apple).await;
    let admin = world.create_master_key("acme").await;
    apple.with(|apple| apple.page_size = 2);
    for host in
        [other.url.clone(), format!("{}.example.com", apple.url), format!("{}@{}", apple.url, other.url)]
    {
        apple.with(|apple| apple.next_host = Some(host));
        let refused = set_and_poll(&world, &admin, &apple).await;
        assert!(problem(&refused).contains("not at Apple's address"), "{refused}");
        world.delete("/v1/testflight", &admin).await.expect_status(200);
    }
    // A redirect is not followed.
    apple.with(|apple| {
        apple.next_host = None;
        apple.faults.push(Fault { part: "limit=200&fields", status: 302, retry_after: None, body: "" });
    });
    assert!(problem(&set_and_poll(&world, &admin, &apple).await).contains("302"));
    assert_eq!(other.count_requests(""), 0);
    world.stop().await;
}
