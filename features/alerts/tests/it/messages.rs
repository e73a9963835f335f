//! Alerts: a cause has one message for each rule, and a message is sent until its target took it.

use time::Duration;
use time::macros::time;
use unslide_alerts::store::events::{AlertCause, raise_events};
use unslide_alerts::store::messages::{
    AlertStatus, ClaimedAlertMessage, DeliveryFailure, ListedAlertMessage, MOST_ATTEMPTS, SEND_LEASE_TIMEOUT,
    claim_message, collect_events, finish_attempt, send_again,
};
use unslide_alerts::store::rules::{
    AlertChannel, AlertCondition, AlertRule, AlertRuleChange, MOST_RULES, NewAlertRule, TemplateType,
};
use unslide_alerts::store::schedule::QuietHours;
use unslide_alerts::store::{
    ALERT_HOOK, AlertStep, evaluate_rule, list_due, messages, postpone_evaluation, routing, rule_table,
};
use unslide_harness::database::{TestDatabase, acme, arrival, grouping, start, umbrella};
use unslide_model::Secret;
use unslide_store::groups::{GroupActor, MergeOutcome, id_of};
use unslide_store::queries::groups::{self, GroupFilter, GroupOrder};
use unslide_store::reports::{Arrival, Effects};
use unslide_store::tables::purge_old_rows;
use unslide_store::{Announcement, GroupId, TenantTx, Uuid, announce_to_features};

pub fn new_rule(condition: AlertCondition) -> NewAlertRule {
    NewAlertRule {
        name: "rule".into(),
        app: None,
        condition,
        threshold: None,
        least_reports: None,
        figure: None,
        summary: None,
        labels: Vec::new(),
        channel: AlertChannel::Webhook,
        address: Secret::new("https://example.com/hook"),
        secret: Secret::new("word"),
        template: String::new(),
        content_type: TemplateType::Json,
        digest_minutes: 0,
        quiet_hours: None,
        escalation: None,
    }
}

pub async fn made(database: &TestDatabase, new: &NewAlertRule) -> AlertRule {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let rule = rule_table::create_rule(&mut tx, new, None).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    rule
}

async fn new_groups(database: &TestDatabase, apps: &[&str]) -> u64 {
    let causes: Vec<AlertCause> = apps
        .iter()
        .map(|app| {
            AlertCause::new_group(GroupId::from_uuid(Uuid::from_u128(7)), "title", "culprit", app, "1.0")
        })
        .collect();
    in_tx(database, async |tx| raise_events(tx, AlertCondition::NewGroup, &causes).await.unwrap()).await
}

pub async fn in_tx<T>(database: &TestDatabase, work: impl AsyncFnOnce(&mut TenantTx) -> T) -> T {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let done = work(&mut tx).await;
    tx.commit().await.unwrap();
    done
}

/// Takes every step that is due now, but for sending.
pub async fn steps(database: &TestDatabase) {
    for one in list_due(&database.store, 100).await.unwrap() {
        let mut tx = database.store.tenant(&one.tenant).await.unwrap();
        match one.step {
            AlertStep::Evaluate => drop(evaluate_rule(&mut tx, one.rule).await.unwrap()),
            AlertStep::Route => drop(routing::route_events(&mut tx, one.rule).await.unwrap()),
            AlertStep::Collect => drop(collect_events(&mut tx, one.rule).await.unwrap()),
            AlertStep::Escalate | AlertStep::Send => {}
        }
        tx.commit().await.unwrap();
    }
}

async fn claimed(database: &TestDatabase, rule: &AlertRule) -> Option<ClaimedAlertMessage> {
    in_tx(database, async |tx| claim_message(tx, rule.id).await.unwrap()).await
}

async fn finished(database: &TestDatabase, message: &ClaimedAlertMessage, outcome: Result<(), &str>) {
    let failure = outcome.map_err(|text| DeliveryFailure::from(text.to_owned()));
    in_tx(database, async |tx| finish_attempt(tx, message, failure.as_ref().copied()).await.unwrap()).await;
}

async fn listed(database: &TestDatabase) -> Vec<ListedAlertMessage> {
    in_tx(database, async |tx| messages::list_messages(tx, None, None, None, 100).await.unwrap()).await
}

