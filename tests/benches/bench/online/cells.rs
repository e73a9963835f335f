//! Two cells against one: stored reports a second of the same load, and what a tenant's requests take while PostgreSQL of the other
//! cell is killed. Nothing is lost or doubled.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{Connection, PgConnection};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use unslide_embedded::{Options, S3Endpoint, Server, Servers};
use unslide_testkit::servers;
use unslide_tests::app::App;
use unslide_tests::cells::Cells;
use unslide_tests::client::Client;
use unslide_tests::installation::{BUCKET, Installation, Place};

/// Input partitions of a test's installation.
const PARTITIONS: u32 = 4;
/// The tenants of the load, whatever the number of cells.
const CELL_TENANTS: [&str; 2] = ["north", "south"];
/// Settings without a rate for tenants: the cells are measured.
const UNLIMITED: [(&str, &str); 1] = [("UNSLIDE_TENANTS__UNITS_PER_SECOND", "0")];
/// How often each tenant sends a request while PostgreSQL of a cell is away.
const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
/// The numbers of reports that warm the workers up.
const WARM_UP_FROM: u32 = 900_000;
const STORED_POLL_INTERVAL: Duration = Duration::from_millis(50);
const STORED_TIMEOUT: Duration = Duration::from_secs(600);

/// Prints the ratios. Without `full` the numbers are small and mean nothing.
pub async fn print(full: bool) {
    let (reports, rounds) = if full { (8_000, 3) } else { (40, 1) };
    let app = App::from_fixture("app");
    // In turns, so that neither has the warmer machine; the best of each counts.
    let (mut one, mut two) = (0.0_f64, 0.0_f64);
    for _ in 0..rounds {
        one = one.max(measure_storing(&app, 1, reports).await);
        two = two.max(measure_storing(&app, 2, reports).await);
    }
    println!(
        "\nTwo tenants with {reports} reports together, in one cell and in two, everything on this machine"
    );
    println!("  one cell {one:.0} stored reports/s, two cells {two:.0}: {:.2}x", two / one);
    println!("  every report is stored once, and `unslide audit` of each cell is clean");
    measure_outage(&app, Duration::from_secs(if full { 30 } else { 2 })).await;
}

/// Sends the reports of both tenants to the topics of their cells. Returns how many are stored a second.
async fn measure_storing(app: &App, count: usize, reports: u32) -> f64 {
    let mut cells = Cells::start(count, &UNLIMITED).await;
    let mut places = Vec::new();
    for (number, tenant) in CELL_TENANTS.into_iter().enumerate() {
        let cell = &mut cells.cells[number % count];
        cell.make_tenant(tenant);
        let upload = cell.client().upload_symbols(app.dsym.clone()).await;
        assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
        places.push((number % count, tenant));
    }
    let warm = reports / 10;
    send_reports(&cells, &places, app, WARM_UP_FROM..WARM_UP_FROM + warm).await;
    wait_stored(&cells, u64::from(warm)).await;
    let begin = Instant::now();
    send_reports(&cells, &places, app, 0..reports).await;
    wait_stored(&cells, u64::from(warm + reports)).await;
    let seconds = begin.elapsed().as_secs_f64();
    for cell in &cells.cells {
        cell.command_succeeds(&["audit"]);
    }
    assert_eq!(count_stored(&cells).await, u64::from(warm + reports), "none is doubled");
    cells.stop().await;
    f64::from(reports) / seconds
}

/// Writes reports to the topics of their tenants' cells, in turns.
async fn send_reports(cells: &Cells, places: &[(usize, &str)], app: &App, numbers: std::ops::Range<u32>) {
    let sends = numbers.map(|number| async move {
        let (place, tenant) = places[number as usize % places.len()];
        let cell = &cells.cells[place];
        let partition = i32::try_from(number / 2 % PARTITIONS).expect("small");
        let (topic, report) = (cell.topic_name("crash.reports"), app.build_report(number).bytes());
        cell.topics.produce_record(&topic, Some(partition), &[("tenant", tenant)], &report).await;
    });
    futures::future::join_all(sends).await;
}

async fn count_stored(cells: &Cells) -> u64 {
    let mut stored = 0;
    for cell in &cells.cells {
        let mut connection = PgConnection::connect(&cell.database_url()).await.expect("PostgreSQL");
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM reports")
            .fetch_one(&mut connection)
            .await
            .expect("a number");
        connection.close().await.expect("closed");
        stored += u64::try_from(rows).expect("a count");
    }
    stored
}

async fn wait_stored(cells: &Cells, count: u64) {
    let begin = Instant::now();
    while count_stored(cells).await < count {
        assert!(begin.elapsed() < STORED_TIMEOUT, "{count} reports are not stored");
        tokio::time::sleep(STORED_POLL_INTERVAL).await;
    }
}

/// A cell with a PostgreSQL that can be killed.
struct Mortal {
    servers: Servers,
    // They end with it.
    _s3: S3Endpoint,
    _folder: TempDir,
}

