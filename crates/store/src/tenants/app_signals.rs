//! The signals that an app keeps, and the number of events that were dropped.

use crate::app_settings::ALL_APPS;
use crate::column::{JsonColumn, SignalColumn, json_column};
use crate::number::to_row;
use crate::{Result, TenantTx};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use time::Date;
use unslide_model::AppSignal;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// The weight of one that was not sampled, in thousandths.
pub const UNSAMPLED_WEIGHT: u64 = 1_000;

/// Signals that are kept. Events of the other signals are dropped. Crashes are always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SignalSettings {
    /// Keep reports of hangs, slow launches, much use of a processor and many writes, and profiles.
    pub hangs: bool,
    /// Keep errors from JavaScript, as React Native reports them.
    pub javascript: bool,
    /// Keep errors that an app reports itself, and survives.
    pub errors: bool,
    /// Keep memory warnings and ends out of memory.
    pub memory: bool,
    /// Keep session events: begins and ends.
    pub sessions: bool,
    /// Keep metric payloads of MetricKit or of Unslide's own form.
    pub metrics: bool,
    /// Keep captures: profiles, logs of allocations and memory graphs.
    pub captures: bool,
}

impl Default for SignalSettings {
    fn default() -> SignalSettings {
        SignalSettings {
            hangs: true,
            javascript: true,
            errors: true,
            memory: true,
            sessions: true,
            metrics: true,
            captures: true,
        }
    }
}

json_column!(SignalSettings);

impl SignalSettings {
    /// Returns true if events of this signal are kept.
    #[must_use]
    pub fn keeps_signal(&self, signal: AppSignal) -> bool {
        match signal {
            AppSignal::Hangs => self.hangs,
            AppSignal::Javascript => self.javascript,
            AppSignal::Errors => self.errors,
            AppSignal::Memory => self.memory,
            AppSignal::Sessions => self.sessions,
            AppSignal::Metrics => self.metrics,
            AppSignal::Captures => self.captures,
        }
    }
}

/// Rounds the weights of a batch to whole numbers. The next weights get the rest that one loses by rounding,
/// so that the sum of the batch is off by less than one. The id of the first weight decides the initial rest,
/// so no share is favoured.
#[derive(Debug, Default)]
pub struct WeightRounder {
    /// The rest that is added to the next weight, in thousandths.
    rest: Option<u64>,
}

impl WeightRounder {
    /// Returns the whole number that a weight in thousandths counts as: the one below it or the one above.
    pub fn round_weight(&mut self, weight: u64, id: &str) -> i64 {
        let rest = self.rest.get_or_insert_with(|| hash_id(id) % UNSAMPLED_WEIGHT);
        *rest = rest.saturating_add(weight);
        let whole = *rest / UNSAMPLED_WEIGHT;
        *rest %= UNSAMPLED_WEIGHT;
        to_row(whole)
    }
}

fn hash_id(id: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(id).into();
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// The settings of some apps, and the default of the others. Without a default, these keep all.
#[derive(Clone, Debug, Default)]
pub struct SignalsByApp(BTreeMap<String, SignalSettings>);

impl SignalsByApp {
    /// Returns the settings of an app.
    #[must_use]
    pub fn for_app(&self, app: &str) -> SignalSettings {
        self.0.get(app).or_else(|| self.0.get(ALL_APPS)).copied().unwrap_or_default()
    }
}

/// Returns the signal settings of these apps of the transaction's tenant.
pub async fn read_for_apps(tx: &mut TenantTx, apps: &BTreeSet<&str>) -> Result<SignalsByApp> {
    let apps: Vec<String> = apps.iter().map(|app| (*app).to_owned()).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT app, signals AS "signals: JsonColumn<SignalSettings>" FROM app_settings
           WHERE tenant = $1 AND (app = ANY($2) OR app = $3) AND signals <> '{}'"#,
        tenant,
        &apps,
        ALL_APPS
    )
    .fetch_all(connection)
    .await?;
    Ok(SignalsByApp(rows.into_iter().map(|row| (row.app, row.signals.0)).collect()))
}

/// Numbers of dropped events, by app and signal.
pub type SignalDrops = BTreeMap<(String, AppSignal), i64>;

