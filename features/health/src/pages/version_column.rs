//! The share of sessions without a crash, in the list of versions.

use super::shares::{crash_free, per_thousand};
use crate::store::figures::{self, HealthFigures};
use unslide_api::feature::figures::{VersionCell, VersionColumn, VersionScope};
use unslide_console::page::{counted, estimate};
use unslide_store::{HookFuture, TenantTx};

/// Days that the column covers.
const DAYS: u32 = 30;

/// Finds the shares of versions with sessions.
pub fn find_version_column<'t>(
    tx: &'t mut TenantTx,
    scope: VersionScope<'t>,
) -> HookFuture<'t, VersionColumn> {
    Box::pin(async move {
        let [period, _] = figures::compared_periods(scope.today, DAYS);
        let found = figures::version_figures(tx, scope.app, scope.versions, period).await?;
        Ok(VersionColumn {
            head: "Crash-free sessions",
            title: "Sessions of the last 30 days that did not end with a crash",
            cells: found.into_iter().map(|version| (version.version, cell(&version.figures))).collect(),
        })
    })
}

fn cell(figures: &HealthFigures) -> VersionCell {
    let share = crash_free(figures.crashed_sessions, figures.sessions);
    VersionCell {
        value: share.unwrap_or_else(|| "–".to_owned()),
        observations: estimate(counted(figures.sessions, "session", "sessions"), figures.estimated),
        notes: out_of_memory(figures),
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
