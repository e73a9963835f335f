-- Whom alerts by mail may go to. Outside the domains that the operator allows, a recipient has to confirm first.

CREATE TABLE alert_recipients (
    tenant     text NOT NULL REFERENCES tenants (slug),
    -- The address alone, in lower case.
    address    text NOT NULL,
    status     text NOT NULL CHECK (status IN ('waiting_for_confirmation', 'confirmed', 'refused')),
    -- SHA-256 of what the link of the last confirmation mail holds. NULL: none was sent.
    token_hash bytea CHECK (length(token_hash) = 32),
    -- When a confirmation mail is sent, or sent again if its sender dies. NULL: none is to be sent.
    ask_at     timestamptz,
    attempts   integer NOT NULL DEFAULT 0,
    -- When it was asked last: a tenant that asks for another mail within a day gets none.
    asked_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, address)
);
CREATE UNIQUE INDEX alert_recipients_token ON alert_recipients (token_hash);
CREATE INDEX alert_recipients_ask ON alert_recipients (ask_at) WHERE ask_at IS NOT NULL;
CREATE INDEX alert_recipients_waiting ON alert_recipients (asked_at) WHERE status = 'waiting_for_confirmation';
SELECT unslide_protect('alert_recipients', 'tenant', 'SELECT, INSERT, UPDATE');

-- How many mails were sent for a tenant on the day (UTC) of the last one.
CREATE TABLE alert_mail_counts (
    tenant text PRIMARY KEY REFERENCES tenants (slug),
    day    date NOT NULL,
    mails  bigint NOT NULL
);
SELECT unslide_protect('alert_mail_counts', 'tenant', 'SELECT, INSERT, UPDATE');

-- The recipients that a confirmation mail is to be sent to, one of each tenant.
CREATE FUNCTION unslide_alert_confirmations_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, address text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT DISTINCT ON (r.tenant) r.tenant, r.address
    FROM alert_recipients r JOIN tenants t ON t.slug = r.tenant
    WHERE r.ask_at <= at AND t.state = 'active'
    ORDER BY r.tenant, r.ask_at LIMIT how_many
$$;

-- The recipient with this link. One that has not confirmed may use a link that is not older than `since`.
CREATE FUNCTION unslide_alert_recipient(wanted bytea, since timestamptz)
RETURNS TABLE (tenant text, address text, status text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT r.tenant, r.address, r.status
    FROM alert_recipients r JOIN tenants t ON t.slug = r.tenant
    WHERE r.token_hash = wanted AND t.state <> 'deleted'
      AND (r.status <> 'waiting_for_confirmation' OR r.asked_at >= since)
$$;

INSERT INTO purges (target, key, at_column, condition) VALUES
    ('alert_recipients', 'tenant, address', 'asked_at', 't.status = ''waiting_for_confirmation''');

REVOKE ALL ON FUNCTION unslide_alert_confirmations_due(timestamptz, integer), unslide_alert_recipient(bytea, timestamptz)
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_alert_confirmations_due(timestamptz, integer), unslide_alert_recipient(bytea, timestamptz)
    TO unslide_service;
