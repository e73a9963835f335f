-- The bucket of a tenant that gets its reports as Parquet files by day and app.
CREATE TABLE parquet_exports (
    tenant        text PRIMARY KEY REFERENCES tenants (slug),
    -- The part of the address that may be shown.
    shown_address text NOT NULL,
    -- The address and the credentials, encrypted with the key of the service.
    sealed_target bytea NOT NULL,
    changed_at    timestamptz NOT NULL,
    -- The first day that is exported, and the next one that is to be written for the first time.
    first_day     date NOT NULL,
    next_day      date NOT NULL,
    -- When the bucket may be written to next: later after a failure.
    next_write_at timestamptz NOT NULL,
    written_at    timestamptz,
    -- Turns in a row that failed, and why the last one did, for the tenant.
    failures      integer NOT NULL DEFAULT 0,
    problem       text
);
SELECT unslide_protect('parquet_exports', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Changes of days that are over, each written in the transaction that changes reports. Rows are added only, so that no writer waits for
-- another. A job counts them together in parquet_days.
CREATE TABLE parquet_day_changes (
    tenant     text NOT NULL,
    number     bigint GENERATED ALWAYS AS IDENTITY,
    day        date NOT NULL,
    changed_at timestamptz NOT NULL,
    -- A report was deleted.
    erases     boolean NOT NULL,
    PRIMARY KEY (tenant, number)
)
-- Rows come and go all the time.
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
      autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);
SELECT unslide_protect('parquet_day_changes', 'tenant', 'SELECT, INSERT, DELETE');

-- The days that were written, and since when they differ from the database.
CREATE TABLE parquet_days (
    tenant        text NOT NULL,
    day           date NOT NULL,
    -- The generation of the files that the manifest names. NULL: the day was not written yet.
    generation    bigint,
    rows          bigint NOT NULL DEFAULT 0,
    files         integer NOT NULL DEFAULT 0,
    bytes         bigint NOT NULL DEFAULT 0,
    written_at    timestamptz,
    -- The first and the last change since. NULL: there was none.
    changed_since timestamptz,
    changed_at    timestamptz,
    -- One of them deleted a report.
    erases        boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, day)
);
CREATE INDEX parquet_days_changed ON parquet_days (tenant, changed_since) WHERE changed_since IS NOT NULL;
SELECT unslide_protect('parquet_days', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The files in the bucket of days that may be written again.
CREATE TABLE parquet_files (
    tenant     text NOT NULL,
    -- The path behind the prefix.
    path       text NOT NULL,
    day        date NOT NULL,
    generation bigint NOT NULL,
    -- When the file is deleted, set once a later generation is complete. NULL: the manifest names it, or is about to.
    delete_at  timestamptz,
    PRIMARY KEY (tenant, path)
);
CREATE INDEX parquet_files_day ON parquet_files (tenant, day);
CREATE INDEX parquet_files_ended ON parquet_files (tenant, delete_at) WHERE delete_at IS NOT NULL;
SELECT unslide_protect('parquet_files', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The time since which the oldest work of any tenant is late: a day `day_seconds` after its end, a change `change_seconds` after it, and
-- at once the deletion of a report and of a file. Days that are written one after the other, from the first one on or after late symbols,
-- are not late.
CREATE FUNCTION unslide_parquet_oldest_due(day_seconds double precision, change_seconds double precision) RETURNS timestamptz
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT min(due.at) FROM parquet_exports e JOIN tenants t ON t.slug = e.tenant AND t.state = 'active'
        AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
    CROSS JOIN LATERAL (
        SELECT greatest((e.next_day + 1)::timestamp AT TIME ZONE 'UTC' + make_interval(secs => day_seconds),
                        coalesce(e.written_at, e.changed_at)) AS at
        UNION ALL
        (SELECT c.changed_at + make_interval(secs => change_seconds) FROM parquet_day_changes c
         WHERE c.tenant = e.tenant ORDER BY c.number LIMIT 1)
        UNION ALL
        SELECT CASE WHEN d.erases THEN d.changed_since
                    ELSE greatest(d.changed_since + make_interval(secs => change_seconds), e.written_at) END
        FROM parquet_days d
        WHERE d.tenant = e.tenant AND d.changed_since IS NOT NULL AND d.day >= e.first_day AND d.day < e.next_day
        UNION ALL
        (SELECT f.delete_at FROM parquet_files f
         WHERE f.tenant = e.tenant AND f.delete_at IS NOT NULL ORDER BY f.delete_at LIMIT 1)) due
$$;
