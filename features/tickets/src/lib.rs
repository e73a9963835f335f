//! Tickets: a group's ticket in Jira, GitHub, GitLab or Linear, made once and followed in both directions.
//!
//! `trackers` has the products, one entry for each, `store` the statements, `work` the requests beside those of the api, `hooks` the
//! route on which trackers tell of changes, `new_ticket` the requests for tickets, `fixes` the commits that fix groups, `ticket` their
//! common words, `text` the text of a ticket, `sealing` the encryption of tokens, `operations` the API, and `pages` the console. The
//! package `commands` has the subcommands.

mod fix_version;
mod fixes;
mod hooks;
mod new_ticket;
mod operations;
mod pages;
mod sealing;
mod settings;
pub mod store;
mod text;
mod ticket;
mod trackers;
mod work;

pub use settings::{Config, TicketApiSettings, TicketSettings};
pub use ticket::TrackerKind;

use axum::Extension;
use new_ticket::answer_request;
use sealing::TrackerSealer;
use std::sync::Arc;
use std::time::Duration;
use trackers::{TrackerAccount, TrackerClient};
use unslide_api::feature::tenant_turns::start_tenant_turns;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, OutcomeCounts, with_tag};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::{Scope, TenantId};
use unslide_runtime::fairness::FairSemaphore;
use unslide_store::{StoreEvent, StoreHook};
use work::TicketWorker;

/// The name of the feature.
pub const NAME: &str = "tickets";

/// The metric with the outcomes.
const OUTCOME_METRIC: &str = "unslide_api_tickets_total";
const OUTCOME_HELP: &str = "Work on tickets by outcome: created, found (an earlier request had made it), read, reopened, postponed, failed; hooks by outcome: hook_taken, hook_repeated, hook_refused.";

/// Trackers that a process probes at once, and those of one tenant.
const PROBES_LIMIT: u32 = 16;
const TENANT_PROBES_LIMIT: u32 = 2;

/// State of the feature in one process of the api.
pub struct Tickets {
    /// None if TLS cannot be set up.
    client: Option<TrackerClient>,
    /// None if the operator has set no key to seal with.
    sealer: Option<TrackerSealer>,
    settings: TicketSettings,
    /// The address of the console, without a slash at its end; empty if it is not known.
    public_url: String,
    outcomes: OutcomeCounts,
    /// Held while a tracker is probed.
    probes: FairSemaphore<TenantId>,
}

/// The state of the feature, as operations and pages take it.
type TicketsExtension = Extension<Arc<Tickets>>;

impl Tickets {
    /// Returns the account of a tracker, with its token.
    ///
    /// # Errors
    /// Returns why the token cannot be used, for the tenant.
    fn open_account(&self, tenant: &TenantId, row: &store::TrackerRow) -> Result<TrackerAccount, String> {
        let missing = || format!("the operator of the service has removed {}", sealing::SEALING_KEY);
        let sealer = self.sealer.as_ref().ok_or_else(missing)?;
        let owner = sealing::TrackerSecretOwner { tenant, tracker: &row.name };
        let token = sealer.open(owner, sealing::SecretUse::Token, &row.sealed_token);
        Ok(TrackerAccount {
            url: row.url.clone(),
            project: row.project.clone(),
            account: row.account.clone(),
            token: token.map_err(|error| format!("token: {error}"))?,
            issue_type: row.issue_type.clone(),
            labels: row.labels.clone(),
            fields: row.fields.clone(),
        })
    }
}

/// The feature.
pub const FEATURE: Feature = Feature {
    hook: StoreHook { on_event: Some(|event| Box::pin(act_on_event(event))), ..store::TICKETS_HOOK },
    ..Feature::new(NAME, |reader| feature(reader.read_whole()))
};

async fn act_on_event(event: &mut StoreEvent<'_>) -> unslide_store::Result<()> {
    match event {
        StoreEvent::TicketRequested(tx, request, answer) => {
            **answer = Some(answer_request(tx, request).await?);
            Ok(())
        }
        event => store::write_for_event(event).await,
    }
}

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let (problems, warnings) = (config.api.tickets.problems(), config.api.tickets.find_insecure());
    let settings = FeatureSettings { problems, warnings, ..FeatureSettings::from_config(&config) };
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config.api)) }
}

fn for_api(config: TicketApiSettings) -> ApiFeature {
    let TicketApiSettings { public_url, tickets: settings } = config;
    let allowed = settings.parse_receivers().unwrap_or_default();
    let look_interval = Duration::from_millis(settings.look_millis);
    let tickets = Arc::new(Tickets {
        client: TrackerClient::new(allowed, Duration::from_millis(settings.answer_millis)).ok(),
        // Settings that cannot be used were refused with the configuration.
        sealer: TrackerSealer::from_setting(&settings.sealing_key).ok().flatten(),
        settings,
        public_url: public_url.trim_end_matches('/').to_owned(),
        outcomes: OutcomeCounts::default(),
        probes: FairSemaphore::new("tests of trackers", PROBES_LIMIT, TENANT_PROBES_LIMIT),
    });
    let extension = Extension(tickets.clone());
    let about = "Trackers of a tenant, and the tickets of groups.";
    ApiFeature {
        operations: with_tag(NAME, about, operations::routes().layer(extension.clone())),
        routes: hooks::routes().layer(extension.clone()),
        pages: pages::routes().layer(extension),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 62,
            name: NAME,
            path: pages::TRACKERS_PAGE,
            label: "Trackers",
            scope: Scope::TenantAdmin,
            needs_every_app: true,
            keeps_app: false,
        }],
        show_panel: Some(pages::show_panel),
        start: Some(Arc::new(move |api, host| {
            tickets.outcomes.start(host, OUTCOME_METRIC, OUTCOME_HELP)?;
            let worker = TicketWorker::new(tickets.clone(), &api.symbolication);
            Ok(start_tenant_turns(worker, look_interval, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    }
}
