//! Ingest: reports straight from an app, with a public key in the path of a URL.
//!
//! `key` has the kind of keys and finds the key of a request, `store` the statements, `operations` the API of the tenant's administrators, `pages` the
//! console, `receive` the route of the apps, `overflow` the records over a rate, `erasure` the jobs that erase what came with
//! a key, `versions` the counts of the versions that use a key.

pub mod erasure;
mod key;
mod limits;
mod operations;
mod overflow;
mod pages;
mod receive;
pub mod store;
mod versions;

pub use key::PUBLIC_KEYS;

use axum::{Extension, Router};
use limits::IngestLimits;
use overflow::{DRAINED_CHECK_INTERVAL, OverflowBytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::sync::Arc;
use tokio::task::JoinHandle;
use unslide_api::feature::Broker;
use unslide_api::feature::{
    Api, ApiFeature, ListTable, NavigationEntry, NavigationPlace, OutcomeCounts, with_tag,
};
use unslide_builder::BuilderFeature;
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::Scope;
use unslide_runtime::{Host, MetricFactory};
use unslide_store::StoreHook;
use unslide_store::tables::OwnedTable;
use versions::{KeyVersionCounts, VERSIONS_WRITE_INTERVAL};

/// The name of the feature.
pub const NAME: &str = "ingest";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The settings of the section `api` that the feature reads.
    pub api: IngestApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct IngestApiSettings {
    /// The address of the console, for the URLs of apps. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
    /// Bytes that each tenant's apps may have waiting in the topic `unslide.ingest-overflow`, as each process of the api counts
    /// them. Reports over a rate of a public key wait there; beyond these bytes they are refused with 429.
    #[serde(rename = "ingest_overflow_size", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub ingest_overflow_bytes: u64,
}

impl Default for IngestApiSettings {
    fn default() -> IngestApiSettings {
        IngestApiSettings { public_url: String::new(), ingest_overflow_bytes: 512 << 20 }
    }
}

/// The metric with the outcomes.
const OUTCOME_METRIC: &str = "unslide_api_public_reports_total";
const OUTCOME_HELP: &str = "Reports that apps sent with public keys: accepted, accepted into overflow, or refused as data; and such requests without an answer for their reports: unknown_key, limited, failed.";

const OVERFLOW_METRIC: &str = "unslide_api_ingest_overflow_bytes";
const OVERFLOW_HELP: &str =
    "Bytes that this process sent to the overflow topic of ingest and that no symbolizer has taken yet.";

/// State of the feature in one process of the api.
pub struct Ingest {
    limits: IngestLimits,
    overflow: OverflowBytes,
    /// Reports and refused requests by outcome, from the start of the api on.
    outcomes: OutcomeCounts,
    versions: KeyVersionCounts,
    /// The address of the console; empty if it is not configured.
    public_url: String,
}

impl Ingest {
    fn new(settings: IngestApiSettings) -> Ingest {
        Ingest {
            limits: IngestLimits::default(),
            overflow: OverflowBytes::new(settings.ingest_overflow_bytes),
            outcomes: OutcomeCounts::default(),
            versions: KeyVersionCounts::default(),
            public_url: settings.public_url,
        }
    }

    /// Begins to count, and to write the counts of versions until the service stops.
    fn start_counting(
        self: Arc<Ingest>,
        broker: &Arc<Broker>,
        host: &Host,
    ) -> Result<JoinHandle<()>, Box<dyn Error + Send + Sync>> {
        let counting = self.outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP)?;
        let gauge = MetricFactory(&host.metrics).register_gauge(OVERFLOW_METRIC, OVERFLOW_HELP)?;
        let (stop, broker) = (host.shutdown.token().clone(), broker.clone());
        let watching = {
            let (ingest, stop, broker) = (self.clone(), stop.clone(), broker.clone());
            async move {
                while tokio::time::timeout(DRAINED_CHECK_INTERVAL, stop.cancelled()).await.is_err() {
                    ingest.overflow.check_drained(&broker, &gauge).await;
                }
            }
        };
        Ok(tokio::spawn(async move {
            let writing = async {
                let mut is_over = false;
                while !is_over {
                    is_over = tokio::time::timeout(VERSIONS_WRITE_INTERVAL, stop.cancelled()).await.is_ok();
                    self.versions.write_counts(&broker.storage.store).await;
                }
            };
            tokio::join!(writing, watching);
            let _ = counting.await;
        }))
    }
}

/// The feature.
pub const FEATURE: Feature = Feature {
    hook: StoreHook::with_tables(NAME, OWNED_TABLES),
    key_kinds: &[&PUBLIC_KEYS],
    builder: BuilderFeature { jobs: erasure::JOBS },
    ..Feature::new(NAME, |reader| feature(reader.read_whole()))
};

/// The tables of the feature.
const OWNED_TABLES: &[OwnedTable] = &[OwnedTable::kept_for("ingest_key_versions", store::VERSIONS_PERIOD)];

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let settings = FeatureSettings::from_config(&config);
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config.api)) }
}

/// The list of public keys as a table.
const LIST_TABLES: &[ListTable] = &[ListTable {
    path: "/v1/public-keys",
    name: "public-keys",
    has_pages: true,
    columns: "id name apps state created_at retired_at closed_at last_used_at",
}];

fn for_api(settings: IngestApiSettings) -> ApiFeature {
    let ingest = Arc::new(Ingest::new(settings));
    let extension = Extension(ingest.clone());
    let about = "Public keys, with which apps send their reports. For a tenant's administrators.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes().layer(extension.clone())),
        pages: pages::routes().layer(extension.clone()),
        routes: Router::<Api>::new().merge(receive::routes()).layer(extension),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 132,
            name: NAME,
            path: pages::PATH,
            label: "Public keys",
            scope: Scope::TenantAdmin,
            needs_every_app: false,
            keeps_app: false,
        }],
        tables: LIST_TABLES,
        start: Some(Arc::new(move |api, host| {
            api.app_intake.register(ingest.clone());
            ingest.clone().start_counting(&api.broker, host)
        })),
        ..ApiFeature::new(NAME)
    }
}
