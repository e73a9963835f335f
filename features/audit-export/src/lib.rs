//! Export of the audit log: a tenant's servers get each entry as it is written, by signed webhooks or by syslog over TLS.
//!
//! `store` has the statements, `sending` the turns of tenants and both protocols, `target` the address and the secrets of a receiver with
//! their encryption, `operations` the API of the tenant's administrators with the log in the order of its places, and `pages` the console.
//! The package `commands` has the subcommand.

mod operations;
mod pages;
mod sending;
mod settings;
pub mod store;
mod target;

pub use settings::{AuditExportApiSettings, AuditExportSettings, Config};

use axum::Extension;
use prometheus::IntGauge;
use sending::{AuditSender, DeliveryClient};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use target::TargetSealer;
use unslide_api::feature::tenant_turns::start_tenant_turns;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, OutcomeCounts, with_tag};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::Scope;
use unslide_runtime::MetricFactory;

/// The name of the feature.
pub const NAME: &str = "audit-export";

const OUTCOME_METRIC: &str = "unslide_api_audit_export_total";
const OUTCOME_HELP: &str = "Export of audit logs by outcome: entries that receivers took (sent), and turns of receivers that failed (failed).";
const LAG_METRIC: &str = "unslide_api_audit_export_lag_seconds";
const LAG_HELP: &str = "Age of the oldest entry of an audit log that one of its receivers lacks.";

/// State of the feature in one process of the api.
pub struct AuditExport {
    client: DeliveryClient,
    /// None if the operator has set no key to seal with.
    sealer: Option<TargetSealer>,
    outcomes: OutcomeCounts,
    lag: OnceLock<IntGauge>,
}

/// The state of the feature, as operations and pages take it.
type AuditExportExtension = Extension<Arc<AuditExport>>;

/// The feature.
pub const FEATURE: Feature =
    Feature { hook: store::AUDIT_EXPORT_HOOK, ..Feature::new(NAME, |reader| feature(reader.read_whole())) };

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let (problems, warnings) = (config.api.audit_export.problems(), config.api.audit_export.find_insecure());
    let settings = FeatureSettings { problems, warnings, ..FeatureSettings::from_config(&config) };
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config.api)) }
}

fn for_api(config: AuditExportApiSettings) -> ApiFeature {
    let AuditExportApiSettings { public_url, audit_export: settings } = config;
    let look_interval = Duration::from_millis(settings.look_millis);
    let audit_export = Arc::new(AuditExport {
        client: DeliveryClient::new(&settings, &public_url),
        // Settings that cannot be used were refused with the configuration.
        sealer: TargetSealer::from_setting(&settings.sealing_key).ok().flatten(),
        outcomes: OutcomeCounts::default(),
        lag: OnceLock::new(),
    });
    let extension = Extension(audit_export.clone());
    ApiFeature {
        operations: with_tag(
            NAME,
            "The audit log as it grows: its entries in order, and the servers that get them.",
            operations::routes().layer(extension.clone()),
        ),
        pages: pages::routes().layer(extension),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 138,
            name: NAME,
            path: pages::RECEIVERS_PAGE,
            label: "Audit receivers",
            scope: Scope::TenantAdmin,
            needs_every_app: true,
            keeps_app: false,
        }],
        start: Some(Arc::new(move |api, host| {
            audit_export.outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP)?;
            // A second start in one process keeps the first gauge.
            let _ = audit_export.lag.set(MetricFactory(&host.metrics).register_gauge(LAG_METRIC, LAG_HELP)?);
            let sender = AuditSender::new(audit_export.clone(), api.symbolication.storage.store.clone());
            Ok(start_tenant_turns(sender, look_interval, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    }
}
