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
INSERT INTO purges (target, key, at_column) VALUES ('ingest_key_versions', 'tenant, key_id, day, app, version', 'day');
