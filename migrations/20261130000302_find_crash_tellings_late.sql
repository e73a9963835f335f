-- Reports of crashes that another report tells of, too, across tenants, with that report. Two reports of an app tell of one crash if they
-- are of the same run; if one of the two names no run, of the same process; or if they have one id, and their versions, runs and times do
-- not contradict each other. They arrived at most `apart_days` days apart, or, looked for once, `late_days` days before this one if one of
-- the two is MetricKit's. A report that the app survived is no crash. In the order in which they were stored. Each way reads one row in the
-- order of its index, however many reports name one run or process.
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
      AND (m.stored_at, m.report_id, m.variant) > (since, after_id, after_variant)
    ORDER BY m.stored_at, m.report_id, m.variant LIMIT how_many
$$;
REVOKE ALL ON FUNCTION unslide_crash_tellings(timestamptz, uuid, integer, timestamptz, integer, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_crash_tellings(timestamptz, uuid, integer, timestamptz, integer, integer, integer) TO unslide_service;
