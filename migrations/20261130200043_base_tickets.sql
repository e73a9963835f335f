-- The trackers in which groups of a tenant get tickets.
CREATE TABLE trackers (
    tenant             text NOT NULL REFERENCES tenants (slug),
    name               text NOT NULL,
    -- Names the tracker in the address of its hooks.
    id                 uuid NOT NULL,
    kind               text NOT NULL CHECK (kind IN ('github', 'gitlab', 'jira_cloud', 'jira_data_center', 'linear')),
    -- The address of its API, without a slash at the end.
    url                text NOT NULL,
    -- The repository, the project or the team of new tickets.
    project            text NOT NULL,
    -- The e-mail address of the account, for Jira Cloud.
    account            text,
    issue_type         text,
    labels             text[] NOT NULL,
    -- Further fields of new tickets, for Jira.
    fields             jsonb,
    -- The token and the secret of its hooks, encrypted with the key of the service.
    sealed_token       bytea NOT NULL,
    sealed_hook_secret bytea NOT NULL,
    -- A group that is new since `rule_since` gets a ticket when it has this many reports. NULL: only if a person asks.
    rule_reports       bigint,
    -- The only app of that rule.
    rule_app           text,
    rule_since         timestamptz NOT NULL,
    -- When groups for the rule are looked for.
    next_look_at       timestamptz NOT NULL,
    changed_at         timestamptz NOT NULL,
    -- Until when the tracker wants no request.
    not_before         timestamptz,
    -- Failures in a row: each makes the pause before the next request longer.
    failures           integer NOT NULL DEFAULT 0,
    -- Why the last request failed, if it concerns all tickets.
    problem            text,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX trackers_look ON trackers (next_look_at) WHERE rule_reports IS NOT NULL;
SELECT unslide_protect('trackers', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The ticket of a group: it has at most one.
CREATE TABLE tickets (
    tenant      text NOT NULL REFERENCES tenants (slug),
    group_id    uuid NOT NULL,
    tracker     text NOT NULL,
    -- A random text in the ticket, by which it is found again.
    marker      uuid NOT NULL,
    state       text NOT NULL CHECK (state IN ('creating', 'failed', 'open', 'done', 'dropped', 'lost')),
    -- When a request was sent that may have made it. NULL: none was, or the tracker has refused it.
    sent_at     timestamptz,
    -- The tracker's id. NULL until there is a ticket.
    ticket_id   text,
    -- Its name for people, such as #17.
    ticket_key  text,
    url         text,
    fix_version text,
    -- The key of the person who asked for it, or the name of the rule.
    asked_by    text NOT NULL,
    created_at  timestamptz NOT NULL,
    -- When it was read last.
    read_at     timestamptz,
    -- The newest regression that a comment was sent for.
    told_at     timestamptz,
    problem     text,
    PRIMARY KEY (tenant, group_id),
    FOREIGN KEY (tenant, tracker) REFERENCES trackers (tenant, name) ON DELETE CASCADE
);
CREATE INDEX tickets_ids ON tickets (tenant, tracker, ticket_id);
CREATE INDEX tickets_sent ON tickets (tenant, tracker, sent_at) WHERE sent_at IS NOT NULL;
SELECT unslide_protect('tickets', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The work on tickets. A request to read one stays, and is due again after a day.
CREATE TABLE ticket_requests (
    tenant       text NOT NULL REFERENCES tenants (slug),
    group_id     uuid NOT NULL,
    action       text NOT NULL CHECK (action IN ('create', 'read', 'reopen')),
    tracker      text NOT NULL,
    -- When it was asked for last.
    asked_at     timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    -- The version of the report that brought the group back.
    version      text,
    attempts     integer NOT NULL DEFAULT 0,
    -- Until when a process works on it.
    leased_until timestamptz,
    PRIMARY KEY (tenant, group_id, action),
    FOREIGN KEY (tenant, group_id) REFERENCES tickets (tenant, group_id) ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX ticket_requests_due ON ticket_requests (due_at);
CREATE INDEX ticket_requests_tracker ON ticket_requests (tenant, tracker, due_at);
SELECT unslide_protect('ticket_requests', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The deliveries of hooks that were taken, so that none is taken twice.
CREATE TABLE tracker_deliveries (
    tenant      text NOT NULL REFERENCES tenants (slug),
    tracker     text NOT NULL,
    delivery    text NOT NULL,
    received_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, tracker, delivery),
    FOREIGN KEY (tenant, tracker) REFERENCES trackers (tenant, name) ON DELETE CASCADE
);
CREATE INDEX tracker_deliveries_received ON tracker_deliveries (received_at);
SELECT unslide_protect('tracker_deliveries', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('tracker_deliveries', 'tenant, tracker, delivery', 'received_at');

-- The commits that have resolved groups: each does it once.
CREATE TABLE ticket_fixes (
    tenant     text NOT NULL REFERENCES tenants (slug),
    group_id   uuid NOT NULL,
    revision   text NOT NULL,
    fixed_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, group_id, revision)
);
CREATE INDEX ticket_fixes_fixed ON ticket_fixes (fixed_at);
SELECT unslide_protect('ticket_fixes', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('ticket_fixes', 'tenant, group_id, revision', 'fixed_at');

-- The tenants with work on tickets, from the one after `after` on. One tenant's trackers and its backlog cost the others nothing.
CREATE FUNCTION unslide_ticket_tenants(at timestamptz, after text, how_many integer) RETURNS TABLE (tenant text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug FROM tenants t
    WHERE t.state = 'active' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere) AND EXISTS (
        SELECT FROM trackers k
        WHERE k.tenant = t.slug AND (
            (k.rule_reports IS NOT NULL AND k.next_look_at <= at)
            OR ((k.not_before IS NULL OR k.not_before <= at) AND EXISTS (
                SELECT FROM ticket_requests r
                WHERE r.tenant = k.tenant AND r.tracker = k.name AND r.due_at <= at
                  AND (r.leased_until IS NULL OR r.leased_until <= at)))))
    ORDER BY t.slug <= after, t.slug LIMIT how_many
$$;
