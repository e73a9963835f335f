//! What clients behind a load balancer see of outages and restarts (failed requests by what they need, and the slowest
//! answer), and which of the shipped alerts fire. Before that, what the loss of two brokers of three does to reports.

mod balancer;
mod brokers;
mod prometheus;

use crate::input::Input;
use balancer::Balancer;
use prometheus::{Prometheus, SPEED};
use sqlx::{Connection, Executor, PgConnection};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::Mutex;
use unslide_embedded::{Options, S3Endpoint, Servers, free_port};
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::{BUCKET, Installation, Place, TENANT};
use unslide_tests::proxy::{Proxy, Weather};

/// The time between two requests of one kind.
const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
/// The time that an outage lasts.
const OUTAGE: Duration = Duration::from_secs(45);
/// The longest time for alerts of an outage to end before the next one begins.
const CALM: Duration = Duration::from_secs(120);
const APIS: [&str; 2] = ["api-1", "api-2"];
const WORKERS: [&str; 3] = ["builder", "indexer", "symbolizer"];

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

#[derive(Clone, Copy)]
enum Server {
    Kafka,
    Objects,
    Postgres,
}

/// What happens while requests are sent.
#[derive(Clone, Copy)]
enum Event {
    Nothing,
    /// Both APIs restart, one after the other.
    Restart,
    /// The network between all processes and a server changes.
    Network(Server, Weather),
    /// PostgreSQL answers and takes no writes, as one does whose disk is full.
    NoWrites,
    /// No process of a service is there.
    Without(&'static str),
}

/// The events, and the alerts of which one at least has to fire for each.
const EVENTS: [(&str, Event, &[&str]); 14] = [
    ("nothing happens", Event::Nothing, &[]),
    ("rolling restart of both APIs", Event::Restart, &[]),
    (
        "object storage refuses connections",
        Event::Network(Server::Objects, Weather::Refused),
        &["UnslideDependencyAway"],
    ),
    (
        "object storage answers errors",
        Event::Network(Server::Objects, Weather::Errors),
        &["UnslideDependencyAway"],
    ),
    (
        "object storage takes requests and says nothing",
        Event::Network(Server::Objects, Weather::Silent),
        &["UnslideDependencyAway"],
    ),
    (
        "object storage throttles (503 SlowDown)",
        Event::Network(Server::Objects, Weather::Throttled),
        &["UnslideDependencyAway"],
    ),
    (
        "object storage denies access",
        Event::Network(Server::Objects, Weather::Denied),
        &["UnslideObjectsRefused"],
    ),
    (
        "object storage is slow, 5 s for each piece of an answer",
        Event::Network(Server::Objects, Weather::Slow(Duration::from_secs(5))),
        &["UnslideDependencyAway"],
    ),
    (
        "PostgreSQL refuses connections",
        Event::Network(Server::Postgres, Weather::Refused),
        &["UnslideDependencyAway"],
    ),
    ("PostgreSQL takes no writes", Event::NoWrites, &["UnslideDependencyAway"]),
    (
        "Kafka refuses connections",
        Event::Network(Server::Kafka, Weather::Refused),
        &["UnslideDependencyAway"],
    ),
    ("no symbolizer runs", Event::Without("symbolizer"), &["UnslideServiceMissing"]),
    ("no indexer runs", Event::Without("indexer"), &["UnslideServiceMissing"]),
    ("no builder runs", Event::Without("builder"), &["UnslideServiceMissing"]),
];

impl Event {
    /// Returns true if requests with this need may fail during the event.
    fn may_fail(self, need: Need) -> bool {
        match self {
            Event::Nothing | Event::Restart | Event::Without(_) => false,
            Event::Network(Server::Kafka, _) => need == Need::Kafka,
            Event::Network(Server::Objects, _) => need == Need::Objects,
            // An upload is noted in PostgreSQL.
            Event::Network(Server::Postgres, _) => matches!(need, Need::Postgres | Need::Objects),
            Event::NoWrites => need == Need::Objects,
        }
    }
}

/// The longest time for the answer of a request, also of one that fails.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);

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
    prometheus: Prometheus,
    kafka: Proxy,
    objects: Proxy,
    postgres: Proxy,
    ports: [u16; 2],
    report: Vec<u8>,
    dsym: Vec<u8>,
    // All of these end with it.
    servers: Servers,
    _s3: S3Endpoint,
    _balancer: Balancer,
    _data: TempDir,
}

