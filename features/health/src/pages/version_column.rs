//! The share of sessions without a crash, in the list of versions.

use super::shares::{crash_free, per_thousand};
use crate::store::figures::{self, HealthFigures};
use unslide_api::feature::panels::{PanelRow, PanelSection, PanelTable, VersionScope};
use unslide_site::{counted, estimate};
use unslide_store::{Result, TenantTx};

/// Days that the column covers.
const DAYS: u32 = 30;

/// Finds the shares of versions with sessions.
pub async fn find_version_column(tx: &mut TenantTx, scope: VersionScope<'_>) -> Result<PanelSection> {
    let [period, _] = figures::compared_periods(scope.today, DAYS);
    let found = figures::version_figures(tx, scope.app, scope.versions, period).await?;
    let table = PanelTable {
        caption: "Sessions of the last 30 days that did not end with a crash",
        columns: ["Version", "Share", "Out of memory", "From"],
        rows: found.into_iter().map(|version| cell(version.version, &version.figures)).collect(),
    };
    Ok(PanelSection { heading: "Crash-free sessions", table: Some(table), ..PanelSection::default() })
}

fn cell(version: String, figures: &HealthFigures) -> PanelRow {
    let share = crash_free(figures.crashed_sessions, figures.sessions);
    PanelRow {
        name: version,
        value: share.unwrap_or_else(|| "–".to_owned()),
        observations: estimate(counted(figures.sessions, "session", "sessions"), figures.estimated),
        notes: out_of_memory(figures),
        ..PanelRow::default()
    }
}

/// Returns sessions of a thousand that ended out of memory on the screen, and in the background; empty
/// without any.
fn out_of_memory(figures: &HealthFigures) -> Vec<String> {
    let places = [
        (figures.out_of_memory_sessions, "out of memory"),
        (figures.background_out_of_memory_sessions, "out of memory in the background"),
    ];
    let some = places.into_iter().filter(|(sessions, _)| *sessions > 0);
    some.map(|(sessions, place)| {
        format!("{} per 1\u{202f}000 {place}", per_thousand(sessions, figures.sessions))
    })
    .collect()
}
