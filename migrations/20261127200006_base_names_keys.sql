-- Names keys: a profiler reads names of functions with one, in the path of the URL, and can do nothing else with it.

CREATE TABLE names_keys (
    tenant     text NOT NULL REFERENCES tenants (slug),
    -- The first 4 bytes of the hash in hexadecimal: names the key wherever the text must not be.
    id         text NOT NULL CHECK (id ~ '^[0-9a-f]{8}$'),
    -- SHA-256 of the text, which is shown once.
    key_hash   bytea NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    name       text NOT NULL,
    -- The only app that it reads symbols of; NULL for all apps.
    app        text,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX names_keys_list ON names_keys (tenant, created_at, id);
CREATE INDEX names_keys_expired ON names_keys (expires_at);
SELECT unslide_protect('names_keys', 'tenant', 'SELECT, INSERT, DELETE');

-- A key arrives before its tenant is known: one row by the hash of its whole text.
CREATE FUNCTION unslide_names_key(wanted bytea)
RETURNS TABLE (id text, tenant text, app text, expires_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.id, k.tenant, k.app, k.expires_at
    FROM names_keys k JOIN tenants t ON t.slug = k.tenant
    WHERE k.key_hash = wanted AND t.state <> 'deleted'
$$;

INSERT INTO purges (target, key, at_column) VALUES
    ('names_keys', 'tenant, id', 'expires_at');
