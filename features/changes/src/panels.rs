//! The links to changed functions on pages: of a group, and of a version.

use crate::pages::{group_link, version_link};
use unslide_api::feature::panels::{PanelLink, PanelSection, PanelSlot};
use unslide_store::{HookFuture, TenantTx};

/// Shows the links. They cost no statement: builds are compared on the page.
pub fn show_panel<'t>(_: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    let section = match slot {
        PanelSlot::Group(group) if !group.first_version.is_empty() => Some(build_section(
            "What changed in the code?",
            group_link(&group.id.to_string()),
            format!("The functions of the stack, before {} and since", group.first_version),
        )),
        PanelSlot::Version(scope) if !scope.version.is_empty() => Some(build_section(
            "What changed that crashes?",
            version_link(scope.app, scope.version),
            format!("The functions in the stacks of bugs that are new in {}", scope.version),
        )),
        _ => None,
    };
    Box::pin(async move { Ok(section.into_iter().collect()) })
}

fn build_section(heading: &'static str, path: String, text: String) -> PanelSection {
    let link = PanelLink { path, text, ..PanelLink::default() };
    PanelSection { heading, links: vec![link], ..PanelSection::default() }
}
