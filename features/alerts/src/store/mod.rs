//! Alerts: rules of tenants, the events that fulfil them, and the messages that tell of these.
//!
//! An event is written in the transaction of its cause (see [`events::raise_events`]), or by the evaluation of a rule over
//! time, together with the moment of the next one. A message collects the events that wait for it, so that many at
//! once are one message. A sender claims it for a while and notes how it ended: if the sender
//! dies, another one sends it again, with the same id.

mod evaluate;
mod evaluate_figure;
pub mod events;
pub mod figures;
pub mod firings;
mod frequent;
pub mod messages;
mod missing;
pub mod receivers;
pub mod recipients;
mod releases;
mod retitle;
pub mod routing;
pub mod rule_table;
pub mod rules;
pub mod schedule;
pub mod summary;
mod widespread;

pub use crate::ids::{AlertFiringId, AlertMessageId, AlertRuleId};
pub use evaluate::{evaluate_rule, postpone_evaluation};

use time::Duration;
use unslide_model::TenantId;
use unslide_store::sql::{TenantColumn, words};
use unslide_store::tables::OwnedTable;
use unslide_store::{Result, Store, StoreEvent, StoreHook, TEXTS_REMOVED};

/// Notes events in the transactions that store reports and delete groups.
pub const ALERT_HOOK: StoreHook = StoreHook {
    tables: OWNED_TABLES,
    on_event: Some(|event| Box::pin(write_for_event(event))),
    ..StoreHook::new(crate::NAME)
};

/// The tables of the feature.
const OWNED_TABLES: &[OwnedTable] = &[
    OwnedTable::new("alert_rules"),
    OwnedTable::new("alert_figures"),
    OwnedTable::kept_for("alert_firings", ALERT_RETENTION),
    OwnedTable::kept_for("alert_messages", ALERT_RETENTION),
    OwnedTable::kept_for("alert_events", ALERT_RETENTION),
    OwnedTable::kept_for("alert_recipients", recipients::LINK_LIFETIME),
    OwnedTable::new("alert_mail_counts"),
];

async fn write_for_event(event: &mut StoreEvent<'_>) -> Result<()> {
    match event {
        StoreEvent::GroupsChanged(tx, changed) => events::raise_for_groups(tx, changed).await,
        StoreEvent::GroupsDeleted(tx, ids) => events::hand_over(tx, ids).await,
        StoreEvent::Announced(tx, announced) if announced.iter().any(|one| one.kind == TEXTS_REMOVED) => {
            retitle::retitle_events(tx).await
        }
        _ => Ok(()),
    }
}

/// How long events, messages and ended firings are kept.
const ALERT_RETENTION: Duration = Duration::days(90);

words! {
    /// A step of the work on a rule.
    pub enum AlertStep {
        /// Look whether its condition is fulfilled.
        Evaluate = "evaluate",
        /// Look at the labels of the groups of its events.
        Route = "route",
        /// Send its firing to the second receiver.
        Escalate = "escalate",
        /// Put its events into a message.
        Collect = "collect",
        Send = "send",
    }
}

/// A rule that is due, with its next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueAlert {
    pub tenant: TenantId,
    pub rule: AlertRuleId,
    pub step: AlertStep,
}

/// Returns the rules of all tenants that are due now, at most `limit` for each step, one of each tenant in
/// turn.
pub async fn list_due(store: &Store, limit: u16) -> Result<Vec<DueAlert>> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!: TenantColumn", rule AS "rule!: AlertRuleId", step AS "step!: AlertStep"
           FROM (SELECT tenant, rule, 'route' AS step FROM unslide_alerts_to_route($1, $2)
                 UNION ALL SELECT tenant, rule, step FROM unslide_alerts_due($1, $2)) d"#,
        store.now(),
        i32::from(limit)
    )
    .fetch_all(store.pool())
    .await?;
    let due = rows.into_iter();
    Ok(due.map(|row| DueAlert { tenant: row.tenant.into(), rule: row.rule, step: row.step }).collect())
}
