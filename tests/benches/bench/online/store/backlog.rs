//! A backlog of one tenant's reports: symbolicated by one worker, and then stored by one indexer, each alone on the machine.

use super::cost::{Cost, Meter};
use crate::online::flow::UNLIMITED;
use futures::{StreamExt, stream};
use sqlx::{Connection, PgConnection};
use std::time::{Duration, Instant};
use unslide_tests::installation::{Installation, Place, TENANT};

const WORKER: &str = "symbolizer";
/// The name of the process that stores.
pub const INDEXER: &str = "indexer";
/// What the worker has committed.
const RECORDS: &str = "unslide_symbolizer_records_total{lane=\"live\"";
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const BACKLOG_TIMEOUT: Duration = Duration::from_secs(7_200);
/// Clock ticks of `/proc` in a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// Symbolicated reports that wait in a topic.
pub struct Backlog {
    pub installation: Installation,
    /// Their number.
    pub reports: f64,
    /// Bytes of the first one, as it was sent.
    pub bytes: usize,
    /// Reports a second.
    pub symbolicated: f64,
}

/// How the indexer stored a backlog.
pub struct Stored {
    /// Reports a second.
    pub rate: f64,
    /// Cores that the indexer and PostgreSQL used.
    pub cores: [f64; 2],
    pub cost: Cost,
}

impl Backlog {
    /// Sends reports to an installation of their own, and symbolicates them.
    pub async fn symbolicate(
        place: &Place,
        dsym: &[u8],
        reports: u32,
        report: impl Fn(u32) -> Vec<u8>,
    ) -> Backlog {
        let folder = tempfile::tempdir().expect("a folder");
        let mut installation = Installation::prepare_on(place, folder, &[]).await;
        for service in ["builder", "api"] {
            installation.start_service(service, service, &[]);
        }
        installation.wait_ready("api").await;
        installation.make_tenant(TENANT);
        let upload = installation.client().upload_symbols(dsym.to_vec()).await;
        assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
        let topic = installation.topic_name("crash.reports");
        // Other runs have stored other reports: the numbers of this one begin where none has.
        let first = fresh_number();
        let bytes = report(first).len();
        let sends = stream::iter(0..reports).map(|number| {
            let (installation, topic, report) = (&installation, &topic, report(first.wrapping_add(number)));
            async move {
                installation.topics.produce_record(topic, None, &[("tenant", TENANT)], &report).await;
            }
        });
        sends.buffer_unordered(500).for_each(async |()| {}).await;

        installation.start_service(WORKER, "symbolizer", &[UNLIMITED]);
        installation.wait_ready(WORKER).await;
        let (mut begun, mut committed) = (None, 0.0);
        while committed < f64::from(reports) {
            committed = installation.fetch_metric(WORKER, RECORDS).await.unwrap_or(0.0);
            if begun.is_none() && committed > 0.0 {
                begun = Some((Instant::now(), committed));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let symbolicated = rate(begun, f64::from(reports));
        for process in [WORKER, "api", "builder"] {
            let process = installation.take_process(process);
            tokio::task::block_in_place(|| process.terminate());
        }
        Backlog { installation, reports: f64::from(reports), bytes, symbolicated }
    }

    /// Stores the backlog in a database that has its tenant.
    pub async fn store(&mut self, url: &str) -> Stored {
        let meter = Meter::begin(url).await;
        let mut database = PgConnection::connect(url).await.expect("PostgreSQL");
        let postmaster = find_postmaster(&mut database).await;
        drop(database);
        let installation = &mut self.installation;
        start_indexer(installation, url, &[]).await;
        let cpu = |installation: &mut Installation| {
            [installation.find_process(INDEXER).cpu_time().as_secs_f64(), cpu_of_tree(postmaster)]
        };
        let first = wait_stored(installation, 1.0).await;
        let (begun, used) = (Instant::now(), cpu(installation));
        wait_stored(installation, self.reports).await;
        let seconds = begun.elapsed().as_secs_f64().max(0.001);
        let now = cpu(installation);
        let indexer = installation.take_process(INDEXER);
        tokio::task::block_in_place(|| indexer.terminate());
        Stored {
            rate: (self.reports - first) / seconds,
            cores: [0, 1].map(|n| (now[n] - used[n]) / seconds),
            cost: meter.end().await,
        }
    }
}

/// Starts an indexer that stores in this database.
pub async fn start_indexer(installation: &mut Installation, url: &str, settings: &[(&str, &str)]) {
    let settings = [&[("UNSLIDE_POSTGRES__URL", url)], settings].concat();
    installation.start_service(INDEXER, "indexer", &settings);
    installation.wait_ready(INDEXER).await;
}

/// Waits until the indexer has stored this many new reports. Returns their number.
pub async fn wait_stored(installation: &mut Installation, reports: f64) -> f64 {
    let begun = Instant::now();
    loop {
        let metrics = installation.fetch_metrics(INDEXER).await;
        let new = metrics.lines().filter(|line| {
            line.starts_with("unslide_indexer_records_total{") && line.contains("outcome=\"new\"")
        });
        let stored: f64 = new.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum();
        if stored >= reports {
            return stored;
        }
        assert!(begun.elapsed() < BACKLOG_TIMEOUT, "{stored} of {reports} reports are stored");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns a number for the first report of a run.
fn fresh_number() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    u32::try_from(now.as_millis() % u128::from(u32::MAX)).unwrap_or_default().wrapping_mul(65_537)
}

/// Returns how many came a second after the first look that saw some.
fn rate(begun: Option<(Instant, f64)>, all: f64) -> f64 {
    begun.map_or(0.0, |(at, first)| (all - first) / at.elapsed().as_secs_f64().max(0.001))
}

/// The process that all processes of PostgreSQL are children of.
async fn find_postmaster(database: &mut PgConnection) -> u32 {
    let question = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::bigint";
    let id: i64 = sqlx::query_scalar(question).fetch_one(database).await.expect("the server's superuser");
    u32::try_from(id).expect("a process")
}

/// Returns the CPU seconds of a process and its children, those that have ended among them.
fn cpu_of_tree(id: u32) -> f64 {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let children = children.split_ascii_whitespace().filter_map(|child| child.parse().ok());
    std::iter::once(id).chain(children).map(cpu_of_process).sum()
}

fn cpu_of_process(id: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The second field is the command's name in parentheses; 14 to 17 are times of the process and of its ended children.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields.split(' ').skip(11).take(4).map(|field| field.parse::<f64>().unwrap_or(0.0));
    ticks.sum::<f64>() / TICKS_PER_SECOND
}
