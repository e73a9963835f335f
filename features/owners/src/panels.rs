//! The owner on the page of a group.

use crate::store::{self, GroupOwner, LOOK_FAILURES_LIMIT};
use unslide_api::feature::panels::{PanelFigure, PanelSection, PanelSlot, PanelVerdict};
use unslide_owners_formats::OwnerOutcome;
use unslide_store::{HookFuture, TenantTx};

/// Lines that the page shows.
const LINES_LIMIT: usize = 3;

/// Shows the owner of a group, and which frame, path and line decided.
pub fn show_panel<'t>(tx: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    Box::pin(async move {
        let PanelSlot::Group(group) = slot else { return Ok(Vec::new()) };
        let found = store::get_group_owner(tx, group.id).await?;
        Ok(found.map(describe_owner).into_iter().collect())
    })
}

/// Returns an outcome in words.
pub fn describe_outcome(outcome: Option<OwnerOutcome>) -> &'static str {
    match outcome {
        None => "The owner was not looked for yet.",
        Some(OwnerOutcome::Owned) => {
            "The line of the file of owners that matches the source file of the cause decides."
        }
        Some(OwnerOutcome::Cleared) => "No owner: the line that matches names none.",
        Some(OwnerOutcome::Unmatched) => "No owner: no line of the file of owners matches.",
        Some(OwnerOutcome::Dependency) => "No owner: it is the code of others, and no line names its folder.",
        Some(OwnerOutcome::Generated) => "No owner: the build or the compiler wrote the source file.",
        Some(OwnerOutcome::Unmapped) => {
            "No owner: no path rewrite fits, so the place of the source file in the repository is not known."
        }
        Some(OwnerOutcome::NoSource) => "No owner: the cause has no source file. Symbols with lines name it.",
        Some(OwnerOutcome::NoFile) => "No owner: the app has no file of owners.",
        Some(OwnerOutcome::NoReport) => "No owner: the group has no stored report.",
        Some(OwnerOutcome::Unreadable) => "No owner: the report of the group cannot be read.",
    }
}

fn describe_owner(found: GroupOwner) -> PanelSection {
    let figure = |label, value: String, title, note: String| PanelFigure { label, value, title, note };
    let explanation = found.explanation;
    let mut figures = Vec::new();
    if !found.owners.is_empty() {
        let title = "As the file of owners has it";
        figures.push(figure("Owner", found.owners.join(", "), title, String::new()));
    }
    if let Some(function) = explanation.function {
        let note = explanation.frame.map(|frame| format!("frame {frame}")).unwrap_or_default();
        figures.push(figure("Cause", function, "The function that grouping names as the cause", note));
    }
    if let Some(path) = explanation.path {
        let note = match (explanation.repository_path, explanation.rewrite) {
            (Some(repository), Some(rewrite)) => format!("{repository}, by the rewrite of {}", rewrite.from),
            (Some(repository), None) => format!("{repository} in the repository"),
            (None, _) => String::new(),
        };
        figures.push(figure("Source file", path, "The path as symbols have it", note));
    }
    let version = match explanation.file_version.as_deref() {
        None => String::new(),
        Some("") => " of the file of all versions".to_owned(),
        Some(version) => format!(" of the file of version {version}"),
    };
    let dialect = explanation.dialect.unwrap_or_default();
    for line in explanation.lines.into_iter().take(LINES_LIMIT) {
        let section = line.section.map(|name| format!(", section {name}")).unwrap_or_default();
        let note = format!("line {}{version}{section}, by the rules of {dialect}", line.line);
        figures.push(figure("Line", line.pattern, "The pattern of the line that decided", note));
    }
    let class =
        if found.outcome == Some(OwnerOutcome::Owned) || found.outcome.is_none() { "" } else { "bad" };
    let mut text = describe_outcome(found.outcome).to_owned();
    if found.failures >= LOOK_FAILURES_LIMIT {
        text += " The report could not be read for 20 hours; a new report or the next file of owners makes it looked for again.";
    } else if found.failures > 0 {
        text += " The report could not be read; that is tried again.";
    } else if found.is_due && found.outcome.is_some() {
        text += " It is looked for again.";
    }
    PanelSection {
        heading: "Owner",
        verdict: Some(PanelVerdict { class, text }),
        figures,
        ..PanelSection::default()
    }
}
