-- The newest sign-ins of people that failed, for the administrators of their tenant.
CREATE TABLE sign_in_failures (
    id      uuid PRIMARY KEY,
    tenant  text NOT NULL REFERENCES tenants (slug),
    at      timestamptz NOT NULL,
    outcome text NOT NULL,
    -- The provider's id of the person, if the token was valid.
    subject text,
    reason  text NOT NULL
);
CREATE INDEX sign_in_failures_tenant ON sign_in_failures (tenant, outcome, at);
SELECT unslide_protect('sign_in_failures', 'tenant', 'SELECT, INSERT, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('sign_in_failures', 'id', 'at');
