//! Submissions become reports, each once.

use crate::testflight::apple::{APP, AppleServer, Log, Submission, crash_text};
use crate::testflight::inbox::{new_key, poll, put_key, retry_logs, set_and_poll, start_world};
use serde_json::json;
use std::collections::BTreeSet;

fn text(incident: u8) -> Log {
    Log::Text(crash_text(incident, APP))
}

#[tokio::test]
async fn each_submission_becomes_one_report_however_often_apple_is_asked() {
    let apple = AppleServer::start().await;
    for (n, comment) in [(1, None), (2, Some("It crashed in the cart.")), (3, None), (4, None), (5, None)] {
        apple.add(&format!("sub-{n}"), comment, text(n));
    }
    apple.with(|apple| {
        apple.page_size = 2;
        apple.submissions[0].log = Log::Missing;
        apple.submissions[1].log = Log::Null;
    });
    let world = start_world(&apple).await;
    let admin = world.create_master_key("acme").await;
    let first = set_and_poll(&world, &admin, &apple).await;
    assert_eq!(first["submissions"], json!({"sent": 3, "waiting": 2, "refused": 0, "no_log": 0}));
    assert_eq!((&first["key"]["problem"], first["recent"].as_array().unwrap().len()), (&json!(null), 5));
    let records = world.read_sent_records(3).await;
    let values: BTreeSet<String> =
        records.iter().map(|one| String::from_utf8(one.value.clone().unwrap().to_vec()).unwrap()).collect();
    assert_eq!(values.len(), 3);
    let first_log = values.iter().find(|value| value.contains("00000001-0000-4000-8000-000000000001"));
    assert!(first_log.is_some(), "{values:?}");
    let key = format!("acme/{APP}/0");
    assert!(records.iter().all(|one| one.key.as_deref() == Some(key.as_bytes())));
    let comment = "SELECT count(*) FROM testflight_comments WHERE comment = 'It crashed in the cart.'
                   AND report_id = '00000002-0000-4000-8000-000000000001'";
    assert_eq!(world.number(comment).await, 1);
    // One token for all requests.
    assert_eq!(apple.with(|apple| apple.tokens.len()), 2, "one of the check, one of the poll");

    // Asked again, with one log that is there now and a submission that is new.
    apple.with(|apple| apple.submissions[0].log = text(5));
    apple.add("sub-6", Some("Again."), text(6));
    retry_logs(&world).await;
    let second = poll(&world, &admin).await;
    assert_eq!(second["submissions"], json!({"sent": 5, "waiting": 1, "refused": 0, "no_log": 0}));
    let third = poll(&world, &admin).await;
    assert_eq!(third["submissions"], second["submissions"]);
    assert_eq!(world.read_sent_records(5).await.len(), 5);
    // A log that does not come is given up after seven days.
    world
        .execute(
            "UPDATE testflight_submissions SET seen_at = now() - interval '8 days' WHERE state = 'waiting'",
        )
        .await;
    retry_logs(&world).await;
    let given_up = poll(&world, &admin).await;
    assert_eq!(given_up["submissions"]["no_log"], 1);
    // Neither the address of a tester nor anything but the named fields was asked for.
    assert!(apple.with(|apple| {
        apple.requests.iter().all(|asked| !asked.contains("email") && !asked.contains("include"))
    }));
    let kept =
        "SELECT count(*) FROM testflight_submissions s WHERE s::text LIKE '%robin%' OR s.comment IS NOT NULL";
    assert_eq!(world.number(kept).await, 0);
    world.stop().await;
}

/// Proves: replay
#[tokio::test]
async fn a_process_that_ends_after_sending_sends_the_same_report_again() {
    let apple = AppleServer::start().await;
    apple.add("sub-1", Some("Words."), text(1));
    let world = start_world(&apple).await;
    let admin = world.create_master_key("acme").await;
    set_and_poll(&world, &admin, &apple).await;
    let first = world.read_sent_records(1).await;
    // As if it had ended before it recorded that.
    world
        .execute("UPDATE testflight_submissions SET state = 'waiting', report_id = NULL, comment = 'Words.'")
        .await;
    let again = poll(&world, &admin).await;
    assert_eq!(again["submissions"]["sent"], 1);
    let records = world.read_sent_records(2).await;
    assert_eq!(
        (&records[1].key, &records[1].value),
        (&first[0].key, &first[0].value),
        "the store knows it by its id"
    );
    assert_eq!(world.number("SELECT count(*) FROM testflight_comments").await, 1);
    // One that dies leaves its lease, which another process waits for.
    world
        .execute("UPDATE testflight_keys SET leased_until = now() + interval '1 hour', next_poll_at = now()")
        .await;
    let asked = apple.count_requests("");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(apple.count_requests(""), asked);
    world.execute("UPDATE testflight_keys SET leased_until = now()").await;
    let is_asked = unslide_world::wait_until(async || apple.count_requests("") > asked).await;
    assert!(is_asked, "the next process goes on");
    world.stop().await;
}

