//! What is known of the tenants: this process's copy of the compacted topic.

use parking_lot::RwLock;
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use unslide_model::{Clock, TenantId};
use unslide_proto::symbol::{TenantConfig, TenantState};
use unslide_stream::{Settings, StreamError, TailProgress, TailReader};
use unslide_symbolicate::grouping::GroupingRules;

/// What becomes of a tenant's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantStatus {
    /// They are processed.
    Active,
    /// They are not processed for now.
    Suspended,
    /// The tenant was deleted.
    Deleted,
    /// The tenant is unknown.
    Unknown,
}

/// What a tenant may use. 0: the service's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowedUse {
    /// Cost units a second over all partitions.
    pub units_per_second: u32,
    /// Bytes of one report.
    pub report_bytes: u64,
}

#[derive(Clone, Debug)]
struct Row {
    version: u64,
    standing: TenantStatus,
    limits: AllowedUse,
    rules: Arc<GroupingRules>,
}

type Rows = Arc<RwLock<HashMap<TenantId, Row>>>;

/// The tenants. Readers never wait for Kafka; the last known state is kept however old it is.
pub struct Tenants {
    rows: Rows,
    reader: TailReader,
    clock: Arc<dyn Clock>,
    /// No refresh before this time of the monotonic clock, in microseconds.
    refresh_at: AtomicI64,
}

/// How long a refresh may take: a batch waits for it.
const REFRESH: Duration = Duration::from_secs(1);
/// After one that failed none is tried for so long, in microseconds.
const PAUSE_MICROS: i64 = 10_000_000;

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
        let reader = TailReader::start(settings, &topic, clock.clone(), move |event| {
            event.read_value(|value| {
                // After a gap the rows come again; what is known stays known meanwhile.
                let Some(value) = value else { return Ok(()) };
                TenantConfig::decode(value).map(|config| apply(&table, &config, &deleted))
            });
        })?;
        Ok(Tenants { rows, reader, clock, refresh_at: AtomicI64::new(i64::MIN) })
    }

    /// Waits until the table was read to its end.
    pub async fn caught_up(&self) -> Result<(), StreamError> {
        self.reader.caught_up().await
    }

    /// Reads on to what is the end now, so that a tenant that was written before this call is known. Returns false
    /// where that can't be done. It is not tried again at once: what is known has to do meanwhile.
    pub async fn refresh(&self) -> bool {
        let now = self.clock.monotonic_micros();
        if now < self.refresh_at.load(Ordering::Relaxed) {
            return false;
        }
        let refreshed = self.reader.refresh(REFRESH).await;
        if let Err(error) = &refreshed {
            tracing::warn!("the table of tenants can't be read to its end: {error}");
            self.refresh_at.store(now.saturating_add(PAUSE_MICROS), Ordering::Relaxed);
        }
        refreshed.is_ok()
    }

    /// Where a tenant stands.
    pub fn status(&self, tenant: &TenantId) -> TenantStatus {
        self.rows.read().get(tenant).map_or(TenantStatus::Unknown, |row| row.standing)
    }

    /// What a tenant may use; records without a tenant have the service's defaults.
    pub fn limits(&self, tenant: &TenantId) -> AllowedUse {
        self.rows.read().get(tenant).map_or_else(AllowedUse::default, |row| row.limits)
    }

    /// A tenant's own rules of grouping.
    pub fn grouping_rules(&self, tenant: &TenantId) -> Arc<GroupingRules> {
        self.rows.read().get(tenant).map(|row| row.rules.clone()).unwrap_or_default()
    }

    /// When the table was last compared with the topic, by the monotonic clock.
    pub fn looked_at(&self) -> Option<Duration> {
        self.reader.progress().borrow().looked_at
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
        TenantState::Active => TenantStatus::Active,
        TenantState::Suspended => TenantStatus::Suspended,
        TenantState::Deleted => TenantStatus::Deleted,
        // A state of a later version of this service: the tenant exists, so it is not unknown.
        TenantState::Unspecified => TenantStatus::Active,
    };
    let mut rows = rows.write();
    let known = rows.get(&tenant);
    // One relay sends rows in order; after a fail-over an older one may come late.
    if known.is_some_and(|row| row.version > config.version) {
        return;
    }
    let was_deleted = known.is_some_and(|row| row.standing == TenantStatus::Deleted);
    let grouping_rules = read_rules(&tenant, &config.grouping_rules);
    let told = config.limits.unwrap_or_default();
    let limits = AllowedUse { units_per_second: told.units_per_second, report_bytes: told.report_bytes };
    rows.insert(tenant.clone(), Row { version: config.version, standing, limits, rules: grouping_rules });
    drop(rows);
    if standing == TenantStatus::Deleted && !was_deleted {
        deleted(&tenant);
    }
}

/// The rules in a text that the api has checked. Those of a later version of this service may not be known here.
fn read_rules(tenant: &TenantId, text: &str) -> Arc<GroupingRules> {
    let rules = GroupingRules::parse(text).unwrap_or_else(|problems| {
        let problem = problems.first().map(ToString::to_string).unwrap_or_default();
        tracing::error!(tenant = %tenant, "a tenant's grouping rules can't be read and are left out: {problem}");
        GroupingRules::default()
    });
    Arc::new(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: outages
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
        assert_eq!(send(2, TenantState::Active), Some(TenantStatus::Active));
        assert_eq!(send(1, TenantState::Suspended), Some(TenantStatus::Active));
        assert_eq!(send(3, TenantState::Deleted), Some(TenantStatus::Deleted));
        assert_eq!(send(3, TenantState::Deleted), Some(TenantStatus::Deleted));
        assert_eq!(*told.lock(), 1);
    }

    #[test]
    fn a_tenants_rules_come_with_its_configuration() {
        let rows = Rows::default();
        let tenant = TenantId::new("acme").unwrap();
        let send = |version, text: &str| {
            let config = TenantConfig {
                tenant: "acme".into(),
                version,
                grouping_rules: text.into(),
                ..TenantConfig::default()
            };
            apply(&rows, &config, &|_| {});
            rows.read().get(&tenant).map(|row| row.rules.len())
        };
        assert_eq!(send(1, ""), Some(0));
        assert_eq!(send(2, "ignore function Log.*"), Some(1));
        assert_eq!(send(1, ""), Some(1), "an older configuration came late");
        // Of a later version of this service.
        assert_eq!(send(3, "merge function Log.*"), Some(0));
    }
}