/// Counts the events that were dropped today.
pub async fn count_dropped(tx: &mut TenantTx, drops: &SignalDrops) -> Result<()> {
    if drops.is_empty() {
        return Ok(());
    }
    let apps: Vec<String> = drops.keys().map(|(app, _)| app.clone()).collect();
    let signals: Vec<String> = drops.keys().map(|(_, signal)| signal.as_str().to_owned()).collect();
    let dropped: Vec<i64> = drops.values().copied().collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        r#"INSERT INTO signal_drops AS d (tenant, app, signal, day, dropped)
           SELECT $1, n.app, n.signal, $5, n.dropped
           FROM unnest($2::text[], $3::text[], $4::bigint[]) AS n (app, signal, dropped)
           ORDER BY n.app COLLATE "C", n.signal COLLATE "C"
           ON CONFLICT (tenant, app, signal, day) DO UPDATE SET dropped = d.dropped + EXCLUDED.dropped"#,
        tenant,
        &apps,
        &signals,
        &dropped,
        now.date()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts one of a signal that was refused.
pub async fn count_refused(tx: &mut TenantTx, app: &str, signal: AppSignal) -> Result<()> {
    count_dropped(tx, &SignalDrops::from([((app.to_owned(), signal), 1)])).await
}

/// The schema of [`AppSignal`], which is of a crate without OpenAPI.
struct SignalSchema;

impl PartialSchema for SignalSchema {
    fn schema() -> RefOr<Schema> {
        let signals = ObjectBuilder::new().schema_type(Type::String);
        let signals = signals.description(Some("A signal that can be switched off. Crashes cannot."));
        Schema::from(signals.enum_values(Some(AppSignal::ALL.map(AppSignal::as_str)))).into()
    }
}

impl ToSchema for SignalSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "AppSignal".into()
    }
}

/// How many of a signal were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DroppedSignal {
    /// The signal that was dropped.
    #[schema(value_type = SignalSchema)]
    pub signal: AppSignal,
    /// Reports, sessions, payloads or captures that were dropped: of a signal that is switched off.
    pub dropped: i64,
}

/// Returns the number of dropped events of an app in a period, by signal.
pub async fn list_drops(tx: &mut TenantTx, app: &str, period: (Date, Date)) -> Result<Vec<DroppedSignal>> {
    let (from, to) = period;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        DroppedSignal,
        r#"SELECT signal AS "signal: SignalColumn", sum(dropped)::bigint AS "dropped!" FROM signal_drops
           WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 GROUP BY signal ORDER BY signal"#,
        tenant,
        app,
        from,
        to
    )
    .fetch_all(connection)
    .await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_any_share_are_whole_numbers_with_the_right_sum() {
        for (weight, share) in
            [(1_429, 0.7), (1_667, 0.6), (2_500, 0.4), (6_667, 0.15), (1_111, 0.9), (1_000, 1.0)]
        {
            for first in ["a", "b", "c"] {
                let mut rounder = WeightRounder::default();
                let weights: Vec<i64> = (0..100).map(|_| rounder.round_weight(weight, first)).collect();
                let sum: i64 = weights.iter().sum();
                assert!((sum as f64 - 100.0 / share).abs() < 1.1, "{share}: {sum}");
                let [below, above] = [weight / 1_000, weight.div_ceil(1_000)].map(|whole| whole as i64);
                assert!(weights.iter().all(|one| (below..=above).contains(one)), "{share}: {weights:?}");
            }
        }
        // Alone in their batches they are right on the average.
        let alone = |n: u64| WeightRounder::default().round_weight(1_429, &format!("session {n}"));
        let sum: i64 = (0..10_000).map(alone).sum();
        assert!((14_000..14_600).contains(&sum), "{sum}");
    }

    #[test]
    fn crashes_are_of_no_signal_that_can_be_switched_off() {
        for kind in ["crash", "exception", "stack_overflow", "termination", ""] {
            assert_eq!(AppSignal::from_group_kind(kind), None, "{kind}");
        }
        for (kind, signal) in [("hang", AppSignal::Hangs), ("user", AppSignal::Errors)] {
            assert_eq!(AppSignal::from_group_kind(kind), Some(signal));
        }
    }
}
