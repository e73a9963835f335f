-- When the file of an upload that is over was removed. Programs of the release before do not say: then it is null, and
-- the file is removed a second time, which does nothing.
ALTER TABLE uploads ADD COLUMN file_gone_at timestamptz;
CREATE INDEX uploads_kept ON uploads (status DESC, updated_at, id) WHERE file_gone_at IS NULL AND status IN ('done', 'failed');

CREATE FUNCTION unslide_uploads_kept(failed_before timestamptz, done_before timestamptz, how_many integer)
RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT u.tenant, u.id FROM uploads u
    WHERE u.file_gone_at IS NULL AND u.status IN ('done', 'failed')
      AND u.updated_at < CASE u.status WHEN 'failed' THEN failed_before ELSE done_before END
      AND NOT EXISTS (SELECT FROM tenants t WHERE t.slug = u.tenant AND t.state = 'deleted')
    ORDER BY u.status DESC, u.updated_at, u.id LIMIT how_many
$$;
REVOKE ALL ON FUNCTION unslide_uploads_kept(timestamptz, timestamptz, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_uploads_kept(timestamptz, timestamptz, integer) TO unslide_service;