/// Prints a table for each event. Without `full` it does nothing: an outage takes its time.
///
/// # Panics
/// If an outage fires none of its alerts, a request fails that needs nothing of what is away, or one is answered late.
pub async fn print(input: &Input, full: bool) {
    if !full {
        return;
    }
    brokers::print(input).await;
    let Some(world) = World::start(input).await else {
        println!(
            "\nhaproxy or prometheus is not installed (Debian: haproxy, prometheus): outages are not measured"
        );
        return;
    };
    println!(
        "\nTwo APIs behind haproxy, a request of each kind each {REQUEST_INTERVAL:?}, an outage of {OUTAGE:?}: failed of \
         sent, slowest answer; and the alerts that fire, with all durations of their rules divided by {SPEED}"
    );
    // Until Prometheus has read every process.
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.calm().await;
    let mut unheard = Vec::new();
    for (name, event, alerts) in EVENTS {
        let (fired, failed) = world.measure(name, event).await;
        unheard.extend(failed);
        if !alerts.is_empty() && !alerts.iter().any(|alert| fired.contains(*alert)) {
            unheard.push(format!("{name}: none of {alerts:?} fired"));
        }
        world.calm().await;
    }
    world.installation.into_inner().stop().await;
    assert!(unheard.is_empty(), "{}", unheard.join("\n"));
}

impl World {
    async fn start(input: &Input) -> Option<World> {
        if ["haproxy", "prometheus"].iter().any(|name| Command::new(name).arg("--version").output().is_err())
        {
            return None;
        }
        let data = TempDir::new().expect("a folder");
        let prometheus = Prometheus::start(data.path());
        let ports = [free_port().expect("a port"), free_port().expect("a port")];
        let balancer = Balancer::start(data.path(), ports);
        let kafka = Proxy::start().await;
        let servers = start_servers(&data, &kafka);
        kafka.forward_to(servers.kafka_listen());
        let s3 = S3Endpoint::start(&data.path().join("objects"), BUCKET).expect("an S3 endpoint");
        let (objects, objects_url) = Proxy::for_url(&s3.url()).await;
        let (postgres, postgres_url) = Proxy::for_url(servers.postgres_url()).await;
        let place = Place {
            kafka: kafka.address().to_string(),
            postgres: postgres_url,
            objects: objects_url,
            object_keys: (s3.access_key.clone(), s3.secret_key.clone()),
            kafka_admin: None,
        };
        let folder = TempDir::new().expect("a folder");
        let mut installation = Installation::prepare_on(&place, folder, &[]).await;
        for service in WORKERS {
            installation.start_service(service, service, &[]);
        }
        for (api, port) in APIS.into_iter().zip(ports) {
            start_api(&mut installation, api, port);
        }
        installation.make_tenant(TENANT);
        let client = Client::new(&balancer.url, &installation.key);
        for name in WORKERS.into_iter().chain(APIS) {
            installation.wait_ready(name).await;
        }
        client.upload_symbols(input.dsym.clone()).await;
        let world = World {
            installation: Mutex::new(installation),
            client,
            prometheus,
            kafka,
            objects,
            postgres,
            ports,
            report: input.report(0),
            dsym: App::from_fixture("app").dsym,
            servers,
            _s3: s3,
            _balancer: balancer,
            _data: data,
        };
        world.watch(None).await;
        Some(world)
    }

    /// Lets Prometheus read every process, but one that is not there.
    async fn watch(&self, without: Option<&str>) {
        let mut installation = self.installation.lock().await;
        let names = WORKERS.into_iter().chain(APIS).filter(|name| Some(*name) != without);
        self.prometheus.set_targets(&names.map(|name| installation.admin_address(name)).collect::<Vec<_>>());
    }

