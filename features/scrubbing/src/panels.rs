//! Counts of what was taken out of a report, on its page. Nothing of the values is shown.

use crate::store;
use unslide_api::feature::panels::{PanelSection, PanelSlot, PanelVerdict};
use unslide_site::grouped;
use unslide_store::{HookFuture, TenantTx};

/// Shows how often each rule has taken something out of a report.
pub fn show_panel<'t>(tx: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    Box::pin(async move {
        let PanelSlot::Report(listed) = slot else { return Ok(Vec::new()) };
        let taken = store::find_taken(tx, listed.report_id, listed.variant).await?;
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let counts: Vec<String> =
            taken.into_iter().map(|(name, count)| format!("{name} {}", grouped(count))).collect();
        Ok(vec![PanelSection {
            heading: "Scrubbed",
            hint: Some(
                "Personal data was taken out before the report was stored. Marks show the places; what was dropped has none.",
            ),
            verdict: Some(PanelVerdict { class: "", text: format!("Taken: {}.", counts.join(", ")) }),
            ..PanelSection::default()
        }])
    })
}
