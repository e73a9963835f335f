//! `unslide dev --cells 2`: several installations on one set of embedded servers, and a door in front of them.
//!
//! Each cell has a database, a topic prefix, a bucket, a tenant and services of its own. The directory is the first cell's database.

use super::place::DevPlace;
use super::running::{LONGEST_START, Running, wait_started};
use super::state::{self, Credentials};
use super::{Embedded, Installation, Start, operator};
use crate::product::Product;
use serde::Serialize;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;
use unslide_cli::{BoxError, reachable_address};
use unslide_model::{Secret, TenantId};
use unslide_runtime::{Host, admin, supervise_services};
use unslide_store::cells::{self, Cell, CellSettings};
use unslide_store::{Store, outbox};

/// The most cells: each has services and database connections of its own.
pub const MAX_CELLS: i64 = 4;
/// Last letters of the names and the prefixes of cells.
const CELL_LETTERS: [char; 4] = ['a', 'b', 'c', 'd'];
/// The networks from which the door comes to the cells.
const DOOR_NETWORK: &str = "127.0.0.0/8";
/// How many services each cell has.
const CELL_SERVICES: usize = 4;

/// The addresses of the door, of the servers and of each cell.
#[derive(Clone, Debug, Serialize)]
pub struct CellsInstallation {
    /// The address of the door.
    pub api_url: String,
    /// The door's health and metrics.
    pub admin_url: String,
    pub kafka_bootstrap: String,
    pub cells: Vec<CellInstallation>,
}

/// The addresses of a cell. Its `api_url` is that of its own api, to which the door passes requests on.
#[derive(Clone, Debug, Serialize)]
pub struct CellInstallation {
    pub name: String,
    pub topic_prefix: String,
    #[serde(flatten)]
    pub installation: Installation,
}

impl CellsInstallation {
    /// Returns all addresses and keys for people, ready to be copied.
    pub(super) fn page(&self, took: Duration, data: &Path) -> String {
        let url = &self.api_url;
        let mut page = format!(
            "\
Unslide is ready with {} cell(s) ({:.1} s). State is kept in {}; Ctrl-C stops everything.

  console          {url}/console   (sign in with the key of a tenant)
  door             {url}   (docs: {url}/docs)
  door's health    {}/readyz  {}/metrics
  Kafka            {}
",
            self.cells.len(),
            took.as_secs_f64(),
            data.display(),
            self.admin_url,
            self.admin_url,
            self.kafka_bootstrap,
        );
        for CellInstallation { name, topic_prefix, installation } in &self.cells {
            // Writing to a string cannot fail.
            let _ = write!(
                page,
                "
  {name}           tenant {}, api {}, metrics {}/metrics
                   topics {topic_prefix}…, bucket {}
                   {}
",
                installation.tenant,
                installation.api_url,
                installation.admin_url,
                installation.s3_bucket,
                installation.export_through(url),
            );
        }
        page + "\nThe line of a cell has commands reach its tenant through the door, and the cell as its operator."
    }
}

/// Returns the folders of all cells that a data folder may have.
pub fn list_folders(data: &Path) -> impl Iterator<Item = PathBuf> {
    CELL_LETTERS.into_iter().map(|letter| cell_folder(data, letter))
}

fn cell_folder(data: &Path, letter: char) -> PathBuf {
    data.join("cells").join(name_cell(letter))
}

fn name_cell(letter: char) -> String {
    format!("cell-{letter}")
}

/// Returns the URL of another database on the same server.
fn database_url(url: &str, name: &str) -> String {
    let server = url.rsplit_once('/').map_or(url, |(server, _)| server);
    format!("{server}/{name}")
}

fn name_database(letter: char) -> String {
    format!("cell_{letter}")
}

/// A cell before its services start.
struct Prepared<P> {
    name: String,
    place: DevPlace,
    product: P,
    host: Host,
    store: Store,
    credentials: Credentials,
    announced: Option<i64>,
    listener: TcpListener,
    settings: CellSettings,
}

