-- Tenants that another cell may be serving, as unslide_is_elsewhere says of one. Each function that finds work of all tenants leaves
-- them out: a change of their rows is refused here, and what is done twice is wrong.
CREATE VIEW tenants_elsewhere WITH (security_invoker = true) AS
    SELECT t.slug, t.place FROM public.tenants t
    WHERE t.place <> 'here' AND NOT (t.place = 'leaving' AND t.frozen_until <= clock_timestamp());

-- The functions of the core, as before, but for that.
CREATE OR REPLACE FUNCTION unslide_asks_pending(how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.ask_pending
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
      AND k.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY k.tenant, k.report_id, k.variant LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_requests_overdue(
    at timestamptz, before timestamptz, long_before timestamptz, how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.requested_at <= before
      AND (k.requested_at <= long_before OR at - k.requested_at >= k.requested_at - coalesce(k.asked_at, k.requested_at))
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
      AND k.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY k.requested_at LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_retries_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.retry_at <= at AND k.deleted_at IS NULL
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
      AND k.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY k.retry_at LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_ignored_groups_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT g.tenant, g.id FROM groups g
    WHERE g.ignored_until <= at
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = g.tenant AND t.state = 'deleted')
      AND g.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY g.ignored_until LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_deltas_due(many bigint, before timestamptz, how_many integer)
RETURNS TABLE (tenant text, group_id uuid, deltas bigint, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT d.tenant, d.group_id, d.deltas, d.oldest
    FROM (SELECT g.tenant, g.group_id, count(*) AS deltas, min(g.added_at) AS oldest FROM group_deltas g
          GROUP BY g.tenant, g.group_id HAVING count(*) >= many OR min(g.added_at) < before) d
    WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.slug = d.tenant AND t.state = 'deleted')
      AND d.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY 4, 1, 2 LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_crash_tellings(
    since timestamptz, after_id uuid, after_variant integer, fresh_since timestamptz, apart_days integer, late_days integer,
    how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer, stored_at timestamptz, other_id uuid, other_variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT m.tenant, m.report_id, m.variant, m.stored_at, k.report_id, k.variant
    FROM reports m
    CROSS JOIN LATERAL (
        SELECT m.received_at - make_interval(
                   days => CASE WHEN m.metric_kit AND m.stored_at >= fresh_since THEN late_days ELSE apart_days END) AS first,
               m.received_at - make_interval(days => CASE WHEN m.stored_at >= fresh_since THEN late_days ELSE apart_days END)
                   AS first_of_metric_kit,
               m.received_at + make_interval(days => apart_days) AS last) w
    CROSS JOIN LATERAL (
        SELECT f.report_id, f.variant FROM (
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND (o.fatal AND NOT o.metric_kit) IS TRUE AND o.run_id = m.run_id
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND NOT o.metric_kit AND o.fatal AND o.process_identity = m.process_identity
               AND o.run_id IS NULL
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND NOT o.metric_kit AND o.fatal AND o.process_identity = m.process_identity
               AND (o.run_id IS NULL) IS FALSE AND m.run_id IS NULL
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND o.metric_kit AND o.fatal AND o.process_identity = m.process_identity
               AND o.run_id IS NULL
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first_of_metric_kit AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant FROM reports o
             WHERE o.tenant = m.tenant AND o.app = m.app AND o.metric_kit AND o.fatal AND o.process_identity = m.process_identity
               AND (o.run_id IS NULL) IS FALSE AND m.run_id IS NULL
               AND (o.report_id, o.variant) <> (m.report_id, m.variant)
               AND o.received_at BETWEEN w.first_of_metric_kit AND w.last
             ORDER BY o.received_at, o.report_id LIMIT 1)
            UNION ALL
            (SELECT o.received_at, o.report_id, o.variant
             FROM report_keys v
             JOIN reports o ON o.tenant = v.tenant AND o.received_at = v.received_at AND o.report_id = v.report_id
                           AND o.variant = v.variant
             WHERE m.variant > 0 AND v.tenant = m.tenant AND v.report_id = m.report_id AND v.variant < m.variant
               AND o.app = m.app AND o.version = m.version AND o.fatal
               AND (o.run_id = m.run_id) IS NOT FALSE AND (o.process_identity = m.process_identity) IS NOT FALSE
               AND (o.device_time BETWEEN m.device_time - interval '2 seconds' AND m.device_time + interval '2 seconds')
                   IS NOT FALSE
             ORDER BY v.variant LIMIT 1)) f
        ORDER BY f.received_at, f.report_id, f.variant LIMIT 1) k
    WHERE m.fatal AND m.same_crash_as IS NULL AND (m.second_telling OR m.metric_kit OR m.variant > 0)
      AND m.stored_at >= since
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = m.tenant AND t.state = 'deleted')
      AND m.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
      AND (m.stored_at, m.report_id, m.variant) > (since, after_id, after_variant)
    ORDER BY m.stored_at, m.report_id, m.variant LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_waits_missed(
    begins timestamptz, ends timestamptz, after_tenant text, after_id uuid, how_many integer)
