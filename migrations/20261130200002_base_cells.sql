-- The directory of cells: which cell has a tenant. Only the database that the settings name as the directory has rows.
CREATE TABLE cells (
    name         text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$'),
    -- The address of its api, to which doors pass requests on.
    url          text NOT NULL CHECK (length(url) <= 2000),
    topic_prefix text NOT NULL CHECK (length(topic_prefix) <= 100),
    -- Where its servers are, in the operator's words.
    region       text NOT NULL DEFAULT '' CHECK (length(region) <= 100),
    created_at   timestamptz NOT NULL
);

CREATE SEQUENCE cell_changes;

CREATE TABLE cell_tenants (
    slug       text PRIMARY KEY,
    cell       text NOT NULL REFERENCES cells (name),
    -- Grows with each change of any row, so that readers ask for what is newer than they know.
    version    bigint NOT NULL,
    changed_at timestamptz NOT NULL
);
CREATE INDEX cell_tenants_version ON cell_tenants (version);

GRANT SELECT ON cells, cell_tenants TO unslide_service;

-- Says that a new tenant is in a cell, and returns the cell that it is in: another one if the name was taken there before.
CREATE FUNCTION unslide_claim_tenant(wanted text, in_cell text, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    -- One change at a time, so that no reader passes a version that is not committed yet.
    PERFORM pg_advisory_xact_lock(hashtextextended('cell_tenants', 0));
    INSERT INTO cell_tenants (slug, cell, version, changed_at)
    VALUES (wanted, in_cell, nextval('cell_changes'), at) ON CONFLICT DO NOTHING;
    RETURN (SELECT t.cell FROM cell_tenants t WHERE t.slug = wanted);
END $$;

-- Rows of moving tenants that were written since their table was copied, by the columns of their primary key. Only `unslide tenant
-- move` reads them; the service has no right to them.
CREATE TABLE moving_rows (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug   text NOT NULL,
    target text NOT NULL,
    key    jsonb NOT NULL
);
CREATE INDEX moving_rows_slug ON moving_rows (slug, number);

-- True if the transaction's tenant is on its way to another cell. It reads what is committed when it is called, also within a statement
-- that has waited for a lock.
CREATE FUNCTION unslide_is_moving() RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM moving_rows m WHERE m.slug = current_setting('unslide.tenant', true))
$$;

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
