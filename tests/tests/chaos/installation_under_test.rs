//! The installation under test with its own servers, each behind a proxy.

use crate::alerts::Receivers;
use crate::history::HistoryUnderTest;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex as Plain;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use unslide_embedded::{Options, Servers, free_port};
use unslide_tests::binary::{self, Process};
use unslide_tests::clock::Ahead;
use unslide_tests::dice::Dice;
use unslide_tests::installation::{Installation, Place};
use unslide_tests::proxy::Proxy;

/// Room for symcaches of one worker, on a disk of its own where that can be mounted.
pub const DISK: usize = 2 << 20;
/// More than the longest retry tier, less than object storage forgives.
const TIERS: Duration = Duration::from_secs(620);
/// How long a worker may take to end after it is asked to.
pub const DRAIN: Duration = Duration::from_secs(45);
/// The largest record that is taken; the load has larger ones.
pub const LARGEST: usize = 512 << 10;

/// Everything that runs.
pub struct World {
    pub installation: Mutex<Installation>,
    pub servers: Servers,
    /// The process of the S3 endpoint; none while it is away.
    pub objects: Plain<Option<Process>>,
    pub kafka_proxy: Proxy,
    pub postgres_proxy: Proxy,
    pub objects_proxy: Proxy,
    /// The ClickHouse for old rows, if the run has one.
    pub history: Option<HistoryUnderTest>,
    /// Where alerts go.
    pub receivers: Receivers,
    /// Where Kafka's data, the database and the objects are.
    pub folder: std::path::PathBuf,
    /// True where workers have a disk of their own, which can be filled.
    pub disks: bool,
    /// The partitions that its topics of reports were given last.
    pub partitions: AtomicUsize,
    begin: Instant,
    /// The processes of the service that are to run now.
    wanted: Plain<BTreeSet<String>>,
    /// The ids of the symbolizers' processes, for a fault that cannot wait for the installation.
    symbolizers: Plain<BTreeMap<String, u32>>,
    /// The clock of symbolizers that start from now on.
    clock: Plain<Option<Ahead>>,
}

