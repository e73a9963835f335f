//! The one entry that has an id.

use super::matches::{SearchMatch, page_path};
use crate::operations::groups::reference::resolve_filter;
use crate::operations::prelude::*;
use crate::operations::symbols::sees_symbols;
use crate::panels::Panels;
use crate::panels::{PanelSlot, SearchedId, collect_panels};
use unslide_model::{DebugId, GroupRef, ReportId, Scope, strip_page_address};
use unslide_store::queries::reports::{self, ReportFilter};
use unslide_store::queries::{groups, report};
use unslide_store::{GroupId, TenantTx, UploadId, Uuid, symbols, uploads};

/// Reads a search text as an id: 32 hexadecimal digits with or without dashes, in any case, also in the angle
/// brackets that Apple's logs put around debug ids, or at the end of the address of a page.
pub fn read_id(text: &str) -> Option<Uuid> {
    let text = strip_page_address(text);
    let text = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let is_id = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| Uuid::parse_str(&digits).ok())?
}

/// Finds the report, the group, the entry of a feature, the upload or the image with an id. Each is looked up with the key's
/// access, so another tenant's id is never found.
///
/// # Errors
/// The database fails.
pub async fn find_by_id(
    panels: &Panels,
    tx: &mut TenantTx,
    access: &Access<ReportsRead>,
    app: Option<&str>,
    id: Uuid,
) -> Result<Option<SearchMatch>, Problem> {
    let report = report::find_report(tx, ReportId::from_uuid(id), 0).await?;
    if let Some(report) = report.filter(|found| app.is_none_or(|app| app == found.listed.app)) {
        return Ok(Some(SearchMatch::from_report(&report.listed, "id")));
    }
    if let Some(group) = groups::find_group(tx, GroupId::from_uuid(id), app).await? {
        // A replaced group is found by its old id, and its page leads to the new one.
        let page = format!("/console/groups/{id}");
        return Ok(Some(SearchMatch { page, ..SearchMatch::from_group(&group, "id") }));
    }
    let sections = collect_panels(panels, tx, PanelSlot::SearchedId(SearchedId { id, app })).await?;
    if let Some(link) = sections.into_iter().flat_map(|section| section.links).next() {
        let found = SearchMatch::by_id(link.kind, id.to_string(), link.path);
        return Ok(Some(SearchMatch { title: link.text, app: link.app, version: link.version, ..found }));
    }
    if access.principal.has_scope(Scope::SymbolsRead)
        && let Some(found) = find_symbols(tx, app, id).await?
    {
        return Ok(Some(found));
    }
    let debug_id = DebugId::from_uuid(id);
    let filter =
        ReportFilter { app: app.map(str::to_owned), debug_id: Some(debug_id), ..ReportFilter::default() };
    let found = reports::list_reports(tx, &filter, None, 1).await?;
    let image = debug_id.to_string();
    let page = page_path("/console/reports", &[("debug_id", Some(&image))]);
    Ok((!found.reports.is_empty()).then(|| SearchMatch::by_id("image", image, page)))
}

/// Finds the group with a short id, such as `SHOP-1A2B`, or with the address of its page.
///
/// # Errors
/// The database fails.
pub async fn find_by_short_id(
    tx: &mut TenantTx,
    app: Option<&str>,
    text: &str,
) -> Result<Option<SearchMatch>, Problem> {
    let Ok(named @ GroupRef::ShortId(_)) = text.parse() else { return Ok(None) };
    let id = resolve_filter(tx, &named).await?;
    // A replaced group leads to the new one.
    let group = groups::find_group(tx, id, app).await?;
    Ok(group.map(|group| SearchMatch::from_group(&group, "id")))
}

/// Finds an upload, or the symbols of an image.
async fn find_symbols(
    tx: &mut TenantTx,
    app: Option<&str>,
    id: Uuid,
) -> Result<Option<SearchMatch>, Problem> {
    let upload = uploads::find_upload(tx, UploadId::from_uuid(id)).await?;
    if let Some(upload) = upload.filter(|upload| app.is_none() || upload.app.as_deref() == app) {
        let id = id.to_string();
        let page = page_path("/console/symbols", &[("upload", Some(&id))]);
        let title = upload.file_name.unwrap_or_else(|| id.clone());
        let found = SearchMatch::by_id("upload", id, page);
        return Ok(Some(SearchMatch { title, app: upload.app.unwrap_or_default(), ..found }));
    }
    let debug_id = DebugId::from_uuid(id);
    let has_objects = symbols::find_symbols(tx, &debug_id, Some(1)).await?.is_some();
    if !has_objects || !sees_symbols(tx, app, &debug_id).await? {
        return Ok(None);
    }
    let image = debug_id.to_string();
    let page = page_path("/console/symbols", &[("debug_id", Some(&image))]);
    Ok(Some(SearchMatch::by_id("image", image, page)))
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
            "https://crashes.example.com/console/reports/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0?variant=1",
        ] {
            assert_eq!(read_id(text), Some(id), "{text}");
        }
        for text in ["", "0f1e2d3c", "Cart.total", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f", &"g".repeat(32)] {
            assert_eq!(read_id(text), None, "{text}");
        }
    }
}
