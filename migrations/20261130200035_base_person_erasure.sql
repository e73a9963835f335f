-- Requests to erase what a tenant has of one person: their progress and their outcome.
CREATE TABLE person_erasures (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    kind         text NOT NULL CHECK (kind IN ('user', 'installation', 'session')),
    -- The person's id, until the end of the erasure.
    person_id    text,
    -- As in erased_persons and in the audit log.
    person_hash  bytea NOT NULL CHECK (length(person_hash) = 32),
    -- Who asked: a key's id.
    requested_by text NOT NULL,
    -- Data that arrived later stays.
    requested_at timestamptz NOT NULL,
    state        text NOT NULL CHECK (state IN ('searching', 'searching_again', 'done', 'failed')),
    -- The day to go on with; NULL at the beginning of a search.
    next_day     date,
    -- Rows that were removed, by table.
    removed      jsonb NOT NULL DEFAULT '{}',
    -- Why it failed.
    detail       text,
    finished_at  timestamptz,
    CHECK ((person_id IS NULL) = (state IN ('done', 'failed')))
);
CREATE INDEX person_erasures_tenant ON person_erasures (tenant, requested_at DESC, id DESC);
SELECT unslide_protect('person_erasures', 'tenant', 'SELECT, INSERT, UPDATE');
