-- Figures over hours and burn rates, and a second receiver for rules of every condition.

-- The owner sees the rows.
SELECT set_config('unslide.definer', 'on', true);

ALTER TABLE alert_figures
    -- NULL: the figure is made of days.
    ADD COLUMN hours integer,
    -- The share that has to be good; of a burn rate.
    ADD COLUMN objective double precision;
ALTER TABLE alert_figures DROP CONSTRAINT alert_figures_comparison_check;
ALTER TABLE alert_figures ADD CONSTRAINT alert_figures_comparison_check
    CHECK (comparison IN ('above', 'below', 'worse', 'burn_rate'));

ALTER TABLE alert_rules
    -- The rule with the second receiver, and the minutes that a person has to acknowledge. Both or neither.
    ADD COLUMN escalate_to uuid REFERENCES alert_rules (id) ON DELETE SET NULL,
    ADD COLUMN escalate_minutes integer;
CREATE INDEX alert_rules_escalation ON alert_rules (escalate_to) WHERE escalate_to IS NOT NULL;
-- Before, figures alone had one, in their own table. Nothing reads those columns any more.
UPDATE alert_rules r SET escalate_to = f.escalate_to, escalate_minutes = f.escalate_minutes
FROM alert_figures f WHERE f.rule = r.id AND f.escalate_to IS NOT NULL;

ALTER TABLE alert_firings
    -- When the second receiver gets it; NULL for never.
    ADD COLUMN escalate_at timestamptz,
    -- The app, the version and the console's page of what it is about.
    ADD COLUMN app text NOT NULL DEFAULT '',
    ADD COLUMN version text NOT NULL DEFAULT '',
    ADD COLUMN path text NOT NULL DEFAULT '/console/alerts';
UPDATE alert_firings f SET escalate_at = f.began_at + make_interval(mins => r.escalate_minutes), app = coalesce(r.app, '')
FROM alert_rules r
WHERE r.id = f.rule AND r.escalate_to IS NOT NULL AND f.ended_at IS NULL AND f.acknowledged_at IS NULL
  AND f.escalated_to IS NULL;
CREATE INDEX alert_firings_due ON alert_firings (escalate_at) WHERE escalate_at IS NOT NULL;

ALTER TABLE alert_events
    -- The firing of a rule without a figure: a message with this event began it.
    ADD COLUMN firing uuid REFERENCES alert_firings (id) ON DELETE SET NULL;
CREATE INDEX alert_events_firing ON alert_events (firing) WHERE firing IS NOT NULL;

-- As before, and the firings that are due for a second receiver.
CREATE OR REPLACE FUNCTION unslide_alerts_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, rule uuid, step text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH active AS NOT MATERIALIZED (
        SELECT r.* FROM alert_rules r JOIN tenants t ON t.slug = r.tenant WHERE t.state = 'active'
    )
    (SELECT a.tenant, a.id, 'evaluate' FROM active a
     WHERE a.enabled AND a.condition <> 'regression' AND a.next_evaluation_at <= at
     ORDER BY row_number() OVER (PARTITION BY a.tenant ORDER BY a.next_evaluation_at), a.next_evaluation_at
     LIMIT how_many)
    UNION ALL
    (SELECT a.tenant, a.id, 'escalate' FROM alert_firings f JOIN active a ON a.id = f.rule
     WHERE f.escalate_at <= at AND a.enabled
     ORDER BY row_number() OVER (PARTITION BY a.tenant ORDER BY f.escalate_at), f.escalate_at
     LIMIT how_many)
    UNION ALL
    (SELECT a.tenant, a.id, 'collect' FROM active a
     WHERE a.next_message_at <= at AND EXISTS (SELECT FROM alert_events e WHERE e.rule = a.id AND e.message IS NULL)
     ORDER BY row_number() OVER (PARTITION BY a.tenant ORDER BY a.next_message_at), a.next_message_at
     LIMIT how_many)
    UNION ALL
    -- One of each tenant: a receiver that does not answer holds up its own tenant alone.
    (SELECT DISTINCT ON (a.tenant) a.tenant, a.id, 'send'
     FROM alert_messages m JOIN active a ON a.id = m.rule
     WHERE m.status = 'waiting' AND m.due_at <= at
     ORDER BY a.tenant, m.due_at LIMIT how_many)
$$;