impl World {
    /// Starts the servers and an installation, of which no service runs yet.
    pub async fn start(folder: &Path, dice: &mut Dice, has_history: bool) -> World {
        let receivers = Receivers::start(dice).await;
        let (kafka_proxy, objects_proxy) = (Proxy::start().await, Proxy::start().await);
        let data = folder.join("servers");
        let options = Options {
            data,
            kafka_listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().expect("a port")))),
            kafka_advertised: Some(kafka_proxy.address()),
            // A killed database is to keep what it has confirmed.
            fast: false,
            ..Options::default()
        };
        let servers = Servers::start(&options, &|_| {}).expect("the servers start");
        kafka_proxy.forward_to(servers.kafka_listen());
        let (postgres_proxy, postgres) = Proxy::for_url(servers.postgres_url()).await;
        let (objects, at, object_keys) = start_objects(folder).await;
        objects_proxy.forward_to(at);
        let place = Place {
            kafka: kafka_proxy.address().to_string(),
            postgres,
            objects: format!("http://{}", objects_proxy.address()),
            object_keys,
            kafka_admin: None,
        };
        let installed =
            tempfile::Builder::new().prefix("installation-").tempdir_in(folder).expect("a folder");
        let largest = format!("{LARGEST}B");
        let of_alerts = receivers.settings();
        let mut settings = vec![
            ("UNSLIDE_KAFKA__MAX_RECORD_SIZE", largest.as_str()),
            ("UNSLIDE_KAFKA__PARTITIONS__OVERFLOW", "4"),
            ("UNSLIDE_KAFKA__PARTITIONS__INTERNAL", "2"),
            // The tenants send as much as this machine bears; what would wait is not looked at here.
            ("UNSLIDE_TENANTS__UNITS_PER_SECOND", "0"),
            ("UNSLIDE_LOG__FILTER", "info"),
        ];
        settings.extend(of_alerts.iter().map(|(name, value)| (*name, value.as_str())));
        let mut installation = Installation::prepare_on(&place, installed, &settings).await;
        // The outer folder goes with it, or stays where there is something to look at.
        installation.keep_folder();
        let history = if has_history { Some(HistoryUnderTest::start(folder).await) } else { None };
        World {
            history,
            installation: Mutex::new(installation),
            servers,
            objects: Plain::new(Some(objects)),
            kafka_proxy,
            postgres_proxy,
            objects_proxy,
            receivers,
            folder: folder.to_path_buf(),
            disks: binary::can_mount(),
            partitions: AtomicUsize::new(4),
            begin: Instant::now(),
            wanted: Plain::default(),
            symbolizers: Plain::default(),
            clock: Plain::default(),
        }
    }

    /// Shows a line of the timeline.
    pub fn note(&self, what: &str) {
        println!("{:>7.1} s  {what}", self.begin.elapsed().as_secs_f64());
    }

    /// Starts a process of the service by its name, such as `indexer-1`.
    pub async fn start_process(&self, name: &str) {
        let service = name.split('-').next().unwrap_or(name);
        let cache = format!("{}B", DISK * 3 / 4);
        let clock = self.clock.lock().expect("not poisoned").as_ref().map(Ahead::environment_variables);
        let history = self.history.as_ref().filter(|_| service != "symbolizer");
        let history = history.map(HistoryUnderTest::settings).unwrap_or_default();
        let mut settings: Vec<(&str, &str)> = match service {
            "symbolizer" => vec![
                ("UNSLIDE_SYMBOLIZER__CACHE_SIZE", &cache),
                // Time enough to be killed while it waits for symbols.
                ("UNSLIDE_SYMBOLIZER__FETCH_WAIT", "5s"),
            ],
            "indexer" => vec![
                // So that bodies move while everything else goes on.
                ("UNSLIDE_INDEXER__SEGMENT_AFTER", "3s"),
            ],
            _ => vec![],
        };
        settings.extend(history.iter().map(|(name, value)| (*name, value.as_str())));
        if service == "symbolizer" {
            settings.extend(clock.iter().flatten().map(|(name, value)| (*name, value.as_str())));
        }
        let mut installation = self.installation.lock().await;
        if service == "symbolizer" && self.disks {
            installation.start_service_on_disk(name, service, &settings, DISK as u64);
        } else {
            installation.start_service(name, service, &settings);
        }
        if service == "symbolizer" {
            let id = installation.find_process(name).id();
            self.symbolizers.lock().expect("not poisoned").insert(name.to_owned(), id);
        }
        self.wanted.lock().expect("not poisoned").insert(name.to_owned());
    }

    /// The symbolizer with this address at its end of a TCP connection: its name and its process.
    pub fn symbolizer_at(&self, address: SocketAddr) -> Option<(String, u32)> {
        let all = self.symbolizers.lock().expect("not poisoned").clone();
        all.into_iter().find(|(_, id)| binary::connects_from(*id, address))
    }

    /// Starts the symbolizers anew, with clocks by which every retry tier is over.
    pub async fn pass_tiers(&self, symbolizers: &[String]) {
        *self.clock.lock().expect("not poisoned") = Some(Ahead::build_library(&self.folder, TIERS));
        for name in symbolizers {
            let process = self.take_process(name).await;
            let ended = tokio::task::block_in_place(|| process.end_within(DRAIN));
            if !ended.is_some_and(|status| status.success()) {
                self.note(&format!("{name} was asked to end and ended with {ended:?}"));
            }
            self.start_process(name).await;
        }
    }

    /// Takes a process out, so that nobody starts it again.
    pub async fn take_process(&self, name: &str) -> Process {
        let mut installation = self.installation.lock().await;
        self.wanted.lock().expect("not poisoned").remove(name);
        installation.take_process(name)
    }

    /// Starts processes again that ended by themselves, as an orchestrator does. Never returns.
    pub async fn supervise(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let wanted = self.wanted.lock().expect("not poisoned").clone();
            for name in wanted {
                let mut installation = self.installation.lock().await;
                // It may have been taken out since.
                if !self.wanted.lock().expect("not poisoned").contains(&name) {
                    continue;
                }
                let Some(status) = installation.find_process(&name).exit_status() else { continue };
                drop(installation);
                self.note(&format!("{name} has ended by itself ({status}) and is started again"));
                self.start_process(&name).await;
            }
        }
    }

    /// Starts the S3 endpoint again on its data.
    pub async fn start_objects(&self) {
        let (process, at, _) = start_objects(&self.folder).await;
        *self.objects.lock().expect("not poisoned") = Some(process);
        self.objects_proxy.forward_to(at);
    }
}

/// The S3 endpoint is a process of this very program, so that it can be stopped and killed.
async fn start_objects(folder: &Path) -> (Process, SocketAddr, (String, String)) {
    let facts = folder.join("objects-facts");
    let _ = std::fs::remove_file(&facts);
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    command.arg(std::env::current_exe().expect("a program knows its own file"));
    command.arg(crate::objects::COMMAND).arg(folder);
    let process = Process::start("objects", command, &folder.join("objects.log"));
    for _ in 0..600 {
        if let Ok(text) = std::fs::read_to_string(&facts) {
            let mut words = text.split_whitespace().map(str::to_owned);
            let mut next = || words.next().expect("three words");
            let at = next().trim_start_matches("http://").parse().expect("an address");
            return (process, at, (next(), next()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the S3 endpoint does not start: {}", folder.join("objects.log").display());
}
