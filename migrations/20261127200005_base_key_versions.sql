-- Reports and summaries of runs that came with a public key, by day, app and version: shows which versions still carry the key.
CREATE TABLE ingest_key_versions (
    tenant   text NOT NULL,
    -- The prefix of the key.
    key_id   text NOT NULL,
    -- By the clock of the service, in UTC.
    day      date NOT NULL,
    app      text NOT NULL,
    -- Empty if the report names none.
    version  text NOT NULL,
    reports  bigint NOT NULL CHECK (reports >= 0),
    -- Summaries of runs.
    runs     bigint NOT NULL CHECK (runs >= 0),
    PRIMARY KEY (tenant, key_id, day, app, version),
    FOREIGN KEY (tenant, key_id) REFERENCES keys (tenant, prefix) ON DELETE CASCADE
);
CREATE INDEX ingest_key_versions_day ON ingest_key_versions (day);
SELECT unslide_protect('ingest_key_versions', 'tenant', 'SELECT, INSERT, UPDATE');

INSERT INTO purges (target, key, at_column, condition) VALUES
    ('ingest_key_versions', 'tenant, key_id, day, app, version', 'day', 'true');

-- Requests to erase what came with a key in a range of time. They also keep such data away that arrives at the store later, so
-- the rows stay.
CREATE TABLE key_erasures (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    -- The key's prefix. The key itself may be gone.
    key_id       text NOT NULL,
    -- By the time of arrival; the end is not included.
    range_begin  timestamptz NOT NULL,
    range_end    timestamptz NOT NULL,
    -- The only version of the apps; NULL for all, empty for reports that name none.
    version      text,
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    state        text NOT NULL CHECK (state IN ('searching', 'searching_again', 'done', 'failed')),
    -- Rows that were removed, by table.
    removed      jsonb NOT NULL DEFAULT '{}',
    -- Why it failed.
    detail       text,
    finished_at  timestamptz,
    CHECK (range_begin < range_end)
);
CREATE INDEX key_erasures_key ON key_erasures (tenant, key_id, requested_at DESC, id DESC);
SELECT unslide_protect('key_erasures', 'tenant', 'SELECT, INSERT, UPDATE');
