//! One thread for a bug: posted once, updated with the state, and replied to when the bug is back.

use crate::chat::played::Fault;
use crate::chat::shop::{Shop, new_app, put};
use serde_json::json;

#[tokio::test]
async fn a_bug_has_one_thread_with_its_state_and_its_regressions() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    shop.wait_for("a first message", |slack| slack.parents().len() == 1).await;
    let parent = shop.slack.parents().remove(0);
    // Crash texts are plain text, without anything that Slack obeys.
    for block in parent["blocks"].as_array().unwrap() {
        assert!(block["text"].is_null() || block["text"]["type"] == "plain_text", "{block}");
    }
    let texts = format!("{} {}", parent["text"], parent["blocks"]);
    assert!(texts.contains("hostile &lt;!channel&gt; &lt;@U1&gt;") && !texts.contains("<!"), "{texts}");
    assert_eq!(
        (&parent["parse"], &parent["mrkdwn"], &parent["unfurl_links"]),
        (&json!("none"), &json!(false), &json!(false))
    );
    assert!(texts.contains(&format!("https://crashes.example.com/console/groups/{group}")), "{texts}");
    // Another report of the bug posts nothing.
    shop.crash(4, "1.0").await;
    shop.change_group(&group, &json!({"status": "resolved", "assignee": "Kim"})).await;
    shop.wait_for_text("State: resolved, assigned to Kim").await;
    assert!(!shop.slack.parents()[0]["blocks"].to_string().contains("resolve_next"));
    assert_eq!(shop.slack.replies().len(), 0);
    shop.crash(7, "2.0").await;
    shop.wait_for("a reply", |slack| slack.replies().len() == 1).await;
    let reply = shop.slack.replies().remove(0);
    assert_eq!((&reply["thread_ts"], &reply["reply_broadcast"]), (&parent["ts"], &json!(true)));
    assert!(reply["text"].as_str().unwrap().contains("is back in version 2.0"), "{reply}");
    shop.wait_for_text("State: regressed").await;
    shop.wait_until_idle().await;
    assert_eq!((shop.slack.parents().len(), shop.slack.replies().len()), (1, 1));
    shop.world.stop().await;
}

#[tokio::test]
async fn a_lost_answer_posts_nothing_twice() {
    let shop = Shop::open().await;
    shop.slack.fail_next("chat.postMessage", Fault::LostAnswer);
    let group = shop.crash(1, "1.0").await;
    let failed = "SELECT count(*) FROM slack_threads WHERE problem IS NOT NULL AND leased_until IS NULL";
    let has_failed = async || shop.world.number(failed).await == 1;
    assert!(unslide_world::wait_until(has_failed).await, "the answer is lost");
    // Newer messages are before it.
    for n in 0..3 {
        shop.slack.with(|played| {
            played.messages.push(json!({"ts": format!("9{n}.0"), "channel": "C", "text": "other"}));
        });
    }
    shop.hurry().await;
    shop.wait_until_idle().await;
    let ours = |slack: &crate::chat::played::SlackServer| {
        slack.parents().iter().filter(|parent| parent["metadata"]["event_type"] == "unslide_group").count()
    };
    assert_eq!((ours(&shop.slack), shop.slack.count_requests("chat.postMessage")), (1, 1));
    assert!(shop.slack.count_requests("conversations.history") > 1);
    // The reply about a regression is searched for in its thread.
    shop.change_group(&group, &json!({"status": "resolved"})).await;
    shop.wait_for_text("State: resolved").await;
    shop.wait_until_idle().await;
    shop.slack.fail_next("chat.postMessage", Fault::LostAnswer);
    shop.crash(4, "2.0").await;
    assert!(unslide_world::wait_until(has_failed).await, "the answer is lost");
    shop.hurry().await;
    shop.wait_until_idle().await;
    assert_eq!((shop.slack.replies().len(), shop.slack.count_requests("chat.postMessage")), (1, 2));
    assert!(shop.slack.count_requests("conversations.replies") > 0);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_message_that_was_deleted_is_posted_again_once() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    shop.wait_for("a first message", |slack| slack.parents().len() == 1).await;
    shop.wait_until_idle().await;
    shop.slack.with(|played| played.messages.clear());
    shop.change_group(&group, &json!({"status": "ignored"})).await;
    shop.wait_for_text("State: ignored").await;
    shop.wait_until_idle().await;
    shop.slack.with(|played| played.messages.clear());
    shop.change_group(&group, &json!({"status": "open"})).await;
    let refused = "SELECT count(*) FROM slack_threads WHERE problem LIKE '%message_not_found%'";
    assert!(
        unslide_world::wait_until(async || shop.world.number(refused).await == 1).await,
        "it is posted twice"
    );
    assert_eq!(shop.slack.count_requests("chat.postMessage"), 2);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_token_or_a_limit_that_fails_holds_the_posts_of_the_tenant() {
    let shop = Shop::open().await;
    let problem = async |part: &str| {
        let shown = shop.world.get("/v1/chat/slack", &shop.key).await.expect_status(200);
        shown["slack"]["waits_until"].is_string() && shown["slack"]["problem"].to_string().contains(part)
    };
    shop.slack.fail_next("chat.postMessage", Fault::Limited(600));
    shop.crash(1, "1.0").await;
    assert!(unslide_world::wait_until(async || problem("limit").await).await, "it is not held");
    shop.slack.fail_next("chat.postMessage", Fault::Word("token_revoked"));
    shop.hurry().await;
    assert!(unslide_world::wait_until(async || problem("token_revoked").await).await, "it is not held");
    shop.crash(2, "1.0").await;
    assert_eq!(shop.slack.parents().len(), 0);
    // Setting it again ends the pause.
    put(&shop.world, &shop.key, &new_app()).await.expect_status(200);
    shop.wait_for("both messages", |slack| slack.parents().len() == 2).await;
    shop.wait_until_idle().await;
    let shown = shop.world.get("/v1/chat/slack", &shop.key).await.expect_status(200);
    assert!(shown["slack"]["problem"].is_null(), "{shown}");
    shop.world.stop().await;
}
