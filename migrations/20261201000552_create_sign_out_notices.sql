-- Notices of sign-outs that identity providers sent, so that each is taken once: one that somebody sends again ends no later session.
CREATE TABLE sign_out_notices (
    tenant      text NOT NULL REFERENCES tenants (slug),
    -- SHA-256 of the issuer and the notice's id.
    notice_hash bytea NOT NULL CHECK (length(notice_hash) = 32),
    received_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, notice_hash)
);
CREATE INDEX sign_out_notices_received ON sign_out_notices (received_at);
SELECT unslide_protect('sign_out_notices', 'tenant', 'SELECT, INSERT, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('sign_out_notices', 'tenant, notice_hash', 'received_at');