    /// Sends requests of each kind while something happens, and for five seconds after it. Prints what came of them and
    /// returns the alerts that fired, and what must not have happened.
    async fn measure(&self, name: &str, event: Event) -> (BTreeSet<String>, Vec<String>) {
        let over = AtomicBool::new(false);
        let kinds = REQUESTS.iter().map(|(name, need)| async { (*name, self.requests(*need, &over).await) });
        let happened = async {
            self.happen(event).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            over.store(true, Ordering::Relaxed);
        };
        let (tallies, (), fired) =
            tokio::join!(futures::future::join_all(kinds), happened, self.alerts(&over));
        let mut failed = Vec::new();
        for ((kind, need), (_, tally)) in REQUESTS.into_iter().zip(&tallies) {
            if tally.failed > 0 && !event.may_fail(need) {
                failed.push(format!("{name}: {} requests failed ({kind})", tally.failed));
            }
            if tally.slowest > LONGEST_ANSWER {
                failed.push(format!("{name}: an answer took {:?} ({kind})", tally.slowest));
            }
        }
        println!("  {name}");
        for (name, tally) in tallies.into_iter().collect::<BTreeMap<&str, Tally>>() {
            println!(
                "    {name:<18} {:>4} of {:>4} failed, slowest {:.1} s",
                tally.failed,
                tally.sent,
                tally.slowest.as_secs_f64()
            );
        }
        let names: Vec<&str> = fired.iter().map(String::as_str).collect();
        println!("    alerts: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") });
        (fired, failed)
    }

    async fn requests(&self, need: Need, over: &AtomicBool) -> Tally {
        let mut tally = Tally::default();
        while !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let answer = match need {
                Need::Nothing => self.client.try_request("/v1/symbolicate", Some(self.report.clone())).await,
                Need::Postgres => self.client.try_request("/v1/apps", None).await,
                Need::Kafka => self.client.try_request("/v1/reports", Some(self.report.clone())).await,
                Need::Objects => self.client.try_request("/v1/symbols", Some(self.dsym.clone())).await,
            };
            tally.sent += 1;
            tally.failed += u32::from(!answer.is_some_and(|(status, _)| (200..300).contains(&status)));
            tally.slowest = tally.slowest.max(began.elapsed());
            tokio::time::sleep(REQUEST_INTERVAL).await;
        }
        tally
    }

    /// Returns the alerts that begin to fire before it is over.
    async fn alerts(&self, over: &AtomicBool) -> BTreeSet<String> {
        let (before, mut fired) = (self.prometheus.firing().await, BTreeSet::new());
        while !over.load(Ordering::Relaxed) {
            fired.extend(self.prometheus.firing().await);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        fired.difference(&before).cloned().collect()
    }

    /// Waits until none of the alerts that are waited for fires, or long enough.
    async fn calm(&self) {
        let (began, wanted) = (Instant::now(), EVENTS.map(|(_, _, alerts)| alerts).concat());
        while began.elapsed() < CALM
            && self.prometheus.firing().await.iter().any(|alert| wanted.contains(&alert.as_str()))
        {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn happen(&self, event: Event) {
        match event {
            Event::Nothing => tokio::time::sleep(Duration::from_secs(10)).await,
            Event::Restart => self.restart().await,
            Event::Network(server, weather) => {
                let server = match server {
                    Server::Kafka => &self.kafka,
                    Server::Objects => &self.objects,
                    Server::Postgres => &self.postgres,
                };
                server.set_weather(weather);
                tokio::time::sleep(OUTAGE).await;
                server.set_weather(Weather::Fair);
            }
            Event::NoWrites => {
                self.set_read_only("on").await;
                tokio::time::sleep(OUTAGE).await;
                self.set_read_only("off").await;
            }
            Event::Without(service) => {
                let process = self.installation.lock().await.take_process(service);
                self.watch(Some(service)).await;
                let ended = tokio::task::spawn_blocking(|| process.terminate()).await.expect("ended");
                assert!(ended.success(), "{service} ended with {ended}");
                tokio::time::sleep(OUTAGE).await;
                let mut installation = self.installation.lock().await;
                installation.start_service(service, service, &[]);
                installation.wait_ready(service).await;
                drop(installation);
                self.watch(None).await;
            }
        }
    }

    async fn set_read_only(&self, value: &str) {
        let mut admin = PgConnection::connect(self.servers.postgres_url()).await.expect("PostgreSQL");
        let set = format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
        admin.execute("SET default_transaction_read_only = off").await.expect("set");
        admin.execute(sqlx::AssertSqlSafe(set)).await.expect("set");
        admin.execute("SELECT pg_reload_conf()").await.expect("reloaded");
    }

    /// Restarts both APIs, the second one once the first one is ready again.
    async fn restart(&self) {
        for (api, port) in APIS.into_iter().zip(self.ports) {
            let mut installation = self.installation.lock().await;
            let process = installation.take_process(api);
            // The requests go on meanwhile.
            let ended = tokio::task::spawn_blocking(|| process.terminate()).await.expect("ended");
            assert!(ended.success(), "{api} ended with {ended}");
            start_api(&mut installation, api, port);
            installation.wait_ready(api).await;
            drop(installation);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }
}

/// Starts Kafka, which clients reach through a proxy, and PostgreSQL.
fn start_servers(data: &TempDir, kafka: &Proxy) -> Servers {
    let options = Options {
        data: data.path().join("servers"),
        kafka_listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().expect("a port")))),
        kafka_advertised: Some(kafka.address()),
        fast: true,
        ..Options::default()
    };
    Servers::start(&options, &|_| {}).expect("the servers start")
}

/// Starts an API as an operator does it: with its default pause between SIGTERM and the end.
fn start_api(installation: &mut Installation, name: &str, port: u16) {
    let listen = format!("127.0.0.1:{port}");
    let settings = [
        ("UNSLIDE_API__LISTEN", listen.as_str()),
        ("UNSLIDE_API__STOP_DELAY", "5s"),
        // As long as a failover takes, and longer than an outage here.
        ("UNSLIDE_API__KEY_OUTAGE", "5m"),
    ];
    installation.start_service(name, "api", &settings);
}
