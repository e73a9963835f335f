-- Debug files that upload clients of other products send in chunks.

CREATE TABLE uploader_chunks (
    tenant     text NOT NULL REFERENCES tenants (slug),
    sha1       bytea NOT NULL CHECK (length(sha1) = 20),
    -- Names the chunk's object, which is condemned before it is put: a lost row leaves nothing.
    object_id  uuid NOT NULL,
    size       bigint NOT NULL CHECK (size > 0),
    -- False from when a file is made of it: that file counts.
    counted    boolean NOT NULL,
    -- The bytes that count against the tenant's limit on symbols.
    counted_size bigint GENERATED ALWAYS AS (CASE WHEN counted THEN size ELSE 0 END) STORED,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, sha1)
);
CREATE INDEX uploader_chunks_usage ON uploader_chunks (tenant) INCLUDE (counted_size);
CREATE INDEX uploader_chunks_age ON uploader_chunks (expires_at);
SELECT unslide_protect('uploader_chunks', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('uploader_chunks', 'tenant, sha1', 'expires_at');

-- A file that a client declared, once all its chunks are there.
CREATE TABLE uploader_files (
    tenant       text NOT NULL REFERENCES tenants (slug),
    app          text NOT NULL,
    sha1         bytea NOT NULL CHECK (length(sha1) = 20),
    name         text NOT NULL,
    -- The hashes of its chunks in their order, 20 bytes each.
    chunks       bytea NOT NULL CHECK (length(chunks) % 20 = 0),
    file_use     text NOT NULL CHECK (file_use IN ('debug_file', 'source_maps')),
    -- Limits of its sender.
    one_app      boolean NOT NULL,
    file_limit   bigint NOT NULL,
    symbol_limit bigint,
    state        text NOT NULL CHECK (state IN ('waiting', 'stored', 'ignored', 'failed')),
    -- Of a stored file.
    upload_id    uuid CHECK ((upload_id IS NOT NULL) = (state = 'stored')),
    detail       text,
    attempts     integer NOT NULL,
    -- From when a process may make it; in the future while one does.
    due_at       timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, app, sha1)
);
CREATE INDEX uploader_files_due ON uploader_files (due_at) WHERE state = 'waiting';
CREATE INDEX uploader_files_age ON uploader_files (updated_at);
SELECT unslide_protect('uploader_files', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
INSERT INTO purges (target, key, at_column) VALUES ('uploader_files', 'tenant, app, sha1', 'updated_at');

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

-- Files of all tenants that wait to be made, the first of each tenant before the second of any.
CREATE FUNCTION unslide_uploader_files_due(at timestamptz, how_many integer)
RETURNS TABLE (tenant text, app text, sha1 bytea)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT w.tenant, w.app, w.sha1
    FROM (SELECT f.tenant, f.app, f.sha1, f.due_at,
                 row_number() OVER (PARTITION BY f.tenant ORDER BY f.due_at, f.app, f.sha1) AS place
          FROM uploader_files f JOIN tenants t ON t.slug = f.tenant
          WHERE f.state = 'waiting' AND f.due_at <= at AND t.state <> 'deleted' AND t.slug NOT IN (SELECT slug FROM tenants_elsewhere)) w
    ORDER BY w.place, w.due_at, w.tenant LIMIT how_many
$$;
