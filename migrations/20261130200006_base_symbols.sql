CREATE TABLE uploads (
    id            uuid PRIMARY KEY,
    tenant        text NOT NULL,
    status        text NOT NULL CHECK (status IN ('receiving', 'queued', 'building', 'done', 'failed')),
    -- A stable code and a sentence; both set for a failed upload.
    reason        text,
    detail        text,
    file_name     text,
    app           text,
    size          bigint,
    content_hash  bytea CHECK (length(content_hash) = 32),
    -- Members that were skipped, such as symlinks: [{"path": …, "reason": …}]
    skipped       jsonb NOT NULL DEFAULT '[]',
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    owning_tenant text GENERATED ALWAYS AS (CASE WHEN tenant <> '~system' THEN tenant END) STORED REFERENCES tenants (slug),
    -- When the file of an upload that is over was removed, and when a failed removal is tried again.
    file_gone_at  timestamptz,
    file_retry_at timestamptz
);
CREATE INDEX uploads_tenant ON uploads (tenant, created_at DESC);
CREATE INDEX uploads_content ON uploads (tenant, content_hash);
-- Each upload asks for the sum of the tenant's uploads that are under way; of all uploads ever made they are few.
CREATE INDEX uploads_under_way ON uploads (tenant) INCLUDE (size) WHERE status IN ('queued', 'building');
CREATE INDEX uploads_receiving ON uploads (created_at) WHERE status = 'receiving';
CREATE INDEX uploads_receiving_since ON uploads (updated_at) WHERE status = 'receiving';
CREATE INDEX uploads_kept ON uploads (status DESC, updated_at, id) WHERE file_gone_at IS NULL AND status IN ('done', 'failed');
CREATE INDEX uploads_file_failed ON uploads (file_retry_at) WHERE file_retry_at IS NOT NULL;
SELECT unslide_protect('uploads', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Uploads in parts, which may stop and go on. Object storage holds the parts of a row here outside of any object: the
-- row goes when the parts have become the upload's object, or have been removed. Until then its announced size counts
-- as used.
CREATE TABLE partial_uploads (
    upload_id     uuid PRIMARY KEY REFERENCES uploads (id) ON DELETE CASCADE,
    tenant        text NOT NULL,
    -- The client's claim of the size of all parts together.
    size          bigint NOT NULL CHECK (size > 0),
    content_hash  bytea NOT NULL CHECK (length(content_hash) = 32),
    -- Of each part but the last.
    part_bytes    bigint NOT NULL CHECK (part_bytes > 0),
    -- Object storage's name for the multipart upload.
    multipart_id  text NOT NULL,
    -- Since when a request assembles the file from its parts; NULL if none does.
    completing_at timestamptz
);
CREATE INDEX partial_uploads_tenant ON partial_uploads (tenant) INCLUDE (size);
SELECT unslide_protect('partial_uploads', 'tenant', 'SELECT, INSERT, DELETE');
GRANT UPDATE (completing_at) ON partial_uploads TO unslide_service;

CREATE TABLE upload_parts (
    tenant    text NOT NULL,
    upload_id uuid NOT NULL REFERENCES partial_uploads (upload_id) ON DELETE CASCADE,
    -- From 1 on.
    number    integer NOT NULL,
    etag      text NOT NULL,
    PRIMARY KEY (upload_id, number)
);
CREATE INDEX upload_parts_tenant ON upload_parts (tenant);
SELECT unslide_protect('upload_parts', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- One slice of one file, by the hash of its bytes.
CREATE TABLE objects (
    tenant           text NOT NULL,
    content_hash     bytea NOT NULL CHECK (length(content_hash) = 32),
    -- Null if the object has no LC_UUID or could not be read that far.
    debug_id         uuid,
    name             text NOT NULL,
    arch             text NOT NULL,
    kind             text NOT NULL,
    has_dwarf        boolean NOT NULL DEFAULT false,
    has_symtab       boolean NOT NULL DEFAULT false,
    has_exports      boolean NOT NULL DEFAULT false,
    has_sources      boolean NOT NULL DEFAULT false,
    quality          smallint NOT NULL DEFAULT 0,
    size             bigint NOT NULL,
    status           text NOT NULL CHECK (status IN ('queued', 'building', 'ready', 'malformed', 'unsupported',
                                                     'too_complex')),
    reason           text,
    symcache_size    bigint,
    symcache_hash    bytea CHECK (length(symcache_hash) = 32),
    symcache_version integer,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    owning_tenant    text GENERATED ALWAYS AS (CASE WHEN tenant <> '~system' THEN tenant END) STORED REFERENCES tenants (slug),
    PRIMARY KEY (tenant, content_hash)
);
CREATE INDEX objects_debug_id ON objects (tenant, debug_id);
CREATE INDEX objects_age ON objects (tenant, created_at DESC, content_hash);
-- How much a tenant stores, from the index alone.
CREATE INDEX objects_usage ON objects (tenant) INCLUDE (size);
SELECT unslide_protect('objects', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE upload_objects (
    tenant       text NOT NULL,
    upload_id    uuid NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    content_hash bytea NOT NULL,
    path         text NOT NULL,
    -- The tenant had this very object already.
    known        boolean NOT NULL,
    PRIMARY KEY (tenant, upload_id, content_hash, path),
    FOREIGN KEY (tenant, content_hash) REFERENCES objects (tenant, content_hash) ON DELETE CASCADE
);
CREATE INDEX upload_objects_content ON upload_objects (tenant, content_hash);
SELECT unslide_protect('upload_objects', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- The object that answers for a debug id now. Made by the first that needs it: an indexer (generation 0, nothing there) or
-- a builder. Its row lock is what orders "a report waits" and "symbols arrive".
CREATE TABLE symbol_slots (
    tenant       text NOT NULL,
    debug_id     uuid NOT NULL,
    generation   bigint NOT NULL DEFAULT 0,
    -- 0: no symbols, never or no longer.
    quality      smallint NOT NULL DEFAULT 0,
    content_hash bytea,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, debug_id)
);
SELECT unslide_protect('symbol_slots', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
-- Operators write the symbols of operating systems; every tenant may know which there are, and no more.
CREATE POLICY system_rows ON symbol_slots FOR SELECT TO unslide_service USING (tenant = '~system');

-- Uploads that no client goes on with, and uploads that are over while their parts are still in object storage. Each kind
-- by its own index: neither reads uploads that are long done.
CREATE FUNCTION unslide_uploads_stuck(before timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT o.tenant, o.id
    FROM (SELECT u.tenant, u.id, u.created_at FROM uploads u
          WHERE u.status = 'receiving' AND u.updated_at < before
          UNION ALL
          SELECT u.tenant, u.id, u.created_at FROM partial_uploads p JOIN uploads u ON u.id = p.upload_id
          WHERE u.status = 'failed') o
    WHERE o.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY o.created_at, o.id LIMIT how_many
$$;

-- Uploads that are over, with a file that was kept for long enough.
CREATE FUNCTION unslide_uploads_kept(
    failed_before timestamptz, done_before timestamptz, at timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT u.tenant, u.id FROM uploads u
    WHERE u.file_gone_at IS NULL AND u.status IN ('done', 'failed')
      AND u.updated_at < CASE u.status WHEN 'failed' THEN failed_before ELSE done_before END
      AND (u.file_retry_at IS NULL OR u.file_retry_at <= at)
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = u.tenant AND t.state = 'deleted')
      AND u.tenant NOT IN (SELECT slug FROM tenants_elsewhere)
    ORDER BY u.status DESC, u.updated_at, u.id LIMIT how_many
$$;
