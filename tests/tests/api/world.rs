//! The product's api, with every feature, and its servers.

pub use unslide_world::{
    Answer, Browser, encode_form, list_links, pad_json, redirect_location, report_json, signing_settings,
    slow_body, tenant_id, wait_until,
};

use crate::cases::key_of;
use std::ops::{Deref, DerefMut};
use unslide_api::{ApiFeatures, Config, RequestLimits};
use unslide_feature::ConfiguredFeature;
use unslide_model::{Scope, Secret};
use unslide_store::keys::NewApiKey;

/// The settings of features.
#[derive(Default)]
pub struct FeatureSettings {
    pub alerts: unslide_alerts::Config,
}

/// Every feature of the product.
pub fn features(settings: FeatureSettings) -> Vec<ConfiguredFeature> {
    vec![
        unslide_alerts::feature(settings.alerts),
        unslide_apple_reports::feature(),
        unslide_captures::feature(),
        unslide_health::feature(),
        unslide_fault_analysis::feature(),
        unslide_console::feature(),
        unslide_own_keys::feature(),
        unslide_owners::feature(),
        unslide_costs::feature(unslide_costs::Config::default()),
        unslide_ingest::feature(unslide_ingest::Config::default()),
        unslide_otlp::feature(otlp_config()),
        unslide_scim::feature(),
        unslide_people::feature(unslide_people::Config::default()),
        unslide_person_erasure::feature(),
        unslide_scrubbing::feature(),
        unslide_body_cap::feature(),
        unslide_source_context::feature(),
        unslide_symbol_server::feature(),
        unslide_symbol_sources::feature(&symbol_sources_config()),
        unslide_system_symbols::feature(),
        unslide_testflight::feature(testflight_config()),
        unslide_audit_export::feature(audit_export_config()),
        unslide_chat::feature(chat_config()),
        unslide_tickets::feature(tickets_config()),
        unslide_uploaders::feature(unslide_uploaders::Config::default()),
        unslide_changes::feature(),
        unslide_verdicts::feature(),
        unslide_mcp::feature(unslide_mcp::Config::default()),
        unslide_parquet_export::feature(&parquet_export_config()),
        unslide_stored_events::feature(&unslide_stored_events::Config::default()),
        unslide_export::feature(),
    ]
}

/// A TestFlight inbox that reaches no server.
fn testflight_config() -> unslide_testflight::Config {
    let mut config = unslide_testflight::Config::default();
    config.api.testflight.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    config.api.testflight.apple_url = "https://apple.invalid".to_owned();
    config
}

/// Receivers of audit logs that are kept, and get nothing while a test runs.
fn audit_export_config() -> unslide_audit_export::Config {
    let mut config = unslide_audit_export::Config::default();
    config.api.audit_export.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    config.api.audit_export.look_millis = 3_600_000;
    config
}

/// Symbol sources that no builder asks.
fn symbol_sources_config() -> unslide_symbol_sources::Config {
    let mut config = unslide_symbol_sources::Config::default();
    config.builder.symbol_sources.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    config
}

/// Parquet exports that no builder writes.
fn parquet_export_config() -> unslide_parquet_export::Config {
    let mut config = unslide_parquet_export::Config::default();
    config.builder.parquet_export.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    config
}

/// A Slack app that reaches no server, and posts nothing while a test runs.
fn chat_config() -> unslide_chat::Config {
    let mut config = unslide_chat::Config::default();
    config.api.chat.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    config.api.chat.slack_url = "https://slack.invalid/api".to_owned();
    config.api.chat.look_millis = 3_600_000;
    config
}

/// Trackers that are asked, and tickets that are not made while a test runs.
fn tickets_config() -> unslide_tickets::Config {
    let mut config = unslide_tickets::Config::default();
    config.api.tickets.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    config.api.tickets.look_millis = 3_600_000;
    config
}

/// An export that keeps headers of collectors, and sends nothing while a test runs.
fn otlp_config() -> unslide_otlp::Config {
    let mut config = unslide_otlp::Config::default();
    config.api.otlp.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    config.api.otlp.look_millis = 3_600_000;
    config
}

/// What they add to the api.
pub fn api_features() -> ApiFeatures {
    unslide_feature::for_api(&features(FeatureSettings::default()))
}

/// A running api with every feature.
pub struct World(unslide_world::World);

impl World {
    pub async fn start() -> World {
        World::with(|_| {}).await
    }

    /// A world with other bounds.
    pub async fn with(change: impl FnOnce(&mut RequestLimits)) -> World {
        World::configured(|config| change(&mut config.api.limits)).await
    }

    /// A world with an api that is configured beyond the addresses of its servers.
    pub async fn configured(change: impl FnOnce(&mut Config)) -> World {
        World(unslide_world::World::start(api_features(), change).await)
    }

    /// A world in which no feature changes anything by itself.
    pub async fn still(change: impl FnOnce(&mut Config)) -> World {
        let mut settings = FeatureSettings::default();
        settings.alerts.api.alerts.every_millis = 86_400_000;
        World::with_features(settings, change).await
    }

    /// A world whose features have these settings.
    pub async fn with_features(settings: FeatureSettings, change: impl FnOnce(&mut Config)) -> World {
        let features = unslide_feature::for_api(&features(settings));
        World(unslide_world::World::start(features, change).await)
    }

    /// Stops the api, which must drain, and takes everything away.
    pub async fn stop(self) {
        self.0.stop().await;
    }
}

impl Deref for World {
    type Target = unslide_world::World;

    fn deref(&self) -> &unslide_world::World {
        &self.0
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut unslide_world::World {
        &mut self.0
    }
}

/// Adds a person of acme.
pub async fn add_person(world: &World, subject: &str) {
    // Nobody uses a person's key.
    let new = NewApiKey { name: "person".into(), ..key_of(&[Scope::ReportsRead], None, None) };
    let (key, _) = world.make_key("acme", &new).await;
    let person = format!(
        "INSERT INTO people (tenant, issuer, subject, key_id, last_sign_in_at)
         VALUES ('acme', 'https://login.invalid', '{subject}', '{key}', now())"
    );
    world.execute(&person).await;
}
