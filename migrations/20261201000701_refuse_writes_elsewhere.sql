-- True if another cell may be changing the data of a tenant, so that this one must not.
CREATE FUNCTION unslide_is_elsewhere(who text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM public.tenants t
                   WHERE t.slug = who AND t.place <> 'here' AND NOT (t.place = 'leaving' AND t.frozen_until <= clock_timestamp()))
$$;

-- As before, and no new rows of a tenant that is in another cell.
CREATE OR REPLACE FUNCTION unslide_refuse_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- Rows of moving tenants that were written since their table was copied, by the columns of their primary key. Only `unslide tenant move`
-- reads them; the service has no right to them.
CREATE TABLE moving_rows (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug   text NOT NULL,
    target text NOT NULL,
    key    jsonb NOT NULL
);
CREATE INDEX moving_rows_slug ON moving_rows (slug, number);

-- For a trigger of one tenant on one table, which `unslide tenant move` makes and removes: refuses changes of the service while the
-- tenant is elsewhere, and otherwise notes which row was written. Its arguments are the columns of the primary key.
CREATE FUNCTION unslide_watch_moving() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    who text := current_setting('unslide.tenant', true);
    was_definer text := coalesce(current_setting('unslide.definer', true), '');
    one record;
    written jsonb;
    elsewhere boolean;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    IF who <> '' AND coalesce(current_setting('unslide.erasing', true), '') <> 'on' THEN
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('tenant ' || who, 0));
        elsewhere := unslide_is_elsewhere(who);
    END IF;
    IF elsewhere THEN
        RAISE EXCEPTION 'the tenant is moving to another cell' USING ERRCODE = 'UD002';
    END IF;
    FOR one IN SELECT to_jsonb(OLD) AS image WHERE TG_OP <> 'INSERT' UNION ALL SELECT to_jsonb(NEW) WHERE TG_OP <> 'DELETE' LOOP
        SELECT jsonb_object_agg(name, one.image -> name) INTO written FROM unnest(TG_ARGV[1:]) AS name;
        INSERT INTO moving_rows (slug, target, key) VALUES (TG_ARGV[0], TG_RELID::regclass::text, written);
    END LOOP;
    PERFORM set_config('unslide.definer', was_definer, true);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION unslide_watch_moving FROM PUBLIC;
