//! The statements on rules.

use super::AlertRuleId;
use super::figures::{
    AlertEscalation, FigureComparison, MOST_ESCALATION_MINUTES, MOST_FIGURE_DAYS, MOST_FIGURE_HOURS,
    WatchedFigure,
};
use super::firings::reset_escalation;
use super::receivers::SealedReceiver;
use super::rules::{
    AlertChannel, AlertCondition, AlertRule, AlertRuleChange, MOST_RULES, NewAlertRule, mask_address,
};
use super::schedule::{quiet_hours, read_schedule};
use crate::hook_path::hook_path;
use time::OffsetDateTime;
use unslide_store::sql::to_row32;
use unslide_store::{Result, TenantTx};

/// Creates a rule, with an encrypted receiver if there is one. Returns `None` if the tenant has 100.
pub async fn create_rule(
    tx: &mut TenantTx,
    new: &NewAlertRule,
    sealed: Option<&SealedReceiver>,
) -> Result<Option<AlertRule>> {
    let (connection, tenant, now) = tx.parts();
    // Two at once must not both be the last one.
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('alert rules of ' || $1, 0))", tenant)
        .execute(&mut *connection)
        .await?;
    let (second, schedule) = (new.second_receiver(), new.schedule());
    let id = sqlx::query_scalar!(
        r#"INSERT INTO alert_rules (id, tenant, name, app, condition, threshold, channel, address, secret, template,
                                  content_type, digest_minutes, quiet_from, quiet_to, escalate_to, escalate_minutes,
                                  next_message_at, next_evaluation_at, created_at, least_reports, summary_hour, summary_zone,
                                  summary_weekly, labels, sealed_address, sealed_secret)
         SELECT unslide_uuid($2), $1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $16, $17, $2, $2, $2, $18, $19, $20, $21, $22,
                $23, $24
         WHERE (SELECT count(*) FROM alert_rules WHERE tenant = $1) < $15 RETURNING id AS "id: AlertRuleId""#,
        tenant,
        now,
        new.name,
        new.app,
        new.condition.as_str(),
        new.threshold.unwrap_or(new.condition.usual_threshold()),
        new.channel.as_str(),
        sealed.map_or(new.address.reveal(), |sealed| &sealed.shown_address),
        sealed.map_or(new.secret.reveal(), |_| ""),
        new.template,
        new.content_type.as_str(),
        i32::from(new.digest_minutes),
        new.quiet_hours.map(|hours| hours.from),
        new.quiet_hours.map(|hours| hours.to),
        MOST_RULES,
        second.map(|second| second.rule) as Option<AlertRuleId>,
        second.map(|second| i32::from(second.minutes)),
        new.least_reports.or(new.condition.usual_least_reports()).map(to_row32),
        schedule.as_ref().map(|schedule| i32::from(schedule.hour)),
        schedule.as_ref().map(|schedule| schedule.time_zone.as_str()),
        schedule.as_ref().map(|schedule| schedule.weekly),
        &new.labels,
        sealed.map(|sealed| sealed.address.as_slice()),
        sealed.and_then(|sealed| sealed.secret.as_deref())
    )
    .fetch_optional(connection)
    .await?;
    let Some(id) = id else { return Ok(None) };
    if let Some(figure) = &new.figure {
        set_figure(tx, id, figure).await?;
    }
    get(tx, id, None).await
}

