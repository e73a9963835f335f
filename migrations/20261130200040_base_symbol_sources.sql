-- The buckets and symbol servers of a tenant's own that are asked for symbols no upload has brought.
CREATE TABLE symbol_sources (
    tenant        text NOT NULL REFERENCES tenants (slug),
    name          text NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('s3', 'http')),
    layout        text NOT NULL CHECK (layout IN ('unified', 'debuginfod', 'lldb')),
    -- The part of the address that may be shown.
    shown_address text NOT NULL,
    -- The address and the credentials, encrypted with the key of the service.
    sealed_target bytea NOT NULL,
    changed_at    timestamptz NOT NULL,
    -- When the source may be asked next: later after a failure.
    next_ask_at   timestamptz NOT NULL,
    -- When it answered last, and when symbols of it entered last.
    answered_at   timestamptz,
    found_at      timestamptz,
    -- Requests in a row that got no answer.
    failures      integer NOT NULL DEFAULT 0,
    -- Why the last request failed or its file was refused, for the tenant.
    problem       text,
    PRIMARY KEY (tenant, name)
);
SELECT unslide_protect('symbol_sources', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The debug ids that a source is asked for, with its last answer.
CREATE TABLE symbol_source_requests (
    tenant     text NOT NULL,
    debug_id   uuid NOT NULL,
    source     text NOT NULL,
    state      text NOT NULL CHECK (state IN ('waiting', 'not_found', 'found', 'refused')),
    -- Answers so far.
    attempts   integer NOT NULL DEFAULT 0,
    -- Why the file was refused, for the tenant.
    detail     text,
    -- The upload that its file became.
    upload_id  uuid,
    created_at timestamptz NOT NULL,
    asked_at   timestamptz,
    due_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, debug_id, source)
);
CREATE INDEX symbol_source_requests_due ON symbol_source_requests (tenant, due_at);
SELECT unslide_protect('symbol_source_requests', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('symbol_source_requests', 'tenant, debug_id, source', 'due_at');
