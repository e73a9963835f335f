-- The salt of a tenant's hashes. No API reads it.
CREATE TABLE scrub_salts (
    tenant text PRIMARY KEY REFERENCES tenants (slug),
    salt   bytea NOT NULL CHECK (length(salt) = 32)
);
SELECT unslide_protect('scrub_salts', 'tenant', 'SELECT, INSERT, DELETE');

-- What is taken out of the reports of an app before they are stored.
CREATE TABLE scrub_rules (
    tenant     text NOT NULL REFERENCES tenants (slug),
    -- Empty for the apps without rules of their own.
    app        text NOT NULL,
    -- New with each change.
    revision   uuid NOT NULL,
    rules      jsonb NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, app)
);
SELECT unslide_protect('scrub_rules', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

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

-- Which tenants have rules for which apps.
CREATE FUNCTION unslide_scrub_revisions() RETURNS TABLE (tenant text, app text, revision uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT r.tenant, r.app, r.revision FROM scrub_rules r
$$;

-- Counts of two revisions of a report by feature and word, added up.
CREATE FUNCTION unslide_add_changes(earlier jsonb, later jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT jsonb_object_agg(sums.feature, sums.counts) FROM (
        SELECT words.feature, jsonb_object_agg(words.word, words.count) AS counts FROM (
            SELECT f.key AS feature, w.key AS word, sum(w.value::bigint) AS count
            FROM (VALUES (earlier), (later)) AS both_sides (side)
            CROSS JOIN LATERAL jsonb_each(coalesce(side, '{}')) f CROSS JOIN LATERAL jsonb_each_text(f.value) w
            GROUP BY f.key, w.key) words
        GROUP BY words.feature) sums
$$;
GRANT EXECUTE ON FUNCTION unslide_add_changes TO unslide_service;
