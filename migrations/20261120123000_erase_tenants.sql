-- A deleted tenant stays deleted, nothing is written into it any more, and what it had is taken away page by page.

-- How far the erasing of a deleted tenant is, and the proof that nothing was left. Kept for good, like the tenant's row.
CREATE TABLE tenant_erasures (
    tenant       text PRIMARY KEY REFERENCES tenants (slug),
    requested_at timestamptz NOT NULL,
    -- Rows that were removed, by table.
    removed      jsonb NOT NULL DEFAULT '{}',
    -- Objects that were removed from object storage.
    objects      bigint NOT NULL DEFAULT 0,
    object_bytes bigint NOT NULL DEFAULT 0,
    -- What was found when everything had been removed: rows by table, and objects. All are 0 once it is finished.
    remaining    jsonb,
    finished_at  timestamptz,
    -- When it was looked for once more, long after the last upload that had begun before the deletion.
    swept_at     timestamptz
);
SELECT unslide_protect('tenant_erasures', 'tenant', 'SELECT, INSERT, UPDATE');

-- Before a statement adds rows: the transaction's tenant must not be deleted. The shared lock is held until the
-- transaction ends; whoever deletes the tenant takes the same lock alone, and so after all that had begun before.
-- What tells of the deletion itself says `unslide.erasing`.
CREATE FUNCTION unslide_refuse_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    who text := current_setting('unslide.tenant', true);
BEGIN
    IF who IS NULL OR who = '' OR current_setting('unslide.erasing', true) = 'on' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended('tenant ' || who, 0));
    IF EXISTS (SELECT FROM public.tenants t WHERE t.slug = who AND t.state = 'deleted') THEN
        RAISE EXCEPTION 'the tenant was deleted' USING ERRCODE = 'UD001';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION unslide_tenant_state_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'deleted' AND NEW.state <> 'deleted' THEN
        RAISE EXCEPTION 'the tenant was deleted' USING ERRCODE = 'UD001';
    END IF;
    IF OLD.state <> 'deleted' AND NEW.state = 'deleted' THEN
        PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('tenant ' || NEW.slug, 0));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tenant_state_changes BEFORE UPDATE OF state ON tenants
    FOR EACH ROW EXECUTE FUNCTION unslide_tenant_state_changes();

-- As before, and with the guard, so that a later table has it too.
CREATE OR REPLACE FUNCTION unslide_protect(target regclass, tenant_column name, privileges text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', target);
    EXECUTE format(
        'CREATE POLICY tenant_rows ON %s TO unslide_service
             USING (%I = (SELECT current_setting(''unslide.tenant'', true)))
             WITH CHECK (%I = (SELECT current_setting(''unslide.tenant'', true)))',
        target, tenant_column, tenant_column);
    EXECUTE format(
        'CREATE POLICY definer_rows ON %s TO %I
             USING ((SELECT current_setting(''unslide.definer'', true)) = ''on'')
             WITH CHECK ((SELECT current_setting(''unslide.definer'', true)) = ''on'')',
        target, current_user);
    EXECUTE format('GRANT %s ON %s TO unslide_service', privileges, target);
    EXECUTE format(
        'CREATE TRIGGER refuse_deleted BEFORE INSERT ON %s FOR EACH STATEMENT EXECUTE FUNCTION public.unslide_refuse_deleted()',
        target);
END $$;

DO $$
DECLARE
    target record;
BEGIN
    FOR target IN
        SELECT c.oid::regclass AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND a.attname = 'tenant' AND NOT a.attisdropped
    LOOP
        EXECUTE format(
            'CREATE TRIGGER refuse_deleted BEFORE INSERT ON %s FOR EACH STATEMENT EXECUTE FUNCTION public.unslide_refuse_deleted()',
            target.name);
    END LOOP;
END $$;

-- Every table with tenants' rows, as the catalogue has it, those that refer to others first. `stays` is the condition
-- of the rows that outlive their tenant.
CREATE FUNCTION unslide_tenant_tables() RETURNS TABLE (relation text, partitioned boolean, stays text)
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    WITH RECURSIVE tables AS (
        SELECT c.oid, c.relname::text AS name, c.relkind = 'p' AS partitioned
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND a.attname = 'tenant' AND NOT a.attisdropped
    ), depths AS (
        SELECT t.oid, 0 AS depth FROM tables t
        UNION
        SELECT f.confrelid, d.depth + 1
        FROM depths d JOIN pg_constraint f ON f.conrelid = d.oid AND f.contype = 'f' AND f.confrelid <> d.oid
        WHERE d.depth < 16 AND f.confrelid IN (SELECT t.oid FROM tables t)
    )
    SELECT t.name, t.partitioned, CASE t.name
               WHEN 'audit_log' THEN 'true'
               WHEN 'tenant_erasures' THEN 'true'
               WHEN 'outbox' THEN 'kind = ''tenant_config'''
               WHEN 'jobs' THEN 'kind = ''erase'''
               ELSE 'false'
           END
    FROM tables t JOIN (SELECT oid, max(depth) AS depth FROM depths GROUP BY oid) d ON d.oid = t.oid
    ORDER BY d.depth, t.name
$$;

-- Removes up to `how_many` rows of the transaction's own tenant, which must be deleted, from the first table that still
-- has some: the table and how many. No row once nothing is left. A job that a worker holds stays until it has ended.
CREATE FUNCTION unslide_tenant_erase(how_many integer, at timestamptz) RETURNS TABLE (relation text, gone bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    who text := current_setting('unslide.tenant', true);
    target record;
    key_columns text;
    removed bigint;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    IF NOT EXISTS (SELECT FROM tenants t WHERE t.slug = who AND t.state = 'deleted') THEN
        RAISE EXCEPTION 'only what a deleted tenant had is erased';
    END IF;
    FOR target IN SELECT t.relation, t.partitioned, t.stays FROM unslide_tenant_tables() t WHERE t.stays <> 'true' LOOP
        IF target.relation = 'jobs' THEN
            target.stays := target.stays || ' OR status = ''running'' AND lease_until > $3';
        END IF;
        IF target.partitioned THEN
            SELECT string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum) INTO key_columns
            FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
            WHERE i.indrelid = format('public.%I', target.relation)::regclass AND i.indisprimary;
            EXECUTE format(
                'DELETE FROM public.%1$I WHERE tenant = $1 AND (%2$s) IN (
                     SELECT %2$s FROM public.%1$I WHERE tenant = $1 AND NOT (%3$s) AND $3 IS NOT NULL LIMIT $2)',
                target.relation, key_columns, target.stays) USING who, how_many, at;
        ELSE
            EXECUTE format(
                'DELETE FROM public.%1$I WHERE tenant = $1 AND ctid = ANY (ARRAY(
                     SELECT ctid FROM public.%1$I WHERE tenant = $1 AND NOT (%2$s) AND $3 IS NOT NULL LIMIT $2))',
                target.relation, target.stays) USING who, how_many, at;
        END IF;
        GET DIAGNOSTICS removed = ROW_COUNT;
        IF removed > 0 THEN
            relation := target.relation;
            gone := removed;
            RETURN NEXT;
            RETURN;
        END IF;
    END LOOP;
