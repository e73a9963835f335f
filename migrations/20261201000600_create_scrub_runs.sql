-- The last run that applied a tenant's rules of scrubbing to its stored reports.
CREATE TABLE scrub_runs (
    tenant      text PRIMARY KEY REFERENCES tenants (slug),
    -- New with each run: the job of an earlier one ends.
    id          uuid NOT NULL,
    status      text NOT NULL CHECK (status IN ('running', 'done', 'failed')),
    started_by  text NOT NULL,
    started_at  timestamptz NOT NULL,
    -- When a page was done last, or the run ended.
    updated_at  timestamptz NOT NULL,
    -- Reports that were looked at, that were changed, and that could not be read.
    looked      bigint NOT NULL DEFAULT 0,
    changed     bigint NOT NULL DEFAULT 0,
    unreadable  bigint NOT NULL DEFAULT 0,
    -- The last report that was looked at.
    last        text
);
SELECT unslide_protect('scrub_runs', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Events lose the titles of groups when texts are removed.
GRANT UPDATE (data) ON live_events TO unslide_service;
