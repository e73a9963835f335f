-- The servers to which the audit log of a tenant is sent as it grows.
CREATE TABLE audit_receivers (
    tenant        text NOT NULL REFERENCES tenants (slug),
    name          text NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('webhook', 'syslog')),
    -- The part of the address that may be shown.
    shown_address text NOT NULL,
    -- The address, the secret that signs, and the certificates of an authority of its own, encrypted with the key of the service.
    sealed_target bytea NOT NULL,
    -- The place in the log of the last entry that the receiver has taken.
    position      bigint NOT NULL,
    changed_at    timestamptz NOT NULL,
    next_send_at  timestamptz NOT NULL,
    -- Until when a process sends.
    leased_until  timestamptz,
    -- When the receiver took entries last.
    sent_at       timestamptz,
    -- Turns in a row that failed, and why the last one did, for the tenant.
    failures      integer NOT NULL DEFAULT 0,
    problem       text,
    PRIMARY KEY (tenant, name)
);
SELECT unslide_protect('audit_receivers', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The tenants with entries that are to be sent, from the one after `after` on.
CREATE FUNCTION unslide_audit_receivers_due(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND EXISTS (
        SELECT FROM audit_receivers r
        WHERE r.tenant = t.slug AND r.next_send_at <= at AND (r.leased_until IS NULL OR r.leased_until <= at)
          AND EXISTS (SELECT FROM audit_log l WHERE l.tenant = r.tenant AND l.position > r.position))
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;

-- The time of the oldest entry that a receiver of any active tenant lacks.
CREATE FUNCTION unslide_audit_receivers_oldest() RETURNS timestamptz
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT min(l.at) FROM audit_receivers r
    JOIN tenants t ON t.slug = r.tenant AND t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
    JOIN audit_log l ON l.tenant = r.tenant AND l.position = r.position + 1
$$;
