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
    -- The scopes that sign-ins request. NULL: chosen by the provider's document.
    scopes        text[],
    -- The claim of tokens with the id that the directory of the tenant has for the person. NULL: the subject.
    directory_claim text,
    -- True: the groups of the directory count, and those of tokens do not.
    uses_directory_groups boolean NOT NULL DEFAULT false,
    -- True: the provider leads a person back after a sign-out there. It has to know the address.
    returns_after_sign_out boolean NOT NULL DEFAULT false,
    -- Which groups have which scopes: [{"group": …, "scopes": […]}, …]
    rules         jsonb NOT NULL,
    session_hours integer NOT NULL CHECK (session_hours BETWEEN 1 AND 24),
    changed_at    timestamptz NOT NULL,
    -- The key that set the provider. No reference: rows of keys end, and the provider stays.
    set_by        uuid
);
SELECT unslide_protect('sign_in_providers', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- A person is an issuer and a subject, and acts by a key whose text was dropped: their sessions have its scopes.
CREATE TABLE people (
    tenant          text NOT NULL REFERENCES tenants (slug),
    issuer          text NOT NULL,
    subject         text NOT NULL,
    key_id          uuid NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    last_sign_in_at timestamptz NOT NULL,
    -- The value of the provider's `directory_claim` at the last sign-in. NULL: it is the subject.
    directory_id    text,
    -- When the service itself revoked the person's key: they were long away, or their provider was removed. The next sign-in of
    -- the person takes the key back into force.
    retired_at      timestamptz,
    PRIMARY KEY (tenant, issuer, subject)
);
CREATE INDEX people_key ON people (key_id);
SELECT unslide_protect('people', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The newest sign-ins of people that failed, for the administrators of their tenant.
CREATE TABLE sign_in_failures (
    id      uuid PRIMARY KEY,
    tenant  text NOT NULL REFERENCES tenants (slug),
    at      timestamptz NOT NULL,
    outcome text NOT NULL,
    -- The provider's id of the person, if the token was valid.
    subject text,
    reason  text NOT NULL
);
CREATE INDEX sign_in_failures_tenant ON sign_in_failures (tenant, outcome, at);
SELECT unslide_protect('sign_in_failures', 'tenant', 'SELECT, INSERT, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('sign_in_failures', 'id', 'at');

-- Notices of sign-outs that identity providers sent, so that each is taken once: one that somebody sends again ends no later session.
CREATE TABLE sign_out_notices (
    tenant      text NOT NULL REFERENCES tenants (slug),
    -- SHA-256 of the issuer and the notice's id.
    notice_hash bytea NOT NULL CHECK (length(notice_hash) = 32),
    received_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, notice_hash)
);
CREATE INDEX sign_out_notices_received ON sign_out_notices (received_at);
SELECT unslide_protect('sign_out_notices', 'tenant', 'SELECT, INSERT, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('sign_out_notices', 'tenant, notice_hash', 'received_at');

-- ID tokens of people who are signed in: the provider wants one when a person signs out there. A row has the hash of 256 random bits,
-- which are in the address of the page after the sign-out.
CREATE TABLE sign_out_hints (
    tenant    text NOT NULL REFERENCES tenants (slug),
    hint_hash bytea NOT NULL CHECK (length(hint_hash) = 32),
    id_token  text NOT NULL,
    -- When the session ends.
    ends_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, hint_hash)
);
CREATE INDEX sign_out_hints_ends ON sign_out_hints (ends_at);
SELECT unslide_protect('sign_out_hints', 'tenant', 'SELECT, INSERT, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('sign_out_hints', 'tenant, hint_hash', 'ends_at');
