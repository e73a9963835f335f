-- Alert rules of tenants, their receivers, and the sent messages.

CREATE TABLE alert_rules (
    id                 uuid PRIMARY KEY,
    tenant             text NOT NULL REFERENCES tenants (slug),
    name               text NOT NULL,
    -- NULL: of every app.
    app                text,
    condition          text NOT NULL
        CHECK (condition IN ('new_group', 'regression', 'spike', 'missing_symbols', 'crash_free', 'frequent_group',
                             'growing_group', 'figure', 'summary')),
    threshold          double precision NOT NULL,
    -- Of a condition about the hours of a group: the reports that it has at least. NULL for others.
    least_reports      integer,
    -- When a summary is sent: an hour of this time zone, each day or on Mondays. NULL for other conditions.
    summary_hour       integer,
    summary_zone       text,
    summary_weekly     boolean,
    channel            text NOT NULL CHECK (channel IN (
        'webhook', 'slack', 'feishu', 'dingtalk', 'wecom', 'pagerduty', 'opsgenie', 'mail', 'kafka')),
    -- A URL, which is a secret for chats; for mail the recipients.
    address            text NOT NULL,
    -- Secret that signs the messages; empty for none.
    secret             text NOT NULL,
    -- The body of a webhook; empty for the usual one.
    template           text NOT NULL,
    -- Of the template.
    content_type       text NOT NULL CHECK (content_type IN ('application/json', 'application/x-www-form-urlencoded')),
    enabled            boolean NOT NULL DEFAULT true,
    muted_until        timestamptz,
    digest_minutes     integer NOT NULL,
    -- Both or neither, in UTC.
    quiet_from         time,
    quiet_to           time,
    -- The earliest moment of the next message, and of the next evaluation.
    next_message_at    timestamptz NOT NULL,
    next_evaluation_at timestamptz NOT NULL,
    created_at         timestamptz NOT NULL
);
CREATE INDEX alert_rules_tenant ON alert_rules (tenant, condition);
CREATE INDEX alert_rules_evaluation ON alert_rules (next_evaluation_at) WHERE enabled AND condition <> 'regression';
SELECT unslide_protect('alert_rules', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE alert_messages (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL,
    rule         uuid NOT NULL REFERENCES alert_rules (id) ON DELETE CASCADE,
    status       text NOT NULL CHECK (status IN ('waiting', 'delivered', 'failed', 'muted')),
    -- Events that it tells of.
    events       bigint NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    -- When it is sent, or sent again if its sender dies.
    due_at       timestamptz NOT NULL,
    last_error   text,
    created_at   timestamptz NOT NULL,
    delivered_at timestamptz
);
CREATE INDEX alert_messages_due ON alert_messages (due_at) WHERE status = 'waiting';
CREATE INDEX alert_messages_tenant ON alert_messages (tenant, created_at DESC, id DESC);
CREATE INDEX alert_messages_rule ON alert_messages (rule);
SELECT unslide_protect('alert_messages', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Causes that fulfilled a rule's condition, each once for a rule, written in the transaction of the cause.
CREATE TABLE alert_events (
    tenant       text NOT NULL,
    rule         uuid NOT NULL REFERENCES alert_rules (id) ON DELETE CASCADE,
    -- Such as new:GROUP or spike:APP:DAY.
    cause        text NOT NULL,
    occurred_at  timestamptz NOT NULL,
    headline     text NOT NULL,
    detail       text NOT NULL,
    app          text NOT NULL,
    version      text NOT NULL,
    -- Of the console's page about it.
    path         text NOT NULL,
    -- NULL: no message tells of it yet.
    message      uuid REFERENCES alert_messages (id) ON DELETE CASCADE,
    -- The group that it is about, and its counts when the message was made: every attempt sends the same.
    group_id     uuid,
    group_reports bigint,
    group_devices bigint,
    -- Of new:GROUP: the cause of the group that its reports move to, which gets no event of its own. It takes this one
    -- over once the former group has no reports.
    continued_by text,
    PRIMARY KEY (tenant, cause, rule)
);
CREATE INDEX alert_events_continued ON alert_events (tenant, continued_by) WHERE continued_by IS NOT NULL;
CREATE INDEX alert_events_waiting ON alert_events (rule) WHERE message IS NULL;
CREATE INDEX alert_events_message ON alert_events (message);
CREATE INDEX alert_events_age ON alert_events (occurred_at);
SELECT unslide_protect('alert_events', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The rules that something is to be done for: to evaluate their condition, to put events into a message, to send one.
-- One of each tenant in turn: many of one tenant leave the others theirs.
CREATE FUNCTION unslide_alerts_due(at timestamptz, how_many integer) RETURNS TABLE (tenant text, rule uuid, step text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH active AS NOT MATERIALIZED (
        SELECT r.* FROM alert_rules r JOIN tenants t ON t.slug = r.tenant WHERE t.state = 'active'
    )
    (SELECT a.tenant, a.id, 'evaluate' FROM active a
     WHERE a.enabled AND a.condition <> 'regression' AND a.next_evaluation_at <= at
     ORDER BY row_number() OVER (PARTITION BY a.tenant ORDER BY a.next_evaluation_at), a.next_evaluation_at
     LIMIT how_many)
    UNION ALL
    (SELECT a.tenant, a.id, 'collect' FROM active a
     WHERE a.next_message_at <= at AND EXISTS (SELECT FROM alert_events e WHERE e.rule = a.id AND e.message IS NULL)
     ORDER BY row_number() OVER (PARTITION BY a.tenant ORDER BY a.next_message_at), a.next_message_at
     LIMIT how_many)
    UNION ALL
    -- One of each tenant: a receiver that does not answer holds up its own tenant alone.
    (SELECT DISTINCT ON (a.tenant) a.tenant, a.id, 'send'
     FROM alert_messages m JOIN active a ON a.id = m.rule
     WHERE m.status = 'waiting' AND m.due_at <= at
     ORDER BY a.tenant, m.due_at LIMIT how_many)
$$;

-- Events and messages, except messages that wait and what is in them.
INSERT INTO purges (target, key, at_column, condition) VALUES
    ('alert_events', 'tenant, rule, cause', 'occurred_at', 't.message IS NOT NULL AND NOT EXISTS (
        SELECT FROM alert_messages m WHERE m.id = t.message AND m.status = ''waiting'')'),
    ('alert_messages', 'id', 'created_at', 't.status <> ''waiting''');

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

-- The figures that alert rules watch, and the times in which they were bad.

CREATE TABLE alert_figures (
    rule               uuid PRIMARY KEY REFERENCES alert_rules (id) ON DELETE CASCADE,
    tenant             text NOT NULL,
    figure             text NOT NULL,
    comparison         text NOT NULL CHECK (comparison IN ('above', 'below', 'worse')),
    -- NULL: of every version, of all hosts together.
    version            text,
    host               text,
    days               integer NOT NULL,
    least_observations integer NOT NULL,
    -- The rule with the second receiver, and the minutes that a person has to acknowledge. Both or neither.
    escalate_to        uuid REFERENCES alert_rules (id) ON DELETE SET NULL,
    escalate_minutes   integer
);
CREATE INDEX alert_figures_escalation ON alert_figures (escalate_to) WHERE escalate_to IS NOT NULL;
SELECT unslide_protect('alert_figures', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE alert_firings (
    id              uuid PRIMARY KEY,
    tenant          text NOT NULL,
    rule            uuid NOT NULL REFERENCES alert_rules (id) ON DELETE CASCADE,
    headline        text NOT NULL,
    began_at        timestamptz NOT NULL,
    -- NULL: the figure is still bad.
    ended_at        timestamptz,
    acknowledged_at timestamptz,
    -- A key's id, a person, or `link`.
    acknowledged_by text,
    -- When the second receiver got it, and the rule of that receiver.
    escalated_at    timestamptz,
    escalated_to    uuid REFERENCES alert_rules (id) ON DELETE SET NULL,
    -- Signs the link that acknowledges it.
    link_key        bytea NOT NULL CHECK (length(link_key) = 32)
);
-- A rule fires once while its figure is bad.
CREATE UNIQUE INDEX alert_firings_open ON alert_firings (rule) WHERE ended_at IS NULL;
CREATE INDEX alert_firings_rule ON alert_firings (rule);
CREATE INDEX alert_firings_escalation ON alert_firings (escalated_to) WHERE escalated_to IS NOT NULL;
CREATE INDEX alert_firings_tenant ON alert_firings (tenant, began_at DESC, id DESC);
SELECT unslide_protect('alert_firings', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

INSERT INTO purges (target, key, at_column, condition) VALUES
    ('alert_firings', 'id', 'began_at', 't.ended_at IS NOT NULL');
