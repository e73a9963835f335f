-- Erasures of what apps sent with a public key.

-- The public key that a report or a session came with. NULL for other senders, and for rows from before this column.
ALTER TABLE reports ADD COLUMN sender_key text;
ALTER TABLE sessions ADD COLUMN sender_key text;
CREATE INDEX reports_sender_key ON reports (tenant, sender_key, received_at, report_id, variant) WHERE sender_key IS NOT NULL;
CREATE INDEX sessions_sender_key ON sessions (tenant, sender_key, received_at) WHERE sender_key IS NOT NULL;

-- Requests to erase what came with a key in a range of time. They also keep such data away that arrives at the store later, so
-- the rows stay.
CREATE TABLE key_erasures (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    -- The key's id. The key itself may be gone.
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
