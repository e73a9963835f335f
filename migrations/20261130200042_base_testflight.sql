-- The key of App Store Connect of a tenant, and when crash reports by testers are asked for with it.
CREATE TABLE testflight_keys (
    tenant       text PRIMARY KEY REFERENCES tenants (slug),
    -- NULL for a key of one person.
    issuer_id    text,
    key_id       text NOT NULL,
    -- The private key, encrypted with the key of the service.
    sealed_key   bytea NOT NULL,
    expires_at   timestamptz,
    changed_at   timestamptz NOT NULL,
    next_poll_at timestamptz NOT NULL,
    -- Until when Apple wants no request. A poll that a person asks for waits for it, too.
    not_before   timestamptz,
    -- Until when a process polls.
    leased_until timestamptz,
    -- The end of the last poll.
    polled_at    timestamptz,
    -- Polls in a row that failed.
    failures     integer NOT NULL DEFAULT 0,
    -- Why the last poll failed, for the tenant.
    problem      text
);
CREATE INDEX testflight_keys_due ON testflight_keys (next_poll_at);
SELECT unslide_protect('testflight_keys', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The apps whose submissions are taken.
CREATE TABLE testflight_apps (
    tenant     text NOT NULL REFERENCES testflight_keys (tenant) ON DELETE CASCADE,
    -- The bundle identifier.
    app        text NOT NULL,
    -- Apple's id of the app. NULL until it was looked up.
    apple_id   text,
    -- Set until its list was read to the end, and again while it is read. If a process ends before that does, the next one reads
    -- the whole list.
    is_reading boolean NOT NULL DEFAULT true,
    PRIMARY KEY (tenant, app)
);
SELECT unslide_protect('testflight_apps', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The submissions that were seen, so that none is taken twice.
CREATE TABLE testflight_submissions (
    tenant       text NOT NULL REFERENCES tenants (slug),
    -- Apple's id.
    submission   text NOT NULL,
    app          text NOT NULL,
    state        text NOT NULL CHECK (state IN ('waiting', 'sent', 'refused', 'no_log')),
    submitted_at timestamptz,
    seen_at      timestamptz NOT NULL,
    -- When the crash log is asked for, or asked for again.
    next_try_at  timestamptz NOT NULL,
    tries        integer NOT NULL DEFAULT 0,
    -- The tester's words, until the report is sent.
    comment      text,
    report_id    uuid,
    -- Why it is refused, or why there is no log.
    detail       text,
    PRIMARY KEY (tenant, submission)
);
CREATE INDEX testflight_submissions_waiting ON testflight_submissions (tenant, next_try_at) WHERE state = 'waiting';
CREATE INDEX testflight_submissions_report ON testflight_submissions (tenant, report_id) WHERE report_id IS NOT NULL;
CREATE INDEX testflight_submissions_seen ON testflight_submissions (seen_at);
SELECT unslide_protect('testflight_submissions', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('testflight_submissions', 'tenant, submission', 'seen_at');

-- What testers wrote about their crashes. A row goes with its report.
CREATE TABLE testflight_comments (
    tenant       text NOT NULL REFERENCES tenants (slug),
    report_id    uuid NOT NULL,
    submission   text NOT NULL,
    app          text NOT NULL,
    comment      text NOT NULL,
    submitted_at timestamptz,
    received_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, report_id, submission)
);
CREATE INDEX testflight_comments_newest ON testflight_comments (tenant, received_at);
SELECT unslide_protect('testflight_comments', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The tenants whose submissions are to be asked for, the longest waiting first.
CREATE FUNCTION unslide_testflight_due(at timestamptz, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant FROM testflight_keys k JOIN tenants t ON t.slug = k.tenant
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
      AND k.next_poll_at <= at AND (k.not_before IS NULL OR k.not_before <= at)
      AND (k.leased_until IS NULL OR k.leased_until <= at)
    ORDER BY k.next_poll_at LIMIT how_many
$$;
