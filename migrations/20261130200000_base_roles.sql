-- The role that every service acts as. It owns nothing and cannot bypass row-level security.
-- An operator makes a login role a member of it; the services say SET ROLE after they connect.
-- Roles belong to the whole server: another database may create the same role at the same time.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'unslide_service') THEN
        BEGIN
            CREATE ROLE unslide_service NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'unslide_service' AND (rolsuper OR rolbypassrls)) THEN
        RAISE EXCEPTION 'the role unslide_service exists and may bypass row-level security';
    END IF;
    -- For a login that both migrates and serves (not a superuser, who needs no membership).
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        BEGIN
            EXECUTE format('GRANT unslide_service TO %I', current_user);
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE NOTICE 'could not make % a member of unslide_service', current_user;
        END;
    END IF;
END $$;

GRANT USAGE ON SCHEMA public TO unslide_service;

-- Every role may make temporary tables unless this is revoked, and with them fill the server's disk. No service makes any.
DO $$
BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END $$;

-- Before a statement adds rows: the transaction's tenant must not be deleted, and must not be in another cell. The shared lock is
-- held until the transaction ends; the deletion of the tenant takes the same lock alone, and so after all that had begun before.
-- The function that records the deletion sets `unslide.erasing`.
CREATE FUNCTION unslide_refuse_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    who text := current_setting('unslide.tenant', true);
    held record;
BEGIN
    IF who IS NULL OR who = '' OR current_setting('unslide.erasing', true) = 'on' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended('tenant ' || who, 0));
    SELECT t.state, t.place, t.frozen_until INTO held FROM public.tenants t WHERE t.slug = who;
    IF held.state = 'deleted' THEN
        RAISE EXCEPTION 'the tenant was deleted' USING ERRCODE = 'UD001';
    END IF;
    IF held.place <> 'here' AND NOT (held.place = 'leaving' AND held.frozen_until <= clock_timestamp()) THEN
        RAISE EXCEPTION 'the tenant is moving to another cell' USING ERRCODE = 'UD002';
    END IF;
    RETURN NULL;
END $$;

-- Puts a table under row-level security: the service sees the rows of the tenant that its transaction names, the owner
-- sees rows only if one of its functions has set `unslide.definer`. (A function's own SET clause would need a superuser.
-- The setting opens nothing to other roles, so it may last until the transaction ends.) A table with a column `tenant`
-- takes no new rows of a deleted tenant. If its privileges have no DELETE, the service deletes its rows with their tenant only.
CREATE FUNCTION unslide_protect(target regclass, tenant_column name, privileges text) RETURNS void
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
    IF tenant_column = 'tenant' THEN
        EXECUTE format(
            'CREATE TRIGGER refuse_deleted BEFORE INSERT ON %s FOR EACH STATEMENT EXECUTE FUNCTION public.unslide_refuse_deleted()',
            target);
    END IF;
    -- The owner may be a member of the service's role.
    IF tenant_column = 'tenant' AND privileges NOT LIKE '%DELETE%' THEN
        EXECUTE format(
            'CREATE POLICY rows_of_deleted_tenants ON %s AS RESTRICTIVE FOR DELETE TO unslide_service
                 USING (current_user = %L
                        OR (SELECT EXISTS (SELECT FROM public.tenants t
                                           WHERE t.slug = current_setting(''unslide.tenant'', true) AND t.state = ''deleted'')))',
            target, current_user);
        EXECUTE format('GRANT DELETE ON %s TO unslide_service', target);
    END IF;
END $$;
REVOKE ALL ON FUNCTION unslide_protect(regclass, name, text) FROM PUBLIC;

-- A version 7 UUID for a moment that the caller gives: 48 bits of milliseconds, the rest random.
CREATE FUNCTION unslide_uuid(at timestamptz) RETURNS uuid
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(
        set_byte(
            overlay(
                uuid_send(gen_random_uuid())
                PLACING substring(int8send(floor(extract(epoch FROM at) * 1000)::bigint) FROM 3)
                FROM 1 FOR 6),
            6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
        'hex')::uuid
$$;

-- Deletes the oldest rows of a table, up to a number of them, that have a time before a moment in one column and fulfil a
-- condition. `key` names the columns of the primary key. If another transaction does the same, it deletes nothing. The
-- statement is planned for its arguments, and looks each row up by its key: with unknown ones the planner would rather
-- read the whole table. For functions that purge.
CREATE FUNCTION unslide_delete_before(
    target regclass, key text, at_column name, before timestamptz, how_many integer, condition text DEFAULT 'true')
RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    deleted bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('delete ' || target::text, 0)) THEN
        RETURN 0;
    END IF;
    EXECUTE format('DELETE FROM %1$s WHERE (%2$s) IN (
                        SELECT %2$s FROM %1$s t WHERE t.%3$I < $1 AND (%4$s) ORDER BY t.%3$I LIMIT $2)',
                   target, key, at_column, condition)
    USING before, how_many;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;
REVOKE ALL ON FUNCTION unslide_delete_before(regclass, text, name, timestamptz, integer, text) FROM PUBLIC;

-- Rows that are over. `unslide_purge` deletes those of a table that fulfil its condition and have a time in its column before
-- a moment. A migration that makes a table adds a row for it.
CREATE TABLE purges (
    target    text PRIMARY KEY,
    -- The columns of the table's primary key.
    key       text NOT NULL,
    at_column name NOT NULL,
    condition text NOT NULL DEFAULT 'true'
);

-- Deletes the oldest rows of a table that are over, up to a number of them. NULL for a table that is not in `purges`.
CREATE FUNCTION unslide_purge(wanted text, before timestamptz, how_many integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT unslide_delete_before(p.target::regclass, p.key, p.at_column, before, how_many, p.condition)
    FROM purges p WHERE p.target = wanted
$$;