END $$;

-- How many rows of the transaction's own tenant each table holds, without those that outlive it.
CREATE FUNCTION unslide_tenant_rows() RETURNS TABLE (relation text, held bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    target record;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    FOR target IN SELECT t.relation, t.stays FROM unslide_tenant_tables() t WHERE t.stays <> 'true' LOOP
        relation := target.relation;
        EXECUTE format('SELECT count(*) FROM public.%I WHERE tenant = $1 AND NOT (%s)', target.relation, target.stays)
            INTO held USING current_setting('unslide.tenant', true);
        RETURN NEXT;
    END LOOP;
END $$;

-- Deleted tenants that nobody erases: not finished, or finished before `finished_before` and not looked at again since.
CREATE FUNCTION unslide_erasures_due(finished_before timestamptz, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t LEFT JOIN tenant_erasures e ON e.tenant = t.slug
    WHERE t.state = 'deleted'
      AND (e.finished_at IS NULL OR e.swept_at IS NULL AND e.finished_at < finished_before)
      AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant = t.slug AND j.kind = 'erase' AND j.status IN ('queued', 'running'))
    ORDER BY t.slug LIMIT how_many
$$;

REVOKE ALL ON FUNCTION unslide_tenant_erase(integer, timestamptz), unslide_tenant_rows(), unslide_tenant_tables(),
    unslide_erasures_due(timestamptz, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_tenant_erase(integer, timestamptz), unslide_tenant_rows(),
    unslide_erasures_due(timestamptz, integer) TO unslide_service;

-- The jobs of a deleted tenant are over; erasing it is the only one that is left.
CREATE OR REPLACE FUNCTION unslide_jobs_lease(kinds text[], worker text, at timestamptz, until timestamptz, how_many integer)
RETURNS SETOF jobs
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    UPDATE jobs SET status = 'running', attempts = attempts + 1, lease_owner = worker,
                    lease_token = gen_random_uuid(), lease_until = until, updated_at = at
    WHERE id IN (
        SELECT id FROM jobs
        WHERE kind = ANY (kinds)
          AND (status = 'queued' AND run_at <= at OR status = 'running' AND lease_until < at)
          AND (kind = 'erase' OR NOT EXISTS (SELECT FROM tenants t WHERE t.slug = jobs.tenant AND t.state = 'deleted'))
        ORDER BY run_at, id
        LIMIT how_many
        FOR UPDATE SKIP LOCKED)
    RETURNING *
$$;

-- Nothing is asked for a deleted tenant.
CREATE OR REPLACE FUNCTION unslide_requests_overdue(before timestamptz, how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.requested_at < before
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
    ORDER BY k.requested_at LIMIT how_many
$$;

CREATE OR REPLACE FUNCTION unslide_asks_pending(how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.ask_pending
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = k.tenant AND t.state = 'deleted')
    ORDER BY k.tenant, k.report_id, k.variant LIMIT how_many
$$;

-- A key's row with what its tenant may use, so that one question answers who asks and how much.
CREATE FUNCTION unslide_key_principal(wanted text)
RETURNS TABLE (id uuid, tenant text, secret_hash bytea, scopes text[], app text, expires_at timestamptz,
               revoked_at timestamptz, last_used_at timestamptz, tenant_state text, tenant_limits jsonb)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.id, k.tenant, k.secret_hash, k.scopes, k.app, k.expires_at, k.revoked_at, k.last_used_at, t.state, t.limits
    FROM api_keys k JOIN tenants t ON t.slug = k.tenant
    WHERE k.prefix = wanted
$$;
REVOKE ALL ON FUNCTION unslide_key_principal(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_key_principal(text) TO unslide_service;

-- How much a tenant stores, from the index alone. One row an uploaded slice: the table is small enough to be locked for it.
CREATE INDEX objects_usage ON objects (tenant) INCLUDE (size);
