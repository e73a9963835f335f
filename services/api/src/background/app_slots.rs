//! The slots of apps: the number of keys that an app's reports are spread over. An app has one until APIs accept more of it
//! than one partition carries.
//!
//! Requests count what they accept and read the slots in memory. A task adds the counts to those of other processes, and
//! reads the slots of all apps.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use unslide_model::TenantId;
use unslide_store::Store;
use unslide_store::app_slots::{self, SlotsOfApps, UnitsOfApps};

const UPDATE_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout of the statements of an update.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(5);
/// Cost units of an app in one interval from which they are written: a small part of what one slot carries, so that counts
/// of several processes add up and small apps have no row.
const LEAST_WRITTEN_UNITS: u64 = app_slots::SLOT_UNITS_PER_SECOND * UPDATE_INTERVAL.as_secs() / 20;
/// Maximum number of apps that are counted in one interval. Reports of any sender name apps.
const COUNTED_APPS_LIMIT: usize = 10_000;

/// The slots of all apps, and what this process accepted of each. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AppSlots(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The apps with more than one slot.
    slots: SlotsOfApps,
    /// Cost units since the last update.
    units: HashMap<TenantId, HashMap<String, u64>>,
    /// Number of apps in `units`.
    counted_apps: usize,
}

impl AppSlots {
    /// Starts to update, until `stop`; the task ends after the last counts are written.
    #[must_use]
    pub fn start(store: Store, stop: CancellationToken) -> (AppSlots, JoinHandle<()>) {
        let slots = AppSlots::default();
        let updated = slots.clone();
        let task = tokio::spawn(async move {
            loop {
                match timeout(UPDATE_TIMEOUT, updated.update(&store)).await {
                    Ok(Ok(())) => {}
                    // The last known slots go on to count: reports of an app are in fewer partitions for a while.
                    Ok(Err(error)) => tracing::warn!(error = %error, "the slots of apps cannot be updated"),
                    Err(_) => tracing::warn!("the slots of apps cannot be updated in time"),
                }
                if stop.is_cancelled() {
                    return;
                }
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = sleep(UPDATE_INTERVAL) => {}
                }
            }
        });
        (slots, task)
    }

    /// Counts the cost units of an accepted report. Returns the slots of its app.
    pub fn count_units(&self, tenant: &TenantId, app: &str, units: u64) -> u16 {
        let mut state = self.0.lock();
        state.count_units(tenant, app, units);
        state.slots.get(tenant).and_then(|apps| apps.get(app)).copied().unwrap_or(1)
    }

    async fn update(&self, store: &Store) -> unslide_store::Result<()> {
        let counted = self.0.lock().take_counted();
        app_slots::record_units(store, &counted).await?;
        let slots = app_slots::list_slots(store).await?;
        self.0.lock().slots = slots;
        Ok(())
    }
}

impl State {
    fn count_units(&mut self, tenant: &TenantId, app: &str, units: u64) {
        let counted = self.units.get_mut(tenant).and_then(|apps| apps.get_mut(app));
        if let Some(counted) = counted {
            *counted = counted.saturating_add(units);
        } else if self.counted_apps < COUNTED_APPS_LIMIT {
            self.counted_apps += 1;
            self.units.entry(tenant.clone()).or_default().insert(app.to_owned(), units);
        }
    }

    /// Returns the counts that are written, and begins to count again.
    fn take_counted(&mut self) -> UnitsOfApps {
        self.counted_apps = 0;
        let mut counted = BTreeMap::new();
        for (tenant, apps) in std::mem::take(&mut self.units) {
            let large: BTreeMap<String, u64> =
                apps.into_iter().filter(|(_, units)| *units >= LEAST_WRITTEN_UNITS).collect();
            if !large.is_empty() {
                counted.insert(tenant, large);
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_is_written_from_a_small_part_of_what_a_slot_carries() {
        let (slots, acme) = (AppSlots::default(), TenantId::new("acme").unwrap());
        assert_eq!(slots.count_units(&acme, "large", LEAST_WRITTEN_UNITS - 1), 1);
        slots.count_units(&acme, "large", 1);
        slots.count_units(&acme, "small", LEAST_WRITTEN_UNITS - 1);
        let counted = slots.0.lock().take_counted();
        assert_eq!(counted[&acme], [("large".to_owned(), LEAST_WRITTEN_UNITS)].into());
        assert!(slots.0.lock().take_counted().is_empty());
        let known = [(acme.clone(), [("large".to_owned(), 4)].into())].into();
        slots.0.lock().slots = known;
        assert_eq!(["large", "small"].map(|app| slots.count_units(&acme, app, 1)), [4, 1]);
    }

    #[test]
    fn names_of_apps_that_senders_make_up_take_no_more_memory() {
        let (slots, acme) = (AppSlots::default(), TenantId::new("acme").unwrap());
        for n in 0..COUNTED_APPS_LIMIT + 10 {
            slots.count_units(&acme, &n.to_string(), 1);
        }
        assert_eq!(slots.0.lock().units[&acme].len(), COUNTED_APPS_LIMIT);
        slots.0.lock().take_counted();
        slots.count_units(&acme, "later", LEAST_WRITTEN_UNITS);
        assert_eq!(slots.0.lock().take_counted()[&acme].len(), 1);
    }
}
