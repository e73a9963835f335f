-- How far the indexers have read: part of the transaction that stores what was read.
CREATE TABLE positions (
    topic       text NOT NULL,
    partition   integer NOT NULL,
    -- The broker's id of the topic, so that a topic made anew under an old name is noticed.
    topic_id    text NOT NULL,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (topic, partition)
);
GRANT SELECT, INSERT, UPDATE ON positions TO unslide_service;

-- Which indexer reads a partition. It only spares work: what keeps two apart is the position.
CREATE TABLE partition_leases (
    topic       text NOT NULL,
    partition   integer NOT NULL,
    owner       text NOT NULL,
    lease_until timestamptz NOT NULL,
    PRIMARY KEY (topic, partition)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON partition_leases TO unslide_service;

-- Records that could not be stored. They stay in the topic; this says where.
CREATE TABLE unreadable_records (
    topic     text NOT NULL,
    partition integer NOT NULL,
    at_offset bigint NOT NULL,
    reason    text NOT NULL,
    detail    text NOT NULL,
    seen_at   timestamptz NOT NULL,
    PRIMARY KEY (topic, partition, at_offset)
);
GRANT SELECT, INSERT ON unreadable_records TO unslide_service;

-- Requests that nobody has answered, across tenants.
CREATE FUNCTION unslide_requests_overdue(before timestamptz, how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.requested_at < before ORDER BY k.requested_at LIMIT how_many
$$;

CREATE FUNCTION unslide_asks_pending(how_many integer)
RETURNS TABLE (tenant text, report_id uuid, variant integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.tenant, k.report_id, k.variant FROM report_keys k
    WHERE k.ask_pending ORDER BY k.tenant, k.report_id, k.variant LIMIT how_many
$$;

-- Makes the day partitions from the first day to the last that are not there yet; says how many it made.
-- Built apart and attached, which does not block those who read and write the other days.
CREATE FUNCTION unslide_partitions_ensure(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    parent text;
    child text;
    this_day date;
    made integer := 0;
BEGIN
    IF last_day - first_day > 4000 THEN
        RAISE EXCEPTION 'too many days: % to %', first_day, last_day;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
    FOREACH parent IN ARRAY ARRAY['reports', 'report_bodies', 'waits'] LOOP
        this_day := first_day;
        WHILE this_day <= last_day LOOP
            child := parent || '_' || to_char(this_day, 'YYYYMMDD');
            IF to_regclass('public.' || child) IS NULL THEN
                EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL)', child, parent);
                EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', child);
                EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
                               parent, child, this_day::timestamptz, (this_day + 1)::timestamptz);
                made := made + 1;
            END IF;
            this_day := this_day + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

-- Drops the day partitions before a day, with what else is kept by day; says how many partitions went. Dropping locks
-- the whole table: rather than make every reader wait behind a long query, it gives up and is tried again.
CREATE FUNCTION unslide_partitions_drop(before date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    child record;
    dropped integer := 0;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
    FOR child IN
        SELECT c.oid::regclass AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('public.reports'::regclass, 'public.report_bodies'::regclass, 'public.waits'::regclass)
          AND c.relname ~ '_[0-9]{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < before
    LOOP
        EXECUTE format('DROP TABLE %s', child.name);
        dropped := dropped + 1;
    END LOOP;
    DELETE FROM system_waits WHERE day < before;
    RETURN dropped;
END $$;

-- Forgets the keys of reports that no topic can bring again.
CREATE FUNCTION unslide_report_keys_purge(before timestamptz) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH gone AS (DELETE FROM report_keys WHERE received_at < before RETURNING 1) SELECT count(*) FROM gone
$$;

REVOKE ALL ON FUNCTION unslide_requests_overdue(timestamptz, integer), unslide_asks_pending(integer),
    unslide_partitions_ensure(date, date), unslide_partitions_drop(date), unslide_report_keys_purge(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unslide_requests_overdue(timestamptz, integer), unslide_asks_pending(integer),
    unslide_partitions_ensure(date, date), unslide_partitions_drop(date), unslide_report_keys_purge(timestamptz) TO unslide_service;
