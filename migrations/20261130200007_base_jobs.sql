CREATE TABLE jobs (
    id            uuid PRIMARY KEY,
    tenant        text NOT NULL,
    kind          text NOT NULL,
    payload       jsonb NOT NULL,
    status        text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'running', 'done', 'failed')),
    attempts      integer NOT NULL DEFAULT 0,
    max_attempts  integer NOT NULL,
    run_at        timestamptz NOT NULL,
    lease_owner   text,
    -- New with every lease; the holder of an older one has lost the job.
    lease_token   uuid,
    lease_until   timestamptz,
    last_error    text,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    owning_tenant text GENERATED ALWAYS AS (CASE WHEN tenant <> '~system' THEN tenant END) STORED REFERENCES tenants (slug)
);
CREATE INDEX jobs_due ON jobs (run_at, id) WHERE status = 'queued';
CREATE INDEX jobs_leased ON jobs (lease_until) WHERE status = 'running';
CREATE INDEX jobs_ended ON jobs (updated_at) WHERE status IN ('done', 'failed');
CREATE INDEX jobs_tenant ON jobs (tenant, created_at);
SELECT unslide_protect('jobs', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column, condition) VALUES
    ('jobs', 'id', 'updated_at', 't.status IN (''done'', ''failed'')');

-- System symbols that arrived. The waiting reports, of all tenants, have not been requested yet.
CREATE TABLE system_wakes (
    debug_id   uuid PRIMARY KEY,
    generation bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON system_wakes TO unslide_service;

-- Leases jobs by tenant and not by age, so that a tenant with very many delays no other: the tenant with the fewest of
-- these jobs under way is next, with its oldest one. A lease that is over is not under way. Of a deleted tenant's jobs
-- only the one that erases it runs, and none of a tenant that another cell may be serving. A job that more than six workers died
-- with waits before the next one takes it: 10 s, doubling up to 10 min. If `idle_in` has kinds, only tenants without any such job
-- under way count.
CREATE FUNCTION unslide_jobs_take(
    kinds text[], idle_in text[], worker text, at timestamptz, until timestamptz, how_many integer)
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
          AND j.tenant NOT IN (SELECT r.tenant FROM jobs r
                               WHERE r.kind = ANY (idle_in) AND r.status = 'running' AND r.lease_until >= at)
          AND (j.kind = 'erase'
               OR NOT EXISTS (SELECT FROM tenants t
                              WHERE t.slug = j.tenant
                                AND (t.state = 'deleted'
                                     OR t.place <> 'here' AND NOT (t.place = 'leaving' AND t.frozen_until <= clock_timestamp()))))
          AND (j.status = 'queued' AND j.run_at <= at
               OR j.status = 'running' AND j.lease_until < at
                  AND (j.attempts <= 6
                       OR j.lease_until < at - least(interval '10 min',
                                                     interval '5 s' * power(2, least(j.attempts - 6, 8)))))
        ORDER BY coalesce(b.running, 0), j.run_at, j.id
        LIMIT how_many
        FOR UPDATE OF j SKIP LOCKED)
    RETURNING *
$$;

CREATE FUNCTION unslide_jobs_counts()
RETURNS TABLE (kind text, status text, jobs bigint, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT j.kind, j.status, count(*), min(j.run_at) FROM jobs j WHERE j.status IN ('queued', 'running') GROUP BY 1, 2
$$;

-- Jobs of kinds that may not be given up which make no progress: many workers died with them, or they were added before
-- `failing_before` and have failed since their last page.
CREATE FUNCTION unslide_jobs_stalled(kinds text[], deaths integer, failing_before timestamptz)
RETURNS TABLE (kind text, jobs bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT j.kind, count(*) FROM jobs j
    WHERE j.status IN ('queued', 'running') AND j.kind = ANY (kinds)
      AND (j.attempts >= deaths OR j.last_error IS NOT NULL AND j.created_at < failing_before)
      AND (j.kind = 'erase' OR NOT EXISTS (SELECT FROM tenants t WHERE t.slug = j.tenant AND t.state = 'deleted'))
    GROUP BY 1
$$;

-- Deleted tenants that no job erases: not finished, or finished before `finished_before` and not searched again since.
CREATE FUNCTION unslide_erasures_due(finished_before timestamptz, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t LEFT JOIN tenant_erasures e ON e.tenant = t.slug
    WHERE t.state = 'deleted'
      AND (e.finished_at IS NULL OR e.swept_at IS NULL AND e.finished_at < finished_before)
      AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant = t.slug AND j.kind = 'erase' AND j.status IN ('queued', 'running'))
    ORDER BY t.slug LIMIT how_many
$$;