#[tokio::test]
async fn a_list_that_was_not_read_to_its_end_is_read_as_a_whole() {
    let apple = AppleServer::start().await;
    for n in 1..=6 {
        apple.add(&format!("sub-{n}"), None, text(n));
    }
    apple.with(|apple| apple.page_size = 2);
    let world = start_world(&apple).await;
    let admin = world.create_master_key("acme").await;
    // The second page fails: the first one is known then.
    apple.fail_next("cursor=0-2", 500);
    let failed = set_and_poll(&world, &admin, &apple).await;
    assert!(failed["key"]["problem"].as_str().unwrap().contains("500"), "{failed}");
    let whole = poll(&world, &admin).await;
    assert_eq!((&whole["submissions"]["sent"], &whole["key"]["problem"]), (&json!(6), &json!(null)));
    // While pages are read, one is added and the cursors expire.
    let page = apple.count_requests("limit=200&fields");
    for n in 7..=10 {
        apple.add(&format!("sub-{n}"), None, text(n));
    }
    apple.with(|apple| {
        apple.faults.push(crate::testflight::apple::Fault {
            part: "cursor=0-2",
            status: 400,
            retry_after: None,
            body: r#"{"errors": [{"code": "PARAMETER_ERROR.INVALID", "detail": "the cursor has expired"}]}"#,
        });
    });
    let expired = poll(&world, &admin).await;
    assert_eq!((&expired["submissions"]["sent"], &expired["key"]["problem"]), (&json!(10), &json!(null)));
    assert_eq!(apple.count_requests("limit=200&fields"), page + 2, "it began again once");
    // Then it ends at the first page that is known.
    let pages = apple.count_requests("betaFeedbackCrashSubmissions?");
    poll(&world, &admin).await;
    assert_eq!(apple.count_requests("betaFeedbackCrashSubmissions?"), pages + 1);
    world.stop().await;
}

#[tokio::test]
async fn a_log_that_cannot_be_read_or_is_of_another_app_becomes_a_dead_letter() {
    let apple = AppleServer::start().await;
    apple.add("garbage", Some("What is this?"), Log::Text("no crash log".to_owned()));
    apple.add("foreign", None, Log::Text(crash_text(9, "com.acme.bank")));
    apple.add("extension", None, Log::Text(crash_text(8, "com.acme.shop.widget")));
    let old = Submission {
        created: "2020-01-01T00:00:00Z".to_owned(),
        ..apple.with(|apple| apple.submissions[0].clone())
    };
    apple.with(|apple| apple.submissions.push(Submission { id: "old".to_owned(), ..old }));
    let world = start_world(&apple).await;
    let admin = world.create_master_key("acme").await;
    let state = set_and_poll(&world, &admin, &apple).await;
    assert_eq!(state["submissions"], json!({"sent": 1, "waiting": 0, "refused": 2, "no_log": 0}));
    let find = |id: &str| {
        let recent = state["recent"].as_array().unwrap();
        recent.iter().find(|one| one["submission"] == id).unwrap().clone()
    };
    assert!(find("foreign")["detail"].as_str().unwrap().contains("com.acme.bank"));
    assert!(!find("garbage")["detail"].as_str().unwrap().is_empty());
    let records = world.read_sent_records(3).await;
    let reasons: Vec<String> =
        records.iter().filter_map(|one| one.headers.get_text("refused-reason").map(str::to_owned)).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert_eq!(apple.count_requests("/old/"), 0, "a log of before 120 days is gone");
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn two_tenants_with_one_app_have_a_report_each() {
    let apple = AppleServer::start().await;
    apple.add("sub-1", Some("Words."), text(1));
    let world = start_world(&apple).await;
    for tenant in ["acme", "umbrella"] {
        let admin = world.create_master_key(tenant).await;
        let state = set_and_poll(&world, &admin, &apple).await;
        assert_eq!(state["submissions"]["sent"], 1, "{tenant}");
    }
    assert_eq!(world.number("SELECT count(DISTINCT tenant) FROM testflight_comments").await, 2);
    // A sealed key of one tenant does not open for another.
    world
        .execute(
            "UPDATE testflight_keys k SET sealed_key = o.sealed_key FROM testflight_keys o
             WHERE k.tenant = 'umbrella' AND o.tenant = 'acme'",
        )
        .await;
    let admin = world.create_master_key("umbrella").await;
    let asked = apple.count_requests("");
    let stolen = poll(&world, &admin).await;
    assert!(stolen["key"]["problem"].as_str().unwrap().contains("sealed with another"), "{stolen}");
    assert_eq!(apple.count_requests(""), asked);
    put_key(&world, &admin, &new_key(&apple)).await.expect_status(200);
    world.stop().await;
}
