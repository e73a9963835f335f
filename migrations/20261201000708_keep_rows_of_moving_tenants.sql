-- True if the transaction's tenant is on its way to another cell. It reads what is committed when it is called, also within a statement that
-- has waited for a lock.
CREATE FUNCTION unslide_is_moving() RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM moving_rows m WHERE m.slug = current_setting('unslide.tenant', true))
$$;
REVOKE ALL ON FUNCTION unslide_is_moving FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_is_moving TO unslide_service;

-- As before, without tenants that another cell may be serving, and those that are on their way to one: a move copies rows of PostgreSQL.
CREATE OR REPLACE FUNCTION unslide_history_due(ends timestamptz, changed_before timestamptz, how_many integer)
RETURNS TABLE (tenant text, day date, oldest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT r.tenant, (r.received_at AT TIME ZONE 'UTC')::date, min(r.stored_at)
    FROM reports r WHERE r.received_at < ends AND r.stored_at < changed_before
    GROUP BY 1, 2
    HAVING r.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
       AND NOT EXISTS (SELECT FROM moving_rows m WHERE m.slug = r.tenant)
    ORDER BY 2, 1 LIMIT how_many
$$;
