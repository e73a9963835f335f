//! Verdicts on pages: on that of a group that was resolved, and on that of a version.

use crate::commonalities::{Commonalities, compare_group};
use crate::fix::{GroupFixState, GroupVerdict, judge_group};
use crate::release::{ReleaseCheck, ReleaseCheckState, ReleaseMeasure, check_release};
use unslide_api::feature::panels::{
    PanelFigure, PanelRow, PanelSection, PanelSlot, PanelTable, PanelVerdict, VersionPageScope,
};
use unslide_store::queries::groups::ListedGroup;
use unslide_store::{HookFuture, Result, TenantTx};
use unslide_verdicts_statistics::format_count;

/// Shows whether a group is fixed, and whether a version may go on to more people.
pub fn show_panel<'t>(tx: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    Box::pin(async move {
        let section = match slot {
            PanelSlot::Group(group) => {
                [find_fix_panel(tx, group).await?, find_common_panel(tx, group).await?]
            }
            PanelSlot::Version(scope) => [Some(find_check_panel(tx, scope).await?), None],
            _ => [None, None],
        };
        Ok(section.into_iter().flatten().collect())
    })
}

async fn find_fix_panel(tx: &mut TenantTx, group: &ListedGroup) -> Result<Option<PanelSection>> {
    if group.resolved_at.is_none() {
        return Ok(None);
    }
    let today = tx.now().date();
    Ok(Some(describe_fix(judge_group(tx, group, today).await?)))
}

/// Shows what the devices with the bug have in common. Without sessions the section would be a hint on each page.
async fn find_common_panel(tx: &mut TenantTx, group: &ListedGroup) -> Result<Option<PanelSection>> {
    let found = compare_group(tx, group).await?;
    Ok(found.hint.is_none().then(|| describe_common(&found)))
}

fn describe_common(found: &Commonalities) -> PanelSection {
    let rows = found.values.iter().map(|value| PanelRow {
        name: format!("{}: {}", value.fact.label(), value.value),
        value: format!("{} of {}", format_count(value.crashed_with), format_count(value.crashed)),
        notes: vec![format!("of all installations {:.0} %", value.share() * 100.0)],
        observations: format_count(value.all),
        ..PanelRow::default()
    });
    let table = PanelTable {
        caption: "Values that devices with this bug have more often than all installations of the same version and days",
        columns: ["Value", "With the bug", "Compared", "Installations"],
        rows: rows.collect(),
    };
    let is_empty = table.rows.is_empty();
    PanelSection {
        heading: "What they have in common",
        hint: is_empty.then_some(
            "Neither a model nor a system stands out beside the sessions of the same version and days.",
        ),
        table: Some(table).filter(|_| !is_empty),
        ..PanelSection::default()
    }
}

fn describe_fix(found: GroupVerdict) -> PanelSection {
    let class = match found.verdict {
        GroupFixState::Fixed => "good",
        GroupFixState::NotFixed => "bad",
        GroupFixState::TooEarly | GroupFixState::NotResolved => "",
    };
    let figure = |label, value: u64, title, note: String| PanelFigure {
        label,
        value: format_count(value),
        title,
        note,
    };
    let expected = format!("{:.0} expected at the old rate", found.expected);
    let before = format!("of {} sessions", format_count(found.sessions_before));
    let is_known = found.hint.is_none();
    let figures = is_known.then(|| {
        [
            figure("Crashes since the fix", found.crashes, "Reports of versions with the fix", expected),
            figure(
                "Sessions since the fix",
                found.sessions,
                "Sessions of versions with the fix",
                String::new(),
            ),
            figure(
                "Crashes before",
                found.crashes_before,
                "Reports of versions with the bug, before it was resolved",
                before,
            ),
        ]
    });
    PanelSection {
        heading: "Is it fixed?",
        hint: found.hint,
        verdict: Some(PanelVerdict { class, text: found.text }).filter(|_| is_known),
        figures: figures.into_iter().flatten().collect(),
        ..PanelSection::default()
    }
}

async fn find_check_panel(tx: &mut TenantTx, scope: VersionPageScope<'_>) -> Result<PanelSection> {
    Ok(describe_check(check_release(tx, scope.app, scope.version, None, scope.today).await?))
}

fn describe_check(check: ReleaseCheck) -> PanelSection {
    let text = check.reasons.into_iter().next().unwrap_or_default();
    let table = PanelTable {
        caption: "The measures of the release check, on the days on which both versions are in use",
        columns: ["Measure", "Events", "Expected", "Observations"],
        rows: check.measures.iter().map(describe_row).collect(),
    };
    PanelSection {
        heading: "May it go on to more people?",
        hint: check.hint,
        verdict: Some(PanelVerdict { class: choose_class(check.verdict), text })
            .filter(|_| check.hint.is_none()),
        table: Some(table).filter(|table| !table.rows.is_empty()),
        ..PanelSection::default()
    }
}

fn describe_row(measure: &ReleaseMeasure) -> PanelRow {
    PanelRow {
        name: measure.measure.replace('_', " "),
        value: format_count(measure.events),
        class: choose_class(measure.verdict),
        notes: vec![format!("{:.0} at the rate of the other version", measure.expected)],
        observations: format_count(measure.observations),
        ..PanelRow::default()
    }
}

fn choose_class(state: ReleaseCheckState) -> &'static str {
    match state {
        ReleaseCheckState::Good => "good",
        ReleaseCheckState::Bad => "bad",
        ReleaseCheckState::TooEarly => "",
    }
}
