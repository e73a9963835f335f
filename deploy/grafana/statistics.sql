-- Statistics of one tenant for Grafana and other programs that read SQL: views in the schema `unslide_stats`.
--
-- Run it as the owner of the database, again after each `unslide migrate`:
--   psql "$OWNER_URL" --single-transaction -v ON_ERROR_STOP=1 -f deploy/grafana/statistics.sql
-- Then one role for each tenant that reads them. The role's name says which tenant it sees: row-level security compares it.
--   CREATE ROLE "unslide_stats_acme" LOGIN PASSWORD '…' CONNECTION LIMIT 5 IN ROLE unslide_stats;
--   ALTER ROLE "unslide_stats_acme" SET default_transaction_read_only = on;
--   ALTER ROLE "unslide_stats_acme" SET statement_timeout = '30s';

-- Roles belong to the whole server: they may be there already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'unslide_stats') THEN
        CREATE ROLE unslide_stats NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
    END IF;
END $$;

-- With it go the policies, which use its function.
DROP SCHEMA IF EXISTS unslide_stats CASCADE;
CREATE SCHEMA unslide_stats;
GRANT USAGE ON SCHEMA unslide_stats TO unslide_stats;

-- The tenant that the current role sees: what follows `unslide_stats_` in its name. A session cannot change its role's name.
CREATE FUNCTION unslide_stats.tenant() RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT substr(current_user, 15) WHERE starts_with(current_user, 'unslide_stats_')
$$;

-- The role reads these columns of its tenant's rows and nothing else. They have no texts of users and no device's id.
CREATE POLICY stats_rows ON public.app_days FOR SELECT TO unslide_stats USING (tenant = (SELECT unslide_stats.tenant()));
CREATE POLICY stats_rows ON public.groups FOR SELECT TO unslide_stats USING (tenant = (SELECT unslide_stats.tenant()));
CREATE POLICY stats_rows ON public.group_days FOR SELECT TO unslide_stats USING (tenant = (SELECT unslide_stats.tenant()));
CREATE POLICY stats_rows ON public.group_breakdowns FOR SELECT TO unslide_stats USING (tenant = (SELECT unslide_stats.tenant()));
CREATE POLICY stats_rows ON public.group_deltas FOR SELECT TO unslide_stats USING (tenant = (SELECT unslide_stats.tenant()));
CREATE POLICY stats_rows ON public.metric_days FOR SELECT TO unslide_stats USING (tenant = (SELECT unslide_stats.tenant()));
CREATE POLICY stats_rows ON public.session_days FOR SELECT TO unslide_stats USING (tenant = (SELECT unslide_stats.tenant()));

GRANT SELECT (tenant, app, version, day, reports, fatal, devices, frames_total, frames_symbolicated, complete, partial, none)
    ON public.app_days TO unslide_stats;
GRANT SELECT (tenant, id, app, kind, title, culprit, provisional, reports, devices, first_seen, first_version, last_seen,
              last_version, merged_into, status, resolved_in, regressed_in)
    ON public.groups TO unslide_stats;
GRANT SELECT (tenant, group_id, day, reports) ON public.group_days TO unslide_stats;
GRANT SELECT (tenant, group_id, dimension, value, day, reports) ON public.group_breakdowns TO unslide_stats;
GRANT SELECT (tenant, group_id, hour, version, model, os_version, reports) ON public.group_deltas TO unslide_stats;
GRANT SELECT (tenant, app, version, dimension, day, value, metric, observations, failed, squares, sketch) ON public.metric_days
    TO unslide_stats;
GRANT SELECT (tenant, app, version, day, sessions, crashed, out_of_memory, unexplained, background_memory)
    ON public.session_days TO unslide_stats;

-- Reports by app, version and day (UTC). `crashes` are those that the app did not survive. `devices` are those that this
-- version was reported from for the first time on this day.
CREATE VIEW unslide_stats.report_days WITH (security_invoker = true) AS
    SELECT day::timestamp AT TIME ZONE 'UTC' AS day, app, version, reports, fatal AS crashes, devices, frames_total,
           frames_symbolicated, complete, partial, none
    FROM public.app_days WHERE reports > 0;

-- The bugs, as lists have them: what is merged counts for its target.
CREATE VIEW unslide_stats.groups WITH (security_invoker = true) AS
    SELECT id, app, kind, title, culprit, provisional, status, resolved_in, regressed_in, reports, devices AS affected_devices,
           first_seen, first_version, last_seen, last_version
    FROM public.groups WHERE merged_into IS NULL AND reports > 0;

