-- Source files beside symbols: whether a tenant keeps them, and its bundles.

-- Whether a tenant has turned source files on or off. The default counts for a tenant without a row.
CREATE TABLE source_switches (
    tenant     text PRIMARY KEY REFERENCES tenants (slug),
    enabled    boolean NOT NULL,
    changed_at timestamptz NOT NULL
);
SELECT unslide_protect('source_switches', 'tenant', 'SELECT, INSERT, UPDATE');

-- A bundle of the source files that the symbols of a debug id name. It lies in object storage.
CREATE TABLE source_bundles (
    tenant       text NOT NULL REFERENCES tenants (slug),
    debug_id     uuid NOT NULL,
    -- Empty if its sender named no app.
    app          text NOT NULL,
    -- Names the object, which is condemned before it is put: a lost row leaves nothing.
    object_id    uuid NOT NULL,
    content_hash bytea NOT NULL CHECK (length(content_hash) = 32),
    size         bigint NOT NULL CHECK (size > 0),
    files        integer NOT NULL,
    -- When it came last.
    received_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, debug_id, app)
);
CREATE INDEX source_bundles_age ON source_bundles (tenant, received_at);
CREATE INDEX source_bundles_usage ON source_bundles (tenant) INCLUDE (size, files);
SELECT unslide_protect('source_bundles', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
