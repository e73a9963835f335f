//! Second receivers of rules without a figure, and what holds an escalation back.

use crate::alerts::messages::{in_tx, made, new_rule};
use time::{Duration, Time};
use unslide_alerts::store::events::{AlertCause, raise_for};
use unslide_alerts::store::figures::AlertEscalation;
use unslide_alerts::store::firings::{AlertFiring, acknowledge_firing, escalate_due, list_firings};
use unslide_alerts::store::messages::{ClaimedAlertMessage, claim_message, collect_events};
use unslide_alerts::store::rules::{AlertCondition, AlertRule, AlertRuleChange, NewAlertRule};
use unslide_alerts::store::schedule::QuietHours;
use unslide_alerts::store::{ALERT_HOOK, AlertFiringId, AlertStep, list_due, rule_table};
use unslide_harness::database::TestDatabase;

/// Minutes that a person has.
const MINUTES: u16 = 15;

/// Makes a rule with this condition, and a second one with its second receiver.
async fn make_pair(database: &TestDatabase, condition: AlertCondition) -> (AlertRule, AlertRule) {
    let second =
        made(database, &NewAlertRule { name: "chief".into(), ..new_rule(AlertCondition::NewGroup) }).await;
    let escalation = Some(AlertEscalation { rule: second.id, minutes: MINUTES });
    let first = NewAlertRule { name: "team".into(), escalation, ..new_rule(condition) };
    (made(database, &first).await, second)
}

/// Takes the steps that are due at a later moment, and returns the next message of each rule.
async fn take_steps(
    database: &TestDatabase,
    rules: &(AlertRule, AlertRule),
    wait: Duration,
) -> [Option<ClaimedAlertMessage>; 2] {
    database.wait(wait);
    // An event of an escalation is collected in the same look.
    for _ in 0..2 {
        for one in list_due(&database.store, 100).await.unwrap() {
            in_tx(database, async |tx| match one.step {
                AlertStep::Escalate => drop(escalate_due(tx, one.rule).await.unwrap()),
                AlertStep::Collect => drop(collect_events(tx, one.rule).await.unwrap()),
                AlertStep::Evaluate | AlertStep::Route | AlertStep::Send => {}
            })
            .await;
        }
    }
    let mut messages = Vec::new();
    for rule in [&rules.0, &rules.1] {
        let message = in_tx(database, async |tx| claim_message(tx, rule.id).await.unwrap()).await;
        if let Some(message) = &message {
            in_tx(database, async |tx| {
                unslide_alerts::store::messages::finish_attempt(tx, message, Ok(())).await.unwrap();
            })
            .await;
        }
        messages.push(message);
    }
    messages.try_into().unwrap()
}

async fn raise(database: &TestDatabase, rule: &AlertRule, cause: &str) {
    let cause = AlertCause {
        cause: cause.to_owned(),
        headline: format!("headline of {cause}"),
        detail: String::new(),
        app: "shop".to_owned(),
        version: "2.0".to_owned(),
        path: format!("/console/{cause}"),
    };
    in_tx(database, async |tx| raise_for(tx, rule.id, &[cause]).await.unwrap()).await;
}

async fn list_all(database: &TestDatabase) -> Vec<AlertFiring> {
    in_tx(database, async |tx| list_firings(tx, None, None, 100).await.unwrap()).await
}

async fn acknowledge(database: &TestDatabase, firing: AlertFiringId) -> bool {
    in_tx(database, async |tx| acknowledge_firing(tx, firing, "key").await.unwrap()).await
}

async fn change(database: &TestDatabase, rule: &AlertRule, change: AlertRuleChange) {
    assert!(
        in_tx(database, async |tx| rule_table::change_rule(tx, rule.id, None, &change, None).await.unwrap())
            .await
    );
}

fn headline(message: Option<&ClaimedAlertMessage>) -> &str {
    message.map_or("", |message| message.named[0].headline.as_str())
}

