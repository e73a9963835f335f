-- ID tokens of people who are signed in: the provider wants one when a person signs out there. A row has the hash of 256 random bits,
-- which are in the address of the page after the sign-out.
CREATE TABLE sign_out_hints (
    tenant    text NOT NULL REFERENCES tenants (slug),
    hint_hash bytea NOT NULL CHECK (length(hint_hash) = 32),
    id_token  text NOT NULL,
    -- When the session ends.
    ends_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, hint_hash)
);
CREATE INDEX sign_out_hints_ends ON sign_out_hints (ends_at);
SELECT unslide_protect('sign_out_hints', 'tenant', 'SELECT, INSERT, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('sign_out_hints', 'tenant, hint_hash', 'ends_at');

-- True: the provider leads a person back after a sign-out there. It has to know the address.
ALTER TABLE sign_in_providers ADD COLUMN returns_after_sign_out boolean NOT NULL DEFAULT false;
