//! Status and limits of the tenants: this process's copy of the compacted topic.

use parking_lot::RwLock;
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use unslide_model::{Clock, TenantId};
use unslide_proto::symbol::{TenantConfig, TenantState};
use unslide_stream::{Settings, StreamError, TailProgress, TailReader};
use unslide_symbolicate::grouping::GroupingRules;
use unslide_symbolicate::{Analysis, enabled_analyses};

/// Status of a tenant, which decides the outcome of its reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantStatus {
    Active,
    /// Its reports are not processed for now.
    Suspended,
    Deleted,
    Unknown,
}

/// Limits of a tenant. 0 means the service's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowedUse {
    /// Cost units per second over all partitions.
    pub units_per_second: u32,
    pub report_bytes: u64,
}

#[derive(Clone, Debug)]
struct Row {
    version: u64,
    standing: TenantStatus,
    limits: AllowedUse,
    rules: Arc<GroupingRules>,
    analysis_switches: BTreeMap<String, bool>,
    /// The prefix of the topics of the cell that serves the tenant, if it has moved to another one.
    moved_to: Option<Arc<str>>,
}

type Rows = Arc<RwLock<HashMap<TenantId, Row>>>;

/// Table of the tenants. Readers never wait for Kafka; the last known state is kept however old it is.
pub struct Tenants {
    rows: Rows,
    /// The prefix of this cell's topics.
    prefix: String,
    reader: TailReader,
    clock: Arc<dyn Clock>,
    /// Earliest time of the next refresh, in microseconds of the monotonic clock.
    refresh_at: AtomicI64,
}

/// Timeout of a refresh; a batch waits for it.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a failed refresh, in microseconds.
const PAUSE_MICROS: i64 = 10_000_000;

impl Tenants {
    /// Starts to read the topic. `deleted` is called once for each tenant that is deleted.
    pub fn start(
        settings: &Settings,
        clock: Arc<dyn Clock>,
        deleted: impl Fn(&TenantId) + Send + 'static,
    ) -> Result<Tenants, StreamError> {
        let rows = Rows::default();
        let table = Arc::clone(&rows);
        let topic = settings.topic_names().tenant_config;
        let reader = TailReader::start(settings, &topic, clock.clone(), move |event| {
            event.read_value(|value| {
                // After a gap the rows are read again; known rows stay valid until then.
                let Some(value) = value else { return Ok(()) };
                TenantConfig::decode(value).map(|config| apply_config(&table, &config, &deleted))
            });
        })?;
        let prefix = settings.topic_prefix.clone();
        Ok(Tenants { rows, prefix, reader, clock, refresh_at: AtomicI64::new(i64::MIN) })
    }

    /// Waits until the table was read to its end.
    pub async fn caught_up(&self) -> Result<(), StreamError> {
        self.reader.caught_up().await
    }

    /// Reads up to the current end of the topic, so that a tenant that was written before this call is known.
    /// Returns false if that fails. For the next ten seconds it then returns false without a try.
    pub async fn refresh_table(&self) -> bool {
        let now = self.clock.monotonic_micros();
        if now < self.refresh_at.load(Ordering::Relaxed) {
            return false;
        }
        let refreshed = self.reader.refresh(REFRESH_TIMEOUT).await;
        if let Err(error) = &refreshed {
            tracing::warn!(error = %error, "the table of tenants cannot be read to its end");
            self.refresh_at.store(now.saturating_add(PAUSE_MICROS), Ordering::Relaxed);
        }
        refreshed.is_ok()
    }

    /// Returns the status of a tenant.
    pub fn status(&self, tenant: &TenantId) -> TenantStatus {
        self.rows.read().get(tenant).map_or(TenantStatus::Unknown, |row| row.standing)
    }

    /// Returns the prefix of the topics of the cell that serves a tenant, if it has moved to another cell.
    pub fn moved_to(&self, tenant: &TenantId) -> Option<Arc<str>> {
        let moved_to = self.rows.read().get(tenant)?.moved_to.clone();
        // A record that is passed on to the topic that it came from would never end.
        moved_to.filter(|prefix| **prefix != *self.prefix)
    }

    /// Returns the limits of a tenant, or the service's defaults for an unknown one.
    pub fn limits(&self, tenant: &TenantId) -> AllowedUse {
        self.rows.read().get(tenant).map_or_else(AllowedUse::default, |row| row.limits)
    }

    /// Returns a tenant's own grouping rules.
    pub fn grouping_rules(&self, tenant: &TenantId) -> Arc<GroupingRules> {
        self.rows.read().get(tenant).map(|row| row.rules.clone()).unwrap_or_default()
    }

    /// Returns the analyses that are on for a tenant.
    pub fn enabled_analyses(&self, tenant: &TenantId, all: &[Analysis]) -> Vec<Analysis> {
        match self.rows.read().get(tenant) {
            Some(row) => enabled_analyses(all, &row.analysis_switches),
            None => enabled_analyses(all, &BTreeMap::new()),
        }
    }

    /// Returns when the table was last compared with the topic, by the monotonic clock.
    pub fn looked_at(&self) -> Option<Duration> {
        self.reader.progress().borrow().looked_at
    }

    /// Returns a receiver for the progress of the reader.
    pub fn progress(&self) -> watch::Receiver<TailProgress> {
        self.reader.progress()
    }
}

