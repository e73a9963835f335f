//! Fills a database with reports by SQL, as the indexer leaves them: each day's partition in a transaction of its own,
//! several at once, and its indexes when it is full.
//!
//! What lists, groups, searches and pages read is there, with the indexes and statistics of production. What they do not
//! read is left out: devices of groups, and the places of bodies in object storage.

use crate::online::database::{Indexes, run, run_scripts};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use unslide_testkit::reports::Report;
use unslide_tests::installation::TENANT;

/// The apps and the versions of each that reports are of.
pub const APPS: u64 = 40;
pub const VERSIONS: u64 = 25;
/// The days that reports arrived on, of which yesterday is the last.
pub const DAYS: u64 = 30;
/// The days of late, in which a fifth of the reports go to every seventh group: those grow.
const LATE_DAYS: u64 = 6;

/// The tables that are filled without their indexes.
const COUNTED: [&str; 4] = ["report_keys", "app_days", "group_days", "group_breakdowns"];
/// The newest reports that have a body, beside that of the newest group of each app.
const BODIES: u64 = 2_000;

/// How much is stored.
#[derive(Clone, Copy)]
pub struct Fill {
    pub reports: u64,
    /// Of each app. The first has an eighth of the app's reports, and each further one fewer.
    pub groups: u64,
}

/// Empties the database and stores reports.
pub async fn fill(url: &str, fill: Fill) {
    let mut database = PgConnection::connect(url).await.expect("PostgreSQL");
    let indexes = Indexes::read(&mut database, "reports").await;
    let mut counted = Vec::new();
    for table in COUNTED {
        counted.push(Indexes::read(&mut database, table).await);
    }
    empty(&mut database).await;
    for one in &counted {
        one.drop(&mut database).await;
    }
    let days = (0..DAYS).map(|day| one_day(day, fill, &indexes).join(";\n"));
    run_scripts(url, days.collect()).await;
    for day in 0..DAYS {
        run(&mut database, &attach(day)).await;
    }
    for statement in counted.iter().flat_map(Indexes::statements) {
        run(&mut database, &statement).await;
    }
    for statement in [groups(fill.groups), terms(fill.groups), wanted()] {
        run(&mut database, &statement).await;
    }
    bodies(&mut database).await;
    let tables =
        [&COUNTED[..], &["reports", "groups", "group_terms", "wanted_images", "waits", "report_bodies"]];
    run(&mut database, &format!("VACUUM (ANALYZE) {}", tables.concat().join(", "))).await;
}

/// The partition of a day, and when it begins; 0 is yesterday.
fn partition(day: u64) -> String {
    format!("reports_filled_{day}")
}

fn begin(day: u64) -> String {
    format!("((now() AT TIME ZONE 'UTC')::date - {})::timestamp AT TIME ZONE 'UTC'", day + 1)
}

async fn empty(database: &mut PgConnection) {
    let statements = format!(
        "SELECT unslide_partitions_ensure(current_date - {DAYS} - 2, current_date + 1);
         TRUNCATE reports, report_keys, report_bodies, waits, app_days, groups, group_days, group_breakdowns, \
             group_deltas, group_activity, group_moves, group_redirects, group_terms, wanted_images CASCADE;
         DO $$ DECLARE child regclass; BEGIN
             FOR child IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'reports'::regclass LOOP
                 EXECUTE 'DROP TABLE ' || child;
             END LOOP;
         END $$"
    );
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(database).await.expect("emptied");
}

