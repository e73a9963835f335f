CREATE TABLE tenants (
    slug       text PRIMARY KEY CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$'),
    name       text NOT NULL,
    state      text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended', 'deleted')),
    limits     jsonb NOT NULL DEFAULT '{}',
    -- Counts up with every change; readers of the configuration topic ignore lower numbers.
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
SELECT unslide_protect('tenants', 'slug', 'SELECT, INSERT, UPDATE');

CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    name         text NOT NULL,
    prefix       text NOT NULL UNIQUE CHECK (length(prefix) = 8),
    secret_hash  bytea NOT NULL CHECK (length(secret_hash) = 32),
    scopes       text[] NOT NULL,
    -- Set: the key speaks for this app alone.
    app          text,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at);
SELECT unslide_protect('api_keys', 'tenant', 'SELECT, INSERT, UPDATE');

CREATE TABLE audit_log (
    id      uuid PRIMARY KEY,
    tenant  text NOT NULL REFERENCES tenants (slug),
    at      timestamptz NOT NULL,
    actor   text NOT NULL,
    action  text NOT NULL,
    subject text NOT NULL,
    detail  jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_log_tenant ON audit_log (tenant, at DESC);
-- Written once: the service can neither change nor remove an entry.
SELECT unslide_protect('audit_log', 'tenant', 'SELECT, INSERT');

-- A key arrives before its tenant is known. What leaves is one row by an exact prefix, with the hash and not the secret.
CREATE FUNCTION unslide_key_by_prefix(wanted text)
RETURNS TABLE (id uuid, tenant text, secret_hash bytea, scopes text[], app text, expires_at timestamptz,
               revoked_at timestamptz, last_used_at timestamptz, tenant_state text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.id, k.tenant, k.secret_hash, k.scopes, k.app, k.expires_at, k.revoked_at, k.last_used_at, t.state
    FROM api_keys k JOIN tenants t ON t.slug = k.tenant
    WHERE k.prefix = wanted
$$;

CREATE FUNCTION unslide_tenants(after text, how_many integer)
RETURNS TABLE (slug text, name text, state text, limits jsonb, version bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug, t.name, t.state, t.limits, t.version, t.created_at, t.updated_at
    FROM tenants t WHERE t.slug > after ORDER BY t.slug LIMIT how_many
$$;

REVOKE ALL ON FUNCTION unslide_key_by_prefix(text), unslide_tenants(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_key_by_prefix(text), unslide_tenants(text, integer) TO unslide_service;