/// Returns the rules of the transaction's tenant, the oldest first; with `app` those of this app alone. At
/// most `limit` of those after `after`.
pub async fn list_rules(
    tx: &mut TenantTx,
    app: Option<&str>,
    after: Option<(OffsetDateTime, AlertRuleId)>,
    limit: u32,
) -> Result<Vec<AlertRule>> {
    let rules = select_rules(tx, None, app).await?.into_iter();
    let behind = rules.filter(|rule| after.is_none_or(|after| (rule.created_at, rule.id) > after));
    Ok(behind.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
}

/// Returns a rule; with `app` only one of that app.
pub async fn get(tx: &mut TenantTx, id: AlertRuleId, app: Option<&str>) -> Result<Option<AlertRule>> {
    Ok(select_rules(tx, Some(id), app).await?.pop())
}

async fn select_rules(
    tx: &mut TenantTx,
    id: Option<AlertRuleId>,
    app: Option<&str>,
) -> Result<Vec<AlertRule>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT id AS "id: AlertRuleId", name, app, condition AS "condition: AlertCondition", threshold, channel AS "channel: AlertChannel",
                  address, (secret <> '' OR sealed_secret IS NOT NULL) AS "signed!", sealed_hook_secret IS NOT NULL AS "takes_hooks!", enabled, muted_until, digest_minutes, quiet_from, quiet_to,
                  escalate_to AS "escalate_to: AlertRuleId",
                  escalate_minutes, created_at, least_reports, summary_hour, summary_zone, summary_weekly, labels
           FROM alert_rules
           WHERE tenant = $1 AND ($2::uuid IS NULL OR id = $2) AND ($3::text IS NULL OR app = $3)
           ORDER BY created_at, id LIMIT $4"#,
        tenant,
        id as Option<AlertRuleId>,
        app,
        MOST_RULES
    )
    .fetch_all(connection)
    .await?;
    let hook_url = |id, channel: AlertChannel| channel.is_pager().then(|| hook_path(tenant, id));
    let rules = rows.into_iter().map(|row| AlertRule {
        hook_url: hook_url(row.id, row.channel),
        takes_hooks: row.takes_hooks,
        id: row.id,
        name: row.name,
        app: row.app,
        condition: row.condition,
        threshold: row.threshold,
        least_reports: row.least_reports,
        figure: None,
        summary: read_schedule(row.summary_hour, row.summary_zone, row.summary_weekly),
        labels: row.labels,
        channel: row.channel,
        address: mask_address(row.channel, &row.address),
        recipients: Vec::new(),
        signed: row.signed,
        enabled: row.enabled,
        muted_until: row.muted_until,
        digest_minutes: row.digest_minutes,
        quiet_hours: quiet_hours(row.quiet_from, row.quiet_to),
        escalation: row.escalate_to.zip(row.escalate_minutes).map(|(rule, minutes)| AlertEscalation {
            rule,
            minutes: u16::try_from(minutes).unwrap_or(MOST_ESCALATION_MINUTES),
        }),
        created_at: row.created_at,
    });
    let mut rules: Vec<AlertRule> = rules.collect();
    fill_figures(tx, &mut rules).await?;
    Ok(rules)
}

/// Changes a rule, with an encrypted receiver if the new one is; with `app` only one of that app. Returns whether there is such a rule.
pub async fn change_rule(
    tx: &mut TenantTx,
    id: AlertRuleId,
    app: Option<&str>,
    change: &AlertRuleChange,
    sealed: Option<&SealedReceiver>,
) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let receiver = change.to_receiver();
    let (receiver, schedule) = (receiver.as_ref(), change.summary.as_ref());
    let changed = sqlx::query!(
        "UPDATE alert_rules
         SET name = coalesce($4, name), threshold = coalesce($5, threshold), enabled = coalesce($6, enabled),
             muted_until = coalesce($7, muted_until), digest_minutes = coalesce($8, digest_minutes),
             quiet_from = coalesce($9, quiet_from), quiet_to = coalesce($10, quiet_to),
             channel = coalesce($11, channel), address = coalesce($12, address), secret = coalesce($13, secret),
             sealed_address = CASE WHEN $11::text IS NULL THEN sealed_address ELSE $22 END,
             sealed_secret = CASE WHEN $11::text IS NULL THEN sealed_secret ELSE $23 END,
             sealed_hook_secret = CASE WHEN $11::text IS NULL THEN sealed_hook_secret END,
             template = coalesce($14, template), content_type = coalesce($15, content_type),
             app = CASE WHEN $16::text IS NULL THEN app ELSE nullif($16, '') END,
             least_reports = coalesce($17, least_reports), summary_hour = coalesce($18, summary_hour),
             summary_zone = coalesce($19, summary_zone), summary_weekly = coalesce($20, summary_weekly),
             labels = coalesce($21, labels)
         WHERE tenant = $1 AND id = $2 AND ($3::text IS NULL OR app = $3)",
        tenant,
        id as AlertRuleId,
        app,
        change.name,
        change.threshold,
        change.enabled,
        change.muted_until,
        change.digest_minutes.map(i32::from),
        change.quiet_hours.map(|hours| hours.from),
        change.quiet_hours.map(|hours| hours.to),
        receiver.map(|receiver| receiver.channel.as_str()),
        receiver.map(|receiver| sealed.map_or(receiver.address.reveal(), |sealed| &sealed.shown_address)),
        receiver.map(|receiver| sealed.map_or(receiver.secret.reveal(), |_| "")),
        receiver.map(|receiver| receiver.template.as_str()),
        receiver.map(|receiver| receiver.content_type.as_str()),
        change.app,
        change.least_reports.map(to_row32),
        schedule.map(|schedule| i32::from(schedule.hour)),
        schedule.map(|schedule| schedule.time_zone.as_str()),
        schedule.map(|schedule| schedule.weekly),
        change.labels.as_deref(),
        sealed.map(|sealed| sealed.address.as_slice()),
        sealed.and_then(|sealed| sealed.secret.as_deref())
    )
    .execute(connection)
    .await?;
    if changed.rows_affected() == 0 {
        return Ok(false);
    }
    if let Some(figure) = &change.figure {
        set_figure(tx, id, figure).await?;
    }
    if let Some(second) = change.second_receiver() {
        set_escalation(tx, id, second).await?;
    }
    Ok(true)
}

