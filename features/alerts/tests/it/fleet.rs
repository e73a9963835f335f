//! A fleet of a million sessions a day with many small bugs and a few that hurt: which of them a rule for frequent groups tells of,
//! and when. `UNSLIDE_TEST_FLEET_DAYS` makes it last longer than two days.

use crate::alerts::figures::{evaluate_now, event_column};
use crate::alerts::messages::{made, new_rule};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use time::{Duration, OffsetDateTime};
use unslide_alerts::store::ALERT_HOOK;
use unslide_alerts::store::rules::AlertCondition;
use unslide_harness::database::{TestDatabase, start};
use unslide_health::store::HEALTH_HOOK;

/// The time between two evaluations.
const STEP: Duration = Duration::minutes(5);
/// Steps of an hour.
const STEPS: i64 = 12;
const SESSIONS_OF_A_DAY: f64 = 1e6;
/// Bugs that hit up to 0.1 % of the sessions all the time.
const SMALL_BUGS: usize = 40;
/// The share of the sessions that arrive when they begin. The others arrive six hours later.
const ARRIVING_AT_ONCE: f64 = 0.6;

/// A bug that begins at an hour and hits a share of the sessions for three hours.
struct Planted {
    begins: OffsetDateTime,
    share: f64,
}

/// Repeats numbers between 0 and 1 from a seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a count around a mean: the sum of a normal distribution's approximation.
    fn count(&mut self, mean: f64) -> i64 {
        let normal = (0..12).map(|_| self.next()).sum::<f64>() - 6.0;
        (mean + normal * mean.sqrt()).round().max(0.0) as i64
    }
}

/// The sessions of a step by the hour of the day: few at night, many in the evening.
fn sessions_of_step(at: OffsetDateTime) -> f64 {
    let day = (f64::from(at.hour()) + f64::from(at.minute()) / 60.0) / 24.0;
    let wave = 1.0 - 0.6 * (std::f64::consts::TAU * (day + 0.1)).cos();
    SESSIONS_OF_A_DAY / 24.0 / STEPS as f64 * wave
}

fn id(number: usize) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

#[tokio::test]
async fn bugs_that_hit_one_in_two_hundred_sessions_of_an_hour_are_told_within_ten_minutes_and_no_others() {
    let days: i64 = std::env::var("UNSLIDE_TEST_FLEET_DAYS").map_or(2, |days| days.parse().unwrap());
    let database = TestDatabase::new(&[ALERT_HOOK, HEALTH_HOOK]).await;
    let rule = made(&database, &new_rule(AlertCondition::FrequentGroup)).await;
    let mut chance = Chance(7);
    let small: Vec<f64> = (0..SMALL_BUGS).map(|_| chance.next() * 0.001).collect();
    let shares = [0.005, 0.0075, 0.01, 0.02, 0.05];
    let planted: Vec<Planted> = (0..days * 4 - 4)
        .map(|n| Planted {
            begins: start() + Duration::DAY + Duration::hours(6 * n),
            share: shares[usize::try_from(n).unwrap() % shares.len()] * 1.1,
        })
        .collect();
    let mut groups = String::new();
    for number in 0..SMALL_BUGS + planted.len() {
        write!(
            groups,
            "INSERT INTO groups (tenant, id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen,
                                 first_version, last_seen, last_version, own_reports)
             VALUES ('acme', '{0}', 'shop', '{0}', 'crash', 'bug {number}', '', false, 9, now(), '1.0', now(), '2.0', 9);",
            id(number)
        )
        .unwrap();
    }
    database.execute(&groups).await;
    let mut late: BTreeMap<OffsetDateTime, (OffsetDateTime, i64)> = BTreeMap::new();
    // Of each planted bug in an hour: its reports, and when they passed the share.
    let mut passed: BTreeMap<usize, OffsetDateTime> = BTreeMap::new();
    let (mut of_hour, mut hour_sessions) = (BTreeMap::new(), 0.0);
    for step in 0..days * 24 * STEPS {
        let now = start() + STEP * i32::try_from(step).unwrap();
        let hour = now.truncate_to_hour();
        if now == hour {
            of_hour.clear();
            // What the whole hour will have.
            hour_sessions = (0..12).map(|n| sessions_of_step(hour + STEP * n)).sum();
        }
        let sessions = sessions_of_step(now);
        late.insert(now + Duration::hours(6), (hour, chance.count(sessions * (1.0 - ARRIVING_AT_ONCE))));
        let mut arrived = vec![(hour, chance.count(sessions * ARRIVING_AT_ONCE))];
        arrived.extend(late.remove(&now));
        let mut statements = String::new();
        for (hour, sessions) in arrived {
            write!(
                statements,
                "INSERT INTO session_hour_counts AS s (tenant, app, hour, version, sessions, crashed, out_of_memory, unexplained,
                                                       background_memory, squares, users, crashed_users)
                 VALUES ('acme', 'shop', to_timestamp({}), '2.0', {sessions}, 0, 0, 0, 0, {sessions}, '', '')
                 ON CONFLICT (tenant, app, hour, version) DO UPDATE SET sessions = s.sessions + EXCLUDED.sessions;",
                hour.unix_timestamp()
            )
            .unwrap();
        }
        let lasting = planted.iter().map(|bug| {
            let is_on = bug.begins <= now && now < bug.begins + Duration::hours(3);
            if is_on { bug.share } else { 0.0 }
        });
        for (number, share) in small.iter().copied().chain(lasting).enumerate() {
            let reports = if share > 0.0 { chance.count(sessions * share) } else { 0 };
            if reports == 0 {
                continue;
            }
            let total = of_hour.entry(number).or_insert(0i64);
            *total += reports;
            if number >= SMALL_BUGS && *total >= 100 && *total as f64 >= 0.005 * hour_sessions {
                passed.entry(number).or_insert(now);
            }
            write!(
                statements,
                "INSERT INTO group_hours AS h VALUES ('acme', '{0}', to_timestamp({1}), {reports})
                 ON CONFLICT (tenant, group_id, hour) DO UPDATE SET reports = h.reports + EXCLUDED.reports;
                 UPDATE groups SET last_seen = to_timestamp({1}) WHERE id = '{0}';",
                id(number),
                now.unix_timestamp().div_euclid(3_600) * 3_600
            )
            .unwrap();
        }
        database.execute(&statements).await;
        evaluate_now(&database, &rule).await;
        database.wait(STEP);
    }
    let told = event_column(&database, &rule, "substring(path FROM '[0-9]+$')").await;
    let times = event_column(&database, &rule, "extract(epoch FROM occurred_at)::bigint::text").await;
    let mut first: BTreeMap<usize, i64> = BTreeMap::new();
    for (number, at) in told.iter().zip(&times) {
        first.entry(number.parse().unwrap()).or_insert(at.parse().unwrap());
    }
    let small_told = first.keys().filter(|number| **number < SMALL_BUGS).count();
    let delays: Vec<i64> = passed
        .iter()
        .map(|(number, at)| first.get(number).map_or(i64::MAX, |told| told - at.unix_timestamp()))
        .collect();
    println!(
        "{days} days: {} planted, {} passed 0.5 % of an hour's sessions; told {} messages of {} bugs, {small_told} of them small; \
         seconds until told {delays:?}",
        planted.len(),
        passed.len(),
        told.len(),
        first.len()
    );
    assert_eq!(small_told, 0);
    assert!(passed.len() * 5 >= planted.len() * 4, "{passed:?}");
    assert!(delays.iter().all(|delay| *delay <= 600), "{delays:?}");
}