/// Starts all cells and the door. `door` are the settings of the door.
///
/// # Errors
/// Returns an error if a server or service does not start. Nothing is left running.
pub async fn boot_cells<P: Product>(
    mut door: P,
    config: Option<&Path>,
    host: &Host,
    start: &Start,
    count: u8,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Running<CellsInstallation>, BoxError> {
    let letters = &CELL_LETTERS[..usize::from(count).clamp(1, CELL_LETTERS.len())];
    let embedded = Embedded::start(start, &name_bucket(letters[0]), progress).await?;
    let listener = state::listen(start.listen, &start.data).await?;
    let door_url = format!("http://{}", reachable_address(listener.local_addr()?));
    let mut prepared: Vec<Prepared<P>> = Vec::new();
    for letter in letters.iter().copied() {
        progress(&format!("preparing {}", name_cell(letter)));
        let product = P::load_settings(config)?;
        let cell = CellToPrepare { letter, letters, start, embedded: &embedded, door_url: &door_url };
        let directory = prepared.first().map(|cell| cell.store.clone());
        prepared.push(cell.prepare(product, host, directory).await?);
    }
    door.set_cells(prepared[0].settings.clone());

    progress("starting the services");
    let mut services = vec![door.prepare_door(host, listener)?];
    let (mut cells, mut stores, mut hosts) = (Vec::new(), Vec::new(), vec![host.clone()]);
    for cell in prepared {
        let Prepared { name, place, mut product, host, store, credentials, announced, listener, settings } =
            cell;
        let api_url = format!("http://{}", listener.local_addr()?);
        services.extend(product.prepare_services(&host, listener)?);
        let any = admin::Settings { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) };
        let admin = admin::start_server(&any, &host).await?;
        let config = operator::write(&place.folder, product.service_configs().api, admin, Some(&settings))?;
        stores.push((store, announced.map(|announcement| (place.tenant.clone(), announcement))));
        let installation = Installation {
            api_url,
            app_url: credentials.public_path.map(|path| format!("{door_url}{path}")),
            kafka_bootstrap: embedded.servers.kafka_bootstrap(),
            s3_endpoint: embedded.s3.url(),
            s3_bucket: place.bucket,
            s3_access_key: embedded.s3.access_key.clone(),
            s3_secret_key: embedded.s3.secret_key.clone(),
            tenant: credentials.tenant,
            api_key: credentials.api_key,
            admin_url: format!("http://{admin}"),
            config: config.display().to_string(),
        };
        cells.push(CellInstallation { name, topic_prefix: place.topic_prefix, installation });
        hosts.push(host);
    }
    let supervised = host.clone();
    let mut services = tokio::spawn(async move { supervise_services(services, &supervised.shutdown).await });
    let admin = admin::start_server(&admin::Settings { listen: start.admin_listen }, host).await?;
    let counts: Vec<(&Host, usize)> =
        hosts.iter().enumerate().map(|(at, host)| (host, if at == 0 { 1 } else { CELL_SERVICES })).collect();
    wait_started(&counts, &mut services).await?;
    for (store, announced) in stores {
        if let Some((tenant, announcement)) = announced {
            outbox::wait_sent(&store, &tenant, announcement, LONGEST_START).await?;
        }
        store.close().await;
    }
    let kafka_bootstrap = embedded.servers.kafka_bootstrap();
    let facts =
        CellsInstallation { api_url: door_url, admin_url: format!("http://{admin}"), kafka_bootstrap, cells };
    Ok(Running { facts, hosts, services, embedded })
}

fn name_bucket(letter: char) -> String {
    format!("unslide-{letter}")
}

/// A cell and what it has in common with the others.
struct CellToPrepare<'s> {
    letter: char,
    letters: &'s [char],
    start: &'s Start,
    embedded: &'s Embedded,
    door_url: &'s str,
}

