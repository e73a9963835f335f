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
REVOKE ALL ON FUNCTION unslide_claim_tenant FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_claim_tenant TO unslide_service;
