//! How many reports of a backlog are symbolicated and stored a second, into an empty database and into one with many reports, and
//! what storing costs PostgreSQL.

mod backlog;
mod batch;
mod cost;
mod fill;
mod reports;

use crate::input::Input;
use crate::online::database::run;
use backlog::{Backlog, Stored};
use cost::{print_sizes, read_sizes};
use fill::{DAYS, Filled, Site, folder_bytes};
use sqlx::{Connection, PgConnection};
use unslide_tests::app::App;
use unslide_tests::installation::Installation;

/// The reports that are stored before a whole run measures; `UNSLIDE_BENCH_STORED` names another number.
const STORED: u64 = 5_000_000;
const MILLION: f64 = 1e6;
const GIGABYTE: f64 = 1e9;

/// Prints rates and costs of small and of large reports, in an empty and in a filled database.
pub async fn print(input: &Input, full: bool) {
    let app = App::from_fixture("app");
    let asked = std::env::var("UNSLIDE_BENCH_STORED").ok().and_then(|text| text.parse().ok());
    let (stored, small, large) = if full { (asked.unwrap_or(STORED), 20_000, 4_000) } else { (600, 60, 12) };
    println!(
        "\nA backlog of one tenant's reports: symbolicated by one worker, and then stored by one indexer, each alone"
    );
    let site = Site::start(stored);
    let filled = Filled::prepare(&site, &app, stored).await;
    println!("  the database with {} reports of {DAYS} days", filled.reports);
    let row_bytes = print_sizes(&read_sizes(&filled.url).await, filled.reports as f64);
    let build = |number| reports::build(&app, number, small / 3);
    let mut backlog = Backlog::symbolicate(&site.place, &app.dsym, small, build).await;
    let log = measure_log(&site, &backlog.installation);
    let wal_bytes = compare("small", &mut backlog, &filled).await;
    backlog.installation.stop().await;
    let mut backlog =
        Backlog::symbolicate(&site.place, &input.dsym, large, |number| input.report(number)).await;
    compare("large", &mut backlog, &filled).await;
    backlog.installation.stop().await;
    if full {
        let mut backlog = Backlog::symbolicate(&site.place, &app.dsym, small, build).await;
        let compressed = store_compressed(&mut backlog, &filled).await;
        backlog.installation.stop().await;
        let [rows, wal, compressed, objects] =
            [row_bytes, wal_bytes, compressed, filled.object_bytes].map(|bytes| bytes * MILLION / GIGABYTE);
        println!(
            "  a million small reports: PostgreSQL {rows:.2} GB of rows and indexes, {wal:.1} GB of WAL, with wal_compression \
             {compressed:.1} GB; object storage {objects:.2} GB"
        );
    }
    if let Some(log) = log {
        let [input, output] = log.map(|bytes| bytes / f64::from(small) * MILLION / GIGABYTE);
        println!("    one replica of Kafka: {input:.2} GB as they came, {output:.2} GB symbolicated");
    }
    filled.end(&site).await;
    let [one, many] = [1, 500].map(batch::count_statements);
    println!("  statements of a batch of one report: {one}, of 500: {many}");
}

/// Stores a backlog in the empty database of its installation, and in the filled one. Returns the bytes of WAL of a report in
/// the filled one.
async fn compare(name: &str, backlog: &mut Backlog, filled: &Filled) -> f64 {
    let url = backlog.installation.database_url();
    let empty = backlog.store(&url).await;
    print_stored(&format!("{name} ({} bytes), into an empty database", backlog.bytes), backlog, &empty);
    print_unattributed(&url).await;
    let full = backlog.store(&filled.url).await;
    print_stored(&format!("{name}, into one with {} reports", filled.reports), backlog, &full);
    println!(
        "    filled against empty: {:.2} times the rate, {:.2} times the WAL, {:.1} more images a report",
        full.rate / empty.rate.max(1.0),
        full.cost.wal_bytes / empty.cost.wal_bytes.max(1.0),
        (full.cost.page_images - empty.cost.page_images) / backlog.reports
    );
    full.cost.wal_bytes / backlog.reports
}

fn print_stored(name: &str, backlog: &Backlog, stored: &Stored) {
    println!(
        "  {name}: {:.0} symbolicated/s, {:.0} stored/s, {:.2} of that; while storing the indexer used {:.0} % of a core and \
         PostgreSQL {:.0} %",
        backlog.symbolicated,
        stored.rate,
        stored.rate / backlog.symbolicated.max(1.0),
        stored.cores[0] * 100.0,
        stored.cores[1] * 100.0
    );
    stored.cost.print(backlog.reports);
}

/// Prints the share of the CPU time of all services that no tenant caused, from their start on.
async fn print_unattributed(url: &str) {
    let mut database = PgConnection::connect(url).await.expect("PostgreSQL");
    let share = "SELECT 100 * shared / greatest(shared + caused, 1) FROM
        (SELECT coalesce(sum(cpu_micros), 0)::float8 AS shared FROM shared_resource_uses) s,
        (SELECT coalesce(sum(cpu_micros), 0)::float8 AS caused FROM resource_uses) u";
    let share: f64 = sqlx::query_scalar(share).fetch_one(&mut database).await.expect("an answer");
    println!("    no tenant caused {share:.0} % of the CPU time of the services");
}

/// Stores a backlog in the filled database while full-page images are compressed. Returns the bytes of WAL of a report.
async fn store_compressed(backlog: &mut Backlog, filled: &Filled) -> f64 {
    let mut admin = PgConnection::connect(&filled.url).await.expect("PostgreSQL");
    run(&mut admin, &format!("ALTER DATABASE {} SET wal_compression = 'pglz'", filled.name)).await;
    let stored = backlog.store(&filled.url).await;
    run(&mut admin, &format!("ALTER DATABASE {} RESET wal_compression", filled.name)).await;
    print_stored("small, with wal_compression = pglz", backlog, &stored);
    stored.cost.wal_bytes / backlog.reports
}

/// Bytes of the topics of reports and of symbolicated reports, from the files of a broker of our own.
fn measure_log(site: &Site, installation: &Installation) -> Option<[f64; 2]> {
    let logs = site.folder.as_ref()?.join("kafka/logs");
    Some(["crash.reports", "crash.symbolicated"].map(|topic| {
        let name = format!("{}-", installation.topic_name(topic));
        let partitions = std::fs::read_dir(&logs).into_iter().flatten().flatten();
        let own = partitions.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name));
        own.map(|entry| folder_bytes(&entry.path(), ".log")).sum()
    }))
}
