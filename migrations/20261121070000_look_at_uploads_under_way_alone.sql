-- What a tenant's uploads on their way add up to is asked at each upload; of all its uploads ever made few are.
CREATE INDEX uploads_under_way ON uploads (tenant) INCLUDE (size) WHERE status IN ('queued', 'building');
CREATE INDEX uploads_receiving_since ON uploads (updated_at) WHERE status = 'receiving';

-- As before, each kind by its own way: neither looks at uploads that are long done.
CREATE OR REPLACE FUNCTION unslide_uploads_stuck(before timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT o.tenant, o.id
    FROM (SELECT u.tenant, u.id, u.created_at FROM uploads u
          WHERE u.status = 'receiving' AND u.updated_at < before
          UNION ALL
          SELECT u.tenant, u.id, u.created_at FROM partial_uploads p JOIN uploads u ON u.id = p.upload_id
          WHERE u.status = 'failed') o
    ORDER BY o.created_at, o.id LIMIT how_many
$$;

-- Since when a request has the file made of the parts; NULL where none has.
ALTER TABLE partial_uploads ADD COLUMN completing_at timestamptz;
GRANT UPDATE (completing_at) ON partial_uploads TO unslide_service;
