-- Symbols of operating systems belong to no tenant: operators write them, every tenant reads what answers. Their rows
-- carry an owner that can be no slug, and a transaction that names this owner sees them, through the same policies.

-- An owner is a tenant or the system: the reference moves to a column that is null for the system.
DO $$
DECLARE
    target text;
BEGIN
    FOREACH target IN ARRAY ARRAY['audit_log', 'uploads', 'objects', 'jobs', 'outbox'] LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN owning_tenant text
                            GENERATED ALWAYS AS (CASE WHEN tenant <> ''~system'' THEN tenant END) STORED
                            REFERENCES tenants (slug)', target);
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', target, target || '_tenant_fkey');
    END LOOP;
END $$;

-- Every tenant may know which system symbols there are, and no more.
CREATE POLICY system_rows ON symbol_slots FOR SELECT TO unslide_service USING (tenant = '~system');

-- System symbols that came and whose waiting reports, of all tenants, are still to be asked for.
CREATE TABLE system_wakes (
    debug_id   uuid PRIMARY KEY,
    generation bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON system_wakes TO unslide_service;

CREATE INDEX system_waits_debug_id ON system_waits (debug_id, tenant, seen_generation);

-- The tenants with reports that have not seen these generations, by slug.
CREATE FUNCTION unslide_system_waits_tenants(debug_ids uuid[], generations bigint[], after text, how_many integer)
RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT DISTINCT w.tenant FROM unnest(debug_ids, generations) AS n (debug_id, generation)
    JOIN system_waits w ON w.debug_id = n.debug_id AND w.seen_generation < n.generation
    WHERE w.tenant > after ORDER BY 1 LIMIT how_many
$$;

-- Programs of before know no owner but tenants: what is the system's is not given to them. Of a deleted tenant's jobs
-- the one that erases it is all that is left.
CREATE OR REPLACE FUNCTION unslide_jobs_lease(kinds text[], worker text, at timestamptz, until timestamptz, how_many integer)
RETURNS SETOF jobs
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    UPDATE jobs SET status = 'running', attempts = attempts + 1, lease_owner = worker,
                    lease_token = gen_random_uuid(), lease_until = until, updated_at = at
    WHERE id IN (
        SELECT id FROM jobs
        WHERE kind = ANY (kinds) AND tenant <> '~system'
          AND (kind = 'erase' OR NOT EXISTS (SELECT FROM tenants t WHERE t.slug = jobs.tenant AND t.state = 'deleted'))
          AND (status = 'queued' AND run_at <= at OR status = 'running' AND lease_until < at)
        ORDER BY run_at, id
        LIMIT how_many
        FOR UPDATE SKIP LOCKED)
    RETURNING *
$$;

CREATE FUNCTION unslide_jobs_take(kinds text[], worker text, at timestamptz, until timestamptz, how_many integer)
RETURNS SETOF jobs
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    UPDATE jobs SET status = 'running', attempts = attempts + 1, lease_owner = worker,
                    lease_token = gen_random_uuid(), lease_until = until, updated_at = at
    WHERE id IN (
        SELECT id FROM jobs
        WHERE kind = ANY (kinds)
          AND (kind = 'erase' OR NOT EXISTS (SELECT FROM tenants t WHERE t.slug = jobs.tenant AND t.state = 'deleted'))
          AND (status = 'queued' AND run_at <= at OR status = 'running' AND lease_until < at)
        ORDER BY run_at, id
        LIMIT how_many
        FOR UPDATE SKIP LOCKED)
    RETURNING *
$$;

CREATE OR REPLACE FUNCTION unslide_outbox_next(how_many integer)
RETURNS TABLE (id bigint, tenant text, message jsonb, created_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT o.id, o.tenant, o.message, o.created_at FROM outbox o
    WHERE o.sent_at IS NULL AND o.tenant <> '~system' ORDER BY o.id LIMIT how_many
$$;

CREATE FUNCTION unslide_outbox_unsent(how_many integer)
RETURNS TABLE (id bigint, tenant text, message jsonb, created_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT o.id, o.tenant, o.message, o.created_at FROM outbox o WHERE o.sent_at IS NULL ORDER BY o.id LIMIT how_many
$$;

REVOKE ALL ON FUNCTION unslide_system_waits_tenants(uuid[], bigint[], text, integer),
    unslide_jobs_take(text[], text, timestamptz, timestamptz, integer), unslide_outbox_unsent(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_system_waits_tenants(uuid[], bigint[], text, integer),
    unslide_jobs_take(text[], text, timestamptz, timestamptz, integer), unslide_outbox_unsent(integer) TO unslide_service;