/// Writes the second receiver of a rule, or removes it if there are no minutes, also for the open firing.
async fn set_escalation(tx: &mut TenantTx, rule: AlertRuleId, second: AlertEscalation) -> Result<()> {
    let second = Some(second).filter(|second| second.minutes > 0);
    let minutes = second.map(|second| i32::from(second.minutes));
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE alert_rules SET escalate_to = $3, escalate_minutes = $4 WHERE tenant = $1 AND id = $2",
        tenant,
        rule as AlertRuleId,
        second.map(|second| second.rule) as Option<AlertRuleId>,
        minutes
    )
    .execute(connection)
    .await?;
    reset_escalation(tx, rule, minutes).await
}

/// Deletes a rule with its events and messages; with `app` only one of that app. Returns whether there was one.
pub async fn delete_rule(tx: &mut TenantTx, id: AlertRuleId, app: Option<&str>) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let deleted = sqlx::query!(
        "DELETE FROM alert_rules WHERE tenant = $1 AND id = $2 AND ($3::text IS NULL OR app = $3)",
        tenant,
        id as AlertRuleId,
        app
    )
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected() > 0)
}

/// Writes the figure of a rule, in place of the one that it had.
async fn set_figure(tx: &mut TenantTx, rule: AlertRuleId, figure: &WatchedFigure) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO alert_figures (rule, tenant, figure, comparison, version, host, days, least_observations, hours,
                                    objective, endpoint)
         VALUES ($2, $1, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT (rule) DO UPDATE
         SET figure = EXCLUDED.figure, comparison = EXCLUDED.comparison, version = EXCLUDED.version,
             host = EXCLUDED.host, days = EXCLUDED.days, least_observations = EXCLUDED.least_observations,
             hours = EXCLUDED.hours, objective = EXCLUDED.objective, endpoint = EXCLUDED.endpoint",
        tenant,
        rule as AlertRuleId,
        figure.name,
        figure.comparison.as_str(),
        figure.version,
        figure.host,
        i32::from(figure.days),
        i32::try_from(figure.least_observations).unwrap_or(i32::MAX),
        figure.hours.map(i32::from),
        figure.objective,
        figure.endpoint
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Fills in the figures of rules that watch one.
async fn fill_figures(tx: &mut TenantTx, rules: &mut [AlertRule]) -> Result<()> {
    let watching = rules.iter().filter(|rule| rule.condition == AlertCondition::Figure);
    let ids: Vec<AlertRuleId> = watching.map(|rule| rule.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    for (id, figure) in read_figures(tx, &ids).await? {
        if let Some(rule) = rules.iter_mut().find(|rule| rule.id == id) {
            rule.figure = Some(figure);
        }
    }
    Ok(())
}

/// Reads the figures that these rules watch.
pub(super) async fn read_figures(
    tx: &mut TenantTx,
    rules: &[AlertRuleId],
) -> Result<Vec<(AlertRuleId, WatchedFigure)>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT rule AS "rule: AlertRuleId", figure, comparison AS "comparison: FigureComparison", version, host, days, least_observations,
                  hours, objective, endpoint
           FROM alert_figures WHERE tenant = $1 AND rule = ANY ($2)"#,
        tenant,
        rules as &[AlertRuleId]
    )
    .fetch_all(connection)
    .await?;
    let figures = rows.into_iter().map(|row| {
        let figure = WatchedFigure {
            name: row.figure,
            comparison: row.comparison,
            version: row.version,
            host: row.host,
            endpoint: row.endpoint,
            days: u8::try_from(row.days).unwrap_or(MOST_FIGURE_DAYS),
            hours: row.hours.map(|hours| u8::try_from(hours).unwrap_or(MOST_FIGURE_HOURS)),
            objective: row.objective,
            least_observations: row.least_observations.unsigned_abs(),
            escalation: None,
        };
        (row.rule, figure)
    });
    Ok(figures.collect())
}
