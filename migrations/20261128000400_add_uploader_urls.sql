-- URLs that permit uploads without a key, as a client of another product asked for them. Only the hash of a URL's token is
-- stored, so that a reader of this table cannot upload.
CREATE TABLE uploader_urls (
    tenant     text NOT NULL REFERENCES tenants (slug),
    token_hash bytea NOT NULL CHECK (length(token_hash) = 32),
    -- The key that asked for the URL, which ends with it.
    key_id     uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, token_hash)
);
CREATE INDEX uploader_urls_age ON uploader_urls (expires_at);
SELECT unslide_protect('uploader_urls', 'tenant', 'SELECT, INSERT');

INSERT INTO purges (target, key, at_column) VALUES ('uploader_urls', 'tenant, token_hash', 'expires_at');
