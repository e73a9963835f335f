//! Alerts: who may make rules, and that messages reach real receivers, one that fails first among them.

use crate::alerts::alerts_api::{rule, start, start_with};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use unslide_alerts::Config;
use unslide_alerts::store::events::{AlertCause, raise_events};
use unslide_alerts::store::rules::AlertCondition;
use unslide_harness::receivers::{HttpAnswer, HttpReceiver, MailAnswer, MailReceiver};
use unslide_model::{Scope, Secret};
use unslide_store::{GroupId, Uuid};
use unslide_stream::scan;
use unslide_world::{World, tenant_id};

/// A receiver that answers as its path says; `/twice` fails while it is down.
async fn receiver(is_down: Arc<AtomicBool>) -> HttpReceiver {
    HttpReceiver::start(move |request, _| match request.path.as_str() {
        "/twice" if is_down.load(Ordering::SeqCst) => HttpAnswer::Status(502, "down\u{1b}[2J"),
        "/elsewhere" => HttpAnswer::Redirect("/caught"),
        "/mattermost" => HttpAnswer::Status(200, r#"{"ok":false,"error":"channel_not_found"}"#),
        "/feishu" => HttpAnswer::Status(200, r#"{"code":0}"#),
        "/wecom" => HttpAnswer::Status(200, r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#),
        _ => HttpAnswer::Status(200, "ok"),
    })
    .await
}

async fn world(mail: &MailReceiver, port: u16) -> World {
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com/".to_owned();
    let alerts = &mut config.api.alerts;
    alerts.networks = vec!["127.0.0.0/8".to_owned()];
    alerts.ports = vec![port];
    alerts.smtp_url = Secret::new(mail.url());
    alerts.mail_from = "Unslide <unslide@example.com>".to_owned();
    alerts.mail_domains = vec!["example.com".to_owned()];
    start_with(config).await
}

async fn made(world: &World, key: &str, rule: &Value) -> String {
    world.post_json("/v1/alert-rules", key, rule).await.expect_status(201)["id"].as_str().unwrap().to_owned()
}

/// The messages of a rule once its first one has this status.
async fn message(world: &World, key: &str, rule: &str, status: &str) -> Value {
    let mut last = Value::Null;
    for _ in 0..2_400 {
        let listed = world.get(&format!("/v1/alert-messages?rule={rule}"), key).await.expect_status(200);
        last = listed["items"][0].clone();
        let tried = last["attempts"].as_i64().unwrap_or_default() > 0 && last["due_at"].is_string();
        if last["status"] == status && (status != "waiting" || tried && last["last_error"].is_string()) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{last}");
}

#[tokio::test]
async fn messages_reach_their_receivers() {
    let is_down = Arc::new(AtomicBool::new(true));
    let (receiver, mails) =
        (receiver(is_down.clone()).await, MailReceiver::start(|| MailAnswer::Taken).await);
    let (url, world) = (receiver.url(), world(&mails, receiver.port()).await);
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let with = |channel: &str, address: String, more: Value| {
        let mut rule =
            json!({"name": channel, "condition": "new_group", "channel": channel, "address": address});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rule
    };
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let signed = json!({"secret": secret});
    let webhook = made(&world, &key, &with("webhook", format!("{url}/twice"), signed)).await;
    let template = json!({"template": r#"{"to":"15550100","text":"{{headline}} {{link}}"}"#});
    let gateway = made(&world, &key, &with("webhook", format!("{url}/sms"), template)).await;
    let form = json!({"content_type": "application/x-www-form-urlencoded", "template": "to=15550100&text={{headline}}"});
    let form = made(&world, &key, &with("webhook", format!("{url}/form"), form)).await;
    let mattermost = made(&world, &key, &with("slack", format!("{url}/mattermost"), json!({}))).await;
    let slack = made(&world, &key, &with("slack", format!("{url}/slack"), json!({}))).await;
    let feishu =
        made(&world, &key, &with("feishu", format!("{url}/feishu"), json!({"secret": "word"}))).await;
    let wecom = made(&world, &key, &with("wecom", format!("{url}/wecom"), json!({}))).await;
    let mail = made(&world, &key, &with("mail", "a@example.com, b@example.com".into(), json!({}))).await;
    let elsewhere = made(&world, &key, &with("webhook", format!("{url}/elsewhere"), json!({}))).await;
    let topic = made(&world, &key, &with("kafka", String::new(), json!({}))).await;
    // As the indexer does for a group that is new.
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let cause = AlertCause::new_group(
        GroupId::from_uuid(Uuid::from_u128(7)),
        "boom <!here>",
        "Cart.total",
        "shop",
        "2.0",
    );
    assert_eq!(raise_events(&mut tx, AlertCondition::NewGroup, &[cause]).await.unwrap(), 10);
    tx.commit().await.unwrap();
    for rule in [&gateway, &form, &slack, &feishu, &mail, &topic] {
        let message = message(&world, &key, rule, "delivered").await;
        assert_eq!((&message["attempts"], &message["headline"]), (&json!(1), &json!("New: boom <!here>")));
    }
    // A tenant does not read what a server in the operator's networks answers; redirects lead nowhere.
    let failed = message(&world, &key, &webhook, "waiting").await;
    assert_eq!(failed["last_error"], "The receiver answered with HTTP 502 and did not take the message");
    for rule in [&wecom, &mattermost] {
        let refused = message(&world, &key, rule, "waiting").await;
        assert_eq!(refused["last_error"], "The receiver answered with HTTP 200 and did not take the message");
    }
    let redirected = message(&world, &key, &elsewhere, "waiting").await;
    assert!(redirected["last_error"].as_str().unwrap().contains("HTTP 307"), "{redirected}");
    // Sent again by a person, with the same id.
    let id = failed["id"].as_str().unwrap();
    is_down.store(false, Ordering::SeqCst);
    world.post(&format!("/v1/alert-messages/{id}/send"), &key, "").await.expect_status(204);
    message(&world, &key, &webhook, "delivered").await;
    let received = receiver.received();
    assert!(received.iter().all(|request| request.path != "/caught"));
    let of = |path: &str| received.iter().filter(|request| request.path == path).collect::<Vec<_>>();
    let body = |path: &str| serde_json::from_str::<Value>(&of(path)[0].body).unwrap();
    let ids: Vec<_> = of("/twice").iter().map(|request| request.headers["idempotency-key"].clone()).collect();
    assert!(ids.len() > 1 && ids.iter().all(|sent| sent == id), "{ids:?}");
    assert!(of("/twice").iter().all(|request| request.is_signed_with(secret)));
    let event = &body("/twice")["events"][0];
    let link = format!("https://crashes.example.com/console/groups/{}", Uuid::from_u128(7));
    assert_eq!((&event["app"], &event["link"]), (&json!("shop"), &json!(link)));
    let text = format!("New: boom <!here> {link}");
    assert_eq!(body("/sms"), json!({"to": "15550100", "text": text}));
    assert_eq!(of("/sms")[0].headers["content-type"], "application/json");
    assert_eq!(of("/form")[0].headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(of("/form")[0].body, "to=15550100&text=New%3A+boom+%3C%21here%3E");
    let slack = body("/slack")["text"].as_str().unwrap().to_owned();
    assert!(slack.starts_with("New: boom &lt;!here&gt;\nCart.total\nshop 2.0"), "{slack}");
    assert!(body("/feishu")["sign"].is_string());
    let alerts = world.config.kafka.topic_names().alerts;
    let record = scan::whole_topic(&world.config.kafka, &alerts).await.unwrap().remove(0);
    let read: Value = serde_json::from_slice(&record.value.unwrap()).unwrap();
    assert_eq!(
        (&read["rule"]["id"], &read["events"][0]["headline"]),
        (&json!(topic), &json!("New: boom <!here>"))
    );
    assert_eq!(record.headers.get_text("tenant"), Some("acme"));
    assert_eq!(record.headers.get_text("idempotency-key"), read["id"].as_str());
    let mail = mails.received().remove(0);
    assert_eq!(mail.recipients, ["a@example.com", "b@example.com"]);
    assert_eq!(mail.header("From"), Some("Unslide <unslide@example.com>"));
    assert_eq!(mail.header("Subject"), Some("[Unslide] New: boom <!here>"));
    let id = mail.header("Message-ID").unwrap();
    assert!(id.starts_with('<') && id.ends_with("@example.com>"), "{id}");
    assert!(mail.text.contains("Cart.total"), "{}", mail.text);
    world.stop().await;
}

#[tokio::test]
async fn rules_that_cannot_work_are_refused_and_secrets_stay_in() {
    let world = start().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    for (change, part) in [
        (json!({"address": "http://example.com/hook"}), "https://"),
        (json!({"address": "https://169.254.169.254/latest"}), "not an address of the internet"),
        (json!({"address": "https://[::ffff:10.0.0.1]/"}), "not an address of the internet"),
        (json!({"address": ""}), "address"),
        (json!({"channel": "mail", "address": "a@example.com"}), "does not send mail"),
        (json!({"secret": "word"}), "whsec_"),
        (json!({"channel": "slack", "secret": "word"}), "slack has none"),
        (json!({"channel": "slack", "template": "x"}), "only webhooks"),
        (json!({"content_type": "application/x-www-form-urlencoded"}), "content_type: only with a template"),
        (json!({"template": "x", "content_type": "text/plain"}), "text/plain"),
        (json!({"channel": "kafka"}), "address: kafka has none"),
        (json!({"channel": "kafka", "address": "", "secret": "word"}), "secret: kafka has none"),
        (json!({"condition": "spike", "threshold": 1}), "threshold"),
        (json!({"condition": "crash_free", "threshold": 101}), "threshold: 1 to 100"),
        (json!({"condition": "eclipse"}), "eclipse"),
        (json!({"digest_minutes": 1441}), "digest_minutes"),
        (json!({"quiet_hours": {"from": "25:00", "to": "07:00"}}), "hour"),
        (json!({"name": ""}), "name"),
    ] {
        let mut body = rule("https://alerts.example.com/hook");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let detail =
            world.post_json("/v1/alert-rules", &key, &body).await.expect_problem(400, "invalid-body");
        assert!(detail.contains(part), "{change}: {detail}");
    }
    let mut body = rule("https://user:word@alerts.example.com/secret-path?key=1");
    body["secret"] = json!("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let answer = world.post_json("/v1/alert-rules", &key, &body).await;
    for secret in ["secret-path", "user", "word@", "MfKQ"] {
        assert!(!answer.text.contains(secret), "{secret} in {}", answer.text);
    }
    let made = answer.expect_status(201);
    assert_eq!((&made["address"], &made["signed"]), (&json!("https://alerts.example.com/…"), &json!(true)));
    // A key for one app makes, sees and changes rules of that app.
    let shop = world.key_for("acme", &[Scope::TenantAdmin], Some("shop")).await;
    let other = json!({"app": "bank"});
    let mut of_bank = rule("https://alerts.example.com/hook");
    of_bank.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    world.post_json("/v1/alert-rules", &shop, &of_bank).await.expect_problem(403, "insufficient-scope");
    let own = world
        .post_json("/v1/alert-rules", &shop, &rule("https://alerts.example.com/hook"))
        .await
        .expect_status(201);
    assert_eq!(own["app"], "shop");
    let seen = world.get("/v1/alert-rules", &shop).await.expect_status(200);
    assert_eq!(seen["items"].as_array().unwrap().len(), 1);
    let path = format!("/v1/alert-rules/{}", made["id"].as_str().unwrap());
    world.patch(&path, &shop, &json!({"enabled": false})).await.expect_problem(404, "not-found");
    // What changes is what was named.
    let quiet =
        json!({"quiet_hours": {"from": "22:00", "to": "07:00"}, "muted_until": "2100-01-01T00:00:00Z"});
    let changed = world.patch(&path, &key, &quiet).await.expect_status(200);
    assert_eq!((&changed["quiet_hours"], &changed["name"]), (&quiet["quiet_hours"], &json!("new bugs")));
    let none = json!({"quiet_hours": {"from": "00:00", "to": "00:00"}});
    assert_eq!(world.patch(&path, &key, &none).await.expect_status(200)["quiet_hours"], Value::Null);
    // A receiver is replaced as a whole: its secret does not sign for another one.
    let receiver = json!({"channel": "slack", "address": "https://hooks.example.com/other"});
    let changed = world.patch(&path, &key, &receiver).await.expect_status(200);
    assert_eq!((&changed["channel"], &changed["signed"]), (&json!("slack"), &json!(false)));
    assert_eq!(changed["address"], "https://hooks.example.com/…");
    for (half, part) in [
        (json!({"address": "https://hooks.example.com/third"}), "only with channel"),
        (json!({"content_type": "application/x-www-form-urlencoded"}), "only with channel"),
        (json!({"channel": "slack"}), "address"),
        (json!({"channel": "slack", "address": "https://127.0.0.1/"}), "not an address of the internet"),
    ] {
        let detail = world.patch(&path, &key, &half).await.expect_problem(400, "invalid-body");
        assert!(detail.contains(part), "{half}: {detail}");
    }
    world.delete(&path, &key).await.expect_status(204);
    world.delete(&path, &key).await.expect_problem(404, "not-found");
    world.stop().await;
}