fn apply_config(rows: &Rows, config: &TenantConfig, deleted: &impl Fn(&TenantId)) {
    let tenant = match config.parse_tenant_id() {
        Ok(tenant) => tenant,
        Err(e) => return tracing::error!(error = %e, "a tenant's configuration names no tenant"),
    };
    let standing = match config.state() {
        TenantState::Active => TenantStatus::Active,
        TenantState::Suspended => TenantStatus::Suspended,
        TenantState::Deleted => TenantStatus::Deleted,
        // A later version of this service knows more states: the tenant exists, so it is not unknown.
        TenantState::Unspecified => TenantStatus::Active,
    };
    let mut rows = rows.write();
    let known = rows.get(&tenant);
    // One relay sends rows in order; after a fail-over an older row may arrive late.
    if known.is_some_and(|row| row.version > config.version) {
        return;
    }
    let was_deleted = known.is_some_and(|row| row.standing == TenantStatus::Deleted);
    let grouping_rules = read_rules(&tenant, &config.grouping_rules);
    let told = config.limits.unwrap_or_default();
    let limits = AllowedUse { units_per_second: told.units_per_second, report_bytes: told.report_bytes };
    let row = Row {
        version: config.version,
        standing,
        limits,
        rules: grouping_rules,
        analysis_switches: config.analysis_switches.clone(),
        moved_to: config.moved_to.as_deref().map(Arc::from),
    };
    rows.insert(tenant.clone(), row);
    drop(rows);
    if standing == TenantStatus::Deleted && !was_deleted {
        deleted(&tenant);
    }
}

/// Parses grouping rules that the api has checked. Rules of a later version of this service may be unknown
/// here; they are left out.
fn read_rules(tenant: &TenantId, text: &str) -> Arc<GroupingRules> {
    let rules = GroupingRules::parse(text).unwrap_or_else(|problems| {
        let problem = problems.first().map(ToString::to_string).unwrap_or_default();
        tracing::error!(tenant = %tenant, "a tenant's grouping rules cannot be read and are left out: {problem}");
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
            apply_config(&rows, &config, &|_| *told.lock() += 1);
            rows.read().get(&tenant).map(|row| row.standing)
        };
        assert_eq!(send(2, TenantState::Active), Some(TenantStatus::Active));
        assert_eq!(send(1, TenantState::Suspended), Some(TenantStatus::Active));
        assert_eq!(send(3, TenantState::Deleted), Some(TenantStatus::Deleted));
        assert_eq!(send(3, TenantState::Deleted), Some(TenantStatus::Deleted));
        assert_eq!(*told.lock(), 1);
    }

    #[test]
    fn the_analyses_that_a_tenant_has_turned_on_or_off_come_with_its_configuration() {
        let rows = Rows::default();
        let tenant = TenantId::new("acme").unwrap();
        let send = |version, switches: &[(&str, bool)]| {
            let pairs = switches.iter().map(|(name, is_enabled)| ((*name).to_owned(), *is_enabled));
            let config = TenantConfig {
                tenant: "acme".into(),
                version,
                analysis_switches: pairs.collect(),
                ..TenantConfig::default()
            };
            apply_config(&rows, &config, &|_| {});
            let rows = rows.read();
            let stored = rows.get(&tenant).unwrap().analysis_switches.iter();
            stored.map(|(name, is_enabled)| format!("{name} {is_enabled}")).collect::<Vec<_>>()
        };
        assert!(send(1, &[]).is_empty());
        let switches = [("crash_analysis", false), ("variables", true)];
        assert_eq!(send(2, &switches), ["crash_analysis false", "variables true"]);
        assert_eq!(
            send(1, &[]),
            ["crash_analysis false", "variables true"],
            "an older configuration came late"
        );
    }

    #[test]
    fn the_cell_of_a_tenant_comes_with_its_configuration() {
        let rows = Rows::default();
        let tenant = TenantId::new("acme").unwrap();
        let send = |version, state: TenantState, moved_to: Option<&str>| {
            let config = TenantConfig {
                tenant: "acme".into(),
                version,
                state: state as i32,
                moved_to: moved_to.map(str::to_owned),
                ..TenantConfig::default()
            };
            apply_config(&rows, &config, &|_| {});
            rows.read().get(&tenant).and_then(|row| row.moved_to.as_deref().map(str::to_owned))
        };
        let east = Some("east.".to_owned());
        assert_eq!(send(1, TenantState::Active, None), None);
        assert_eq!(send(2, TenantState::Active, Some("east.")), east);
        assert_eq!(send(3, TenantState::Deleted, Some("east.")), east);
        assert_eq!(send(2, TenantState::Active, None), east, "an older configuration came late");
        assert_eq!(send(4, TenantState::Active, None), None, "it came back");
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
            apply_config(&rows, &config, &|_| {});
            rows.read().get(&tenant).map(|row| row.rules.len())
        };
        assert_eq!(send(1, ""), Some(0));
        assert_eq!(send(2, "ignore function Log.*"), Some(1));
        assert_eq!(send(1, ""), Some(1), "an older configuration came late");
        // Of a later version of this service.
        assert_eq!(send(3, "merge function Log.*"), Some(0));
    }
}