#[tokio::test]
async fn a_cause_is_told_once_to_each_rule_of_its_app() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let every = made(&database, &new_rule(AlertCondition::NewGroup)).await;
    let bank = NewAlertRule { app: Some("bank".into()), ..new_rule(AlertCondition::NewGroup) };
    let bank = made(&database, &bank).await;
    made(&database, &new_rule(AlertCondition::Regression)).await;
    assert_eq!(new_groups(&database, &["shop"]).await, 1);
    assert_eq!(new_groups(&database, &["shop"]).await, 0, "the same cause again");
    assert_eq!(new_groups(&database, &["bank"]).await, 1, "of the rule that is not told yet");
    steps(&database).await;
    let message = claimed(&database, &every).await.unwrap();
    assert_eq!((message.events, message.attempt, message.secret.reveal()), (1, 1, "word"));
    assert_eq!((message.named[0].headline.as_str(), message.named[0].app.as_str()), ("New: title", "shop"));
    assert!(claimed(&database, &every).await.is_none(), "somebody has it");
    finished(&database, &message, Ok(())).await;
    assert!(claimed(&database, &bank).await.is_some());
    // A rule that is off is told nothing, and nobody else's are there.
    let off = AlertRuleChange { enabled: Some(false), ..AlertRuleChange::default() };
    assert!(
        in_tx(&database, async |tx| rule_table::change_rule(tx, bank.id, Some("bank"), &off, None)
            .await
            .unwrap())
        .await
    );
    assert!(
        !in_tx(&database, async |tx| rule_table::change_rule(tx, every.id, Some("bank"), &off, None)
            .await
            .unwrap())
        .await
    );
    let mut other = database.store.tenant(&umbrella()).await.unwrap();
    assert!(rule_table::list_rules(&mut other, None, None, 9).await.unwrap().is_empty());
    assert!(rule_table::get(&mut other, every.id, None).await.unwrap().is_none());
    assert!(!rule_table::delete_rule(&mut other, every.id, None).await.unwrap());
    assert!(messages::list_messages(&mut other, None, None, None, 9).await.unwrap().is_empty());
    assert!(!send_again(&mut other, message.id, None).await.unwrap());
    assert!(claim_message(&mut other, every.id).await.unwrap().is_none());
}

#[tokio::test]
async fn an_event_loses_a_title_that_was_removed_and_keeps_the_rest() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::NewGroup)).await;
    new_groups(&database, &["shop"]).await;
    steps(&database).await;
    let removed = [Announcement::texts_removed()];
    in_tx(&database, async |tx| announce_to_features(tx, &removed).await.unwrap()).await;
    let message = claimed(&database, &rule).await.unwrap();
    // The group of the event does not exist.
    assert_eq!(message.named[0].headline, "A bug whose texts were removed");
    assert_eq!((message.named[0].app.as_str(), message.events), ("shop", 1));
}

#[tokio::test]
async fn a_message_is_sent_again_until_it_is_taken_or_given_up() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::NewGroup)).await;
    new_groups(&database, &["shop"]).await;
    steps(&database).await;
    let first = claimed(&database, &rule).await.unwrap();
    // Its sender dies: another one has it later, and what the first one notes then counts no more.
    database.wait(SEND_LEASE_TIMEOUT);
    let second = claimed(&database, &rule).await.unwrap();
    assert_eq!((second.id, second.attempt), (first.id, 2));
    finished(&database, &first, Err("late")).await;
    assert_eq!(listed(&database).await[0].last_error, None);
    finished(&database, &second, Err("HTTP 500")).await;
    for attempt in 3..=MOST_ATTEMPTS {
        assert!(claimed(&database, &rule).await.is_none(), "not yet");
        database.wait(Duration::hours(6));
        let message = claimed(&database, &rule).await.unwrap();
        assert_eq!(message.attempt, attempt);
        finished(&database, &message, Err("HTTP 500")).await;
    }
    let message = &listed(&database).await[0];
    assert_eq!((message.status, message.last_error.as_deref()), (AlertStatus::Failed, Some("HTTP 500")));
    database.wait(Duration::hours(6));
    assert!(list_due(&database.store, 9).await.unwrap().iter().all(|one| one.step != AlertStep::Send));
    // A person has it sent again: with the same id.
    assert!(in_tx(&database, async |tx| send_again(tx, first.id, None).await.unwrap()).await);
    let again = claimed(&database, &rule).await.unwrap();
    assert_eq!((again.id, again.attempt), (first.id, 1));
    finished(&database, &again, Ok(())).await;
    let message = &listed(&database).await[0];
    assert_eq!((message.status, message.last_error.as_ref()), (AlertStatus::Delivered, None));
    database.wait(Duration::days(87));
    assert_eq!(purge_old_rows(&database.store).await.unwrap(), 0);
    database.wait(Duration::days(4));
    assert_eq!(purge_old_rows(&database.store).await.unwrap(), 1, "the message, with its event");
    assert!(listed(&database).await.is_empty());
}