/// The reports of a day, their keys and counts, and the images that they wait for.
fn one_day(day: u64, fill: Fill, indexes: &Indexes) -> Vec<String> {
    let (table, begin) = (partition(day), begin(day));
    let mut statements = vec![
        format!("CREATE TABLE {table} (LIKE reports INCLUDING ALL EXCLUDING INDEXES)"),
        reports(day, fill),
        format!(
            "INSERT INTO report_keys (tenant, report_id, variant, stored_month, content_hash, received_at, latest_revision) \
             SELECT tenant, report_id, variant, (SELECT unslide_key_month()), sha256(uuid_send(report_id)), received_at, 1 \
             FROM {table}"
        ),
        format!(
            "INSERT INTO app_days (tenant, app, version, day, reports, fatal, devices, frames_total, \
                 frames_symbolicated, complete, partial, none) \
             SELECT tenant, app, version, ({begin})::date, count(*), count(*), count(*), sum(frames_total), \
                 sum(frames_symbolicated), count(*), 0, 0 FROM {table} GROUP BY 1, 2, 3"
        ),
        format!(
            "INSERT INTO group_days (tenant, group_id, day, reports) \
             SELECT tenant, group_id, ({begin})::date, count(*) FROM {table} GROUP BY 1, 2"
        ),
        format!(
            "INSERT INTO waits (tenant, debug_id, received_at, report_id, variant, seen_generation) \
             SELECT tenant, md5(app || version)::uuid, received_at, report_id, variant, 0 FROM {table} \
             WHERE get_byte(device, 0) < 5"
        ),
    ];
    let dimensions =
        [("version", "version"), ("model", "model"), ("os_version", "os_name || ' ' || os_version")];
    for (dimension, value) in dimensions {
        statements.push(format!(
            "INSERT INTO group_breakdowns (tenant, group_id, dimension, day, value, reports) \
             SELECT tenant, group_id, '{dimension}', ({begin})::date, {value}, count(*) FROM {table} GROUP BY 1, 2, 5"
        ));
    }
    statements.extend(indexes.of_partition(&table));
    statements
}

/// The row number `n` of all is the `k`th of its day.
fn reports(day: u64, Fill { reports, groups }: Fill) -> String {
    let (table, begin) = (partition(day), begin(day));
    let count = (reports + DAYS - 1 - day) / DAYS;
    let devices = reports / 3 + 1;
    let of_growing = if day < LATE_DAYS { "k % 5 = 0" } else { "false" };
    format!(
        "INSERT INTO {table} (tenant, received_at, report_id, variant, revision, app, version, build, type, fatal, status, device, \
             os_name, os_version, model, process, reason, summary, frames_total, frames_symbolicated, frames_device, \
             frames_device_app, frames_missing, symbols_missing, system_images, wanted, stored_at, group_id, title) \
         SELECT '{TENANT}', {begin} + (k * 7919 % 86400) * interval '1 second' + k % 1000 * interval '1 millisecond', \
             md5(n::text)::uuid, 0, 1, 'com.example.app' || k % {APPS}, (k / {APPS} + {day}) % {VERSIONS} || '.0', '1', 'mach', true, 'complete', \
             sha256(int8send(n % {devices})), 'iOS', '18.' || n % 10, 'iPhone' || n % 17 || ',1', 'Shop', 'EXC_BAD_ACCESS', \
             '{{\"exception\": \"EXC_BAD_ACCESS\", \"signal\": \"SIGSEGV\", \"top_frames\": [{{\"image\": \"Shop\", \
               \"function\": \"Shop.Cart.total(of:)\", \"file\": \"Cart.swift\", \"line\": 17}}]}}', 320, 320, 0, 0, 0, \
             false, '{{}}', '{{}}', now(), md5(k % {APPS} || ' ' || g)::uuid, 'EXC_BAD_ACCESS in Shop.function_' || g \
         FROM generate_series(0::bigint, {count} - 1) k \
         CROSS JOIN LATERAL (SELECT {day} + {DAYS} * k AS n) o \
         CROSS JOIN LATERAL (SELECT floor({groups} * power(n * 2654435761 % 4294967296 / 4294967296.0::float8, 3))::bigint AS any_g) a \
         CROSS JOIN LATERAL (SELECT CASE WHEN {of_growing} THEN any_g / 7 * 7 ELSE any_g END AS g) p"
    )
}

fn attach(day: u64) -> String {
    let (table, begin) = (partition(day), begin(day));
    // As `unslide_partitions_ensure` makes them.
    format!(
        "DO $$ BEGIN
             ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
             EXECUTE format('ALTER TABLE reports ATTACH PARTITION {table} FOR VALUES FROM (%L) TO (%L)', \
                 {begin}, {begin} + interval '1 day');
             EXECUTE format('ALTER TABLE {table} RENAME TO %I', 'reports_' || to_char({begin} AT TIME ZONE 'UTC', 'YYYYMMDD'));
         END $$"
    )
}

