-- Holds up the moves of tenants until the transaction ends, as a change of their own rows does: for functions that change rows of other
-- tenants than the transaction's. Refuses if the rows of one are frozen: the change would be lost with the old cell.
CREATE FUNCTION unslide_hold_tenants(slugs text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    who text;
BEGIN
    FOR who IN SELECT DISTINCT s FROM unnest(slugs) s ORDER BY 1 LOOP
        -- As in unslide_refuse_deleted.
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('tenant ' || who, 0));
    END LOOP;
    IF EXISTS (SELECT FROM tenants_elsewhere e WHERE e.slug = ANY (slugs) AND e.place = 'leaving') THEN
        RAISE EXCEPTION 'a tenant is moving to another cell' USING ERRCODE = 'UD002';
    END IF;
END $$;
REVOKE ALL ON FUNCTION unslide_hold_tenants FROM PUBLIC;

-- As before, and no key of a tenant is revoked while it moves: a copy of the key would stay in force.
CREATE OR REPLACE FUNCTION unslide_revoke_made_keys(root uuid, within text, at timestamptz, by_whom text) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT pg_advisory_xact_lock(hashtextextended('makers of keys', 0));
    WITH RECURSIVE made AS (
        SELECT root AS id
        UNION
        SELECT k.id FROM made m JOIN keys k ON k.made_by = m.id
    )
    SELECT unslide_hold_tenants(ARRAY(
        SELECT k.tenant FROM made m JOIN keys k ON k.id = m.id WHERE within IS NULL OR k.tenant = within
        UNION
        SELECT p.tenant FROM made m JOIN sign_in_providers p ON p.set_by = m.id WHERE within IS NULL OR p.tenant = within));
    WITH RECURSIVE made AS (
        SELECT root AS id
        UNION
        SELECT k.id FROM made m JOIN keys k ON k.made_by = m.id
    ), removed AS (
        DELETE FROM sign_in_providers p USING made m
        WHERE p.set_by = m.id AND (within IS NULL OR p.tenant = within)
        RETURNING p.tenant, p.issuer
    ), ended AS (
        DELETE FROM console_sessions s USING removed r, people p
        WHERE s.tenant = r.tenant AND p.tenant = r.tenant AND p.key_id = s.key_id
    ), ended_grants AS (
        DELETE FROM mcp_grants g USING removed r, people p
        WHERE g.tenant = r.tenant AND p.tenant = r.tenant AND p.key_id = g.key_id
    )
    INSERT INTO audit_log (id, tenant, at, actor, action, subject, detail)
    SELECT unslide_uuid(at), r.tenant, at, by_whom, 'sign_in.remove', r.issuer, jsonb_build_object('descends_from', root)
    FROM removed r;
    SELECT FROM keys k
    WHERE k.id IN (SELECT root UNION ALL SELECT m.id FROM unslide_made_keys(root, within, at) m)
      AND (within IS NULL OR k.tenant = within)
    ORDER BY k.tenant COLLATE "C", k.id FOR UPDATE;
    WITH revoked AS (
        UPDATE keys k SET revoked_at = at FROM unslide_made_keys(root, within, at) m
        WHERE k.tenant = m.tenant AND k.id = m.id RETURNING k.tenant, k.id
    ), noted AS (
        INSERT INTO audit_log (id, tenant, at, actor, action, subject, detail)
        SELECT unslide_uuid(at), r.tenant, at, by_whom, 'key.revoke', r.id::text, jsonb_build_object('descends_from', root)
        FROM revoked r
    )
    SELECT count(*) FROM revoked
$$;

-- As before, and what is used for a tenant that another cell may be serving counts as shared: that cell has its rows.
CREATE OR REPLACE FUNCTION unslide_add_resource_uses(by_worker text, until timestamptz, uses jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    on_day date := (until AT TIME ZONE 'UTC')::date;
    who text;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true), set_config('unslide.tenant', '', true);
    IF by_worker IS NOT NULL THEN
        INSERT INTO resource_use_statements AS s (worker, at) VALUES (by_worker, until)
        ON CONFLICT (worker) DO UPDATE SET at = EXCLUDED.at WHERE s.at < EXCLUDED.at;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        DELETE FROM resource_use_statements s WHERE s.at < until - interval '60 days';
    END IF;
    FOR who IN SELECT DISTINCT u.tenant FROM jsonb_populate_recordset(NULL::resource_uses, uses) u
               WHERE u.tenant IS NOT NULL ORDER BY 1 LOOP
        -- As in unslide_refuse_deleted.
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('tenant ' || who, 0));
    END LOOP;
    INSERT INTO resource_uses AS r (tenant, day, cpu_micros, kafka_bytes, object_requests, object_bytes, stored)
    SELECT u.tenant, on_day, u.cpu_micros, u.kafka_bytes, u.object_requests, u.object_bytes, u.stored
    FROM jsonb_populate_recordset(NULL::resource_uses, uses) u JOIN tenants t ON t.slug = u.tenant AND t.state <> 'deleted'
    WHERE u.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY u.tenant
    ON CONFLICT (tenant, day) DO UPDATE SET
        cpu_micros = r.cpu_micros + EXCLUDED.cpu_micros, kafka_bytes = r.kafka_bytes + EXCLUDED.kafka_bytes,
        object_requests = r.object_requests + EXCLUDED.object_requests, object_bytes = r.object_bytes + EXCLUDED.object_bytes,
        stored = r.stored + EXCLUDED.stored;
    INSERT INTO shared_resource_uses AS r (day, cpu_micros, kafka_bytes, object_requests, object_bytes, stored)
    SELECT on_day, sum(u.cpu_micros), sum(u.kafka_bytes), sum(u.object_requests), sum(u.object_bytes), sum(u.stored)
    FROM jsonb_populate_recordset(NULL::resource_uses, uses) u
    WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.slug = u.tenant AND t.state <> 'deleted'
                        AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere))
    HAVING count(*) > 0
    ON CONFLICT (day) DO UPDATE SET
        cpu_micros = r.cpu_micros + EXCLUDED.cpu_micros, kafka_bytes = r.kafka_bytes + EXCLUDED.kafka_bytes,
        object_requests = r.object_requests + EXCLUDED.object_requests, object_bytes = r.object_bytes + EXCLUDED.object_bytes,
        stored = r.stored + EXCLUDED.stored;
END $$;
