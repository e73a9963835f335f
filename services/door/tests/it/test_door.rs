//! A running door and the directory of cells that it reads.

use reqwest::{Method, RequestBuilder};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use unslide_door::{Config, Settings};
use unslide_harness::TestServers;
use unslide_model::{Clock, FixedClock, SystemClock, TenantId};
use unslide_runtime::{CpuPool, Host, Shutdown};
use unslide_store::cells::{Cell, CellSettings, set_cell, set_tenant_cell};
use unslide_world::{Answer, tenant_id, wait_until};

/// The door with its directory.
pub struct TestDoor {
    /// The address of the door.
    pub url: String,
    pub host: Host,
    /// The database of the directory.
    pub directory: TestServers,
    client: reqwest::Client,
    running: JoinHandle<Result<(), unslide_door::Error>>,
}

/// Makes a directory in which these cells have these tenants.
pub async fn make_directory(cells: &[(&str, &str)], tenants: &[(&str, &str)]) -> TestServers {
    let directory = TestServers::start("directory", |_| {}).await;
    for (name, url) in cells {
        add_cell(&directory, name, url).await;
    }
    for (tenant, cell) in tenants {
        place_tenant(&directory, &tenant_id(tenant), cell).await;
    }
    directory
}

/// Adds a cell to a directory, or changes its address.
pub async fn add_cell(directory: &TestServers, name: &str, url: &str) {
    let cell = Cell {
        name: name.to_owned(),
        url: url.to_owned(),
        topic_prefix: format!("{name}."),
        region: String::new(),
    };
    set_cell(&mut directory.connect().await, &cell, SystemClock.now()).await.unwrap();
}

/// Says that a tenant is in a cell.
pub async fn place_tenant(directory: &TestServers, tenant: &TenantId, cell: &str) {
    set_tenant_cell(&mut directory.connect().await, tenant, cell, SystemClock.now()).await.unwrap();
}

impl TestDoor {
    /// Starts a door that trusts no proxy.
    pub async fn start(directory: TestServers) -> TestDoor {
        TestDoor::start_behind(directory, &[]).await
    }

    /// Starts a door behind proxies of these networks.
    pub async fn start_behind(directory: TestServers, proxies: &[&str]) -> TestDoor {
        let config = Config {
            door: Settings {
                listen: ([127, 0, 0, 1], 0).into(),
                stop_delay_seconds: 0,
                trusted_proxies: proxies.iter().map(|network| (*network).to_owned()).collect(),
            },
            cells: CellSettings {
                name: "eu".to_owned(),
                directory: directory.postgres.url.clone(),
                ..CellSettings::default()
            },
            postgres: unslide_store::Settings { any_login: true, ..unslide_store::Settings::default() },
        };
        assert_eq!(config.validate(), []);
        let listener: TcpListener = unslide_door::bind_listener(&config).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // Rates fill up by this clock, which stands still.
        let clock = Arc::new(FixedClock::at_micros(1_795_161_600_000_000));
        let host =
            Host::new(clock, Shutdown::new(Duration::from_secs(10)), CpuPool::new(1).unwrap()).unwrap();
        let running = tokio::spawn(unslide_door::run_on(listener, config, host.clone()));
        // Another client of this process may have chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        let client = client.timeout(Duration::from_secs(60)).build().unwrap();
        let door = TestDoor { url, host, directory, client, running };
        assert!(wait_until(async || door.is_serving().await).await, "the door does not start");
        door
    }

    /// True once the door has read the directory.
    pub async fn is_serving(&self) -> bool {
        let health = self.host.health.check_readiness().await;
        health.probes.get("serving").is_some_and(|probe| probe.ok)
    }

    /// A request, to be completed and given to [`TestDoor::send`].
    pub fn request(&self, method: Method, path: &str, key: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        if key.is_empty() { request } else { request.bearer_auth(key) }
    }

    /// Sends a request.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        assert!(!headers.contains_key("unslide-tenant") && !headers.contains_key("unslide-ask"));
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    /// Sends a GET.
    pub async fn get(&self, path: &str, key: &str) -> Answer {
        self.send(self.request(Method::GET, path, key)).await
    }

    /// The status of a GET.
    pub async fn status(&self, path: &str, key: &str) -> u16 {
        self.get(path, key).await.status.as_u16()
    }

    /// The value of a metric; 0 if it was never counted.
    pub fn read_metric(&self, line: &str) -> f64 {
        let page = self.host.process_metrics().render_page().unwrap();
        let found = page.lines().find_map(|found| found.strip_prefix(line));
        found.map_or(0.0, |value| value.trim().parse().unwrap())
    }

    /// Returns once the door knows that a cell answers, or does not.
    pub async fn wait_for_cell(&self, name: &str, is_up: bool) {
        let line = format!("unslide_door_cell_up{{cell=\"{name}\"}}");
        let is_reached = wait_until(async || (self.read_metric(&line) > 0.0) == is_up).await;
        assert!(is_reached, "{name} is up: {}", !is_up);
    }

    /// Stops the door, which must drain, and removes the directory.
    pub async fn stop(self) {
        self.host.shutdown.begin();
        tokio::time::timeout(Duration::from_secs(60), self.running).await.unwrap().unwrap().unwrap();
        self.directory.stop(false).await;
    }
}
