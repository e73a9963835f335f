-- Revokes the keys that a key made, each with an entry in its tenant's audit log, and returns their number. Waits for those
-- that are being made. Locks them and the root in the order in which uses of keys are noted, so that neither waits for the
-- other forever. Identity providers that one of these keys set are removed before, because people would sign in with them
-- again, and the sessions of their people end with the access that these people gave to assistants. A key counts here even if it
-- was revoked earlier. No key of a tenant is revoked while the tenant moves: a copy of the key would stay in force.
CREATE FUNCTION unslide_revoke_made_keys(root uuid, within text, at timestamptz, by_whom text) RETURNS bigint
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
