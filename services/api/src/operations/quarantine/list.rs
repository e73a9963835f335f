//! `GET /v1/operator/quarantine`.

use crate::operations::dead_letters::LONGEST;
use crate::operations::prelude::*;
use crate::requests::input::check_texts;
use unslide_store::quarantine::{self, QuarantineFilter, QuarantinedRecord};

/// Which quarantined records to list. An absent filter does not limit the list.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct QuarantineQuery {
    /// The only tenant to list; empty for records of no tenant.
    pub tenant: Option<String>,
    /// Why they could not be stored.
    #[param(example = "constraint_violation")]
    pub reason: Option<String>,
    /// True lists only records that a replay has stored, false only the others; all if absent.
    pub stored: Option<bool>,
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// List quarantined records
///
/// Lists outputs of all tenants that the indexer could not store because of the record itself, newest first.
#[utoipa::path(get, path = "/v1/operator/quarantine", tag = "quarantine",
    operation_id = "operator_list_quarantined",
    params(QuarantineQuery),
    responses((status = 200, description = "A page of quarantined records.", body = Page<QuarantinedRecord>), Failures),
    security(("key" = ["operator"])))]
pub async fn operator_list_quarantined(
    State(api): State<Api>,
    access: Access<Operator>,
    Query(query): Query<QuarantineQuery>,
) -> Result<Json<Page<QuarantinedRecord>>, Problem> {
    let QuarantineQuery { tenant, reason, stored, limit, cursor } = query;
    let texts = [("tenant", tenant.as_deref()), ("reason", reason.as_deref())];
    check_texts(Kind::InvalidParameter, LONGEST, texts)?;
    let (filter, page) = (QuarantineFilter { tenant, reason, stored }, PageQuery { limit, cursor });
    let list = List::of(access.tenant(), "operator_list_quarantined", &filter);
    let after = page.after(list, |position| position.parse().ok())?;
    let limit = page.limit()?;
    let mut tx = api.tenant(access.tenant()).await?;
    let found = quarantine::list(&mut tx, &filter, after, limit + 1).await?;
    Ok(Json(Page::of(found, limit, list, |last| last.id.to_string())))
}
