-- Captures: files that were recorded on a device and are analysed as a whole. The files and the analysis are objects in
-- object storage; an analysis is made again when symbols come that it lacked.
CREATE TABLE captures (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    app          text NOT NULL,
    version      text NOT NULL,
    -- The id of the session that it was recorded in, if its sender names one.
    session_id   text,
    kind         text NOT NULL,
    -- How its files are read: {"kind": "malloc_log", "layout": …}
    form         jsonb NOT NULL,
    -- [{"name": "events", "size": …}, …]
    files        jsonb NOT NULL,
    -- Of all files together.
    size         bigint NOT NULL,
    -- Of the files, and of how they are read.
    content_hash bytea NOT NULL CHECK (length(content_hash) = 32),
    state        text NOT NULL CHECK (state IN ('queued', 'analysing', 'ready', 'failed')),
    -- A stable code and a sentence; both set if the last analysis failed.
    reason       text,
    detail       text,
    -- Counts the analyses that were begun. Only the last one begun may end.
    run          integer NOT NULL DEFAULT 0,
    -- The one that answers; NULL until there is one.
    answer       integer,
    -- Summary of the analysis for lists.
    summary      jsonb,
    received_at  timestamptz NOT NULL,
    analysed_at  timestamptz
);
-- The same bytes of an app, read in the same way, are one capture.
CREATE UNIQUE INDEX captures_content ON captures (tenant, app, content_hash);
CREATE INDEX captures_age ON captures (tenant, received_at DESC, id DESC);
CREATE INDEX captures_session ON captures (tenant, app, session_id, received_at, id) WHERE session_id IS NOT NULL;
CREATE INDEX captures_app ON captures (tenant, app, received_at DESC, id DESC);
-- The earlier capture for comparisons.
CREATE INDEX captures_kind ON captures (tenant, app, kind, received_at DESC, id DESC);
-- How much a tenant stores, from the index alone.
CREATE INDEX captures_usage ON captures (tenant) INCLUDE (size);
SELECT unslide_protect('captures', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Which symbols a capture's analysis has seen, as `waits` says it of reports. `system` is for the system's slot.
CREATE TABLE capture_waits (
    tenant          text NOT NULL,
    debug_id        uuid NOT NULL,
    capture_id      uuid NOT NULL REFERENCES captures (id) ON DELETE CASCADE,
    system          boolean NOT NULL,
    seen_generation bigint NOT NULL,
    PRIMARY KEY (tenant, debug_id, capture_id, system)
);
CREATE INDEX capture_waits_capture ON capture_waits (capture_id);
CREATE INDEX capture_waits_system ON capture_waits (debug_id, seen_generation) WHERE system;
SELECT unslide_protect('capture_waits', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Symbols that captures have not seen although no job wakes for them, by the owner of the symbols. An analysis that failed
-- has seen nothing, and is made again only for symbols that came after it.
CREATE FUNCTION unslide_capture_waits_missed(after_owner text, after_id uuid, how_many integer)
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
