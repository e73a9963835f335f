-- Makes the day partitions from the first day to the last that are not there yet; returns their number. Each is built as a
-- table and attached, which does not block reads and writes of the other days.
CREATE FUNCTION unslide_partitions_ensure(first_day date, last_day date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    parent text;
    child text;
    this_day date;
    unknown text;
    made integer := 0;
BEGIN
    IF last_day - first_day > 4000 THEN
        RAISE EXCEPTION 'too many days: % to %', first_day, last_day;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
    FOREACH parent IN ARRAY ARRAY['reports', 'report_bodies', 'report_frames', 'waits', 'sessions', 'metric_payloads'] LOOP
        this_day := first_day;
        WHILE this_day <= last_day LOOP
            child := parent || '_' || to_char(this_day, 'YYYYMMDD');
            IF to_regclass('public.' || child) IS NULL THEN
                EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL)', child, parent);
                EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', child);
                -- As in the parent; LIKE does not copy it. Columns of the system have 0 as well, before PostgreSQL 17.
                FOR unknown IN SELECT attname FROM pg_attribute
                    WHERE attrelid = format('public.%I', parent)::regclass AND attnum > 0 AND attstattarget = 0 LOOP
                    EXECUTE format('ALTER TABLE public.%I ALTER COLUMN %I SET STATISTICS 0', child, unknown);
                END LOOP;
                EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
                               parent, child, this_day::timestamptz, (this_day + 1)::timestamptz);
                made := made + 1;
            END IF;
            this_day := this_day + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

-- Drops the day partitions before a day; returns their number. Dropping locks the whole table: rather than make every
-- reader wait behind a long query, it gives up and is tried again. Nothing else is done while the locks are held.
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
        WHERE i.inhparent IN ('public.reports'::regclass, 'public.report_bodies'::regclass,
                              'public.report_frames'::regclass, 'public.waits'::regclass,
                              'public.sessions'::regclass, 'public.metric_payloads'::regclass)
          AND c.relname ~ '_[0-9]{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < before
    LOOP
        EXECUTE format('DROP TABLE %s', child.name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;

-- Drops day partitions of reports, bodies and frames before a day that have no row, at most `how_many`: their reports are in ClickHouse.
-- A report that comes back has them made again. It gives up as `unslide_partitions_drop` does.
CREATE FUNCTION unslide_partitions_drop_empty(before date, how_many integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    child record;
    filled boolean;
    dropped integer := 0;
BEGIN
    PERFORM set_config('unslide.definer', 'on', true);
    PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
    FOR child IN
        SELECT c.oid::regclass AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('public.reports'::regclass, 'public.report_bodies'::regclass, 'public.report_frames'::regclass)
          AND c.relname ~ '_[0-9]{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < before
        ORDER BY right(c.relname, 8)
    LOOP
        EXIT WHEN dropped >= how_many;
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', child.name) INTO filled;
        CONTINUE WHEN filled;
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', child.name);
        -- A row may have come while it waited for the lock.
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', child.name) INTO filled;
        CONTINUE WHEN filled;
        EXECUTE format('DROP TABLE %s', child.name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;
