-- Reports that somebody wants symbolicated again, whatever their symbols: how far that is, and what came of it.
CREATE TABLE reprocesses (
    id         uuid PRIMARY KEY,
    tenant     text NOT NULL REFERENCES tenants (slug),
    -- Who asked: a key's id.
    actor      text NOT NULL,
    -- Which reports: {"app": …, "version": …, "build": …, "from": …, "to": …, "debug_id": …}
    wanted     jsonb NOT NULL,
    status     text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done', 'failed')),
    -- Reports that fitted when it began.
    matched    bigint NOT NULL,
    -- Reports gone through so far, and where to go on.
    looked     bigint NOT NULL DEFAULT 0,
    last       text,
    -- Requests made; and reports that had one on its way already.
    asked      bigint NOT NULL DEFAULT 0,
    under_way  bigint NOT NULL DEFAULT 0,
    -- How the requests ended.
    better     bigint NOT NULL DEFAULT 0,
    unchanged  bigint NOT NULL DEFAULT 0,
    gone       bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX reprocesses_tenant ON reprocesses (tenant, created_at DESC);
SELECT unslide_protect('reprocesses', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The one that made the request that is outstanding, if one did.
ALTER TABLE report_keys ADD COLUMN reprocess_id uuid;
