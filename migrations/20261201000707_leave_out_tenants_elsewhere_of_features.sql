-- The functions of features that find work of all tenants, and those that say how late such work is: as before, without tenants that
-- another cell may be serving.
CREATE OR REPLACE FUNCTION unslide_alert_confirmations_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, address text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT DISTINCT ON (r.tenant) r.tenant, r.address
    FROM alert_recipients r JOIN tenants t ON t.slug = r.tenant
    WHERE r.ask_at <= at AND t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY r.tenant, r.ask_at LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_alerts_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, rule uuid, step text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH active AS NOT MATERIALIZED (
        SELECT r.* FROM alert_rules r JOIN tenants t ON t.slug = r.tenant
        WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
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

CREATE OR REPLACE FUNCTION unslide_alerts_to_route(at timestamptz, how_many integer) RETURNS TABLE (tenant text, rule uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT w.tenant, w.rule
    FROM (SELECT e.tenant, e.rule, min(e.route_at) AS route_at FROM alert_events e
          JOIN tenants t ON t.slug = e.tenant AND t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
          WHERE e.route_at <= at GROUP BY e.tenant, e.rule) w
    ORDER BY row_number() OVER (PARTITION BY w.tenant ORDER BY w.route_at), w.route_at
    LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_audit_receivers_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND EXISTS (
        SELECT FROM audit_receivers r
        WHERE r.tenant = t.slug AND r.next_send_at <= at AND (r.leased_until IS NULL OR r.leased_until <= at)
          AND EXISTS (SELECT FROM audit_log l WHERE l.tenant = r.tenant AND l.position > r.position))
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_audit_receivers_oldest() RETURNS timestamptz
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT min(l.at) FROM audit_receivers r
    JOIN tenants t ON t.slug = r.tenant AND t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
    JOIN audit_log l ON l.tenant = r.tenant AND l.position = r.position + 1
$$;

CREATE OR REPLACE FUNCTION unslide_body_caps_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT c.tenant FROM body_cap_turns c JOIN tenants t ON t.slug = c.tenant
    WHERE t.state <> 'deleted' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND c.next_at <= at
    ORDER BY c.tenant <= after, c.tenant LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_capture_waits_missed(after_owner text, after_id uuid, how_many integer)
RETURNS TABLE (owner text, debug_id uuid, generation bigint, waits bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH waking AS MATERIALIZED (
        SELECT j.tenant, (j.payload ->> 'debug_id')::uuid AS debug_id,
               max((j.payload ->> 'generation')::bigint) AS generation
        FROM jobs j WHERE j.kind = 'wake' AND j.status IN ('queued', 'running') GROUP BY 1, 2
        UNION ALL
        SELECT '~system', n.debug_id, n.generation FROM system_wakes n)
    SELECT s.tenant, s.debug_id, s.generation, count(*)
    FROM symbol_slots s
    -- The indexes of both are by tenant and by system.
    JOIN LATERAL (
        SELECT o.tenant, o.capture_id FROM capture_waits o
        WHERE o.tenant = s.tenant AND NOT o.system AND o.debug_id = s.debug_id AND o.seen_generation < s.generation
        UNION ALL
        SELECT y.tenant, y.capture_id FROM capture_waits y
        WHERE s.tenant = '~system' AND y.system AND y.debug_id = s.debug_id AND y.seen_generation < s.generation
    ) w ON true
    JOIN captures c ON c.tenant = w.tenant AND c.id = w.capture_id
    WHERE s.quality > 0 AND (s.tenant, s.debug_id) > (after_owner, after_id)
      AND c.state IN ('ready', 'failed') AND (c.reason IS NULL OR c.analysed_at < s.updated_at)
      AND NOT EXISTS (SELECT FROM waking a WHERE a.tenant = s.tenant AND a.debug_id = s.debug_id
                                             AND a.generation >= s.generation)
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = w.tenant AND t.state = 'deleted')
      AND w.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    GROUP BY 1, 2, 3 ORDER BY 1, 2 LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_held_regressions_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
      AND EXISTS (SELECT FROM held_regressions h WHERE h.tenant = t.slug AND h.next_look_at <= at)
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_otlp_due(at timestamptz, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT s.tenant FROM otlp_settings s JOIN tenants t ON t.slug = s.tenant
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND s.export_url IS NOT NULL AND s.next_send_at <= at
      AND (s.leased_until IS NULL OR s.leased_until <= at)
      AND EXISTS (SELECT FROM otlp_outbox o WHERE o.tenant = s.tenant)
    ORDER BY s.next_send_at LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_owners_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND t.slug IN (SELECT a.tenant FROM owner_apps a)
      AND (EXISTS (SELECT FROM owner_apps a WHERE a.tenant = t.slug AND a.swept_epoch < a.epoch)
           OR EXISTS (SELECT FROM group_owners g WHERE g.tenant = t.slug AND g.needed > g.done AND g.next_look_at <= at))
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_parquet_oldest_due(day_seconds double precision, change_seconds double precision) RETURNS timestamptz
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT min(due.at) FROM parquet_exports e JOIN tenants t ON t.slug = e.tenant AND t.state = 'active'
        AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
    CROSS JOIN LATERAL (
        SELECT greatest((e.next_day + 1)::timestamp AT TIME ZONE 'UTC' + make_interval(secs => day_seconds),
                        coalesce(e.written_at, e.changed_at)) AS at
        UNION ALL
        (SELECT c.changed_at + make_interval(secs => change_seconds) FROM parquet_day_changes c
         WHERE c.tenant = e.tenant ORDER BY c.number LIMIT 1)
        UNION ALL
        SELECT CASE WHEN d.erases THEN d.changed_since
                    ELSE greatest(d.changed_since + make_interval(secs => change_seconds), e.written_at) END
        FROM parquet_days d
        WHERE d.tenant = e.tenant AND d.changed_since IS NOT NULL AND d.day >= e.first_day AND d.day < e.next_day
        UNION ALL
        (SELECT f.delete_at FROM parquet_files f
         WHERE f.tenant = e.tenant AND f.delete_at IS NOT NULL ORDER BY f.delete_at LIMIT 1)) due
$$;

CREATE OR REPLACE FUNCTION unslide_slack_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t JOIN slack_apps s ON s.tenant = t.slug
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
      AND (s.next_look_at <= at
           OR EXISTS (SELECT FROM slack_actions a WHERE a.tenant = t.slug AND a.due_at <= at)
           OR ((s.not_before IS NULL OR s.not_before <= at)
               AND EXISTS (SELECT FROM slack_threads d WHERE d.tenant = t.slug AND d.due_at <= at
                           AND (d.leased_until IS NULL OR d.leased_until <= at))))
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_stored_events_first() RETURNS TABLE (tenant text, queued_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    WITH RECURSIVE waiting AS (
        (SELECT e.tenant, e.queued_at FROM stored_events e ORDER BY e.tenant, e.number LIMIT 1)
        UNION ALL
        SELECT n.tenant, n.queued_at FROM waiting w CROSS JOIN LATERAL (
            SELECT e.tenant, e.queued_at FROM stored_events e WHERE e.tenant > w.tenant
            ORDER BY e.tenant, e.number LIMIT 1) n)
    SELECT w.tenant, w.queued_at FROM waiting w JOIN tenants t ON t.slug = w.tenant
    WHERE (t.state <> 'deleted'
           OR EXISTS (SELECT FROM stored_events e WHERE e.tenant = w.tenant AND e.report_id IS NULL))
      AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
$$;

CREATE OR REPLACE FUNCTION unslide_testflight_due(at timestamptz, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant FROM testflight_keys k JOIN tenants t ON t.slug = k.tenant
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
      AND k.next_poll_at <= at AND (k.not_before IS NULL OR k.not_before <= at)
      AND (k.leased_until IS NULL OR k.leased_until <= at)
    ORDER BY k.next_poll_at LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_ticket_tenants(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND EXISTS (
        SELECT FROM trackers k
        WHERE k.tenant = t.slug AND (
            (k.rule_reports IS NOT NULL AND k.next_look_at <= at)
            OR ((k.not_before IS NULL OR k.not_before <= at) AND EXISTS (
                SELECT FROM ticket_requests r
                WHERE r.tenant = k.tenant AND r.tracker = k.name AND r.due_at <= at
                  AND (r.leased_until IS NULL OR r.leased_until <= at)))))
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_uploader_files_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, app text, sha1 bytea)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT w.tenant, w.app, w.sha1
    FROM (SELECT f.tenant, f.app, f.sha1, f.due_at,
                 row_number() OVER (PARTITION BY f.tenant ORDER BY f.due_at, f.app, f.sha1) AS place
          FROM uploader_files f JOIN tenants t ON t.slug = f.tenant
          WHERE f.state = 'waiting' AND f.due_at <= at AND t.state <> 'deleted' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)) w
    ORDER BY w.place, w.due_at, w.tenant LIMIT how_many
$$;
