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