#[tokio::test]
async fn events_of_every_condition_go_to_the_second_receiver_unless_a_person_acknowledges() {
    let causes = [
        (AlertCondition::NewGroup, "new:5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10"),
        (AlertCondition::Regression, "back:5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10:1"),
        (AlertCondition::Spike, "spike:shop:2026-11-20"),
        (AlertCondition::MissingSymbols, "missing:5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10"),
        (AlertCondition::CrashFree, "crash_free:shop:2.0:2026-11-20"),
    ];
    for (condition, cause) in causes {
        let database = TestDatabase::new(&[ALERT_HOOK]).await;
        let rules = make_pair(&database, condition).await;
        raise(&database, &rules.0, cause).await;
        let [first, none] = take_steps(&database, &rules, Duration::SECOND).await;
        let began = first.unwrap().named[0].firing.clone().unwrap();
        assert!(began.acknowledge_path.is_some() && none.is_none(), "{condition}");
        let [none, early] = take_steps(&database, &rules, Duration::minutes(14)).await;
        assert!(none.is_none() && early.is_none(), "{condition}");
        let [none, escalated] = take_steps(&database, &rules, Duration::MINUTE).await;
        let escalated = escalated.unwrap();
        assert!(none.is_none());
        let event = &escalated.named[0];
        assert_eq!(
            (event.headline.as_str(), event.path.as_str()),
            (format!("Not acknowledged: headline of {cause}").as_str(), format!("/console/{cause}").as_str(),)
        );
        let firing = event.firing.clone().unwrap();
        assert_eq!((firing.id, firing.condition, firing.rule_name.as_str()), (began.id, condition, "team"));
        let [none, again] = take_steps(&database, &rules, Duration::HOUR).await;
        assert!(none.is_none() && again.is_none(), "{condition} escalates once");
        assert!(acknowledge(&database, began.id).await);
        let [first, second] = take_steps(&database, &rules, Duration::MINUTE).await;
        let told = format!("Acknowledged: headline of {cause}");
        assert_eq!((headline(first.as_ref()), headline(second.as_ref())), (told.as_str(), told.as_str()));
        assert!(list_all(&database).await[0].ended_at.is_some(), "{condition}: what happened is over");
    }
}

#[tokio::test]
async fn events_join_the_firing_that_waits_and_later_ones_begin_another() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rules = make_pair(&database, AlertCondition::Spike).await;
    raise(&database, &rules.0, "spike:a:1").await;
    take_steps(&database, &rules, Duration::SECOND).await;
    raise(&database, &rules.0, "spike:b:1").await;
    take_steps(&database, &rules, Duration::MINUTE).await;
    let firings = list_all(&database).await;
    assert_eq!(firings.len(), 1);
    assert!(acknowledge(&database, firings[0].id).await);
    let [_, none] = take_steps(&database, &rules, Duration::HOUR).await;
    assert!(none.is_none(), "a person has it");
    raise(&database, &rules.0, "spike:c:1").await;
    take_steps(&database, &rules, Duration::MINUTE).await;
    let [_, escalated] = take_steps(&database, &rules, Duration::minutes(15)).await;
    assert_eq!(headline(escalated.as_ref()), "Not acknowledged: headline of spike:c:1");
    // The second receiver has this one; the next event is another.
    raise(&database, &rules.0, "spike:d:1").await;
    take_steps(&database, &rules, Duration::MINUTE).await;
    let [_, escalated] = take_steps(&database, &rules, Duration::minutes(15)).await;
    assert_eq!(headline(escalated.as_ref()), "Not acknowledged: headline of spike:d:1");
}

