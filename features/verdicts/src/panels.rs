//! Verdicts on pages: on that of a group that was resolved, and on that of a version.

use crate::fix::{GroupFixState, GroupVerdict, judge_group};
use crate::pages::commonalities_link;
use crate::release::{ReleaseCheck, ReleaseCheckState, ReleaseMeasure, check_release};
use unslide_api::feature::panels::{
    PanelFigure, PanelLink, PanelRow, PanelSection, PanelSlot, PanelTable, PanelVerdict, VersionPageScope,
};
use unslide_store::queries::groups::ListedGroup;
use unslide_store::{HookFuture, Result, TenantTx};
use unslide_verdicts_statistics::format_count;

/// Shows whether a group is fixed, and whether a version may go on to more people.
pub fn show_panel<'t>(tx: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    Box::pin(async move {
        let section = match slot {
            PanelSlot::Group(group) => [find_fix_panel(tx, group).await?, Some(link_commonalities(group))],
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

/// Links to what the devices with the bug have in common. It costs no statement: devices are compared on the page.
fn link_commonalities(group: &ListedGroup) -> PanelSection {
    let link = PanelLink {
        path: commonalities_link(&group.id.to_string()),
        text: "Models, systems and flags, beside all installations".to_owned(),
        ..PanelLink::default()
    };
    PanelSection { heading: "What do they have in common?", links: vec![link], ..PanelSection::default() }
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