impl CellToPrepare<'_> {
    /// Makes the cell's database, topics, bucket and tenant, and enters it in the directory. Without a directory the cell's own
    /// database is it.
    async fn prepare<P: Product>(
        &self,
        mut product: P,
        host: &Host,
        directory: Option<Store>,
    ) -> Result<Prepared<P>, BoxError> {
        let letter = self.letter;
        let (name, place) = (name_cell(letter), self.make_place().await?);
        let settings = self.build_settings()?;
        product.set_cells(settings.clone());
        let api = product.service_configs().api;
        api.api.trusted_proxies = vec![DOOR_NETWORK.to_owned()];
        if api.api.public_url.is_empty() {
            self.door_url.clone_into(&mut api.api.public_url);
        }
        let (store, new_topics) = place.migrate(&mut product, host, self.embedded).await?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = state::listen(Some(any), &place.folder).await?;
        let cell = Cell {
            name: name.clone(),
            url: format!("http://{}", listener.local_addr()?),
            topic_prefix: place.topic_prefix.clone(),
            region: String::new(),
        };
        let mut owner = PgConnection::connect(settings.directory.reveal()).await?;
        cells::set_cell(&mut owner, &cell, store.now()).await?;
        owner.close().await?;
        let directory = directory.unwrap_or_else(|| store.clone());
        let has_tenant = cells::claim_tenant(&directory, &place.tenant, &name).await?;
        let (credentials, announced) = if has_tenant == name {
            place.make_credentials(&product, &store, new_topics).await?
        } else {
            // It has moved, and its keys with it.
            let kept = Credentials::read(&place.folder);
            let lost = format!("the tenant {} is in {has_tenant}, and its key is lost", place.tenant);
            (kept.ok_or(lost)?, None)
        };
        let host = product.create_cell_host(host)?;
        Ok(Prepared { name, place, product, host, store, credentials, announced, listener, settings })
    }

    /// Makes the folders, the bucket and the empty database of the cell, if they are not there.
    async fn make_place(&self) -> Result<DevPlace, BoxError> {
        let (letter, data) = (self.letter, &self.start.data);
        let place = DevPlace {
            folder: cell_folder(data, letter),
            database_url: database_url(self.embedded.servers.postgres_url(), &name_database(letter)),
            bucket: name_bucket(letter),
            topic_prefix: format!("{letter}."),
            tenant: TenantId::new(&format!("{}-{letter}", self.start.tenant))?,
        };
        state::make(&place.folder)?;
        state::make_private(&data.join("s3").join(&place.bucket))?;
        let mut owner = PgConnection::connect(self.embedded.servers.postgres_url()).await?;
        let there: Option<i32> = sqlx::query_scalar("SELECT 1 FROM pg_database WHERE datname = $1")
            .bind(name_database(letter))
            .fetch_optional(&mut owner)
            .await?;
        if there.is_none() {
            owner.execute(AssertSqlSafe(format!("CREATE DATABASE {}", name_database(letter)))).await?;
        }
        owner.close().await?;
        Ok(place)
    }

    /// Returns the settings of the section `cells`, as the cell has them.
    fn build_settings(&self) -> Result<CellSettings, BoxError> {
        let mut files = BTreeMap::new();
        for letter in self.letters.iter().copied().filter(|letter| *letter != self.letter) {
            files.insert(name_cell(letter), operator::path_in(&cell_folder(&self.start.data, letter))?);
        }
        let url = database_url(self.embedded.servers.postgres_url(), &name_database(self.letters[0]));
        Ok(CellSettings { name: name_cell(self.letter), directory: Secret::new(url), files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_a_database_and_a_folder_of_its_own() {
        let url = "postgres://postgres:secret@127.0.0.1:5432/postgres";
        let names = CELL_LETTERS.map(|letter| database_url(url, &name_database(letter)));
        assert_eq!(names[0], "postgres://postgres:secret@127.0.0.1:5432/cell_a");
        let folders: std::collections::BTreeSet<PathBuf> = list_folders(Path::new("data")).collect();
        assert_eq!(folders.len(), CELL_LETTERS.len());
        assert!(folders.contains(Path::new("data/cells/cell-b")));
    }
}