#[tokio::test]
async fn digests_quiet_hours_and_muting_hold_messages_back() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rule = NewAlertRule { digest_minutes: 60, ..new_rule(AlertCondition::NewGroup) };
    let rule = made(&database, &rule).await;
    let raised = async |number: u128| {
        let cause = AlertCause::new_group(
            GroupId::from_uuid(Uuid::from_u128(number)),
            "title",
            "culprit",
            "shop",
            "1.0",
        );
        in_tx(&database, async |tx| raise_events(tx, AlertCondition::NewGroup, &[cause]).await.unwrap())
            .await;
        steps(&database).await;
        listed(&database).await.iter().map(|message| message.events).collect::<Vec<_>>()
    };
    assert_eq!(raised(1).await, [1], "the first one at once");
    assert_eq!(raised(2).await, [1]);
    assert_eq!(raised(3).await, [1]);
    database.wait(Duration::HOUR);
    assert_eq!(raised(4).await, [3, 1], "the others together");
    let change = async |change: AlertRuleChange| {
        assert!(
            in_tx(&database, async |tx| rule_table::change_rule(tx, rule.id, None, &change, None)
                .await
                .unwrap())
            .await
        );
    };
    // It is nine: quiet until noon.
    let quiet = QuietHours { from: time!(9:00), to: time!(12:00) };
    change(AlertRuleChange {
        quiet_hours: Some(quiet),
        digest_minutes: Some(0),
        ..AlertRuleChange::default()
    })
    .await;
    database.wait(Duration::HOUR);
    assert_eq!(raised(5).await, [3, 1]);
    database.wait(Duration::hours(2));
    assert_eq!(raised(6).await, [2, 3, 1]);
    // Muted: noted, and not sent.
    let until = Some(start() + Duration::hours(6));
    change(AlertRuleChange { muted_until: until, ..AlertRuleChange::default() }).await;
    database.wait(Duration::MINUTE);
    assert_eq!(raised(7).await, [1, 2, 3, 1]);
    assert_eq!(listed(&database).await[0].status, AlertStatus::Muted);
    database.wait(Duration::hours(2));
    assert_eq!(raised(8).await, [1, 1, 2, 3, 1]);
    assert_eq!(listed(&database).await[0].status, AlertStatus::Waiting);
}

