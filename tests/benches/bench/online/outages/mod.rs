//! What clients behind a load balancer see of outages and restarts: failed requests by what they need, and the slowest
//! answer.

mod balancer;

use crate::input::Input;
use balancer::Balancer;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::Mutex;
use unslide_embedded::{S3Endpoint, free_port};
use unslide_testkit::servers;
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::{BUCKET, Installation, Place, TENANT};
use unslide_tests::proxy::{Proxy, Weather};

/// The time between two requests of one kind.
const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
const APIS: [&str; 2] = ["api-1", "api-2"];

/// Requests by what they need.
const REQUESTS: [(&str, Need); 4] = [
    ("symbolicate, warm", Need::Nothing),
    ("list of apps", Need::Postgres),
    ("report", Need::Kafka),
    ("dSYM", Need::Objects),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Postgres,
    Kafka,
    Objects,
}

/// What the requests of one kind came to.
#[derive(Clone, Copy, Default)]
struct Tally {
    sent: u32,
    failed: u32,
    slowest: Duration,
}

struct World {
    installation: Mutex<Installation>,
    client: Client,
    objects: Proxy,
    postgres: Proxy,
    ports: [u16; 2],
    /// The URL of the database through its proxy.
    database: String,
    report: Vec<u8>,
    dsym: Vec<u8>,
    // The endpoint and the balancer end with it.
    _s3: S3Endpoint,
    _balancer: Balancer,
}

/// Prints a table for each outage. Without `full` it does nothing: an outage takes its time.
pub async fn print(input: &Input, full: bool) {
    if !full {
        return;
    }
    let Some(world) = World::start(input).await else {
        println!("\nhaproxy is not installed (Debian: haproxy): outages behind a balancer are not measured");
        return;
    };
    println!(
        "\nTwo APIs behind haproxy, a request of each kind each {REQUEST_INTERVAL:?}: failed of sent, slowest answer"
    );
    world.measure("nothing happens", async |_| pause(10).await).await;
    world.measure("rolling restart of both APIs", async |world| world.restart().await).await;
    for (name, weather) in [
        ("object storage refuses connections, 20 s", Weather::Refused),
        ("object storage answers errors, 20 s", Weather::Errors),
        ("object storage is slow, 20 s", Weather::Slow(Duration::from_secs(5))),
    ] {
        world.measure(name, async |world| world.trouble(&world.objects, weather, 20).await).await;
    }
    world
        .measure("PostgreSQL refuses connections, 20 s", async |world| {
            world.trouble(&world.postgres, Weather::Refused, 20).await;
        })
        .await;
    world.installation.into_inner().stop().await;
}

async fn pause(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

impl World {
    async fn start(input: &Input) -> Option<World> {
        let folder = TempDir::new().expect("a folder");
        let s3 = S3Endpoint::start(&folder.path().join("objects"), BUCKET).expect("an S3 endpoint");
        let (objects, objects_url) = Proxy::for_url(&s3.url()).await;
        let (postgres, postgres_url) = Proxy::for_url(&servers::postgres()).await;
        let place = Place {
            kafka: servers::kafka(),
            postgres: servers::postgres(),
            objects: objects_url,
            object_keys: (s3.access_key.clone(), s3.secret_key.clone()),
            kafka_admin: None,
        };
        let ports = [free_port().expect("a port"), free_port().expect("a port")];
        let balancer = Balancer::start(folder.path(), ports)?;
        let mut installation = Installation::prepare_on(&place, folder, &[]).await;
        let database = installation.database_url();
        let name = database.rsplit_once('/').expect("a name").1;
        let url = format!("{}/{name}", postgres_url.rsplit_once('/').expect("a URL").0);
        for service in ["builder", "indexer", "symbolizer"] {
            installation.start_service(service, service, &[]);
        }
        for (api, port) in APIS.into_iter().zip(ports) {
            start_api(&mut installation, api, port, &url);
        }
        installation.make_tenant(TENANT);
        let client = Client::new(&balancer.url, &installation.key);
        for name in ["builder", "indexer", "symbolizer"].into_iter().chain(APIS) {
            installation.wait_ready(name).await;
        }
        client.upload(input.dsym.clone()).await;
        Some(World {
            installation: Mutex::new(installation),
            client,
            objects,
            postgres,
            ports,
            database: url,
            report: input.report(0),
            dsym: App::fixture("app").dsym,
            _s3: s3,
            _balancer: balancer,
        })
    }

    /// Sends requests of each kind while something happens, and for five seconds after it. Prints what came of them.
    async fn measure(&self, name: &str, happening: impl AsyncFn(&World)) {
        let over = AtomicBool::new(false);
        let kinds = REQUESTS.iter().map(|(name, need)| async { (*name, self.requests(*need, &over).await) });
        let happened = async {
            happening(self).await;
            pause(5).await;
            over.store(true, Ordering::Relaxed);
        };
        let (tallies, ()) = tokio::join!(futures::future::join_all(kinds), happened);
        println!("  {name}");
        for (name, tally) in tallies.into_iter().collect::<BTreeMap<&str, Tally>>() {
            println!(
                "    {name:<18} {:>4} of {:>4} failed, slowest {:.1} s",
                tally.failed,
                tally.sent,
                tally.slowest.as_secs_f64()
            );
        }
    }

    async fn requests(&self, need: Need, over: &AtomicBool) -> Tally {
        let mut tally = Tally::default();
        while !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let answer = match need {
                Need::Nothing => self.client.attempt("/v1/symbolicate", Some(self.report.clone())).await,
                Need::Postgres => self.client.attempt("/v1/apps", None).await,
                Need::Kafka => self.client.attempt("/v1/reports", Some(self.report.clone())).await,
                Need::Objects => self.client.attempt("/v1/symbols", Some(self.dsym.clone())).await,
            };
            tally.sent += 1;
            tally.failed += u32::from(!answer.is_some_and(|(status, _)| (200..300).contains(&status)));
            tally.slowest = tally.slowest.max(began.elapsed());
            tokio::time::sleep(REQUEST_INTERVAL).await;
        }
        tally
    }

    /// Makes a server's network bad for some seconds.
    async fn trouble(&self, server: &Proxy, weather: Weather, seconds: u64) {
        server.set(weather);
        pause(seconds).await;
        server.set(Weather::Fair);
    }

    /// Restarts both APIs, the second one once the first one is ready again.
    async fn restart(&self) {
        for (api, port) in APIS.into_iter().zip(self.ports) {
            let mut installation = self.installation.lock().await;
            let process = installation.take(api);
            // The requests go on meanwhile.
            let ended = tokio::task::spawn_blocking(|| process.terminate()).await.expect("ended");
            assert!(ended.success(), "{api} ended with {ended}");
            start_api(&mut installation, api, port, &self.database);
            installation.wait_ready(api).await;
            drop(installation);
            pause(2).await;
        }
    }
}

/// Starts an API as an operator does it: with its default pause between SIGTERM and the end.
fn start_api(installation: &mut Installation, name: &str, port: u16, database: &str) {
    let listen = format!("127.0.0.1:{port}");
    let settings = [
        ("UNSLIDE_API__LISTEN", listen.as_str()),
        ("UNSLIDE_API__STOP_DELAY", "5s"),
        ("UNSLIDE_POSTGRES__URL", database),
    ];
    installation.start_service(name, "api", &settings);
}
