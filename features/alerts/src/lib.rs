//! Alerts: rules of tenants, the events that fulfil them, and the messages about these, with mails to recipients.
//!
//! `store` has the statements, `operations` the API, `pages` the console, `hooks` the route on which pagers acknowledge, and `sending`
//! what delivers messages.
//! The package `commands` has the command line.

mod hook_path;
mod hooks;
pub mod ids;
mod message_link;
mod operations;
mod pages;
mod receiver_policy;
mod sealing;
mod sending;
pub mod store;

pub use sending::{AlertSender, AlertTopic, Alerts};

use axum::Extension;
use receiver_policy::ReceiverPolicy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::sync::Arc;
use tokio::task::JoinHandle;
use unslide_api::feature::{ApiFeature, Broker, ListTable, NavigationEntry, NavigationPlace, with_tag};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::Scope;
use unslide_runtime::{Host, MetricFactory};

/// The name of the feature.
pub const NAME: &str = "alerts";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, as far as alerts need it.
    pub api: ApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct ApiSettings {
    /// The address of the console, for links. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
    /// Settings of receivers, networks and mail.
    pub alerts: Alerts,
}

/// The feature.
pub const FEATURE: Feature =
    Feature { hook: store::ALERT_HOOK, ..Feature::new(NAME, |reader| feature(reader.read_whole())) };

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let ApiSettings { public_url, alerts } = &config.api;
    let settings =
        FeatureSettings { problems: alerts.problems(public_url), ..FeatureSettings::from_config(&config) };
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config.api)) }
}

/// The lists of messages and of firings as tables.
const LIST_TABLES: &[ListTable] = &[
    ListTable {
        path: "/v1/alert-messages",
        name: "alert-messages",
        has_pages: true,
        columns: "id rule rule_name status headline events attempts last_error created_at due_at \
              delivered_at",
    },
    ListTable {
        path: "/v1/alert-firings",
        name: "alert-firings",
        has_pages: true,
        columns: "id rule rule_name headline began_at ended_at acknowledged_at acknowledged_by escalated_at",
    },
];

fn for_api(settings: ApiSettings) -> ApiFeature {
    let ApiSettings { public_url, alerts } = settings;
    let policy = Extension(Arc::new(ReceiverPolicy::new(&alerts, &public_url)));
    let about = "Alert rules, and the messages that were sent. For a tenant's administrators.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::alert_routes().layer(policy.clone())),
        routes: hooks::hook_routes().layer(policy.clone()),
        pages: pages::page_routes().layer(policy),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 60,
            name: NAME,
            path: pages::ALERTS_PATH,
            label: "Alerts",
            scope: Scope::TenantAdmin,
            needs_every_app: false,
            keeps_app: false,
        }],
        show_panel: Some(pages::show_panel),
        tables: LIST_TABLES,
        start: Some(Arc::new(move |api, host| start_sender(&alerts, &public_url, &api.broker, host))),
        ..ApiFeature::new(NAME)
    }
}

fn start_sender(
    settings: &Alerts,
    public_url: &str,
    broker: &Broker,
    host: &Host,
) -> Result<JoinHandle<()>, Box<dyn Error + Send + Sync>> {
    let outcomes = MetricFactory(&host.metrics).register_counters(
        "unslide_api_alerts_total",
        "Attempts to send alerts, by outcome: delivered, retried, given_up; unconfirmed if no recipient has confirmed, over_limit if the tenant's mails of the day are used up.",
        &["outcome"],
    )?;
    let topic = AlertTopic { producer: broker.producer.clone(), name: broker.topics.alerts.clone() };
    let (store, clock) = (broker.storage.store.clone(), host.clock.clone());
    let sender = AlertSender::new(store, settings, topic, public_url, outcomes, clock)?;
    Ok(sender.start(host.shutdown.token().clone()))
}