#[tokio::test]
async fn a_mute_and_quiet_hours_hold_an_escalation() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rules = make_pair(&database, AlertCondition::Spike).await;
    // Muted before: the receiver gets nothing, and neither does the second one.
    let mute = |hours| AlertRuleChange {
        muted_until: Some(database.now() + Duration::hours(hours)),
        ..Default::default()
    };
    change(&database, &rules.0, mute(1)).await;
    raise(&database, &rules.0, "spike:a:1").await;
    assert_eq!(take_steps(&database, &rules, Duration::SECOND).await, [None, None]);
    assert_eq!(take_steps(&database, &rules, Duration::hours(2)).await, [None, None]);
    assert!(list_all(&database).await.is_empty());
    // Muted after: the minutes begin anew once it is over.
    raise(&database, &rules.0, "spike:b:1").await;
    let [first, _] = take_steps(&database, &rules, Duration::SECOND).await;
    assert_eq!(headline(first.as_ref()), "headline of spike:b:1");
    change(&database, &rules.0, mute(1)).await;
    for _ in 0..3 {
        assert_eq!(take_steps(&database, &rules, Duration::minutes(15)).await, [None, None]);
    }
    let mut waited = 0;
    while take_steps(&database, &rules, Duration::minutes(5)).await[1].is_none() {
        waited += 1;
        assert!(waited < 7, "the mute is over");
    }
    assert!(waited >= 2, "not before");
    // In quiet hours the first receiver gets nothing: both wait. They end three hours later.
    let now = database.now().time();
    let quiet = QuietHours { from: now, to: Time::from_hms(now.hour() + 3, 0, 0).unwrap() };
    change(&database, &rules.0, AlertRuleChange { quiet_hours: Some(quiet), ..Default::default() }).await;
    raise(&database, &rules.0, "spike:c:1").await;
    assert_eq!(take_steps(&database, &rules, Duration::HOUR).await, [None, None]);
    let [first, second] = take_steps(&database, &rules, Duration::hours(2)).await;
    assert_eq!((headline(first.as_ref()), second), ("headline of spike:c:1", None));
    let [_, escalated] = take_steps(&database, &rules, Duration::minutes(15)).await;
    assert_eq!(headline(escalated.as_ref()), "Not acknowledged: headline of spike:c:1");
    // Quiet hours that begin between: the minutes begin anew at their end.
    raise(&database, &rules.0, "spike:d:1").await;
    change(
        &database,
        &rules.0,
        AlertRuleChange {
            quiet_hours: Some(QuietHours { from: Time::MIDNIGHT, to: Time::MIDNIGHT }),
            ..Default::default()
        },
    )
    .await;
    let [first, _] = take_steps(&database, &rules, Duration::MINUTE).await;
    assert_eq!(headline(first.as_ref()), "headline of spike:d:1");
    let now = database.now().time();
    let quiet = QuietHours { from: now, to: Time::from_hms(now.hour() + 2, 0, 0).unwrap() };
    change(&database, &rules.0, AlertRuleChange { quiet_hours: Some(quiet), ..Default::default() }).await;
    assert_eq!(take_steps(&database, &rules, Duration::HOUR).await, [None, None]);
    assert_eq!(take_steps(&database, &rules, Duration::minutes(50)).await, [None, None]);
    let [_, escalated] = take_steps(&database, &rules, Duration::minutes(15)).await;
    assert_eq!(headline(escalated.as_ref()), "Not acknowledged: headline of spike:d:1");
}

#[tokio::test]
async fn a_second_receiver_that_is_removed_gets_nothing() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let rules = make_pair(&database, AlertCondition::Spike).await;
    raise(&database, &rules.0, "spike:a:1").await;
    take_steps(&database, &rules, Duration::SECOND).await;
    let none = AlertEscalation { rule: rules.1.id, minutes: 0 };
    change(&database, &rules.0, AlertRuleChange { escalation: Some(none), ..Default::default() }).await;
    assert_eq!(take_steps(&database, &rules, Duration::HOUR).await, [None, None]);
    let again = AlertEscalation { rule: rules.1.id, minutes: 5 };
    change(&database, &rules.0, AlertRuleChange { escalation: Some(again), ..Default::default() }).await;
    let [_, escalated] = take_steps(&database, &rules, Duration::SECOND).await;
    assert!(escalated.is_some(), "its minutes are over");
    // A rule that is switched off does not escalate.
    raise(&database, &rules.0, "spike:b:1").await;
    take_steps(&database, &rules, Duration::MINUTE).await;
    change(&database, &rules.0, AlertRuleChange { enabled: Some(false), ..Default::default() }).await;
    assert_eq!(take_steps(&database, &rules, Duration::HOUR).await, [None, None]);
}
