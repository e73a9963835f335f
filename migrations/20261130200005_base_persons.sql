-- Persons: whose a report is, and whose data was erased.

-- Users that a report names. Of an id only the hash is kept. The rows go with their report.
CREATE TABLE report_users (
    tenant      text NOT NULL,
    received_at timestamptz NOT NULL,
    report_id   uuid NOT NULL,
    variant     integer NOT NULL,
    -- SHA-256 of the user's id, cut.
    user_hash   bytea NOT NULL CHECK (length(user_hash) = 16),
    PRIMARY KEY (tenant, received_at, report_id, variant, user_hash)
);
CREATE INDEX report_users_hash ON report_users (tenant, user_hash, received_at, report_id, variant);
SELECT unslide_protect('report_users', 'tenant', 'SELECT, INSERT, DELETE');

-- The secret that a tenant's persons are hashed with: equal persons of two tenants have different hashes.
CREATE TABLE person_secrets (
    tenant text PRIMARY KEY REFERENCES tenants (slug),
    secret bytea NOT NULL CHECK (length(secret) = 32)
);
SELECT unslide_protect('person_secrets', 'tenant', 'SELECT, INSERT, UPDATE');

-- Persons whose data was erased. Data that arrived before the erasure is not stored again, for example by a replay.
CREATE TABLE erased_persons (
    tenant      text NOT NULL REFERENCES tenants (slug),
    kind        text NOT NULL CHECK (kind IN ('user', 'installation', 'session')),
    -- Of the tenant's secret, the kind and the hash of the id.
    person_hash bytea NOT NULL CHECK (length(person_hash) = 32),
    erased_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, kind, person_hash)
);
SELECT unslide_protect('erased_persons', 'tenant', 'SELECT, INSERT, UPDATE');
