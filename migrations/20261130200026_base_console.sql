-- Who is signed in to the console. Of what the cookie holds only a SHA-256 is kept, of the key only its id.
CREATE TABLE console_sessions (
    token_hash bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    tenant     text NOT NULL REFERENCES tenants (slug),
    key_id     uuid NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    -- The name that was chosen at sign-in: shown to its own session, and no proof of anything.
    name       text,
    -- Of a person: the provider's id of its session, which its notice of a sign-out names, and the page after a sign-out.
    provider_session text,
    sign_out_path text,
    created_at timestamptz NOT NULL,
    ends_at    timestamptz NOT NULL
);
CREATE INDEX console_sessions_key ON console_sessions (key_id, created_at);
CREATE INDEX console_sessions_ends ON console_sessions (ends_at);
SELECT unslide_protect('console_sessions', 'tenant', 'SELECT, INSERT, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('console_sessions', 'token_hash', 'ends_at');

-- The key of a cookie: one row by the hash of the cookie's content. A session is never longer than its key.
CREATE FUNCTION unslide_console_principal(wanted bytea, at timestamptz)
RETURNS TABLE (id uuid, tenant text, tenant_version bigint, scopes text[], app text, expires_at timestamptz,
               revoked_at timestamptz, last_used_at timestamptz, tenant_state text, tenant_limits jsonb, session_name text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.id, k.tenant, t.version, k.scopes, k.apps[1], k.expires_at, k.revoked_at, k.last_used_at, t.state, t.limits,
           s.name
    FROM console_sessions s
    JOIN keys k ON k.id = s.key_id AND k.tenant = s.tenant AND k.kind = 'api'
    JOIN tenants t ON t.slug = k.tenant
    WHERE s.token_hash = wanted AND s.ends_at > at
$$;