-- Reports of groups by day. A day of a group may have several rows.
CREATE VIEW unslide_stats.group_days WITH (security_invoker = true) AS
    SELECT d.day::timestamp AT TIME ZONE 'UTC' AS day, g.app, coalesce(g.merged_into, g.id) AS group_id, d.reports
    FROM (SELECT tenant, group_id, day, reports FROM public.group_days
          UNION ALL SELECT tenant, group_id, (hour AT TIME ZONE 'UTC')::date, reports FROM public.group_deltas) d JOIN public.groups g ON g.tenant = d.tenant AND g.id = d.group_id;

-- The same by version, by device model and by OS version.
CREATE VIEW unslide_stats.group_breakdowns WITH (security_invoker = true) AS
    SELECT b.day::timestamp AT TIME ZONE 'UTC' AS day, g.app, coalesce(g.merged_into, g.id) AS group_id, b.dimension, b.value,
           b.reports
    FROM (SELECT tenant, group_id, dimension, value, day, reports FROM public.group_breakdowns
          UNION ALL SELECT tenant, group_id, 'version'::text, version, (hour AT TIME ZONE 'UTC')::date, reports FROM public.group_deltas
          UNION ALL SELECT tenant, group_id, 'model'::text, model, (hour AT TIME ZONE 'UTC')::date, reports FROM public.group_deltas
          UNION ALL SELECT tenant, group_id, 'os_version'::text, os_version, (hour AT TIME ZONE 'UTC')::date, reports FROM public.group_deltas) b JOIN public.groups g ON g.tenant = b.tenant AND g.id = b.group_id;

-- Sessions by app, version and day. Those out of memory: on the screen with evidence, on the screen by exclusion, others.
CREATE VIEW unslide_stats.session_days WITH (security_invoker = true) AS
    SELECT day::timestamp AT TIME ZONE 'UTC' AS day, app, version, sessions, crashed, out_of_memory, unexplained,
           background_memory
    FROM public.session_days;

-- One byte after another of a number as LEB128: the number, and how many bytes it has.
CREATE FUNCTION unslide_stats.leb128(bytes bytea, place integer, OUT number numeric, OUT length integer)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE byte integer;
BEGIN
    number := 0;
    length := 0;
    LOOP
        byte := get_byte(bytes, place + length);
        number := number + (byte & 127) * power(2::numeric, 7 * length);
        length := length + 1;
        EXIT WHEN byte < 128 OR length = 10;
    END LOOP;
END $$;

-- The buckets of a sketch as crates/model/src/counts/quantile.rs writes it: each value with its weight.
CREATE FUNCTION unslide_stats.buckets(sketch bytea) RETURNS TABLE (value float8, weight float8)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    growth CONSTANT float8 := 1.01 / 0.99;
    -- Behind the version, the lowest and the highest value.
    place integer := 17;
    bucket integer := -345;
    read record;
BEGIN
    IF get_byte(sketch, 0) <> 1 THEN
        RAISE EXCEPTION 'a sketch of another version';
    END IF;
    IF length(sketch) = 1 THEN
        RETURN;
    END IF;
    read := unslide_stats.leb128(sketch, place);
    place := place + read.length;
    value := 0;
    weight := read.number::float8 / 1000;
    IF weight > 0 THEN
        RETURN NEXT;
    END IF;
    WHILE place < length(sketch) LOOP
        read := unslide_stats.leb128(sketch, place);
        place := place + read.length;
        bucket := bucket + read.number::integer;
        read := unslide_stats.leb128(sketch, place);
        place := place + read.length;
        value := power(growth, bucket) * 2 / (growth + 1);
        weight := read.number::float8 / 1000;
        RETURN NEXT;
    END LOOP;
END $$;

-- Metrics by app, version and day: observations, and those of them that failed. By host, by device model or by OS version if
-- the dimension is `host`, `model` or `os_version`; dimension and value are empty for all together.
CREATE VIEW unslide_stats.metric_days WITH (security_invoker = true) AS
    SELECT day::timestamp AT TIME ZONE 'UTC' AS day, app, version, metric, dimension, value, observations, failed
    FROM public.metric_days;

-- The values of all together, each at most 1 % off, with the number of observations that they represent. For quantiles:
--   SELECT min(value) FROM (SELECT value, sum(sum(weight)) OVER (ORDER BY value) / sum(sum(weight)) OVER () AS share
--   FROM unslide_stats.metric_values WHERE … GROUP BY value) v WHERE share >= 0.95
CREATE VIEW unslide_stats.metric_values WITH (security_invoker = true) AS
    SELECT d.day::timestamp AT TIME ZONE 'UTC' AS day, d.app, d.version, d.metric, b.value, b.weight
    FROM public.metric_days d CROSS JOIN LATERAL unslide_stats.buckets(d.sketch) b
    WHERE d.dimension = '';

GRANT SELECT ON ALL TABLES IN SCHEMA unslide_stats TO unslide_stats;
