//! The own keys on the page of a group: the values that stand out.

use crate::pages::reports_link;
use crate::store::{StandingOutValue, find_standing_out};
use unslide_api::feature::panels::{PanelRow, PanelSection, PanelSlot, PanelTable};
use unslide_site::grouped;
use unslide_site::words::format_percentage;
use unslide_store::{GroupId, HookFuture, TenantTx};

/// Shows the values that more of the group's reports have than of the app's.
pub fn show_panel<'t>(tx: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    Box::pin(async move {
        let PanelSlot::Group(group) = slot else { return Ok(Vec::new()) };
        let found = find_standing_out(tx, &group.app, group.id).await?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let table = PanelTable {
            caption: "Values in a larger share of the group's newest 1,000 reports than of the app's newest 1,000",
            columns: ["Key and value", "Share", "In the app", "Reports"],
            rows: found.iter().map(|value| describe_value(group.id, value)).collect(),
        };
        Ok(vec![PanelSection {
            heading: "Own keys that stand out",
            table: Some(table),
            ..PanelSection::default()
        }])
    })
}

fn describe_value(group: GroupId, found: &StandingOutValue) -> PanelRow {
    let StandingOutValue { key, value, in_group, in_app } = found;
    let share = |(part, whole): (i64, i64)| format_percentage(part, whole).unwrap_or_default();
    PanelRow {
        name: format!("{key}: {value}"),
        href: Some(reports_link(&[("group", &group.to_string())], key, value)),
        value: share(*in_group),
        notes: vec![share(*in_app)],
        observations: grouped(in_group.0),
        ..PanelRow::default()
    }
}