/// Every group that has reports.
fn groups(groups: u64) -> String {
    format!(
        "INSERT INTO groups (tenant, id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen, \
             first_version, last_seen, last_version, own_reports, devices, own_devices, own_first_seen, own_first_version, \
             own_last_seen, own_last_version) \
         SELECT '{TENANT}', i.id, 'com.example.app' || a, i.id, 'crash', 'EXC_BAD_ACCESS in Shop.function_' || g, \
             'Shop.function_' || g || ' (Cart.swift)', false, d.reports, d.first, '0.0', d.last, '0.0', d.reports, d.reports, \
             d.reports, d.first, '0.0', d.last, '0.0' \
         FROM generate_series(0, {APPS} - 1) a CROSS JOIN generate_series(0, {groups} - 1) g \
         CROSS JOIN LATERAL (SELECT md5(a || ' ' || g)::uuid AS id) i \
         JOIN (SELECT group_id, sum(reports) AS reports, min(day) + interval '1 second' AS first, \
                      max(day) + interval '1 second' * (hashtext(group_id::text) & 65535) AS last \
               FROM group_days GROUP BY 1) d ON d.group_id = i.id"
    )
}

/// The first number of groups' own names, above those of their functions.
pub const OWN_NAMES: u64 = 10_000;
/// The letters that stand for digits in names: names of functions are words.
const LETTERS: &str = "aeioubdgkl";

/// A name of two words, one for each number.
pub fn word(group: u64, number: u64) -> String {
    let digits = format!("{group:05}_{number:03}");
    let letter = |digit: char| digit.to_digit(10).and_then(|digit| LETTERS.chars().nth(digit as usize));
    digits.chars().map(|digit| letter(digit).unwrap_or(digit)).collect()
}

/// The same in SQL.
fn word_sql(group: &str, number: &str) -> String {
    format!(
        "translate(lpad(({group})::text, 5, '0') || '_' || lpad(({number})::text, 3, '0'), '0123456789', '{LETTERS}')"
    )
}

/// Forty functions of a group, which a group of each app has, and a name of its own.
fn terms(groups: u64) -> String {
    let (own, function) = (word_sql(&format!("{OWN_NAMES} + a"), "g"), word_sql("g", "f"));
    format!(
        "INSERT INTO group_terms (tenant, group_id, terms) \
         SELECT '{TENANT}', i.id, {own} || E'\\n' || f.functions \
         FROM generate_series(0, {APPS} - 1) a CROSS JOIN (
             SELECT g, (SELECT string_agg('shop.module.' || {function} || '(of:)', E'\\n') FROM generate_series(1, 40) f) \
             FROM generate_series(0, {groups} - 1) g) f (g, functions) \
         CROSS JOIN LATERAL (SELECT md5(a || ' ' || g)::uuid AS id) i \
         WHERE EXISTS (SELECT FROM groups o WHERE o.tenant = '{TENANT}' AND o.id = i.id)"
    )
}

/// Two images of each version, without symbols.
fn wanted() -> String {
    format!(
        "INSERT INTO wanted_images (tenant, app, version, debug_id, name, arch, system, reports, first_seen, last_seen) \
         SELECT '{TENANT}', app, version, md5(app || version || image)::uuid, 'Shop' || image, 'arm64', false, \
             sum(reports), min(day), max(day) + 1 \
         FROM app_days CROSS JOIN (VALUES (''), ('Kit')) i (image) GROUP BY app, version, image"
    )
}

async fn bodies(database: &mut PgConnection) {
    let json = Report::standard().bytes();
    let body = unslide_proto::body::compress_report(&json);
    let newest = "INSERT INTO report_bodies (tenant, received_at, report_id, variant, revision, size, body, stored_at) \
         SELECT tenant, received_at, report_id, variant, revision, $2, $3, stored_at FROM ( \
             (SELECT * FROM reports WHERE tenant = $1 ORDER BY received_at DESC, report_id DESC LIMIT $4) \
             UNION \
             SELECT newest.* FROM (SELECT DISTINCT ON (app) id FROM groups WHERE tenant = $1 \
                                   ORDER BY app, last_seen DESC, id DESC) g \
             CROSS JOIN LATERAL (SELECT * FROM reports WHERE tenant = $1 AND group_id = g.id \
                                 ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT 1) newest) r";
    let done = sqlx::query(newest).bind(TENANT).bind(json.len() as i64).bind(body).bind(BODIES as i64);
    done.execute(database).await.expect("bodies");
}
