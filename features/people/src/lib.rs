//! People: they sign in to the console at an identity provider of their tenant, by OpenID Connect.
//!
//! A person has a key whose text was dropped. A sign-in sets its scopes by the person's groups and begins a session of
//! it, so that sessions, revocations and the audit log treat people as they treat keys.
//!
//! `provider` has the protocol, `fetch` its requests, `identity` the person of a token, `binding` the tie of a sign-in to one
//! browser, `store` the statements, `operations` the settings of a tenant, `pages` the sign-in, and `command` the subcommand.

mod binding;
mod command;
mod fetch;
mod identity;
mod operations;
mod pages;
mod provider;
pub mod store;

pub use command::SSO_COMMANDS;

use axum::Extension;
use provider::Providers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use unslide_api::feature::operation::network_of_everything;
use unslide_api::feature::path_keys::AddressRates;
use unslide_api::feature::{ApiFeature, NavigationEntry, OutcomeCounts};
use unslide_feature::Feature;
use unslide_model::Scope;
use unslide_runtime::ConfigProblem;
use unslide_runtime::config::{ConfigPart, ConfigReader};
use unslide_runtime::egress::AllowedReceivers;

/// The name of the feature.
pub const NAME: &str = "people";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, as far as sign-ins need it.
    pub api: PeopleApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct PeopleApiSettings {
    /// The address of the console, to which providers send browsers back. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
    /// Settings of identity providers.
    pub sign_in: SignInSettings,
}

/// The section `api.sign_in` of the settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SignInSettings {
    /// Networks of the operator's own with identity providers of tenants, such as `10.1.0.0/16`, also without TLS. Other
    /// addresses that are not of the internet are refused.
    pub networks: Vec<String>,
    /// Ports of identity providers, beside 443.
    pub ports: Vec<u16>,
}

impl SignInSettings {
    /// Returns the problems of the settings.
    fn problems(&self) -> Vec<ConfigProblem> {
        let refused = AllowedReceivers::from_networks(&self.networks, &self.ports).err();
        let problem = |network| {
            let message = format!("{network} is not a network such as 10.0.0.0/8");
            ConfigProblem::new("api.sign_in.networks", message)
        };
        refused.map(problem).into_iter().collect()
    }

    /// Returns settings that are allowed and unsafe.
    fn find_insecure(&self) -> Vec<ConfigProblem> {
        let problem = |network| {
            let message = format!(
                "{network} holds every address: tenants can have requests sent to any server that this service reaches"
            );
            ConfigProblem::new("api.sign_in.networks", message)
        };
        network_of_everything(&self.networks).map(problem).into_iter().collect()
    }
}

/// Requests of sign-ins of one address in a second, and seconds' worth of them at once. An office is one address.
const ADDRESS_REQUESTS_PER_SECOND: f64 = 5.0;
const ADDRESS_BURST_SECONDS: f64 = 60.0;

/// The metric with the outcomes.
const OUTCOME_METRIC: &str = "unslide_api_sign_ins_total";
const OUTCOME_HELP: &str = "Sign-ins at identity providers, by outcome: signed_in, no_scopes, foreign_answer, declined, provider_failed, token_refused.";

/// State of the feature in one process of the api.
pub struct People {
    providers: Providers,
    /// Sign-ins come without a key, and each may have requests sent to a provider.
    addresses: AddressRates,
    /// Sign-ins by outcome, from the start of the api on.
    outcomes: OutcomeCounts,
    /// The address of the console; empty if it is not configured.
    public_url: String,
}

/// The state of the feature, as operations and pages take it.
pub type PeopleExtension = Extension<Arc<People>>;

impl People {
    fn new(settings: &SignInSettings, public_url: String) -> People {
        People {
            providers: Providers::new(settings),
            addresses: AddressRates::new(ADDRESS_REQUESTS_PER_SECOND, ADDRESS_BURST_SECONDS),
            outcomes: OutcomeCounts::default(),
            public_url,
        }
    }

    fn count_outcome(&self, outcome: &str) {
        self.outcomes.add(outcome, 1);
    }
}

/// Reads the settings and makes the feature.
pub fn read(reader: &mut ConfigReader) -> Feature {
    feature(reader.read_whole())
}

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> Feature {
    Feature { settings: Some(ConfigPart::from_config(&config)), ..Feature::new(NAME, for_api(config.api)) }
}

fn for_api(settings: PeopleApiSettings) -> ApiFeature {
    let PeopleApiSettings { public_url, sign_in } = settings;
    let people = Arc::new(People::new(&sign_in, public_url));
    let extension = Extension(people.clone());
    ApiFeature {
        operations: operations::routes().layer(extension.clone()),
        pages: pages::routes().layer(extension),
        sign_in: Some(NavigationEntry {
            name: NAME,
            path: pages::SSO_PATH,
            label: "Sign in with your organization",
            scope: Scope::ReportsRead,
            needs_every_app: false,
            keeps_app: false,
        }),
        tables: operations::PEOPLE_TABLES,
        start: Some(Arc::new(move |_, host| people.outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP))),
        problems: sign_in.problems(),
        warnings: sign_in.find_insecure(),
        ..ApiFeature::new(NAME, "Sign-in of people at the tenant's identity provider.")
    }
}
