-- Jobs and requests go by tenant and not by who came first, so that a tenant with very many holds nobody
-- else up. The names and parameters stay: programs of the release before take turns as well.

-- The requests of each tenant by themselves, and what goes before them.
CREATE INDEX outbox_requests ON outbox (tenant, id) WHERE sent_at IS NULL AND kind = 'resymbolicate';
CREATE INDEX outbox_events ON outbox (kind DESC, id) WHERE sent_at IS NULL AND kind <> 'resymbolicate';

-- Whoever has the fewest of these jobs under way is next, with its oldest one. A lease that is over is
-- not under way.
CREATE OR REPLACE FUNCTION unslide_jobs_take(
    kinds text[], worker text, at timestamptz, until timestamptz, how_many integer)
RETURNS SETOF jobs
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH busy AS MATERIALIZED (
        SELECT tenant, count(*) AS running FROM jobs
        WHERE kind = ANY (kinds) AND status = 'running' AND lease_until >= at GROUP BY tenant)
    UPDATE jobs SET status = 'running', attempts = attempts + 1, lease_owner = worker,
                    lease_token = gen_random_uuid(), lease_until = until, updated_at = at
    WHERE id IN (
        SELECT j.id FROM jobs j LEFT JOIN busy b ON b.tenant = j.tenant
        WHERE j.kind = ANY (kinds)
          AND (j.kind = 'erase' OR NOT EXISTS (SELECT FROM tenants t WHERE t.slug = j.tenant AND t.state = 'deleted'))
          AND (j.status = 'queued' AND j.run_at <= at OR j.status = 'running' AND j.lease_until < at)
        ORDER BY coalesce(b.running, 0), j.run_at, j.id
        LIMIT how_many
        FOR UPDATE OF j SKIP LOCKED)
    RETURNING *
$$;

-- What tenants are, then what symbols there are, each in its order; then requests, so many of each
-- tenant that has any, each tenant's in their order.
CREATE OR REPLACE FUNCTION unslide_outbox_unsent(how_many integer)
RETURNS TABLE (id bigint, tenant text, message jsonb, created_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH RECURSIVE events AS (
        SELECT o.id, o.tenant, o.message, o.created_at,
               row_number() OVER (ORDER BY o.kind DESC, o.id) AS place
        FROM outbox o WHERE o.sent_at IS NULL AND o.kind <> 'resymbolicate'
        ORDER BY o.kind DESC, o.id LIMIT how_many),
    -- One look into the index for each tenant, however many requests it has.
    asking AS (
        (SELECT o.tenant FROM outbox o WHERE o.sent_at IS NULL AND o.kind = 'resymbolicate'
         ORDER BY o.tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT o.tenant FROM outbox o
                WHERE o.sent_at IS NULL AND o.kind = 'resymbolicate' AND o.tenant > a.tenant
                ORDER BY o.tenant LIMIT 1)
        FROM asking a WHERE a.tenant IS NOT NULL),
    requests AS (
        SELECT r.id, r.tenant, r.message, r.created_at, r.turn
        FROM asking a CROSS JOIN LATERAL (
            SELECT o.id, o.tenant, o.message, o.created_at, row_number() OVER (ORDER BY o.id) AS turn
            FROM outbox o WHERE o.sent_at IS NULL AND o.kind = 'resymbolicate' AND o.tenant = a.tenant
            ORDER BY o.id
            LIMIT (SELECT greatest(how_many / greatest(count(f.tenant)::integer, 1), 1) FROM asking f)) r)
    SELECT n.id, n.tenant, n.message, n.created_at FROM (
        SELECT e.id, e.tenant, e.message, e.created_at, 0 AS rank, e.place FROM events e
        UNION ALL
        SELECT r.id, r.tenant, r.message, r.created_at, 1, r.turn FROM requests r) n
    ORDER BY n.rank, n.place, n.id LIMIT how_many
$$;
