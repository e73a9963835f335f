-- Uploads that come in parts, and may stop and go on. A row here is one whose parts object storage holds apart from any
-- object: it goes when the parts have become the upload's object, or have been taken away. Until then its announced size
-- counts as used.
CREATE TABLE partial_uploads (
    upload_id    uuid PRIMARY KEY REFERENCES uploads (id) ON DELETE CASCADE,
    tenant       text NOT NULL,
    -- What the client said that all parts together are.
    size         bigint NOT NULL CHECK (size > 0),
    content_hash bytea NOT NULL CHECK (length(content_hash) = 32),
    -- Of each part but the last.
    part_bytes   bigint NOT NULL CHECK (part_bytes > 0),
    -- Object storage's name for the multipart upload.
    multipart_id text NOT NULL
);
CREATE INDEX partial_uploads_tenant ON partial_uploads (tenant) INCLUDE (size);
SELECT unslide_protect('partial_uploads', 'tenant', 'SELECT, INSERT, DELETE');

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

-- As before, but each part that comes counts as a sign of life; and uploads that are over while their parts are still in
-- object storage.
CREATE OR REPLACE FUNCTION unslide_uploads_stuck(before timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT u.tenant, u.id FROM uploads u
    WHERE u.status = 'receiving' AND u.updated_at < before
       OR u.status = 'failed' AND u.id IN (SELECT p.upload_id FROM partial_uploads p)
    ORDER BY u.created_at, u.id LIMIT how_many
$$;
