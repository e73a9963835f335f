//! The health of one version, on its page: whether it is worse than the version before.

use super::HEALTH_PATH;
use super::health_rows::{HealthCell, HealthRow};
use super::values::COLUMNS;
use super::verdicts::describe_row;
use super::versions::build_row;
use crate::store::figures::{self, signals};
use unslide_api::feature::panels::{
    PanelLink, PanelRow, PanelSection, PanelTable, PanelVerdict, VersionPageScope,
};
use unslide_site::build_link;
use unslide_store::{Result, TenantTx};

/// The sentence that takes the place of missing figures.
const NO_FIGURES: &str = "No session events and no metrics of this version came in these days. Send them with POST /v1/sessions and \
    POST /v1/metrics to see whether it is worse than the version before.";
const NO_VERSION_BEFORE: &str = "There is no version before it to compare it with.";
/// Signals that are always shown. Others are, if they changed by more than noise.
const ALWAYS_SHOWN: [&str; 2] = ["Crash-free sessions", "Crash-free users"];

/// Finds the verdict on a version and the figures that it is made of.
pub async fn find_version_panel(tx: &mut TenantTx, scope: VersionPageScope<'_>) -> Result<PanelSection> {
    let [days, _] = figures::compared_periods(scope.today, u32::try_from(scope.days).unwrap_or(1));
    let found = signals::compare_version_signals(tx, scope.app, days).await?;
    let of_version = found.versions.iter().find(|version| version.version == scope.version);
    let section = PanelSection { heading: "Health", ..PanelSection::default() };
    let Some(version) = of_version.filter(|version| !version.signals.is_empty()) else {
        return Ok(PanelSection { hint: Some(NO_FIGURES), ..section });
    };
    let row = build_row(version, &COLUMNS, scope.app, None);
    let verdict = describe_row(&row, version);
    let table = PanelTable {
        caption: "Figures that changed by more than noise, and the shares without a crash",
        columns: ["Figure", "Value", "Change", "From"],
        rows: list_rows(&row),
    };
    let link = PanelLink {
        path: build_link(HEALTH_PATH, &[("app", Some(scope.app))]),
        text: "All figures of all versions".to_owned(),
        ..PanelLink::default()
    };
    Ok(PanelSection {
        hint: verdict.is_none().then_some(NO_VERSION_BEFORE),
        verdict: verdict.map(|verdict| PanelVerdict { class: verdict.class, text: verdict.text }),
        table: Some(table).filter(|table| !table.rows.is_empty()),
        links: vec![link],
        ..section
    })
}

fn list_rows(row: &HealthRow) -> Vec<PanelRow> {
    let is_shown = |cell: &&HealthCell| ALWAYS_SHOWN.contains(&cell.head) || !cell.change_class().is_empty();
    let lines = |cell: &HealthCell| {
        let of_cell = cell.lines.iter().map(|line| {
            let (class, word, before) = line.change.clone().unwrap_or_default();
            let note = match (word.is_empty(), before.is_empty()) {
                (_, true) => None,
                (true, false) => Some(format!("within noise, was {before}")),
                (false, false) => Some(format!("{word}, was {before}")),
            };
            PanelRow {
                name: format!("{} {}", cell.head, line.statistic).trim().to_owned(),
                href: Some(cell.over_time.clone()).filter(|path| !path.is_empty()),
                value: line.value.clone(),
                class,
                notes: note.into_iter().collect(),
                observations: cell.observations.clone(),
            }
        });
        of_cell.collect::<Vec<_>>()
    };
    row.cells.iter().filter(is_shown).flat_map(lines).collect()
}
