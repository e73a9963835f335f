-- Captures: files that were recorded on a device and are analysed as a whole. The files and the analysis are objects in
-- object storage; an analysis is made again when symbols come that it lacked.
CREATE TABLE captures (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    app          text NOT NULL,
    version      text NOT NULL,
    -- The id of the session that it was recorded in, where its sender names one.
    session_id   text,
    kind         text NOT NULL,
    -- How its files are read: {"kind": "malloc_log", "layout": …}
    form         jsonb NOT NULL,
    -- [{"name": "events", "size": …}, …]
    files        jsonb NOT NULL,
    -- Of all files together.
    size         bigint NOT NULL,
    -- Of the files, and of how they are read.
    content_hash bytea NOT NULL CHECK (length(content_hash) = 32),
    state        text NOT NULL CHECK (state IN ('queued', 'analysing', 'ready', 'failed')),
    -- A stable code and a sentence; both set where the last analysis failed.
    reason       text,
    detail       text,
    -- Counts the analyses that were begun. Only the last one begun may end.
    run          integer NOT NULL DEFAULT 0,
    -- The one that answers; NULL until there is one.
    answer       integer,
    -- What a list says of the analysis.
    summary      jsonb,
    received_at  timestamptz NOT NULL,
    analysed_at  timestamptz
);
-- The same bytes of an app, read in the same way, are one capture.
CREATE UNIQUE INDEX captures_content ON captures (tenant, app, content_hash);
CREATE INDEX captures_age ON captures (tenant, received_at DESC, id DESC);
CREATE INDEX captures_session ON captures (tenant, app, session_id, received_at, id) WHERE session_id IS NOT NULL;
CREATE INDEX captures_app ON captures (tenant, app, received_at DESC, id DESC);
-- What one is compared with.
CREATE INDEX captures_kind ON captures (tenant, app, kind, received_at DESC, id DESC);
-- How much a tenant stores, from the index alone.
CREATE INDEX captures_usage ON captures (tenant) INCLUDE (size);
SELECT unslide_protect('captures', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Which symbols a capture's analysis has seen, as `waits` says it of reports. `system` is for the system's slot.
CREATE TABLE capture_waits (
    tenant          text NOT NULL,
    debug_id        uuid NOT NULL,
    capture_id      uuid NOT NULL REFERENCES captures (id) ON DELETE CASCADE,
    system          boolean NOT NULL,
    seen_generation bigint NOT NULL,
    PRIMARY KEY (tenant, debug_id, capture_id, system)
);
CREATE INDEX capture_waits_capture ON capture_waits (capture_id);
CREATE INDEX capture_waits_system ON capture_waits (debug_id, seen_generation) WHERE system;
SELECT unslide_protect('capture_waits', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
