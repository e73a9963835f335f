//! Export of stored reports as Parquet files: one complete set of files a day in a bucket of the tenant's own, behind a manifest that is
//! replaced when late revisions or erasures change the day.
//!
//! `store` has the statements, and notes changed days in the transactions that change reports. `writing` is the job of the builder,
//! `files` has the columns, paths and manifest, `bucket` the requests through the egress rules, `target` the address and the credentials
//! with their encryption, `operations` the API of the tenant's administrators, `pages` the console, and `lag` a metric. The package
//! `commands` has the subcommand.

mod bucket;
mod files;
mod lag;
mod operations;
mod pages;
mod settings;
pub mod store;
mod target;
mod writing;

pub use files::{DayFile, DayManifest};
pub use settings::{Config, ExportSizes, ExportTimes, ParquetExportBuilderSettings, ParquetExportSettings};
pub use writing::WRITING_JOB_KIND;

use axum::Extension;
use bucket::BucketClient;
use std::sync::Arc;
use target::{ExportSealer, SEALING_KEY};
use time::{Date, Duration, OffsetDateTime};
use unslide_api::feature::buckets::BucketTarget;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, with_tag};
use unslide_builder::BuilderFeature;
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::{Scope, TenantId};
use unslide_runtime::MetricFactory;
use unslide_store::retention::RetentionSettings;

/// The name of the feature.
pub const NAME: &str = "parquet-export";

const LAG_METRIC: &str = "unslide_api_parquet_export_lag_seconds";
const LAG_HELP: &str =
    "Seconds since the oldest day, change or deletion was due in a tenant's bucket of Parquet files.";

/// State of the feature in one process of the api or the builder.
pub struct ParquetExport {
    client: BucketClient,
    /// None if the operator has set no key to seal with.
    sealer: Option<ExportSealer>,
    /// The pause of a job with nothing to write.
    look_interval: Duration,
    times: ExportTimes,
    sizes: ExportSizes,
    retention: RetentionSettings,
}

/// The state of the feature, as operations and pages take it.
type ParquetExportExtension = Extension<Arc<ParquetExport>>;

/// The feature.
pub const FEATURE: Feature = Feature {
    hook: store::PARQUET_EXPORT_HOOK,
    builder: BuilderFeature { jobs: writing::WRITING_JOBS },
    ..Feature::new(NAME, |reader| feature(&reader.read_whole()))
};

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: &Config) -> ConfiguredFeature {
    let own = &config.builder.parquet_export;
    let (problems, warnings) = (own.problems(), own.find_insecure());
    let export = Arc::new(ParquetExport::new(own, config.indexer));
    let settings = FeatureSettings { problems, warnings, ..FeatureSettings::from_config(config) };
    ConfiguredFeature {
        settings: Some(settings),
        builder: Some(export.clone()),
        ..FEATURE.with_api(for_api(export))
    }
}

fn for_api(export: Arc<ParquetExport>) -> ApiFeature {
    let (times, extension) = (export.times, Extension(export));
    ApiFeature {
        operations: with_tag(
            NAME,
            "Parquet export: the reports of each day as files in a bucket of the tenant's own.",
            operations::routes().layer(extension.clone()),
        ),
        pages: pages::routes().layer(extension),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 139,
            name: NAME,
            path: pages::EXPORT_PAGE,
            label: "Parquet export",
            scope: Scope::TenantAdmin,
            needs_every_app: true,
            keeps_app: false,
        }],
        start: Some(Arc::new(move |api, host| {
            let lag = MetricFactory(&host.metrics).register_gauge(LAG_METRIC, LAG_HELP)?;
            let store = api.symbolication.storage.store.clone();
            Ok(lag::start_measuring(store, times, lag, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    }
}

impl ParquetExport {
    fn new(settings: &ParquetExportSettings, retention: RetentionSettings) -> ParquetExport {
        ParquetExport {
            client: BucketClient::new(settings),
            // Settings that cannot be used were refused with the configuration.
            sealer: ExportSealer::from_setting(&settings.sealing_key).ok().flatten(),
            look_interval: Duration::milliseconds(i64::try_from(settings.look_millis).unwrap_or(i64::MAX)),
            times: settings.times,
            sizes: settings.sizes,
            retention,
        }
    }

    /// Decrypts the target of an export.
    ///
    /// # Errors
    /// Returns why it cannot be used, for the tenant.
    fn open_target(&self, tenant: &TenantId, row: &store::ExportRow) -> Result<BucketTarget, String> {
        let missing = || format!("the operator of the service has removed {SEALING_KEY}");
        let sealer = self.sealer.as_ref().ok_or_else(missing)?;
        let opened = sealer.open_target(tenant, &row.shown_address, &row.sealed_target);
        opened.map_err(|error| error.to_string())
    }

    /// Returns the first day that is whole as long as a turn lasts, of a tenant with a limit of `limit` days: the day before is the last one
    /// that is kept, and ends at midnight.
    fn find_kept_from(&self, limit: u32, now: OffsetDateTime) -> Date {
        let first = self.retention.first_day(limit, now);
        first.next_day().unwrap_or(first)
    }
}
