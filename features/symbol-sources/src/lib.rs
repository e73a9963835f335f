//! Symbol sources: buckets and symbol servers of a tenant's own. The builder asks them for symbols that reports wait for and that no upload has
//! brought, and takes what they have as an upload.
//!
//! `store` has the statements, `schedule` the times of requests, `asking` the job of the builder, `fetching` the requests through the
//! egress rules, `layouts` the paths, `target` the address and the credentials with their encryption, `operations` the API of the tenant's
//! administrators. The package `commands` has the subcommand.

mod asking;
mod fetching;
mod layouts;
mod operations;
mod schedule;
mod settings;
pub mod store;
mod target;

pub use asking::ASKING_JOB_KIND;
pub use layouts::SourceLayout;
pub use settings::{Config, SymbolSourcesBuilderSettings, SymbolSourcesSettings};
pub use target::SymbolSourceKind;

use axum::Extension;
use fetching::{SourceAnswer, SourceClient, SourceFailure};
use std::sync::Arc;
use target::{SEALING_KEY, SourceOwner, SourceSealer, SourceTarget};
use time::{Duration, OffsetDateTime};
use unslide_api::feature::{ApiFeature, with_tag};
use unslide_builder::BuilderFeature;
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::{DebugId, TenantId};

/// The name of the feature.
pub const NAME: &str = "symbol-sources";

/// State of the feature in one process of the api or the builder.
pub struct SymbolSources {
    client: SourceClient,
    /// None if the operator has set no key to seal with.
    sealer: Option<SourceSealer>,
    /// The pause of a job with nothing to ask for.
    look_interval: Duration,
}

/// The state of the feature, as operations take it.
type SymbolSourcesExtension = Extension<Arc<SymbolSources>>;

/// The feature.
pub const FEATURE: Feature = Feature {
    hook: store::SYMBOL_SOURCES_HOOK,
    builder: BuilderFeature { jobs: asking::ASKING_JOBS },
    ..Feature::new(NAME, |reader| feature(&reader.read_whole()))
};

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: &Config) -> ConfiguredFeature {
    let own = &config.builder.symbol_sources;
    let (problems, warnings) = (own.problems(), own.find_insecure());
    let sources = Arc::new(SymbolSources::new(own));
    let settings = FeatureSettings { problems, warnings, ..FeatureSettings::from_config(config) };
    ConfiguredFeature {
        settings: Some(settings),
        builder: Some(sources.clone()),
        ..FEATURE.with_api(for_api(sources))
    }
}

fn for_api(sources: Arc<SymbolSources>) -> ApiFeature {
    ApiFeature {
        operations: with_tag(
            NAME,
            "Symbol sources: buckets and symbol servers of a tenant's own, which are asked for symbols that no upload has brought.",
            operations::routes().layer(Extension(sources)),
        ),
        ..ApiFeature::new(NAME)
    }
}

impl SymbolSources {
    fn new(settings: &SymbolSourcesSettings) -> SymbolSources {
        SymbolSources {
            client: SourceClient::new(settings),
            // Settings that cannot be used were refused with the configuration.
            sealer: SourceSealer::from_setting(&settings.sealing_key).ok().flatten(),
            look_interval: Duration::milliseconds(i64::try_from(settings.look_millis).unwrap_or(i64::MAX)),
        }
    }

    /// Decrypts the target of a source.
    ///
    /// # Errors
    /// Returns why it cannot be used, for the tenant.
    fn open_target(&self, tenant: &TenantId, row: &store::SourceRow) -> Result<SourceTarget, String> {
        let missing = || format!("the operator of the service has removed {SEALING_KEY}");
        let sealer = self.sealer.as_ref().ok_or_else(missing)?;
        let owner = SourceOwner { tenant, kind: row.kind, shown_address: &row.shown_address };
        sealer.open_target(owner, &row.sealed_target).map_err(|error| error.to_string())
    }

    /// Asks a source for the debug information of a debug id.
    ///
    /// # Errors
    /// The source says nothing about it.
    async fn ask_source(
        &self,
        tenant: &TenantId,
        row: &store::SourceRow,
        debug_id: &DebugId,
        at: OffsetDateTime,
    ) -> Result<SourceAnswer, SourceFailure> {
        let target = self.open_target(tenant, row).map_err(SourceFailure::new)?;
        self.client.ask_for_file(&target, &row.layout.path_of_id(debug_id), at).await
    }
}
