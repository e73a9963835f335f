//! People: they sign in to the console at an identity provider of their tenant, by OpenID Connect.
//!
//! A person has a key whose text was dropped. A sign-in sets its scopes by the person's groups and begins a session of
//! it, so that sessions, revocations and the audit log treat people as they treat keys.
//!
//! `settings` has the sections of the settings, `provider` the protocol, `fetch` its requests, `token` the check of signed tokens,
//! `identity` the person of a token, `binding` the tie of a sign-in to one browser, `store` the statements, `operations` the settings of a
//! tenant, and `pages` the sign-in and the sign-out. The package `commands` has the subcommand.

mod binding;
mod fetch;
mod identity;
mod operations;
mod pages;
mod provider;
mod settings;
pub mod store;
mod token;

pub use settings::{Config, PeopleApiSettings, SignInSettings};

use axum::Extension;
use provider::Providers;
use std::sync::Arc;
use unslide_api::feature::path_keys::AddressRates;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, OutcomeCounts, with_tag};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "people";

/// Requests of sign-ins of one address in a second, and seconds' worth of them at once. An office is one address.
const ADDRESS_REQUESTS_PER_SECOND: f64 = 5.0;
const ADDRESS_BURST_SECONDS: f64 = 60.0;

/// The metric with the outcomes.
const OUTCOME_METRIC: &str = "unslide_api_sign_ins_total";
const OUTCOME_HELP: &str = "Sign-ins at identity providers, by outcome: signed_in, no_scopes, deactivated, foreign_answer, declined, provider_failed, token_refused; notices of sign-outs: signed_out, sign_out_refused.";

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

/// The feature.
pub const FEATURE: Feature =
    Feature { hook: store::PEOPLE_HOOK, ..Feature::new(NAME, |reader| feature(reader.read_whole())) };

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let sign_in = &config.api.sign_in;
    let settings = FeatureSettings {
        problems: sign_in.parse_receivers().err().into_iter().collect(),
        warnings: sign_in.find_insecure(),
        ..FeatureSettings::from_config(&config)
    };
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config.api)) }
}

fn for_api(settings: PeopleApiSettings) -> ApiFeature {
    let PeopleApiSettings { public_url, sign_in } = settings;
    let people = Arc::new(People::new(&sign_in, public_url));
    let extension = Extension(people.clone());
    let about = "Sign-in of people at the tenant's identity provider.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes().layer(extension.clone())),
        pages: pages::routes().layer(extension.clone()),
        routes: pages::notice_routes().layer(extension),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SignIn,
            rank: 0,
            name: NAME,
            path: pages::SSO_PATH,
            label: "Sign in with your organization",
            scope: Scope::ReportsRead,
            needs_every_app: false,
            keeps_app: false,
        }],
        tables: operations::PEOPLE_TABLES,
        start: Some(Arc::new(move |_, host| people.outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP))),
        ..ApiFeature::new(NAME)
    }
}
