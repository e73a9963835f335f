-- Public keys: an app sends its reports with one, in the path of the URL, and can do nothing else with it.

CREATE TABLE ingest_keys (
    tenant       text NOT NULL REFERENCES tenants (slug),
    -- The first 4 bytes of the text's SHA-256 in hexadecimal: names the key wherever the text must not be.
    id           text NOT NULL CHECK (id ~ '^[0-9a-f]{8}$'),
    -- In clear: it ships in every copy of the app.
    key_text     text NOT NULL UNIQUE,
    name         text NOT NULL,
    -- Bundle identifiers, or `prefix.*`.
    apps         text[] NOT NULL CHECK (cardinality(apps) BETWEEN 1 AND 20),
    state        text NOT NULL CHECK (state IN ('active', 'retired', 'closed')),
    created_at   timestamptz NOT NULL,
    retired_at   timestamptz,
    closed_at    timestamptz CHECK ((closed_at IS NOT NULL) = (state = 'closed')),
    last_used_at timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX ingest_keys_list ON ingest_keys (tenant, created_at, id);
CREATE INDEX ingest_keys_closed ON ingest_keys (closed_at) WHERE closed_at IS NOT NULL;
SELECT unslide_protect('ingest_keys', 'tenant', 'SELECT, INSERT, UPDATE');

-- Reports and summaries of runs that came with a key, by day, app and version: shows which versions still carry the key.
CREATE TABLE ingest_key_versions (
    tenant   text NOT NULL,
    key_id   text NOT NULL,
    -- By the clock of the service, in UTC.
    day      date NOT NULL,
    app      text NOT NULL,
    -- Empty if the report names none.
    version  text NOT NULL,
    reports  bigint NOT NULL CHECK (reports >= 0),
    -- Summaries of runs.
    runs     bigint NOT NULL CHECK (runs >= 0),
    PRIMARY KEY (tenant, key_id, day, app, version),
    FOREIGN KEY (tenant, key_id) REFERENCES ingest_keys (tenant, id) ON DELETE CASCADE
);
CREATE INDEX ingest_key_versions_day ON ingest_key_versions (day);
SELECT unslide_protect('ingest_key_versions', 'tenant', 'SELECT, INSERT, UPDATE');

-- A key arrives before its tenant is known: one row by its whole text, with the limits of its tenant.
CREATE FUNCTION unslide_ingest_key(wanted text)
RETURNS TABLE (id text, tenant text, apps text[], state text, tenant_state text, tenant_limits jsonb)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.id, k.tenant, k.apps, k.state, t.state, t.limits
    FROM ingest_keys k JOIN tenants t ON t.slug = k.tenant
    WHERE k.key_text = wanted AND k.state <> 'closed' AND t.state <> 'deleted'
$$;

INSERT INTO purges (target, key, at_column, condition) VALUES
    ('ingest_keys', 'tenant, id', 'closed_at', 't.state = ''closed'''),
    ('ingest_key_versions', 'tenant, key_id, day, app, version', 'day', 'true');

-- Requests to erase what came with a key in a range of time. They also keep such data away that arrives at the store later, so
-- the rows stay.
CREATE TABLE key_erasures (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    -- The key's id. The key itself may be gone.
    key_id       text NOT NULL,
    -- By the time of arrival; the end is not included.
    range_begin  timestamptz NOT NULL,
    range_end    timestamptz NOT NULL,
    -- The only version of the apps; NULL for all, empty for reports that name none.
    version      text,
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    state        text NOT NULL CHECK (state IN ('searching', 'searching_again', 'done', 'failed')),
    -- Rows that were removed, by table.
    removed      jsonb NOT NULL DEFAULT '{}',
    -- Why it failed.
    detail       text,
    finished_at  timestamptz,
    CHECK (range_begin < range_end)
);
CREATE INDEX key_erasures_key ON key_erasures (tenant, key_id, requested_at DESC, id DESC);
SELECT unslide_protect('key_erasures', 'tenant', 'SELECT, INSERT, UPDATE');
