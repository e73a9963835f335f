-- Alert rules of tenants, their receivers, and the sent messages.

CREATE TABLE alert_rules (
    id                 uuid PRIMARY KEY,
    tenant             text NOT NULL REFERENCES tenants (slug),
    name               text NOT NULL,
    -- NULL: of every app.
    app                text,
    condition          text NOT NULL
        CHECK (condition IN ('new_group', 'regression', 'spike', 'missing_symbols', 'crash_free', 'frequent_group',
                             'growing_group', 'widespread_group', 'bad_release', 'figure', 'summary')),
    threshold          double precision NOT NULL,
    -- Labels of which a group has one at least, such as the owner of its code; empty for all groups. Features put labels on groups
    -- some time after a group is new, so an event of such a rule waits for them.
    labels             text[] NOT NULL DEFAULT '{}' CHECK (cardinality(labels) <= 20),
    -- Of a condition about the hours of a group: the reports that it has at least. NULL for others.
    least_reports      integer,
    -- When a summary is sent: an hour of this time zone, each day or on Mondays. NULL for other conditions.
    summary_hour       integer,
    summary_zone       text,
    summary_weekly     boolean,
    channel            text NOT NULL CHECK (channel IN (
        'webhook', 'slack', 'feishu', 'dingtalk', 'wecom', 'teams', 'discord', 'google_chat', 'pagerduty', 'opsgenie', 'mail',
        'kafka')),
    -- A URL, which is a secret for chats; for mail the recipients.
    address            text NOT NULL,
    -- Secret that signs the messages; empty for none.
    secret             text NOT NULL,
    -- Both, encrypted with the key of the service. Then `address` is what may be shown of it, and `secret` is empty. NULL: the
    -- operator had set no key, or there is no secret.
    sealed_address     bytea,
    sealed_secret      bytea,
    -- The secret of the hooks of a pager. NULL: it acknowledges nothing here.
    sealed_hook_secret bytea,
    -- Signs the links of messages that mute the rule.
    link_key           bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
        CHECK (length(link_key) = 32),
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
    -- The rule with the second receiver, and the minutes that a person has to acknowledge. Both or neither.
    escalate_to        uuid REFERENCES alert_rules (id) ON DELETE SET NULL,
    escalate_minutes   integer,
    -- The earliest moment of the next message, and of the next evaluation.
    next_message_at    timestamptz NOT NULL,
    next_evaluation_at timestamptz NOT NULL,
    created_at         timestamptz NOT NULL
);
CREATE INDEX alert_rules_tenant ON alert_rules (tenant, condition);
CREATE INDEX alert_rules_escalation ON alert_rules (escalate_to) WHERE escalate_to IS NOT NULL;
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
    delivered_at timestamptz,
    -- Of a test: what was sent without its secrets, the status of the answer, and its text. NULL for other messages.
    test_request text,
    test_status  integer,
    test_answer  text
);
CREATE INDEX alert_messages_due ON alert_messages (due_at) WHERE status = 'waiting';
CREATE INDEX alert_messages_tenant ON alert_messages (tenant, created_at DESC, id DESC);
CREATE INDEX alert_messages_rule ON alert_messages (rule);
SELECT unslide_protect('alert_messages', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
-- Messages that wait stay.
INSERT INTO purges (target, key, at_column, condition) VALUES ('alert_messages', 'id', 'created_at', 't.status <> ''waiting''');

-- The figures that alert rules watch.
CREATE TABLE alert_figures (
    rule               uuid PRIMARY KEY REFERENCES alert_rules (id) ON DELETE CASCADE,
    tenant             text NOT NULL,
    figure             text NOT NULL,
    comparison         text NOT NULL CHECK (comparison IN ('above', 'below', 'worse', 'burn_rate')),
    -- NULL: of every version, of all hosts together.
    version            text,
    host               text,
    -- The only endpoint of requests that counts: method, host and template of the path. NULL: all of them.
    endpoint           text,
    days               integer NOT NULL,
    -- NULL: the figure is made of days.
    hours              integer,
    least_observations integer NOT NULL,
    -- The share that has to be good; of a burn rate.
    objective          double precision
);
SELECT unslide_protect('alert_figures', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The times in which a figure was bad, or from which a message asks to be acknowledged.
CREATE TABLE alert_firings (
    id              uuid PRIMARY KEY,
    tenant          text NOT NULL,
    rule            uuid NOT NULL REFERENCES alert_rules (id) ON DELETE CASCADE,
    headline        text NOT NULL,
    -- The app, the version and the console's page of what it is about.
    app             text NOT NULL DEFAULT '',
    version         text NOT NULL DEFAULT '',
    path            text NOT NULL DEFAULT '/console/alerts',
    began_at        timestamptz NOT NULL,
    -- NULL: the figure is still bad.
    ended_at        timestamptz,
    acknowledged_at timestamptz,
    -- A key's id, a person, or `link`.
    acknowledged_by text,
    -- When the second receiver gets it; NULL for never.
    escalate_at     timestamptz,
    -- When the second receiver got it, and the rule of that receiver.
    escalated_at    timestamptz,
    escalated_to    uuid REFERENCES alert_rules (id) ON DELETE SET NULL,
    -- Signs the link that acknowledges it.
    link_key        bytea NOT NULL CHECK (length(link_key) = 32)
);
-- A rule fires once while its figure is bad.
CREATE UNIQUE INDEX alert_firings_open ON alert_firings (rule) WHERE ended_at IS NULL;
CREATE INDEX alert_firings_due ON alert_firings (escalate_at) WHERE escalate_at IS NOT NULL;
CREATE INDEX alert_firings_rule ON alert_firings (rule);
CREATE INDEX alert_firings_escalation ON alert_firings (escalated_to) WHERE escalated_to IS NOT NULL;
CREATE INDEX alert_firings_tenant ON alert_firings (tenant, began_at DESC, id DESC);
SELECT unslide_protect('alert_firings', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column, condition) VALUES ('alert_firings', 'id', 'began_at', 't.ended_at IS NOT NULL');

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
    -- The firing of a rule without a figure: a message with this event began it.
    firing       uuid REFERENCES alert_firings (id) ON DELETE SET NULL,
    -- When the labels of its group are looked at next; NULL: they are not waited for.
    route_at     timestamptz,
    -- Its group has none of the rule's labels: no message tells of it.
    dropped      boolean NOT NULL DEFAULT false,
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
CREATE INDEX alert_events_waiting ON alert_events (rule) WHERE message IS NULL AND route_at IS NULL AND NOT dropped;
CREATE INDEX alert_events_route ON alert_events (route_at) WHERE route_at IS NOT NULL;
CREATE INDEX alert_events_firing ON alert_events (firing) WHERE firing IS NOT NULL;
CREATE INDEX alert_events_message ON alert_events (message);
CREATE INDEX alert_events_age ON alert_events (occurred_at);
SELECT unslide_protect('alert_events', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
-- Events of messages that wait stay, and so do events without a message, except dropped ones.
INSERT INTO purges (target, key, at_column, condition) VALUES
    ('alert_events', 'tenant, rule, cause', 'occurred_at', '(t.dropped OR t.message IS NOT NULL) AND NOT EXISTS (
        SELECT FROM alert_messages m WHERE m.id = t.message AND m.status = ''waiting'')');

-- The rules that something is to be done for: to evaluate their condition, to pass a firing on to the second receiver, to put events
-- into a message, to send one. One of each tenant in turn: many of one tenant leave the others theirs.
CREATE FUNCTION unslide_alerts_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, rule uuid, step text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH active AS NOT MATERIALIZED (
        SELECT r.* FROM alert_rules r JOIN tenants t ON t.slug = r.tenant
        WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
    )
    (SELECT a.tenant, a.id, 'evaluate' FROM active a
     WHERE a.enabled AND a.condition <> 'regression' AND a.next_evaluation_at <= at
     ORDER BY row_number() OVER (PARTITION BY a.tenant ORDER BY a.next_evaluation_at), a.next_evaluation_at
     LIMIT how_many)
    UNION ALL
    (SELECT a.tenant, a.id, 'escalate' FROM alert_firings f JOIN active a ON a.id = f.rule
     WHERE f.escalate_at <= at AND a.enabled
     ORDER BY row_number() OVER (PARTITION BY a.tenant ORDER BY f.escalate_at), f.escalate_at
     LIMIT how_many)
    UNION ALL
    (SELECT a.tenant, a.id, 'collect' FROM active a
     WHERE a.next_message_at <= at
       AND EXISTS (SELECT FROM alert_events e
                   WHERE e.rule = a.id AND e.message IS NULL AND e.route_at IS NULL AND NOT e.dropped)
     ORDER BY row_number() OVER (PARTITION BY a.tenant ORDER BY a.next_message_at), a.next_message_at
     LIMIT how_many)
    UNION ALL
    -- One of each tenant: a receiver that does not answer holds up its own tenant alone.
    (SELECT DISTINCT ON (a.tenant) a.tenant, a.id, 'send'
     FROM alert_messages m JOIN active a ON a.id = m.rule
     WHERE m.status = 'waiting' AND m.due_at <= at
     ORDER BY a.tenant, m.due_at LIMIT how_many)
$$;

-- The rules with events whose labels are to be looked at, the longest waiting first, one of each tenant in turn.
CREATE FUNCTION unslide_alerts_to_route(at timestamptz, how_many integer) RETURNS TABLE (tenant text, rule uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT w.tenant, w.rule
    FROM (SELECT e.tenant, e.rule, min(e.route_at) AS route_at FROM alert_events e
          JOIN tenants t ON t.slug = e.tenant AND t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
          WHERE e.route_at <= at GROUP BY e.tenant, e.rule) w
    ORDER BY row_number() OVER (PARTITION BY w.tenant ORDER BY w.route_at), w.route_at
    LIMIT how_many
$$;

-- Recipients of alerts by mail. Outside the domains that the operator allows, a recipient has to confirm first.
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
INSERT INTO purges (target, key, at_column, condition) VALUES
    ('alert_recipients', 'tenant, address', 'asked_at', 't.status = ''waiting_for_confirmation''');

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
    WHERE r.ask_at <= at AND t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)
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
