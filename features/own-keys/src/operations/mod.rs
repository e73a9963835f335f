//! The API of own keys.

pub mod keys;
pub mod values;

use crate::store::KeyScope;
use serde::Deserialize;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::operation::{Access, Kind, Problem, ReportsRead, check_texts, parse_parameter};
use unslide_api::feature::site::find_named_group;
use unslide_api::routes;
use unslide_model::GroupRef;
use unslide_model::figures::round_share;
use unslide_store::{GroupId, TenantTx};
use utoipa::IntoParams;

/// The most bytes of the name of an app, a version or a key.
const NAME_BYTES: usize = 1_024;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(keys::list_own_keys)).routes(routes!(values::list_own_key_values))
}

/// The reports of an app that are counted.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OwnKeysQuery {
    /// The only version to count; all versions if absent. Not together with `group`.
    pub version: Option<String>,
    /// The only group to count: its id or its short id.
    #[param(example = "SHOP-1A2B", max_length = 64)]
    pub group: Option<String>,
}

/// The reports that a request asks about, checked.
struct AskedScope {
    app: String,
    version: Option<String>,
    group: Option<GroupId>,
}

impl AskedScope {
    /// Reads the app and the query of a request.
    ///
    /// # Errors
    /// [`Kind::NotFound`] for an app that the key may not see and for a group of another app.
    async fn read_scope(
        tx: &mut TenantTx,
        access: &Access<ReportsRead>,
        app: String,
        query: OwnKeysQuery,
    ) -> Result<AskedScope, Problem> {
        let texts = [("app", Some(app.as_str())), ("version", query.version.as_deref())];
        check_texts(Kind::InvalidParameter, NAME_BYTES, texts)?;
        if query.version.is_some() && query.group.is_some() {
            let detail = "version: leave it out with group, whose reports of all versions are counted";
            return Err(Problem::new(Kind::InvalidParameter, detail));
        }
        if !access.can_see(&app) {
            return Err(no_reports());
        }
        let group = match query.group.as_deref().map(|text| parse_parameter("group", text)).transpose()? {
            Some(group) => Some(find_named_group(tx, &group as &GroupRef, Some(&app)).await?.id),
            None => None,
        };
        let without_nul = |text: String| text.replace('\0', "");
        Ok(AskedScope { app: without_nul(app), version: query.version.map(without_nul), group })
    }

    fn as_scope(&self) -> KeyScope<'_> {
        KeyScope { app: &self.app, version: self.version.as_deref(), group: self.group }
    }
}

fn no_reports() -> Problem {
    Problem::new(Kind::NotFound, "no report of this app, version and group is stored, or none has this key")
}

/// Returns a share in per cent, with two digits.
fn share_of(part: i64, whole: i64) -> f64 {
    let unsigned = |count: i64| u64::try_from(count).unwrap_or(0);
    let hundredths = round_share(unsigned(part), unsigned(whole), 10_000);
    f64::from(u32::try_from(hundredths).unwrap_or(u32::MAX)) / 100.0
}
