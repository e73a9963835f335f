//! What is known of the tenants: this process's copy of the compacted topic.

use parking_lot::RwLock;
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use unslide_model::{Clock, TenantId};
use unslide_proto::symbol::{TenantConfig, TenantState};
use unslide_stream::{Settings, StreamError, TailEvent, TailProgress, TailReader};

/// What becomes of a tenant's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They are processed.
    Active,
    /// They are not processed for now.
    Suspended,
    /// The tenant was deleted.
    Deleted,
    /// Nobody has told of this tenant.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    version: u64,
    standing: Standing,
}

type Rows = Arc<RwLock<HashMap<TenantId, Row>>>;

/// The tenants. Readers never wait for Kafka; the last known state is kept however old it is.
pub struct Tenants {
    rows: Rows,
    reader: TailReader,
}

impl Tenants {
    /// Begins to read. `deleted` is called once for each tenant that is deleted from now on.
    pub fn start(
        settings: &Settings,
        clock: Arc<dyn Clock>,
        deleted: impl Fn(&TenantId) + Send + 'static,
    ) -> Result<Tenants, StreamError> {
        let rows = Rows::default();
        let table = Arc::clone(&rows);
        let topic = settings.topics().tenant_config;
        let reader = TailReader::start(settings, &topic, clock, move |event| {
            // After a gap the rows come again; what is known stays known meanwhile.
            if let TailEvent::Record(record) = event
                && let Some(value) = record.value
            {
                match TenantConfig::decode(value) {
                    Ok(config) => apply(&table, &config, &deleted),
                    Err(e) => {
                        tracing::error!(record = ?record.at, "a tenant's configuration can't be read: {e}");
                    }
                }
            }
        })?;
        Ok(Tenants { rows, reader })
    }

    /// Waits until the table was read to its end.
    pub async fn caught_up(&self) -> Result<(), StreamError> {
        self.reader.caught_up().await
    }

    /// Reads on to what is the end now, so that a tenant that was told of before this call is known.
    pub async fn refresh(&self) -> Result<(), StreamError> {
        self.reader.refresh(Duration::from_secs(3)).await
    }

    /// Where a tenant stands.
    pub fn standing(&self, tenant: &TenantId) -> Standing {
        self.rows.read().get(tenant).map_or(Standing::Unknown, |row| row.standing)
    }

    /// How far the table was read, to be watched.
    pub fn progress(&self) -> watch::Receiver<TailProgress> {
        self.reader.progress()
    }
}

fn apply(rows: &Rows, config: &TenantConfig, deleted: &impl Fn(&TenantId)) {
    let tenant = match config.id() {
        Ok(tenant) => tenant,
        Err(e) => return tracing::error!("a tenant's configuration names no tenant: {e}"),
    };
    let standing = match config.state() {
        TenantState::Active => Standing::Active,
        TenantState::Suspended => Standing::Suspended,
        TenantState::Deleted => Standing::Deleted,
        // A state of a later version of this service: the tenant exists, so it is not unknown.
        TenantState::Unspecified => Standing::Active,
    };
    let mut rows = rows.write();
    let known = rows.get(&tenant).copied();
    // One relay sends rows in order; after a fail-over an older one may come late.
    if known.is_some_and(|row| row.version > config.version) {
        return;
    }
    rows.insert(tenant.clone(), Row { version: config.version, standing });
    drop(rows);
    if standing == Standing::Deleted && known.is_none_or(|row| row.standing != Standing::Deleted) {
        deleted(&tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_version_is_ignored_and_a_deletion_is_told_once() {
        let rows = Rows::default();
        let told = parking_lot::Mutex::new(0);
        let tenant = TenantId::new("acme").unwrap();
        let send = |version, state: TenantState| {
            let config = TenantConfig {
                tenant: "acme".into(),
                version,
                state: state as i32,
                ..TenantConfig::default()
            };
            apply(&rows, &config, &|_| *told.lock() += 1);
            rows.read().get(&tenant).map(|row| row.standing)
        };
        assert_eq!(send(2, TenantState::Active), Some(Standing::Active));
        assert_eq!(send(1, TenantState::Suspended), Some(Standing::Active));
        assert_eq!(send(3, TenantState::Deleted), Some(Standing::Deleted));
        assert_eq!(send(3, TenantState::Deleted), Some(Standing::Deleted));
        assert_eq!(*told.lock(), 1);
    }
}
