//! Several cells behind one door: each an installation of its own, and a directory that is none of theirs.

use crate::client::Client;
use crate::installation::Installation;
use sqlx::{Connection, PgConnection};
use unslide_embedded::free_port;
use unslide_model::{Clock as _, SystemClock};
use unslide_store::cells::{Cell, set_cell};

/// The services of each cell.
pub const CELL_SERVICES: [&str; 4] = ["builder", "api", "indexer", "symbolizer"];
/// The process that is the door.
const DOOR_PROCESS: &str = "door";
/// The networks that the door comes from.
const DOOR_NETWORK: &str = r#"["127.0.0.0/8"]"#;

/// Cells and their door, which all run.
pub struct Cells {
    /// The door's address.
    pub url: String,
    /// The cells, by name.
    pub cells: Vec<Installation>,
    /// The directory's database. The door is its only process.
    pub directory: Installation,
}

/// Returns the name of a cell by its place in the list.
#[must_use]
pub fn cell_name(place: usize) -> String {
    format!("cell-{place}")
}

impl Cells {
    /// Starts as many cells, each with a process of every service, and the door.
    ///
    /// # Panics
    /// If a step fails or a process does not become ready.
    pub async fn start(count: usize, settings: &[(&str, &str)]) -> Cells {
        let mut cells = Vec::new();
        for _ in 0..count {
            cells.push(Installation::prepare_with(settings).await);
        }
        Cells::start_prepared(cells).await
    }

    /// As [`Cells::start`], with installations that have no process yet.
    ///
    /// # Panics
    /// As [`Cells::start`].
    pub async fn start_prepared(mut cells: Vec<Installation>) -> Cells {
        let mut directory = Installation::prepare().await;
        let directory_url = directory.database_url();
        let mut owner = PgConnection::connect(&directory_url).await.expect("PostgreSQL");
        for (place, installation) in cells.iter_mut().enumerate() {
            let cell = Cell {
                name: cell_name(place),
                url: installation.url.clone(),
                topic_prefix: installation.topic_name(""),
                region: format!("region-{place}"),
            };
            set_cell(&mut owner, &cell, SystemClock.now()).await.expect("a cell");
            installation.add_settings(&[
                ("UNSLIDE_CELLS__NAME", &cell.name),
                ("UNSLIDE_CELLS__DIRECTORY", &directory_url),
                ("UNSLIDE_API__TRUSTED_PROXIES", DOOR_NETWORK),
            ]);
            for service in CELL_SERVICES {
                installation.start_service(service, service, &[]);
            }
        }
        owner.close().await.expect("closed");
        let address = format!("127.0.0.1:{}", free_port().expect("a port"));
        let settings = [
            ("UNSLIDE_DOOR__LISTEN", address.as_str()),
            // No balancer has to notice.
            ("UNSLIDE_DOOR__STOP_DELAY", "0s"),
            ("UNSLIDE_CELLS__DIRECTORY", &directory_url),
        ];
        directory.start_service(DOOR_PROCESS, DOOR_PROCESS, &settings);
        for installation in &mut cells {
            for service in CELL_SERVICES {
                installation.wait_ready(service).await;
            }
        }
        directory.wait_ready(DOOR_PROCESS).await;
        Cells { url: format!("http://{address}"), cells, directory }
    }

    /// A client of the public API, through the door.
    #[must_use]
    pub fn client(&self, key: &str) -> Client {
        Client::new(&self.url, key)
    }

    /// Ends every process as an operator would, and deletes the databases and the topics.
    ///
    /// # Panics
    /// If a process does not end in time or not with success.
    pub async fn stop(self) {
        self.directory.stop().await;
        for installation in self.cells {
            installation.stop().await;
        }
    }
}