#[tokio::test]
async fn rules_over_time_look_at_what_is_stored() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let spike = made(&database, &new_rule(AlertCondition::Spike)).await;
    let missing = made(&database, &new_rule(AlertCondition::MissingSymbols)).await;
    let new = made(&database, &new_rule(AlertCondition::NewGroup)).await;
    let mut arrivals: Vec<_> = (1..=25).map(arrival).collect();
    for arrival in &mut arrivals {
        arrival.received_at = start() + Duration::minutes(1);
        arrival.facts.grouping = Some(grouping(1, false));
    }
    arrivals[0].facts.grouping = Some(grouping(9, true));
    // Hangs that the app survived are no crashes.
    let mut hang = arrivals[1].clone();
    (hang.facts.kind, hang.facts.summary) = ("hang".into(), serde_json::json!({"fatal": false}));
    arrivals.extend((26..=90).map(|n| {
        let Arrival { report_id, content_hash, .. } = arrival(n);
        Arrival { report_id, content_hash, ..hang.clone() }
    }));
    database.store(&arrivals).await;
    database.wait(Duration::minutes(10));
    steps(&database).await;
    steps(&database).await;
    let told = async || {
        let mut told = Vec::new();
        for rule in [&spike, &missing, &new] {
            let message = claimed(&database, rule).await;
            told.push(
                message.map(|message| message.named.iter().map(|event| event.headline.clone()).collect()),
            );
        }
        told
    };
    let words = |text: &str| Some(vec![text.to_owned()]);
    let spike_told = words("25 crashes of com.acme.shop in an hour");
    assert_eq!(told().await, [spike_told, None, words("New: bug 1")]);
    database.execute("UPDATE alert_messages SET status = 'delivered'").await;
    // Symbols had half an hour to come.
    database.wait(Duration::minutes(25));
    steps(&database).await;
    steps(&database).await;
    let [_, missing_told, new_told] = &told().await[..] else { panic!() };
    assert!(missing_told.as_ref().unwrap()[0].starts_with("Symbols of "), "{missing_told:?}");
    assert_eq!(new_told, &words("New: bug 9"));
    // Sessions of today, of which three in a hundred crash. Of 1.7, ninety came, which stand for ten each.
    let days = "INSERT INTO session_days (tenant, app, version, day, sessions, crashed, squares, installations, crashed_installations,
                                          users, crashed_users)
                VALUES ('acme', 'shop', '2.0', '2026-11-20', 200, 6, 200, '', '', '', ''), ('acme', 'shop', '1.9', '2026-11-20', 200, 1, 200, '', '', '', ''),
                       ('acme', 'shop', '1.8', '2026-11-20', 99, 99, 99, '', '', '', ''), ('acme', 'shop', '2.0', '2026-11-19', 200, 9, 200, '', '', '', ''),
                       ('acme', 'shop', '1.7', '2026-11-20', 900, 90, 9000, '', '', '', '')";
    database.execute(days).await;
    let crashing = made(&database, &new_rule(AlertCondition::CrashFree)).await;
    steps(&database).await;
    steps(&database).await;
    let message = claimed(&database, &crashing).await.unwrap();
    let headlines: Vec<&str> = message.named.iter().map(|event| event.headline.as_str()).collect();
    assert_eq!(headlines, ["Only 97.00 % of the sessions of shop 2.0 are crash-free"]);
    // The same again is nothing new.
    database.execute("UPDATE alert_messages SET status = 'delivered'").await;
    database.wait(Duration::minutes(10));
    steps(&database).await;
    assert_eq!(told().await, [None, None, None]);
    // Many times as many as usual: not with such a past.
    database.execute("DELETE FROM alert_events").await;
    let past = "INSERT INTO app_days (tenant, app, version, day, reports, fatal, devices, frames_total,
                                      frames_symbolicated, complete, partial, none)
                VALUES ('acme', 'com.acme.shop', '0.9', '2026-11-19', 168 * 9, 168 * 9, 0, 0, 0, 0, 0, 0)";
    database.execute(past).await;
    database.wait(Duration::minutes(10));
    steps(&database).await;
    assert_eq!(database.number("SELECT count(*) FROM alert_events WHERE cause LIKE 'spike%'").await, 0);
    // A crash of the evening is told when the app starts again, after midnight: of a day since the rule was made.
    database.wait(Duration::days(1));
    database.execute("UPDATE session_days SET crashed = 8 WHERE version = '1.9'").await;
    steps(&database).await;
    let told =
        "SELECT count(*) FROM alert_events WHERE cause LIKE 'crash_free:%' AND cause LIKE '%:1.9:2026-11-20'";
    assert_eq!(database.number(told).await, 1);
    assert_eq!(database.number("SELECT count(*) FROM alert_events WHERE cause LIKE '%:2026-11-19'").await, 0);
}

/// Proves: fairness
#[tokio::test]
async fn rules_are_due_one_of_each_tenant_in_turn_and_one_that_was_put_off_is_not() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let mut made_first = Vec::new();
    for _ in 0..3 {
        made_first.push(made(&database, &new_rule(AlertCondition::NewGroup)).await.id);
        database.wait(Duration::SECOND);
    }
    let mut other = database.store.tenant(&umbrella()).await.unwrap();
    let others = rule_table::create_rule(&mut other, &new_rule(AlertCondition::NewGroup), None)
        .await
        .unwrap()
        .unwrap()
        .id;
    other.commit().await.unwrap();
    let due = async |limit| {
        let due = list_due(&database.store, limit).await.unwrap();
        due.into_iter().map(|one| one.rule).collect::<Vec<_>>()
    };
    assert_eq!(due(2).await, [made_first[0], others]);
    assert_eq!(due(9).await, [made_first[0], others, made_first[1], made_first[2]]);
    in_tx(&database, async |tx| postpone_evaluation(tx, made_first[0]).await.unwrap()).await;
    assert_eq!(due(9).await, [made_first[1], others, made_first[2]]);
    database.wait(Duration::minutes(5));
    assert_eq!(due(9).await.len(), 4);
    // Neither do messages of one tenant keep those of others waiting.
    let raised =
        "INSERT INTO alert_events (tenant, rule, cause, occurred_at, headline, detail, app, version, path)
                  SELECT tenant, id, 'cause', created_at, '', '', '', '', '' FROM alert_rules";
    database.execute(raised).await;
    database.execute("UPDATE alert_rules SET enabled = false").await;
    assert_eq!(due(2).await, [made_first[0], others]);
}

