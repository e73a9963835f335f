-- The access that people gave to assistants. Of codes and tokens a row has the SHA-256: they have 256 random bits.
CREATE TABLE mcp_grants (
    tenant         text NOT NULL REFERENCES tenants (slug),
    id             uuid NOT NULL,
    -- The key of the account: the access ends with it.
    key_id         uuid NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    -- The SHA-256 of the client's id, and how the client calls itself.
    client_hash    bytea NOT NULL CHECK (length(client_hash) = 32),
    client_name    text NOT NULL,
    -- Where the client got its code.
    redirect_host  text NOT NULL,
    redirect_hash  bytea NOT NULL CHECK (length(redirect_hash) = 32),
    scopes         text[] NOT NULL,
    -- True if tokens are for the address with the tenant's name, false if they are for the one without.
    names_tenant   boolean NOT NULL,
    created_at     timestamptz NOT NULL,
    -- The code stays after its use, so that a second use is noticed.
    code_hash      bytea NOT NULL CHECK (length(code_hash) = 32),
    code_challenge bytea NOT NULL CHECK (length(code_challenge) = 32),
    code_ends_at   timestamptz NOT NULL,
    -- NULL until the code is used.
    access_hash    bytea CHECK (length(access_hash) = 32),
    access_ends_at timestamptz,
    -- Every refresh token of the grant has the same first half, and its own second half.
    refresh_family bytea CHECK (length(refresh_family) = 32),
    refresh_hash   bytea CHECK (length(refresh_hash) = 32),
    renewed_at     timestamptz,
    -- The end of the code, or of the grant once the code is used.
    ends_at        timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX mcp_grants_code ON mcp_grants (code_hash);
CREATE UNIQUE INDEX mcp_grants_access ON mcp_grants (access_hash);
CREATE UNIQUE INDEX mcp_grants_family ON mcp_grants (refresh_family);
CREATE INDEX mcp_grants_key ON mcp_grants (key_id, created_at);
CREATE INDEX mcp_grants_ends ON mcp_grants (ends_at);
SELECT unslide_protect('mcp_grants', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('mcp_grants', 'tenant, id', 'ends_at');

-- The key of an access token, with the scopes that the grant and the key have both.
CREATE FUNCTION unslide_mcp_principal(wanted bytea, at timestamptz)
RETURNS TABLE (id uuid, tenant text, tenant_version bigint, scopes text[], app text, expires_at timestamptz,
               revoked_at timestamptz, last_used_at timestamptz, tenant_state text, tenant_limits jsonb, names_tenant boolean)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.id, k.tenant, t.version, ARRAY (SELECT s FROM unnest(k.scopes) s WHERE s = ANY (g.scopes)), k.apps[1],
           k.expires_at, k.revoked_at, k.last_used_at, t.state, t.limits, g.names_tenant
    FROM mcp_grants g
    JOIN keys k ON k.id = g.key_id AND k.tenant = g.tenant AND k.kind = 'api'
    JOIN tenants t ON t.slug = k.tenant
    WHERE g.access_hash = wanted AND g.access_ends_at > at AND g.ends_at > at
$$;

-- True if the people of a tenant sign in at an identity provider; of any tenant if none is wanted.
CREATE FUNCTION unslide_signs_people_in(wanted text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT EXISTS (
        SELECT FROM sign_in_providers p JOIN tenants t ON t.slug = p.tenant
        WHERE t.state <> 'deleted' AND (wanted IS NULL OR p.tenant = wanted))
$$;
