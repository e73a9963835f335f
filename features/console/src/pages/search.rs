//! `/console/search`: opens the page for an id, or lists the groups that match a text.

use super::group_pages::groups;
use super::report_pages::reports as report_list;
use crate::components::rows::report_path;
use crate::prelude::*;
use unslide_api::feature::site::sees_symbols;
use unslide_model::{DebugId, ReportId, Scope};
use unslide_store::groups::{find_short_ids, normalize_short_id};
use unslide_store::queries::groups as group_rows;
use unslide_store::queries::report;
use unslide_store::queries::reports::{self, ReportFilter};
use unslide_store::{Uuid, symbols, uploads};

pub async fn render_page(
    State(api): State<Api>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    groups::render_page(State(api), signed, Query(state.with_parameter("status", "all"))).await
}

/// Returns the path of the page for the id in the search text: a report, a group, an entry of a feature, an
/// upload or an image. Each is looked up with the key's access, so another tenant's id is never found.
///
/// # Errors
/// The database fails.
pub async fn find_by_id(
    api: &Api,
    access: &Access<ReportsRead>,
    text: Option<&str>,
) -> Result<Option<String>, Problem> {
    let only = access.only_app();
    let Some(id) = text.and_then(read_id) else { return find_by_short_id(api, access, text).await };
    let mut tx = api.tenant(access.tenant()).await?;
    let report = report::find_report(&mut tx, ReportId::from_uuid(id), 0).await?;
    if report.is_some_and(|found| access.can_see(&found.listed.app)) {
        return Ok(Some(report_path(id, 0, "")));
    }
    if group_rows::find_group(&mut tx, id, only).await?.is_some() {
        return Ok(Some(format!("/console/groups/{id}")));
    }
    for find in api.features.iter().filter_map(|feature| feature.find_page) {
        if let Some(path) = find(&mut tx, id, only).await? {
            return Ok(Some(path));
        }
    }
    let debug_id = DebugId::from_uuid(id);
    let image = debug_id.to_string();
    let of_image = [("debug_id", Some(image.as_str()))];
    if access.principal.has_scope(Scope::SymbolsRead) {
        let upload = uploads::find_upload(&mut tx, id).await?;
        if upload.is_some_and(|upload| only.is_none() || upload.app.as_deref() == only) {
            return Ok(Some(build_link("/console/symbols", &[("upload", Some(&id.to_string()))])));
        }
        let has_objects = symbols::find_symbols(&mut tx, &debug_id, Some(1)).await?.is_some();
        if has_objects && sees_symbols(&mut tx, only, &debug_id).await? {
            return Ok(Some(build_link("/console/symbols", &of_image)));
        }
    }
    let app = only.map(str::to_owned);
    let filter = ReportFilter { app, debug_id: Some(debug_id), ..ReportFilter::default() };
    let found = reports::list_reports(&mut tx, &filter, None, 1).await?;
    Ok((!found.reports.is_empty()).then(|| build_link(report_list::REPORTS_PAGE, &of_image)))
}

/// Returns the path of the page of the group with the short id in the search text.
async fn find_by_short_id(
    api: &Api,
    access: &Access<ReportsRead>,
    text: Option<&str>,
) -> Result<Option<String>, Problem> {
    let Some(name) = text.and_then(normalize_short_id) else { return Ok(None) };
    let mut tx = api.tenant(access.tenant()).await?;
    let found = find_short_ids(&mut tx, &[name]).await?;
    let Some(id) = found.first().copied().flatten() else { return Ok(None) };
    let group = group_rows::find_group(&mut tx, id, access.only_app()).await?;
    Ok(group.map(|group| format!("/console/groups/{}", group.id)))
}

/// Reads a search text as an id: 32 hexadecimal digits with or without dashes, in any case, also in the angle
/// brackets that Apple's logs put around debug ids.
pub fn read_id(text: &str) -> Option<Uuid> {
    let text = text.trim();
    let text = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let is_id = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| Uuid::parse_str(&digits).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_with_and_without_dashes_in_any_case() {
        let id = Uuid::parse_str("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0").unwrap();
        for text in [
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
            " 0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0 ",
            "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
            "0F1E2D3C4B5A69788796A5B4C3D2E1F0",
            "<0f1e2d3c4b5a69788796a5b4c3d2e1f0>",
        ] {
            assert_eq!(read_id(text), Some(id), "{text}");
        }
        for text in ["", "0f1e2d3c", "Cart.total", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f", &"g".repeat(32)] {
            assert_eq!(read_id(text), None, "{text}");
        }
    }
}