/// Those that are told, and those that are not late, leave the others their turn.
#[tokio::test]
async fn an_evaluation_that_finds_many_causes_leaves_the_rest_to_the_next_one() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let missing = made(&database, &new_rule(AlertCondition::MissingSymbols)).await;
    let new = made(&database, &new_rule(AlertCondition::NewGroup)).await;
    let images = "INSERT INTO wanted_images (tenant, app, version, debug_id, name, arch, system, reports, first_seen, last_seen)
                  SELECT 'acme', 'shop', '1.0', md5(n::text)::uuid, 'image', 'arm64', false,
                         CASE WHEN n <= 150 THEN 1000 ELSE 9000 END,
                         timestamptz '2026-11-20 08:01:00Z' + CASE WHEN n <= 150 THEN 0 ELSE 1 END * interval '30 minutes',
                         '2026-11-20 08:40:00Z'
                  FROM generate_series(1, 270) AS n";
    database.execute(images).await;
    let groups = "INSERT INTO groups (tenant, id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen,
                                      first_version, last_seen, last_version, own_reports)
                  SELECT 'acme', md5(n::text)::uuid, 'shop', md5(n::text)::uuid, 'crash', 'bug', '', true, 1,
                         '2026-11-20 08:01:00Z', '1.0', '2026-11-20 08:01:00Z', '1.0', 1
                  FROM generate_series(1, 150) AS n";
    database.execute(groups).await;
    database.wait(Duration::minutes(40));
    for told in [100, 50, 0] {
        for rule in [&missing, &new] {
            let found = in_tx(&database, async |tx| evaluate_rule(tx, rule.id).await.unwrap()).await;
            assert_eq!(found, told, "{:?}", rule.condition);
        }
        database.wait(Duration::minutes(6));
    }
}

#[tokio::test]
async fn a_tenant_has_at_most_a_hundred_rules_and_a_rule_takes_its_events_along() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::NewGroup)).await;
    new_groups(&database, &["shop"]).await;
    steps(&database).await;
    let refused = in_tx(&database, async |tx| {
        for _ in 1..MOST_RULES {
            rule_table::create_rule(tx, &new_rule(AlertCondition::Spike), None).await.unwrap().unwrap();
        }
        rule_table::create_rule(tx, &new_rule(AlertCondition::Spike), None).await.unwrap().is_none()
    });
    assert!(refused.await);
    assert!(in_tx(&database, async |tx| rule_table::delete_rule(tx, rule.id, None).await.unwrap()).await);
    assert!(listed(&database).await.is_empty());
    assert_eq!(database.number("SELECT count(*) FROM alert_events").await, 0);
}

/// The first revision of a report of a bug.
fn of(n: u8, bug: u8, provisional: bool) -> Arrival {
    let mut arrival = arrival(n);
    arrival.facts.grouping = Some(grouping(bug, provisional));
    arrival
}

/// Its second one, which says that it is of another bug.
fn better(n: u8, bug: u8) -> Arrival {
    let body = unslide_proto::body::compress_report(format!("{{\"better\":{n}}}").as_bytes());
    Arrival { revision: 2, body, ..of(n, bug, false) }
}

#[tokio::test]
async fn a_former_group_gives_its_alert_to_the_group_that_continues_it() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::NewGroup)).await;
    let told = async || database.number("SELECT count(*) FROM alert_events").await;
    let without = async || {
        let without = "SELECT count(*) FROM groups g
                       WHERE NOT EXISTS (SELECT FROM alert_events e WHERE 'new:' || g.id IN (e.cause, e.continued_by))";
        database.number(without).await
    };
    database.store(&[of(1, 1, false), of(2, 1, false), of(3, 4, true), of(4, 4, true)]).await;
    database.wait(Duration::minutes(31));
    in_tx(&database, async |tx| evaluate_rule(tx, rule.id).await.unwrap()).await;
    steps(&database).await;
    assert_eq!(told().await, 2);
    // Bug 1 goes on as bug 2, whose page is not named in the message that was made. Bug 3, where it also went, is another one.
    database.store(&[better(1, 2)]).await;
    assert_eq!((told().await, without().await), (2, 0));
    database.store(&[better(2, 3)]).await;
    assert_eq!((told().await, without().await), (3, 0));
    // A former group that comes back is new.
    database.store(&[of(5, 1, false)]).await;
    assert_eq!((told().await, without().await), (4, 0));
    // Two reports of one group in one batch, one of which lacks symbols yet.
    let waiting = Arrival { facts: of(4, 6, true).facts, ..better(4, 6) };
    database.store(&[better(3, 5), waiting]).await;
    database.wait(Duration::minutes(31));
    in_tx(&database, async |tx| evaluate_rule(tx, rule.id).await.unwrap()).await;
    assert_eq!((told().await, without().await), (5, 0));
    // A replay changes nothing, and every event is in one message.
    database.store(&[of(1, 1, false), better(1, 2), better(2, 3), better(3, 5)]).await;
    database.wait(Duration::MINUTE);
    steps(&database).await;
    assert_eq!((told().await, without().await), (5, 0));
    let told_of = listed(&database).await.iter().map(|message| message.events).sum::<i64>();
    assert_eq!(
        (told_of, database.number("SELECT count(*) FROM alert_events WHERE message IS NULL").await),
        (5, 0)
    );
}

