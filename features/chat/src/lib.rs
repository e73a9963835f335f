//! Chat: the bugs of a tenant in Slack, one thread for each, with buttons that act as the person who presses them.
//!
//! `slack` has the API and the messages, `store` the statements, `work` the posts and the actions beside the requests of the api, `hooks` the
//! route on which Slack tells of buttons, `sealing` the encryption of secrets, `operations` the API, and `pages` the console. The package
//! `commands` has the subcommand.

mod hooks;
pub mod ids;
mod operations;
mod pages;
mod sealing;
mod settings;
mod slack;
pub mod store;
mod work;

pub use settings::{ChatApiSettings, ChatSettings, Config};

use axum::Extension;
use sealing::{SecretKind, SlackSealer};
use slack::{SlackAccount, SlackClient};
use std::sync::Arc;
use std::time::Duration;
use unslide_api::entropy::Entropy;
use unslide_api::feature::tenant_turns::start_tenant_turns;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace, with_tag};
use unslide_feature::{ConfiguredFeature, Feature, FeatureSettings};
use unslide_model::{Scope, TenantId};
use work::SlackWorker;

/// The name of the feature.
pub const NAME: &str = "chat";

/// State of the feature in one process of the api.
pub struct Chat {
    /// None if TLS cannot be set up.
    client: Option<SlackClient>,
    /// None if the operator has set no key to seal with.
    sealer: Option<SlackSealer>,
    settings: ChatSettings,
    entropy: Entropy,
    /// The address of the console, without a slash at its end; empty if it is not known.
    public_url: String,
}

/// The state of the feature, as operations and pages take it.
type ChatExtension = Extension<Arc<Chat>>;

impl Chat {
    /// Returns the account of a tenant's Slack app, with its token.
    ///
    /// # Errors
    /// Returns why the token cannot be used, for the tenant.
    fn open_account(&self, tenant: &TenantId, row: &store::SlackAppRow) -> Result<SlackAccount, String> {
        let missing = || format!("the operator of the service has removed {}", sealing::SEALING_KEY);
        let sealer = self.sealer.as_ref().ok_or_else(missing)?;
        let token = sealer.open(tenant, SecretKind::Token, &row.sealed_token);
        Ok(SlackAccount { token: token.map_err(|error| format!("bot_token: {error}"))? })
    }
}

/// The feature of chats, with its tables.
pub const FEATURE: Feature =
    Feature { hook: store::CHAT_HOOK, ..Feature::new(NAME, |reader| feature(reader.read_whole())) };

/// Makes the feature with these settings.
#[must_use]
pub fn feature(config: Config) -> ConfiguredFeature {
    let (problems, warnings) = (config.api.chat.problems(), config.api.chat.find_insecure());
    let settings = FeatureSettings { problems, warnings, ..FeatureSettings::from_config(&config) };
    ConfiguredFeature { settings: Some(settings), ..FEATURE.with_api(for_api(config.api)) }
}

fn for_api(config: ChatApiSettings) -> ApiFeature {
    let ChatApiSettings { public_url, chat: settings } = config;
    let allowed = settings.parse_receivers().unwrap_or_default();
    let look_interval = Duration::from_millis(settings.look_millis);
    let answer_timeout = Duration::from_millis(settings.answer_millis);
    let chat = Arc::new(Chat {
        client: SlackClient::new(allowed, &settings.slack_url, answer_timeout).ok(),
        // Settings that cannot be used were refused with the configuration.
        sealer: SlackSealer::from_setting(&settings.sealing_key).ok().flatten(),
        settings,
        entropy: Entropy::default(),
        public_url: public_url.trim_end_matches('/').to_owned(),
    });
    let extension = Extension(chat.clone());
    ApiFeature {
        operations: with_tag(
            NAME,
            "The Slack app of a tenant.",
            operations::routes().layer(extension.clone()),
        ),
        routes: hooks::routes().layer(extension.clone()),
        pages: pages::routes().layer(extension),
        navigation: vec![NavigationEntry {
            place: NavigationPlace::SideBar,
            rank: 63,
            name: NAME,
            path: pages::SLACK_PAGE,
            label: "Slack",
            scope: Scope::TenantAdmin,
            needs_every_app: true,
            keeps_app: false,
        }],
        start: Some(Arc::new(move |api, host| {
            let worker = SlackWorker::new(chat.clone(), api.symbolication.storage.store.clone());
            Ok(start_tenant_turns(worker, look_interval, host.shutdown.token().clone()))
        })),
        ..ApiFeature::new(NAME)
    }
}