impl Mortal {
    async fn start() -> (Mortal, Installation) {
        let folder = TempDir::new().expect("a folder");
        let options = Options { data: folder.path().join("servers"), fast: true, ..Options::default() };
        let servers =
            tokio::task::block_in_place(|| Servers::start(&options, &|_| ())).expect("servers of its own");
        let s3 = S3Endpoint::start(&folder.path().join("objects"), BUCKET).expect("an S3 endpoint");
        let place = Place {
            kafka: servers::kafka(),
            postgres: servers.postgres_url().to_owned(),
            objects: s3.url(),
            object_keys: (s3.access_key.clone(), s3.secret_key.clone()),
            kafka_admin: None,
        };
        let own = TempDir::new().expect("a folder");
        let installation = Installation::prepare_on(&place, own, &UNLIMITED).await;
        (Mortal { servers, _s3: s3, _folder: folder }, installation)
    }

    fn kill_database(&self) {
        let [_, database] = self.servers.process_ids();
        kill(Pid::from_raw(database), Signal::SIGKILL).expect("it runs");
    }

    fn start_database(&self) {
        let started = tokio::task::block_in_place(|| self.servers.restart(Server::Postgres, true));
        started.expect("PostgreSQL starts again");
    }
}

/// Outcomes of the requests of one tenant.
#[derive(Default)]
struct Sent {
    /// The numbers of the reports that were accepted.
    accepted: Vec<u32>,
    /// Requests without an answer, or with one that is no success.
    refused: u32,
    times: Vec<Duration>,
}

impl Sent {
    fn percentile(&self, share: f64) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        times.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }
}

/// Measures requests of a tenant while PostgreSQL of both cells runs, and while that of the other cell is killed.
async fn measure_outage(app: &App, lasts: Duration) {
    let (mortal, other) = Mortal::start().await;
    let mut cells = Cells::start_prepared(vec![Installation::prepare_with(&UNLIMITED).await, other]).await;
    let mut keys = Vec::new();
    for (cell, tenant) in cells.cells.iter_mut().zip(CELL_TENANTS) {
        keys.push(cell.make_tenant(tenant));
    }
    let clients = [0, 1].map(|place: usize| Client::new(&cells.url, &keys[place]));
    for client in &clients {
        client.wait_for("/v1/reports", STORED_TIMEOUT, |status, _| status == 200).await;
    }
    let warm = send_requests(&clients, app, WARM_UP_FROM, Duration::from_secs(2)).await;
    let before = send_requests(&clients, app, 0, lasts).await;
    mortal.kill_database();
    let during = send_requests(&clients, app, 200_000, lasts).await;
    mortal.start_database();
    let most = [&before[0], &during[0]].map(|sent| sent.percentile(0.99));
    println!(
        "\nA list and a report of a tenant each {REQUEST_INTERVAL:?} through the door, beside as many of the other cell's"
    );
    for (what, sent) in [("PostgreSQL of the other cell runs", &before), ("it is killed", &during)] {
        println!(
            "  {what:<34} p50 {:.1?}, p99 {:.1?}; refused {} of the tenant, {} of the other cell's",
            sent[0].percentile(0.5),
            sent[0].percentile(0.99),
            sent[0].refused,
            sent[1].refused
        );
    }
    println!(
        "  p99 while it is killed against before: {:.2}x",
        most[1].as_secs_f64() / most[0].as_secs_f64()
    );
    assert_eq!((before[0].refused, during[0].refused), (0, 0), "requests of the tenant fail");
    for (place, client) in clients.iter().enumerate() {
        for number in [&warm, &before, &during].into_iter().flat_map(|sent| &sent[place].accepted) {
            let path = format!("/v1/reports/00000000-0000-4000-8000-0000{number:08x}");
            client.wait_for(&path, STORED_TIMEOUT, |status, _| status == 200).await;
        }
    }
    for cell in &cells.cells {
        cell.command_succeeds(&["audit"]);
    }
    println!("  every accepted report is stored, and `unslide audit` of each cell is clean");
    cells.stop().await;
}

/// Sends requests of both tenants for a time. Their reports have numbers from the first on.
async fn send_requests(clients: &[Client; 2], app: &App, first: u32, lasts: Duration) -> [Sent; 2] {
    let over = AtomicBool::new(false);
    let end = async {
        tokio::time::sleep(lasts).await;
        over.store(true, Ordering::Relaxed);
    };
    let [north, south] = clients;
    let (one, other, ()) = tokio::join!(
        send_tenant_requests(north, app, first, &over),
        send_tenant_requests(south, app, first + 100_000, &over),
        end
    );
    [one, other]
}

async fn send_tenant_requests(client: &Client, app: &App, first: u32, over: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    for number in first.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let next = tokio::time::Instant::now() + REQUEST_INTERVAL;
        for body in [None, Some(app.build_report(number).bytes())] {
            let is_report = body.is_some();
            let begin = Instant::now();
            let answer = client.try_request("/v1/reports", body).await;
            sent.times.push(begin.elapsed());
            match answer {
                Some((200 | 202, _)) if is_report => sent.accepted.push(number),
                Some((200, _)) => {}
                _ => sent.refused += 1,
            }
        }
        tokio::time::sleep_until(next).await;
    }
    sent
}
