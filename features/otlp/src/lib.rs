//! OTLP: crashes in logs and spans of OpenTelemetry become reports, and a tenant's crashes go to its collector as log records.
//!
//! `receive` has the routes of senders, `policies` what a tenant does with other records, `store` the statements, `sealing` the
//! encryption of headers, `operations` the API of the tenant's administrators, and `sending` the export beside the requests. The
//! package `formats` reads OTLP, `commands` has the subcommand.

mod operations;
mod policies;
mod receive;
mod sealing;
mod sending;
mod settings;
pub mod store;

pub use settings::{CollectorSettings, Config, OtlpApiSettings};

use axum::Extension;
use policies::RecordPolicies;
use sealing::HeaderSealer;
use sending::{CollectorClient, ReportSender};
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::tenant_turns::start_tenant_turns;
use unslide_api::feature::{ApiFeature, OutcomeCounts, with_tag};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_runtime::egress::AllowedReceivers;

/// The name of the feature.
pub const NAME: &str = "otlp";

/// The metric with the outcomes.
const OUTCOME_METRIC: &str = "unslide_api_otlp_records_total";
const OUTCOME_HELP: &str = "Records of OTLP by outcome: report, refused and unreadable crashes, other records; requests that failed; reports sent to collectors (exported), refused by them or unreadable (export_refused), and turns of tenants that failed (export_failed).";

/// State of the feature in one process of the api.
pub struct Otlp {
    policies: RecordPolicies,
    receivers: AllowedReceivers,
    /// None if the operator has set no key to seal with.
    sealer: Option<HeaderSealer>,
    /// None if TLS cannot be set up.
    client: Option<CollectorClient>,
    outcomes: OutcomeCounts,
    /// The URL of the console, for links; empty if it is not known.
    public_url: String,
}

/// The feature.
pub const FEATURE: Feature =
    Feature { hook: store::OTLP_HOOK, ..Feature::new(NAME, |reader| feature(reader.read_whole())) };

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let (problems, warnings) = (config.api.otlp.problems(), config.api.otlp.find_insecure());
    let settings = FeatureSettings { problems, warnings, ..FeatureSettings::from_config(&config) };
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config.api)) }
}

fn for_api(settings: OtlpApiSettings) -> ApiFeature {
    let OtlpApiSettings { public_url, otlp: collectors } = settings;
    // Settings that cannot be used were refused with the configuration.
    let receivers = collectors.parse_receivers().unwrap_or_default();
    let otlp = Arc::new(Otlp {
        policies: RecordPolicies::default(),
        client: CollectorClient::new(receivers.clone()).ok(),
        receivers,
        sealer: HeaderSealer::from_setting(&collectors.sealing_key).ok().flatten(),
        outcomes: OutcomeCounts::default(),
        public_url: public_url.trim_end_matches('/').to_owned(),
    });
    let look_interval = Duration::from_millis(collectors.look_millis);
    let extension = Extension(otlp.clone());
    let about = "OTLP: how records of OpenTelemetry are taken, and the collector to which crashes are sent. For a tenant's administrators.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes().layer(extension.clone())),
        routes: receive::routes().layer(extension),
        start: Some(Arc::new(move |api, host| {
            otlp.outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP)?;
            let sender = ReportSender::new(otlp.clone(), &api.symbolication);
            Ok(start_tenant_turns(sender, look_interval, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    }
}
