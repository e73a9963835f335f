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
REVOKE ALL ON FUNCTION unslide_app_slots FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_app_slots TO unslide_service;
