CREATE TABLE tenants (
    slug       text PRIMARY KEY CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$'),
    name       text NOT NULL,
    state      text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended', 'deleted')),
    limits     jsonb NOT NULL DEFAULT '{}',
    -- The analyses of reports that the tenant has turned on or off: {"variables": true, …}. The default counts for others.
    analysis_switches jsonb NOT NULL DEFAULT '{}',
    -- Whether the tenant lets people search reports by the id of a device, an installation or a user.
    person_search boolean NOT NULL DEFAULT false,
    -- Where the data of the tenant is. A tenant that moves to another cell is in both for a while:
    -- `here`      this cell serves it. All tenants of an installation with one cell.
    -- `leaving`   no row of it may change until `frozen_until`: its last changes are being copied. Later it is `here` again.
    -- `moved`     another cell serves it. `moved_to` is the prefix of that cell's topics, to which records are passed on.
    -- `arriving`  its rows are being copied to this cell.
    place      text NOT NULL DEFAULT 'here' CHECK (place IN ('here', 'leaving', 'moved', 'arriving')),
    frozen_until timestamptz,
    moved_to   text CHECK (length(moved_to) <= 100),
    -- Counts up with every change; readers of the configuration topic ignore lower numbers.
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT tenants_place CHECK ((place = 'leaving') = (frozen_until IS NOT NULL) AND (place = 'moved') = (moved_to IS NOT NULL))
);
SELECT unslide_protect('tenants', 'slug', 'SELECT, INSERT, UPDATE');

-- A deleted tenant stays deleted.
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

-- True if another cell may be changing the data of a tenant, so that this one must not.
CREATE FUNCTION unslide_is_elsewhere(who text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM public.tenants t
                   WHERE t.slug = who AND t.place <> 'here' AND NOT (t.place = 'leaving' AND t.frozen_until <= clock_timestamp()))
$$;

-- Tenants that another cell may be serving, as unslide_is_elsewhere says of one. Each function that finds work of all tenants leaves
-- them out: a change of their rows is refused here, and work that is done twice is wrong.
CREATE VIEW tenants_elsewhere WITH (security_invoker = true) AS
    SELECT t.slug, t.place FROM public.tenants t
    WHERE t.place <> 'here' AND NOT (t.place = 'leaving' AND t.frozen_until <= clock_timestamp());

-- Goes on in a tenant for the rest of the transaction, and returns how its records are to be handled here. From here on to the end of
-- the transaction a deletion of the tenant waits, and so does a move that waits for its writers. If one of them waits already, the tenant
-- counts as leaving: records of other tenants must not wait for it. No row if there is no such tenant.
CREATE FUNCTION unslide_enter_tenant(who text) RETURNS TABLE (state text, place text)
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    is_free boolean;
BEGIN
    PERFORM set_config('unslide.tenant', who, true);
    -- As in unslide_refuse_deleted.
    is_free := pg_try_advisory_xact_lock_shared(hashtextextended('tenant ' || who, 0));
    -- A statement of its own: it sees rows that were committed before the lock was taken.
    RETURN QUERY
    SELECT t.state,
           CASE WHEN t.place IN ('moved', 'arriving') THEN t.place
                WHEN NOT is_free OR t.place = 'leaving' AND t.frozen_until > clock_timestamp() THEN 'leaving'
                ELSE 'here' END
    FROM tenants t WHERE t.slug = who;
END $$;
REVOKE ALL ON FUNCTION unslide_enter_tenant FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_enter_tenant TO unslide_service;

-- Holds up the moves of tenants until the transaction ends, as a change of their own rows does: for functions that change rows of
-- other tenants than the transaction's. Refuses if the rows of one are frozen: the change would be lost with the old cell.
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

CREATE FUNCTION unslide_tenants(after text, how_many integer)
RETURNS TABLE (slug text, name text, state text, limits jsonb, version bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug, t.name, t.state, t.limits, t.version, t.created_at, t.updated_at
    FROM tenants t WHERE t.slug > after ORDER BY t.slug LIMIT how_many
$$;

-- Those of these names that no tenant has, or had before it was deleted.
CREATE FUNCTION unslide_unknown_tenants(names text[]) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT DISTINCT n FROM unnest(names) n WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.slug = n)
$$;

-- The most days that any tenant's reports are kept.
CREATE FUNCTION unslide_retention_longest(usual integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT greatest(usual, (SELECT max(least((t.limits ->> 'retention_days')::numeric, 100000)::integer)
                            FROM tenants t WHERE t.state <> 'deleted'))
$$;

-- Settings of a tenant for an app.
CREATE TABLE app_settings (
    tenant      text NOT NULL REFERENCES tenants (slug),
    app         text NOT NULL,
    source_url  text NOT NULL,
    source_root text NOT NULL,
    -- Which signals are kept: {"hangs": true, …}. Empty: those of the app `*`, or the default if the tenant chose none.
    signals     jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant, app)
);
SELECT unslide_protect('app_settings', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Counts of signals that an app's settings dropped, by the day (UTC) on which the service read them. Only apps with
-- settings have rows.
CREATE TABLE signal_drops (
    tenant  text NOT NULL,
    app     text NOT NULL,
    signal  text NOT NULL,
    day     date NOT NULL,
    dropped bigint NOT NULL,
    PRIMARY KEY (tenant, app, signal, day)
);
SELECT unslide_protect('signal_drops', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- How many keys the input records of an app are spread over, and what APIs accepted of the app in the last window. Only apps
-- with a rate worth measuring have a row.
CREATE TABLE app_slots (
    tenant       text NOT NULL REFERENCES tenants (slug),
    app          text NOT NULL,
    -- A power of two. Never falls: an id of a report would be in two partitions again.
    slots        smallint NOT NULL DEFAULT 1 CHECK (slots >= 1),
    -- The start of the window, and the cost units of all processes in it.
    window_start timestamptz NOT NULL,
    units        bigint NOT NULL,
    PRIMARY KEY (tenant, app)
);
-- What APIs read every few seconds. Senders name apps, so there may be many rows with one slot: they end soon.
CREATE INDEX app_slots_grown ON app_slots (tenant, app) WHERE slots > 1;
CREATE INDEX app_slots_window ON app_slots (window_start) WHERE slots = 1;
SELECT unslide_protect('app_slots', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column, condition) VALUES ('app_slots', 'tenant, app', 'window_start', 'slots = 1');

-- The apps with more than one slot.
CREATE FUNCTION unslide_app_slots() RETURNS TABLE (tenant text, app text, slots smallint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT s.tenant, s.app, s.slots FROM app_slots s WHERE s.slots > 1
$$;

-- How far the erasing of a deleted tenant is, and the proof that nothing was left. Kept like the tenant's row.
CREATE TABLE tenant_erasures (
    tenant       text PRIMARY KEY REFERENCES tenants (slug),
    requested_at timestamptz NOT NULL,
    -- Rows that were removed, by table.
    removed      jsonb NOT NULL DEFAULT '{}',
    -- Objects that were removed from object storage.
    objects      bigint NOT NULL DEFAULT 0,
    object_bytes bigint NOT NULL DEFAULT 0,
    -- Counts after everything was removed: rows by table, and objects. All are 0 once it is finished.
    remaining    jsonb,
    finished_at  timestamptz,
    -- When a second search ran, long after the last upload that had begun before the deletion.
    swept_at     timestamptz
);
SELECT unslide_protect('tenant_erasures', 'tenant', 'SELECT, INSERT, UPDATE');
-- It outlives its tenant.
REVOKE DELETE ON tenant_erasures FROM unslide_service;
