//! The TestFlight inbox: crashes that testers have sent to Apple, with their words.
//!
//! A tenant gives a key of App Store Connect. The api asks Apple for submissions, sends the crash log of each as a report, and shows the
//! tester's words on the report and in its group.
//!
//! `apple` has Apple's API, `sealing` the encryption of keys, `store` the statements, `polling` the work beside the requests,
//! `operations` the API of the tenant's administrators, `pages` the console, and `panels` the words on pages of the core. The package
//! `commands` has the subcommand.

mod apple;
mod operations;
mod pages;
mod panels;
mod polling;
mod sealing;
mod settings;
pub mod store;

pub use settings::{Config, TestFlightApiSettings, TestFlightSettings};

use apple::AppleClient;
use axum::Extension;
use polling::Poller;
use sealing::AppleKeySealer;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::tenant_turns::start_tenant_turns;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, OutcomeCounts, with_tag};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::Scope;

/// The name of the feature.
pub const NAME: &str = "testflight";

/// The metric with the outcomes.
const OUTCOME_METRIC: &str = "unslide_api_testflight_total";
const OUTCOME_HELP: &str = "Submissions of TestFlight by outcome: sent as a report, refused, without a log (no_log), asked for again later (postponed); polls by outcome: polled, failed.";

/// State of the feature in one process of the api.
pub struct Inbox {
    /// None if TLS cannot be set up.
    client: Option<AppleClient>,
    /// None if the operator has set no key to seal with.
    sealer: Option<AppleKeySealer>,
    outcomes: OutcomeCounts,
}

/// The state of the feature, as operations and pages take it.
type InboxExtension = Extension<Arc<Inbox>>;

/// The feature.
pub const FEATURE: Feature =
    Feature { hook: store::TESTFLIGHT_HOOK, ..Feature::new(NAME, |reader| feature(reader.read_whole())) };

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let problems = config.api.testflight.problems();
    let settings = FeatureSettings { problems, ..FeatureSettings::from_config(&config) };
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config.api.testflight)) }
}

fn for_api(settings: TestFlightSettings) -> ApiFeature {
    let TestFlightSettings { sealing_key, apple_url, apple_network, look_millis } = settings;
    let inbox = Arc::new(Inbox {
        client: AppleClient::new(&apple_url, apple_network).ok(),
        // Settings that cannot be used were refused with the configuration.
        sealer: AppleKeySealer::from_setting(&sealing_key).ok().flatten(),
        outcomes: OutcomeCounts::default(),
    });
    let look_interval = Duration::from_millis(look_millis);
    let extension = Extension(inbox.clone());
    let about =
        "The TestFlight inbox: crashes that testers have sent to Apple. For a tenant's administrators.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes().layer(extension.clone())),
        pages: pages::routes().layer(extension),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 133,
            name: NAME,
            path: pages::INBOX_PAGE,
            label: "TestFlight",
            scope: Scope::TenantAdmin,
            needs_every_app: true,
            keeps_app: false,
        }],
        show_panel: Some(panels::show_panel),
        start: Some(Arc::new(move |api, host| {
            inbox.outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP)?;
            let poller = Poller::new(inbox.clone(), &api.broker, &api.symbolication);
            Ok(start_tenant_turns(poller, look_interval, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    }
}
