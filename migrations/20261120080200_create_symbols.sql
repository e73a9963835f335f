CREATE TABLE uploads (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    status       text NOT NULL CHECK (status IN ('receiving', 'queued', 'building', 'done', 'failed')),
    -- A stable code and a sentence; both set for a failed upload.
    reason       text,
    detail       text,
    file_name    text,
    app          text,
    size         bigint,
    content_hash bytea CHECK (length(content_hash) = 32),
    -- Members that were passed over, such as symlinks: [{"path": …, "reason": …}]
    skipped      jsonb NOT NULL DEFAULT '[]',
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL
);
CREATE INDEX uploads_tenant ON uploads (tenant, created_at DESC);
CREATE INDEX uploads_content ON uploads (tenant, content_hash);
SELECT unslide_protect('uploads', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- One slice of one file, by the hash of its bytes.
CREATE TABLE objects (
    tenant           text NOT NULL REFERENCES tenants (slug),
    content_hash     bytea NOT NULL CHECK (length(content_hash) = 32),
    -- Null where the object has no LC_UUID or could not be read that far.
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
    status           text NOT NULL CHECK (status IN ('queued', 'building', 'ready', 'malformed', 'unsupported')),
    reason           text,
    symcache_size    bigint,
    symcache_hash    bytea CHECK (length(symcache_hash) = 32),
    symcache_version integer,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (tenant, content_hash)
);
CREATE INDEX objects_debug_id ON objects (tenant, debug_id);
CREATE INDEX objects_age ON objects (tenant, created_at DESC, content_hash);
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

-- What answers for a debug id now. Made by whoever needs it first: an indexer (generation 0, nothing there) or a builder.
-- Its row lock is what orders "a report waits" and "symbols arrive".
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

CREATE FUNCTION unslide_notify_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('unslide_uploads', NEW.id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER uploads_changed AFTER UPDATE OF status ON uploads FOR EACH ROW EXECUTE FUNCTION unslide_notify_upload();