RETURNS TABLE (owner text, debug_id uuid, generation bigint, waits bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH waking AS MATERIALIZED (
        SELECT j.tenant, (j.payload ->> 'debug_id')::uuid AS debug_id,
               max((j.payload ->> 'generation')::bigint) AS generation
        FROM jobs j WHERE j.kind = 'wake' AND j.status IN ('queued', 'running') GROUP BY 1, 2)
    SELECT s.tenant, s.debug_id, s.generation, count(*)
    FROM symbol_slots s
    JOIN waits w ON w.tenant = s.tenant AND w.debug_id = s.debug_id AND w.seen_generation < s.generation
    -- One look-up of a key for each wait: without statistics the planner would rather look through all waits for each key.
    CROSS JOIN LATERAL (SELECT o.* FROM report_keys o
                        WHERE o.tenant = w.tenant AND o.report_id = w.report_id AND o.variant = w.variant LIMIT 1) k
    WHERE w.received_at >= begins AND w.received_at < ends AND s.quality > 0
      AND (s.tenant, s.debug_id) > (after_tenant, after_id)
      AND k.deleted_at IS NULL AND k.requested_at IS NULL AND NOT k.ask_pending
      AND NOT EXISTS (SELECT FROM jsonb_array_elements(k.retry_needs) AS n (need)
                      WHERE (n.need ->> 'debug_id')::uuid = w.debug_id
                        AND (k.retry_at IS NOT NULL OR (n.need ->> 'generation')::bigint >= s.generation))
      AND NOT EXISTS (SELECT FROM waking a WHERE a.tenant = s.tenant AND a.debug_id = s.debug_id
                                             AND a.generation >= s.generation)
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = s.tenant AND t.state = 'deleted')
      AND s.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    GROUP BY 1, 2, 3 ORDER BY 1, 2 LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_system_waits_missed(after_owner text, after_id uuid, how_many integer)
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
    JOIN system_waits w ON w.debug_id = s.debug_id AND w.seen_generation < s.generation
                       AND (s.tenant = '~system' OR s.tenant = w.tenant)
    WHERE s.quality > 0 AND (s.tenant, s.debug_id) > (after_owner, after_id)
      AND (s.tenant = '~system' OR NOT EXISTS (
              SELECT FROM symbol_slots o WHERE o.tenant = '~system' AND o.debug_id = s.debug_id AND o.quality > 0))
      AND NOT EXISTS (SELECT FROM waking a WHERE a.tenant = s.tenant AND a.debug_id = s.debug_id
                                             AND a.generation >= s.generation)
      AND NOT EXISTS (SELECT FROM report_keys k WHERE k.tenant = w.tenant AND k.ask_pending)
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = w.tenant AND t.state = 'deleted')
      AND w.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    GROUP BY 1, 2, 3 ORDER BY 1, 2 LIMIT how_many
$$;

-- A tenant with frozen rows stays: the job of the wake waits until it is here again or has moved.
CREATE OR REPLACE FUNCTION unslide_system_waits_tenants(debug_ids uuid[], generations bigint[], after text, how_many integer)
RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT DISTINCT w.tenant FROM unnest(debug_ids, generations) AS n (debug_id, generation)
    JOIN system_waiters w
        ON w.debug_id = n.debug_id AND w.seen_generation < n.generation
    WHERE w.tenant > after
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = w.tenant AND t.state = 'deleted')
      AND w.tenant NOT IN (SELECT slug FROM tenants_elsewhere WHERE place <> 'leaving')
    ORDER BY 1 LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_bodies_pending()
RETURNS TABLE (tenant text, day date, bodies bigint, bytes bigint, largest bigint, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT b.tenant, (b.received_at AT TIME ZONE 'UTC')::date, count(*), sum(octet_length(b.body))::bigint,
           max(octet_length(b.body))::bigint, min(b.stored_at)
    FROM report_bodies b WHERE b.tenant NOT IN (SELECT slug FROM tenants_elsewhere) GROUP BY 1, 2 ORDER BY 6
$$;

CREATE OR REPLACE FUNCTION unslide_condemned_due(before timestamptz, at timestamptz, how_many integer)
RETURNS TABLE (tenant text, key text, condemned_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT c.tenant, c.key, c.condemned_at FROM condemned_objects c
    WHERE c.condemned_at < before AND (c.retry_at IS NULL OR c.retry_at <= at)
      AND c.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY c.condemned_at, c.tenant, c.key LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_segments_abandon(before timestamptz, at timestamptz) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH gone AS (
        DELETE FROM segments s
        WHERE s.state = 'intent' AND s.created_at < before AND s.tenant NOT IN (SELECT slug FROM tenants_elsewhere) RETURNING s.tenant, s.key),
    condemned AS (
        INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT g.tenant, g.key, at FROM gone g
        ON CONFLICT DO NOTHING RETURNING 1)
    SELECT count(*) FROM condemned
$$;

CREATE OR REPLACE FUNCTION unslide_uploads_kept(
    failed_before timestamptz, done_before timestamptz, at timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT u.tenant, u.id FROM uploads u
    WHERE u.file_gone_at IS NULL AND u.status IN ('done', 'failed')
      AND u.updated_at < CASE u.status WHEN 'failed' THEN failed_before ELSE done_before END
      AND (u.file_retry_at IS NULL OR u.file_retry_at <= at)
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = u.tenant AND t.state = 'deleted')
      AND u.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY u.status DESC, u.updated_at, u.id LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_uploads_stuck(before timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT o.tenant, o.id
    FROM (SELECT u.tenant, u.id, u.created_at FROM uploads u
          WHERE u.status = 'receiving' AND u.updated_at < before
          UNION ALL
          SELECT u.tenant, u.id, u.created_at FROM partial_uploads p JOIN uploads u ON u.id = p.upload_id
          WHERE u.status = 'failed') o
    WHERE o.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY o.created_at, o.id LIMIT how_many
$$;
