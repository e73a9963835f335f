-- How a tenant takes records of OTLP, and the collector to which its crashes are sent.
CREATE TABLE otlp_settings (
    tenant         text PRIMARY KEY REFERENCES tenants (slug),
    -- Whether records that are no crash are refused in the answer, rather than taken and counted.
    refuses_others boolean NOT NULL,
    -- The URL for logs of the collector. NULL: crashes are not sent.
    export_url     text,
    -- The names of the headers of each request, and the headers, encrypted with the key of the service.
    header_names   text[] NOT NULL,
    sealed_headers bytea,
    changed_at     timestamptz NOT NULL,
    next_send_at   timestamptz NOT NULL,
    -- Until when a process sends.
    leased_until   timestamptz,
    -- When the collector took records last.
    sent_at        timestamptz,
    -- Reports that did not go to the collector since its settings were set: it refused them, or they cannot be read. With the
    -- last reason.
    dropped        bigint NOT NULL DEFAULT 0,
    drop_reason    text,
    -- Requests in a row that failed.
    failures       integer NOT NULL DEFAULT 0,
    -- Why the last one failed, for the tenant.
    problem        text
);
CREATE INDEX otlp_settings_due ON otlp_settings (next_send_at) WHERE export_url IS NOT NULL;
SELECT unslide_protect('otlp_settings', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Reports whose newest revision the collector does not have yet.
CREATE TABLE otlp_outbox (
    tenant    text NOT NULL REFERENCES tenants (slug),
    report_id uuid NOT NULL,
    variant   integer NOT NULL,
    revision  integer NOT NULL,
    queued_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, report_id, variant)
);
CREATE INDEX otlp_outbox_oldest ON otlp_outbox (tenant, queued_at, report_id, variant);
CREATE INDEX otlp_outbox_queued ON otlp_outbox (queued_at);
SELECT unslide_protect('otlp_outbox', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('otlp_outbox', 'tenant, report_id, variant', 'queued_at');

-- The tenants with reports that are to be sent, the longest waiting first.
CREATE FUNCTION unslide_otlp_due(at timestamptz, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT s.tenant FROM otlp_settings s JOIN tenants t ON t.slug = s.tenant
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND s.export_url IS NOT NULL AND s.next_send_at <= at
      AND (s.leased_until IS NULL OR s.leased_until <= at)
      AND EXISTS (SELECT FROM otlp_outbox o WHERE o.tenant = s.tenant)
    ORDER BY s.next_send_at LIMIT how_many
$$;
