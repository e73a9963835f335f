-- How many bodies of reports are kept of a group and day.
CREATE TABLE body_caps (
    tenant     text NOT NULL REFERENCES tenants (slug),
    -- The bundle identifier. Empty for the apps without a row of their own.
    app        text NOT NULL,
    bodies     integer NOT NULL CHECK (bodies BETWEEN 1 AND 1000),
    -- It holds for reports that arrived at this time or later.
    since      timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, app)
);
SELECT unslide_protect('body_caps', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- How far the bodies of a tenant with caps were looked at.
CREATE TABLE body_cap_turns (
    tenant     text PRIMARY KEY REFERENCES tenants (slug),
    -- When a process may look next.
    next_at    timestamptz NOT NULL,
    -- All bodies that were stored up to this time were looked at.
    swept_to   timestamptz NOT NULL,
    -- The next day of which bodies that still wait for symbols are looked at, and the last group of it that was.
    wait_day   date NOT NULL,
    wait_group uuid
);
SELECT unslide_protect('body_cap_turns', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The tenants with bodies to be looked at, from the one after `after` on.
CREATE FUNCTION unslide_body_caps_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT c.tenant FROM body_cap_turns c JOIN tenants t ON t.slug = c.tenant
    WHERE t.state <> 'deleted' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND c.next_at <= at
    ORDER BY c.tenant <= after, c.tenant LIMIT how_many
$$;
