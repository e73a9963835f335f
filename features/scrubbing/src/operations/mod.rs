//! The API of a tenant's rules, for its administrators.

pub mod apply;
pub mod get;
pub mod preview;
pub mod set;
pub mod try_rules;

use crate::store::runs::{self, ScrubRun};
use crate::store::{self, AppRules};
use ring::rand::{SystemRandom, generate};
use serde::Serialize;
use time::OffsetDateTime;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Kind, Problem, check_texts};
use unslide_api::routes;
use unslide_model::TenantId;
use unslide_scrubbing_rules::{ScrubConfig, ScrubRules, ScrubSalt};
use unslide_store::{StoreError, TenantTx};
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "the rules of scrubbing are for all apps of a tenant";
/// The most bytes of the name of an app.
const APP_BYTES: usize = 255;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(get::get_scrubbing, set::set_scrubbing))
        .routes(routes!(apply::apply_scrubbing))
        .routes(routes!(try_rules::try_scrubbing))
        .routes(routes!(preview::preview_scrubbing))
}

/// The rules of a tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Scrubbing {
    /// The rules by app. None: reports are stored as they are.
    #[schema(max_items = 50)]
    pub items: Vec<AppScrubbing>,
    /// The last run that applied the rules to stored reports; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<ScrubRun>,
}

/// The rules of an app.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppScrubbing {
    /// Bundle identifier of the app; empty for the apps without rules of their own.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The rules that hold for its reports.
    pub rules: ScrubConfig,
    /// When they were set last (RFC 3339). They hold for reports that are stored five seconds later.
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

impl Scrubbing {
    async fn load(tx: &mut TenantTx) -> Result<Scrubbing, StoreError> {
        let rules = store::list_rules(tx).await?;
        let of_app = |rules: AppRules| AppScrubbing {
            app: rules.app,
            rules: rules.config,
            changed_at: rules.changed_at,
        };
        Ok(Scrubbing { items: rules.into_iter().map(of_app).collect(), run: runs::find_last_run(tx).await? })
    }
}

/// Compiles rules of a request. Hashes have a salt of their own: with the tenant's, its administrators could test guesses.
///
/// # Errors
/// [`Kind::InvalidBody`] with the first problem.
fn compile_rules(config: &ScrubConfig) -> Result<ScrubRules, Problem> {
    let salt: [u8; 32] = generate(&SystemRandom::new())
        .map_err(|_| Problem::internal("the operating system gives no random bytes"))?
        .expose();
    ScrubRules::compile(config, ScrubSalt::new(&salt))
        .map_err(|error| Problem::new(Kind::InvalidBody, format!("rules.{error}")))
}

/// Returns the rules of a request, or the stored ones of its app.
async fn read_rules(
    storage: &Storage,
    tenant: &TenantId,
    given: Option<ScrubConfig>,
    app: &str,
) -> Result<ScrubConfig, Problem> {
    if let Some(given) = given {
        return Ok(given);
    }
    let mut tx = storage.tenant(tenant).await?;
    let listed = store::list_rules(&mut tx).await?;
    tx.rollback();
    Ok(store::find_app_rules(&listed, app).unwrap_or_default())
}

/// Checks the app of a request.
///
/// # Errors
/// [`Kind::InvalidBody`] for a name that is too long or no text.
fn check_app(app: &str) -> Result<(), Problem> {
    check_texts(Kind::InvalidBody, APP_BYTES, [("app", Some(app))])
}
