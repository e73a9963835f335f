CREATE TABLE jobs (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    kind         text NOT NULL,
    payload      jsonb NOT NULL,
    status       text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'running', 'done', 'failed')),
    attempts     integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL,
    run_at       timestamptz NOT NULL,
    lease_owner  text,
    -- New with every lease; whoever holds an older one has lost the job.
    lease_token  uuid,
    lease_until  timestamptz,
    last_error   text,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL
);
CREATE INDEX jobs_due ON jobs (run_at, id) WHERE status = 'queued';
CREATE INDEX jobs_leased ON jobs (lease_until) WHERE status = 'running';
CREATE INDEX jobs_tenant ON jobs (tenant, created_at);
SELECT unslide_protect('jobs', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- What has to reach Kafka, written in the transaction that it tells of.
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant     text NOT NULL REFERENCES tenants (slug),
    kind       text NOT NULL CHECK (kind IN ('symbol_event', 'tenant_config', 'resymbolicate')),
    message    jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    sent_at    timestamptz
);
CREATE INDEX outbox_unsent ON outbox (id) WHERE sent_at IS NULL;
CREATE INDEX outbox_sent ON outbox (sent_at) WHERE sent_at IS NOT NULL;
SELECT unslide_protect('outbox', 'tenant', 'SELECT, INSERT');

CREATE FUNCTION unslide_jobs_lease(kinds text[], worker text, at timestamptz, until timestamptz, how_many integer)
RETURNS SETOF jobs
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    UPDATE jobs SET status = 'running', attempts = attempts + 1, lease_owner = worker,
                    lease_token = gen_random_uuid(), lease_until = until, updated_at = at
    WHERE id IN (
        SELECT id FROM jobs
        WHERE kind = ANY (kinds)
          AND (status = 'queued' AND run_at <= at OR status = 'running' AND lease_until < at)
        ORDER BY run_at, id
        LIMIT how_many
        FOR UPDATE SKIP LOCKED)
    RETURNING *
$$;

CREATE FUNCTION unslide_jobs_counts()
RETURNS TABLE (kind text, status text, jobs bigint, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT j.kind, j.status, count(*), min(j.run_at) FROM jobs j WHERE j.status IN ('queued', 'running') GROUP BY 1, 2
$$;

CREATE FUNCTION unslide_jobs_purge(before timestamptz) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH gone AS (DELETE FROM jobs WHERE status = 'done' AND updated_at < before RETURNING 1) SELECT count(*) FROM gone
$$;

CREATE FUNCTION unslide_outbox_next(how_many integer)
RETURNS TABLE (id bigint, tenant text, message jsonb, created_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT o.id, o.tenant, o.message, o.created_at FROM outbox o WHERE o.sent_at IS NULL ORDER BY o.id LIMIT how_many
$$;

CREATE FUNCTION unslide_outbox_sent(ids bigint[], at timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    UPDATE outbox SET sent_at = at WHERE id = ANY (ids) AND sent_at IS NULL
$$;

CREATE FUNCTION unslide_outbox_purge(before timestamptz) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH gone AS (DELETE FROM outbox WHERE sent_at < before RETURNING 1) SELECT count(*) FROM gone
$$;

REVOKE ALL ON FUNCTION unslide_jobs_lease(text[], text, timestamptz, timestamptz, integer), unslide_jobs_counts(),
    unslide_jobs_purge(timestamptz), unslide_outbox_next(integer), unslide_outbox_sent(bigint[], timestamptz),
    unslide_outbox_purge(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_jobs_lease(text[], text, timestamptz, timestamptz, integer), unslide_jobs_counts(),
    unslide_jobs_purge(timestamptz), unslide_outbox_next(integer), unslide_outbox_sent(bigint[], timestamptz),
    unslide_outbox_purge(timestamptz) TO unslide_service;

CREATE FUNCTION unslide_notify_table() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('unslide_' || TG_TABLE_NAME, '');
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_added AFTER INSERT ON jobs FOR EACH STATEMENT EXECUTE FUNCTION unslide_notify_table();
CREATE TRIGGER outbox_added AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION unslide_notify_table();
