//! Names of new tenants, which are claimed in the directory if there are several cells.

use crate::problem::{Kind, Problem};
use std::sync::Arc;
use tokio::sync::OnceCell;
use unslide_model::{Clock, TenantId};
use unslide_store::cells::{self, CellSettings};
use unslide_store::{Settings, Store};

/// The directory of cells, to which the api connects when the first tenant is created: the cell serves while it is away.
pub struct TenantClaims {
    cell: Option<String>,
    settings: Settings,
    clock: Arc<dyn Clock>,
    directory: OnceCell<Store>,
}

impl TenantClaims {
    /// Names the cell of this api, and its directory. `postgres` says which logins the operator allows.
    #[must_use]
    pub fn new(cells: &CellSettings, postgres: &Settings, clock: Arc<dyn Clock>) -> TenantClaims {
        TenantClaims {
            cell: cells.is_on().then(|| cells.name.clone()),
            settings: cells.directory_settings(postgres),
            clock,
            directory: OnceCell::new(),
        }
    }

    /// Closes the connections to the directory.
    pub async fn close(&self) {
        if let Some(directory) = self.directory.get() {
            directory.close().await;
        }
    }

    /// Claims the name of a new tenant for this cell. Does nothing if there is one cell.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if another cell has it, or the directory fails.
    pub async fn claim_name(&self, tenant: &TenantId) -> Result<(), Problem> {
        let Some(cell) = &self.cell else { return Ok(()) };
        let connect = || Store::connect(&self.settings, self.clock.clone());
        let directory = self.directory.get_or_try_init(connect).await?;
        let owner = cells::claim_tenant(directory, tenant, cell).await?;
        if owner == *cell {
            return Ok(());
        }
        Err(Problem::new(Kind::Conflict, format!("the slug {tenant} is taken, in the cell {owner}")))
    }
}
