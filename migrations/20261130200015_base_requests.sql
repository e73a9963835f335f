-- Requests of clients to symbolicate reports again: their progress and their outcome.
CREATE TABLE reprocesses (
    id         uuid PRIMARY KEY,
    tenant     text NOT NULL REFERENCES tenants (slug),
    -- Who asked: a key's id.
    actor      text NOT NULL,
    -- Which reports: {"app": …, "version": …, "build": …, "from": …, "to": …, "debug_id": …}
    wanted     jsonb NOT NULL,
    status     text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done', 'failed')),
    -- Reports that fitted when it began.
    matched    bigint NOT NULL,
    -- Reports gone through so far, and where to go on.
    looked     bigint NOT NULL DEFAULT 0,
    last       text,
    -- Requests made; and reports that had one on its way already.
    asked      bigint NOT NULL DEFAULT 0,
    under_way  bigint NOT NULL DEFAULT 0,
    -- How the requests ended.
    better     bigint NOT NULL DEFAULT 0,
    unchanged  bigint NOT NULL DEFAULT 0,
    gone       bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX reprocesses_tenant ON reprocesses (tenant, created_at DESC);
SELECT unslide_protect('reprocesses', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Nothing is requested for a deleted tenant. Its rows may still be there for a while.

-- Requests without an answer, across tenants: last sent before a moment, and then unanswered for as long as when they
-- were sent last, or since long before.
CREATE FUNCTION unslide_requests_overdue(
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

-- Reports that a replay put off, across tenants.
CREATE FUNCTION unslide_asks_pending(how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.ask_pending
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
      AND k.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY k.tenant, k.report_id, k.variant LIMIT how_many
$$;

-- Reports that are due to be requested again, across tenants.
CREATE FUNCTION unslide_retries_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.retry_at <= at AND k.deleted_at IS NULL
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
      AND k.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY k.retry_at LIMIT how_many
$$;

-- Rows that have not seen generations of the system's symbols: of reports, and of captures.
CREATE VIEW system_waiters WITH (security_invoker = true) AS
    SELECT s.tenant, s.debug_id, s.seen_generation FROM system_waits s
    UNION ALL
    SELECT w.tenant, w.debug_id, w.seen_generation FROM capture_waits w WHERE w.system;

-- The tenants with rows that have not seen these generations, by slug. A tenant with frozen rows stays: the job of the wake waits
-- until it is here again or has moved.
CREATE FUNCTION unslide_system_waits_tenants(debug_ids uuid[], generations bigint[], after text, how_many integer)
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

-- Symbols that reports of these days have not seen, although no request is due: no request for the report is
-- outstanding, no job wakes for the symbols, and neither the end of a replay nor a retry by time will.
CREATE FUNCTION unslide_waits_missed(
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

-- The same for system images, by day: symbols of the system, or of a tenant if the system has none, that a day has not
-- seen.
CREATE FUNCTION unslide_system_waits_missed(after_owner text, after_id uuid, how_many integer)
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
