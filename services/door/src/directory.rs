//! The directory of cells in memory. It stays as it is while the directory's database is away.

use crate::cells::CellEndpoint;
use crate::metrics::Metrics;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::{TenantId, format_causes};
use unslide_runtime::Shutdown;
use unslide_store::cells::{Cell, find_changed_tenants, list_cells};
use unslide_store::{Store, StoreError};

/// Between two reads of the directory: a tenant that moved is at its new cell so soon.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
/// How long one read may take.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);
/// Changes that are read with one statement.
const CHANGES_PAGE: u32 = 10_000;

/// Which cell has a tenant.
pub struct CellDirectory {
    store: Store,
    known: RwLock<KnownCells>,
    last_read: Mutex<LastRead>,
}

#[derive(Default)]
struct KnownCells {
    /// By name.
    cells: Arc<[Arc<CellEndpoint>]>,
    tenants: HashMap<TenantId, Arc<CellEndpoint>>,
    names: HashMap<TenantId, String>,
    version: i64,
}

struct LastRead {
    at: Instant,
    /// The reason why the directory cannot be read now.
    failure: Option<String>,
}

impl CellDirectory {
    /// Reads the directory.
    ///
    /// # Errors
    /// The database fails.
    pub async fn read(store: Store) -> Result<CellDirectory, StoreError> {
        let last_read = Mutex::new(LastRead { at: Instant::now(), failure: None });
        let directory = CellDirectory { store, known: RwLock::default(), last_read };
        directory.refresh().await?;
        Ok(directory)
    }

    /// Returns all cells by name.
    pub fn list_cells(&self) -> Arc<[Arc<CellEndpoint>]> {
        self.known.read().cells.clone()
    }

    /// Returns the cell of a tenant. None if the directory does not have the tenant.
    pub fn find_cell(&self, tenant: &TenantId) -> Option<Arc<CellEndpoint>> {
        self.known.read().tenants.get(tenant).cloned()
    }

    /// Returns the cell of a name.
    pub fn find_named(&self, name: &str) -> Option<Arc<CellEndpoint>> {
        self.known.read().cells.iter().find(|cell| *cell.name == *name).cloned()
    }

    /// Returns the reason why the directory cannot be read now, for its probe.
    pub fn last_outcome(&self) -> Result<(), String> {
        self.last_read.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Closes the connections to the database.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// Reads what has changed since the last time.
    ///
    /// # Errors
    /// The database fails.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let cells = list_cells(&self.store).await?;
        self.known.write().set_cells(&cells);
        loop {
            let version = self.known.read().version;
            let changed = find_changed_tenants(&self.store, version, CHANGES_PAGE).await?;
            let is_last = changed.len() < CHANGES_PAGE as usize;
            let mut known = self.known.write();
            for change in changed {
                known.version = known.version.max(change.version);
                known.set_tenant(change.tenant, change.cell);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Reads the directory again and again, until the shutdown begins.
    pub async fn keep_reading(self: Arc<Self>, metrics: Metrics, shutdown: Shutdown) {
        let age = metrics.directory_age.with_label_values::<&str>(&[]);
        loop {
            tokio::select! {
                () = tokio::time::sleep(REFRESH_INTERVAL) => {}
                () = shutdown.wait_until_begun() => return,
            }
            let read = tokio::time::timeout(REFRESH_TIMEOUT, self.refresh()).await;
            let failure = match read {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format_causes(&error)),
                Err(_) => Some("it does not answer".to_owned()),
            };
            age.set(self.record_outcome(failure).as_secs_f64());
        }
    }

    /// Records the outcome of a read, and returns the time since the last one that succeeded.
    fn record_outcome(&self, failure: Option<String>) -> Duration {
        let mut last = self.last_read.lock();
        match (&last.failure, &failure) {
            (None, Some(reason)) => {
                tracing::warn!(error = reason, "the directory of cells cannot be read: known tenants go on");
            }
            (Some(_), None) => tracing::info!("the directory of cells can be read again"),
            _ => {}
        }
        if failure.is_none() {
            last.at = Instant::now();
        }
        last.failure = failure;
        last.at.elapsed()
    }
}

impl KnownCells {
    fn set_cells(&mut self, cells: &[Cell]) {
        let is_same = cells.len() == self.cells.len()
            && self.cells.iter().zip(cells).all(|(own, cell)| own.is_at(cell));
        if is_same {
            return;
        }
        let known = self.cells.clone();
        let find = |cell: &Cell| {
            let own = known.iter().find(|own| own.is_at(cell)).cloned();
            let found = own.or_else(|| CellEndpoint::from_cell(cell).map(Arc::new));
            if found.is_none() {
                tracing::error!(
                    cell = cell.name,
                    url = cell.url,
                    "the URL of a cell needs a host, and no path"
                );
            }
            found
        };
        self.cells = cells.iter().filter_map(find).collect();
        for (tenant, name) in &self.names {
            match self.cells.iter().find(|cell| *cell.name == **name) {
                Some(cell) => self.tenants.insert(tenant.clone(), cell.clone()),
                None => self.tenants.remove(tenant),
            };
        }
    }

    fn set_tenant(&mut self, tenant: TenantId, name: String) {
        match self.cells.iter().find(|cell| *cell.name == *name) {
            Some(cell) => self.tenants.insert(tenant.clone(), cell.clone()),
            None => self.tenants.remove(&tenant),
        };
        self.names.insert(tenant, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, url: &str) -> Cell {
        let (topic_prefix, region) = (String::new(), String::new());
        Cell { name: name.to_owned(), url: url.to_owned(), topic_prefix, region }
    }

    #[test]
    fn a_cell_that_gets_another_address_keeps_its_tenants() {
        let (mut known, acme) = (KnownCells::default(), TenantId::new("acme").unwrap());
        known.set_cells(&[cell("eu", "http://a"), cell("us", "http://b")]);
        known.set_tenant(acme.clone(), "us".to_owned());
        known.cells[0].set_answering(true);
        assert_eq!(*known.tenants[&acme].name, *"us");
        known.set_cells(&[cell("eu", "http://a"), cell("us", "http://c")]);
        assert!(known.tenants[&acme].is_at(&cell("us", "http://c")));
        assert!(known.cells[0].is_answering(), "the other one is as it was");
        known.set_tenant(acme.clone(), "eu".to_owned());
        assert_eq!(*known.tenants[&acme].name, *"eu");
        // A cell that cannot be reached by its address has no tenants until it can.
        known.set_cells(&[cell("eu", "no url"), cell("us", "http://c")]);
        assert!(!known.tenants.contains_key(&acme));
        known.set_cells(&[cell("eu", "http://d"), cell("us", "http://c")]);
        assert!(known.tenants[&acme].is_at(&cell("eu", "http://d")));
    }
}
