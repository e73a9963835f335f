-- What a deleted report takes back of the counts, and lists of dead letters that begin where their page does.

-- Reports of the device that app_days counts; NULL where a release before this one counted some of them: such a row stays.
ALTER TABLE app_devices ADD COLUMN reports bigint;

-- The images that the report was counted for in wanted_images; NULL where a release before this one stored it.
ALTER TABLE reports ADD COLUMN wanted uuid[];

-- As before, but that the bounds are always there: so the index gives the order and where to begin.
CREATE OR REPLACE FUNCTION unslide_dead_letters(
    wanted_reason text, since timestamptz, before timestamptz, wanted_replayed boolean, wanted_tenant text,
    after_at timestamptz, after_topic_id text, after_partition integer, after_offset bigint, how_many integer)
RETURNS SETOF dead_letters
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT l.* FROM dead_letters l
    WHERE (wanted_reason IS NULL OR l.reason = wanted_reason)
      AND l.arrived_at >= coalesce(since, '-infinity'::timestamptz)
      AND l.arrived_at < coalesce(before, 'infinity'::timestamptz)
      AND (wanted_replayed IS NULL OR (l.replayed_at IS NOT NULL) = wanted_replayed)
      AND (wanted_tenant IS NULL OR coalesce(l.tenant, '') = wanted_tenant)
      AND (l.arrived_at, l.topic_id, l.partition, l.at_offset)
        < (coalesce(after_at, 'infinity'::timestamptz), coalesce(after_topic_id, ''), coalesce(after_partition, 0),
           coalesce(after_offset, 0))
    ORDER BY l.arrived_at DESC, l.topic_id DESC, l.partition DESC, l.at_offset DESC LIMIT how_many
$$;