#[tokio::test]
async fn a_bug_is_new_once_however_its_symbols_come() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::NewGroup)).await;
    let told = async || database.number("SELECT count(*) FROM alert_events").await;
    // Symbols were there: at once, in the transaction of the report, and not again for its siblings or its replay.
    database.store(&[of(1, 1, false)]).await;
    assert_eq!(told().await, 1);
    database.store(&[of(1, 1, false), of(2, 1, false)]).await;
    assert_eq!(told().await, 1);
    // Symbols come in time: the provisional group is not told, the bug is.
    database.store(&[of(3, 2, true)]).await;
    assert_eq!(told().await, 1);
    database.store(&[better(3, 3)]).await;
    assert_eq!(told().await, 2);
    // They come too late: the provisional group is told, the bug is not.
    database.store(&[of(4, 4, true)]).await;
    database.wait(Duration::minutes(31));
    in_tx(&database, async |tx| evaluate_rule(tx, rule.id).await.unwrap()).await;
    assert_eq!(told().await, 3);
    database.store(&[better(4, 5)]).await;
    assert_eq!(told().await, 3);
    // Merged into a known group meanwhile: it is not new.
    database.store(&[of(7, 7, true)]).await;
    let newest = in_tx(&database, async |tx| {
        groups::list_groups(tx, &GroupFilter::default(), GroupOrder::FirstSeen, None, 2).await.unwrap()
    });
    let [merged, target] = <[_; 2]>::try_from(newest.await).unwrap();
    let actor = GroupActor { actor: "key", name: None };
    let outcome = in_tx(&database, async |tx| {
        unslide_store::groups::merge_groups(tx, target.id, &[merged.id], None, actor).await.unwrap()
    });
    assert_eq!(outcome.await, MergeOutcome::Done);
    database.wait(Duration::minutes(31));
    in_tx(&database, async |tx| evaluate_rule(tx, rule.id).await.unwrap()).await;
    assert_eq!(told().await, 3);
    // A reader that catches up tells, and a replay of what is older than a day does not.
    database.store_as(&[of(6, 6, false)], Effects::Deferred).await;
    assert_eq!(told().await, 4);
    let mut old = of(8, 8, false);
    old.received_at = database.now() - Duration::hours(25);
    unslide_store::partitions::ensure_partitions(&database.store, old.received_at.date(), start().date())
        .await
        .unwrap();
    database.store_as(&[old], Effects::Deferred).await;
    assert_eq!(told().await, 4);
}

#[tokio::test]
async fn the_alert_of_a_replaced_group_leads_on() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::NewGroup)).await;
    database.store(&[of(1, 7, false), of(2, 4, true)]).await;
    database.wait(Duration::minutes(31));
    in_tx(&database, async |tx| evaluate_rule(tx, rule.id).await.unwrap()).await;
    // Its bug is known already, so the message keeps its link.
    database.store(&[better(2, 7)]).await;
    let known = id_of("com.acme.shop", grouping(7, false).fingerprint);
    let paths = database.rows("SELECT path FROM alert_events ORDER BY occurred_at, cause").await;
    for path in &paths {
        let path: String = sqlx::Row::get(path, 0);
        let id: GroupId = path.rsplit('/').next().unwrap().parse().unwrap();
        let group = in_tx(&database, async |tx| groups::get(tx, id, None).await.unwrap()).await;
        assert_eq!(group.map(|found| found.group.id), Some(known), "{path}");
    }
    assert_eq!(paths.len(), 2);
}
