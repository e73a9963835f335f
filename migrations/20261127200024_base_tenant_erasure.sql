-- Data of a deleted tenant is removed page by page.

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
REVOKE ALL ON FUNCTION unslide_tenant_tables() FROM PUBLIC;

-- Removes up to `how_many` rows of the transaction's own tenant, which must be deleted, from the first table that still
-- has some: the table and the number. No row once nothing is left. A job that a worker holds stays until it has ended.
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

-- The number of rows of the transaction's own tenant in each table, without those that outlive it.
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
