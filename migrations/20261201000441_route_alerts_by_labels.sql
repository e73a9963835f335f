-- Rules for groups with a label alone, such as those of one owner. Features put labels on groups some time after a group is new, so an
-- event of such a rule waits for them.
ALTER TABLE alert_rules
    -- Labels of which a group has one at least; empty for all groups.
    ADD COLUMN labels text[] NOT NULL DEFAULT '{}' CHECK (cardinality(labels) <= 20);
ALTER TABLE alert_events
    -- When the labels of its group are looked at next; NULL: they are not waited for.
    ADD COLUMN route_at timestamptz,
    -- Its group has none of the rule's labels: no message tells of it.
    ADD COLUMN dropped boolean NOT NULL DEFAULT false;
DROP INDEX alert_events_waiting;
CREATE INDEX alert_events_waiting ON alert_events (rule) WHERE message IS NULL AND route_at IS NULL AND NOT dropped;
CREATE INDEX alert_events_route ON alert_events (route_at) WHERE route_at IS NOT NULL;

UPDATE purges SET condition = '(t.dropped OR t.message IS NOT NULL) AND NOT EXISTS (
        SELECT FROM alert_messages m WHERE m.id = t.message AND m.status = ''waiting'')'
WHERE target = 'alert_events';

-- As before, without events that wait for labels or were dropped.
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
     WHERE a.next_message_at <= at
       AND EXISTS (SELECT FROM alert_events e
                   WHERE e.rule = a.id AND e.message IS NULL AND e.route_at IS NULL AND NOT e.dropped)
     ORDER BY row_number() OVER (PARTITION BY a.tenant ORDER BY a.next_message_at), a.next_message_at
     LIMIT how_many)
    UNION ALL
    -- One of each tenant: a receiver that does not answer holds up its own tenant alone.
    (SELECT DISTINCT ON (a.tenant) a.tenant, a.id, 'send'
     FROM alert_messages m JOIN active a ON a.id = m.rule
     WHERE m.status = 'waiting' AND m.due_at <= at
     ORDER BY a.tenant, m.due_at LIMIT how_many)
$$;

-- The rules with events whose labels are to be looked at, the longest waiting first, one of each tenant in turn. A function of its own,
-- because an earlier release does not know the step.
CREATE FUNCTION unslide_alerts_to_route(at timestamptz, how_many integer) RETURNS TABLE (tenant text, rule uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT w.tenant, w.rule
    FROM (SELECT e.tenant, e.rule, min(e.route_at) AS route_at FROM alert_events e
          JOIN tenants t ON t.slug = e.tenant AND t.state = 'active'
          WHERE e.route_at <= at GROUP BY e.tenant, e.rule) w
    ORDER BY row_number() OVER (PARTITION BY w.tenant ORDER BY w.route_at), w.route_at
    LIMIT how_many
$$;
REVOKE ALL ON FUNCTION unslide_alerts_to_route FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_alerts_to_route TO unslide_service;
