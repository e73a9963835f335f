-- People who sign in at an identity provider of their tenant.

-- The identity provider of a tenant.
CREATE TABLE sign_in_providers (
    tenant        text PRIMARY KEY REFERENCES tenants (slug),
    issuer        text NOT NULL,
    client_id     text NOT NULL,
    -- Empty for a public client.
    client_secret text NOT NULL,
    -- The claim that names a person's groups.
    group_claim   text NOT NULL,
    -- Which groups have which scopes: [{"group": …, "scopes": […]}, …]
    rules         jsonb NOT NULL,
    session_hours integer NOT NULL CHECK (session_hours BETWEEN 1 AND 24),
    changed_at    timestamptz NOT NULL
);
SELECT unslide_protect('sign_in_providers', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- A person is an issuer and a subject, and acts by a key whose text was dropped: their sessions have its scopes.
CREATE TABLE people (
    tenant          text NOT NULL REFERENCES tenants (slug),
    issuer          text NOT NULL,
    subject         text NOT NULL,
    key_id          uuid NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    last_sign_in_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, issuer, subject)
);
CREATE INDEX people_key ON people (key_id);
SELECT unslide_protect('people', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
