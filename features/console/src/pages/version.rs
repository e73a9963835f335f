//! `/console/version`: whether a version is bad, its new, regressed and growing groups, and the dSYMs that it lacks.

use crate::components::chart::GroupTrends;
use crate::components::rows::{self, CountedScope, GroupHead, group_heads};
use crate::pages::versions::{VERSION_PAGE, VERSIONS_PAGE, format_symbolicated};
use crate::prelude::*;
use time::Duration;
use unslide_api::feature::panels::{PanelSection, PanelSlot, Panels, VersionPageScope, collect_panels};
use unslide_api::feature::site::{GROWING, GROWING_DAYS, Tx};
use unslide_site::{FilterBar, app_and_version, period_select};
use unslide_store::TenantTx;
use unslide_store::queries::groups::growing;
use unslide_store::queries::groups::{self, CountScope, GroupFilter, GroupOrder, ListedGroup};
use unslide_store::queries::missing::{self, MissingDebugId, MissingFilter};
use unslide_store::queries::trends;
use unslide_store::queries::versions::{VersionSummary, find_version};

/// Maximum number of groups in each list.
const GROUPS_LIMIT: u32 = 20;
/// Maximum number of growing groups, and of images.
const SHORT_LIST_ENTRIES: u32 = 10;

#[derive(Template)]
#[template(path = "console/pages/version.html", askama = escaping)]
struct VersionPage {
    shell: Shell,
    app: String,
    version: String,
    days: i64,
    summary: VersionSummary,
    /// The sections of features, such as the verdict.
    panels: Vec<PanelSection>,
    heads: Vec<GroupHead>,
    lists: GroupLists,
    trends: GroupTrends,
    scope: CountedScope,
    missing: Vec<MissingDebugId>,
}

/// The groups of a version, those with the most reports of it first.
struct GroupLists {
    /// Resolved groups that a report of it brought back.
    regressed: Vec<ListedGroup>,
    /// Their first report was of it.
    new: Vec<ListedGroup>,
    /// Others with more reports of it than before.
    growing: Vec<ListedGroup>,
    /// True if there are more new and regressed groups.
    is_more: bool,
}

impl VersionPage {
    /// Returns the path of the version's groups, with these parameters.
    fn groups_path(&self, others: &[(&str, Option<&str>)]) -> String {
        let own = [("app", Some(self.app.as_str())), ("version", Some(self.version.as_str()))];
        build_link("/console/groups", &[&own[..], others].concat())
    }

    fn new_path(&self) -> String {
        self.groups_path(&[
            ("new_in", Some(&self.version)),
            ("status", Some("all")),
            ("sort", Some("reports")),
        ])
    }

    /// Returns the path of the version's counted reports, or of its crashes.
    fn reports_path(&self, is_fatal: bool) -> String {
        let own = [("app", Some(self.app.as_str())), ("version", Some(self.version.as_str()))];
        let counted = [("fatal", is_fatal.then_some("true")), ("counted", Some("true"))];
        build_link("/console/reports", &[&own[..], &counted].concat())
    }
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    State(panels): State<Arc<Panels>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let (access, now) = (&signed.access, storage.clock.now());
    let app = access.restrict_app(state.get_text("app"))?.unwrap_or_default();
    let version = state.get_text("version").unwrap_or_default();
    let mut tx = storage.tenant(access.tenant()).await?;
    let Some(summary) = find_version(&mut tx, &app, &version).await? else {
        // Another app was chosen, or none.
        let to = build_link(VERSIONS_PAGE, &[("app", Some(&app))]);
        return Ok(Redirect::to(&to).into_response());
    };
    let mut selects = app_and_version(&mut tx, access, &state).await?;
    selects.push(period_select(&state));
    let days = state.chart_days();
    let scope = VersionPageScope { app: &app, version: &version, today: now.date(), days };
    let panels = collect_panels(&panels, &mut tx, PanelSlot::Version(scope)).await?;
    let filter = GroupFilter {
        app: Some(app.clone()),
        scope: CountScope { version: Some(version.clone()), ..CountScope::default() },
        ..GroupFilter::default()
    };
    let lists = GroupLists::load_for_version(&mut tx, &filter, &version, now).await?;
    let first = state.first_day(now);
    let ids: Vec<_> = lists.all().map(|group| group.id).collect();
    let trends = trends::read_group_trends(&mut tx, &ids, Some(&version), first).await?;
    let missing_filter =
        MissingFilter { app: Some(app.clone()), version: Some(version.clone()), system: false };
    let missing = missing::list_missing(&mut tx, &missing_filter, None, SHORT_LIST_ENTRIES).await?;
    tx.rollback();
    let bar = FilterBar { action: VERSION_PAGE.to_owned(), selects, ..FilterBar::default() };
    render_html(&VersionPage {
        shell: Shell::for_viewer(signed.viewer, "versions", format!("Version {version}"))
            .with_about(app.as_str())
            .with_bar(bar),
        days,
        summary,
        panels,
        heads: group_heads(None, |_| None),
        lists,
        trends: GroupTrends::from_rows(&trends, (first, now.date())),
        scope: CountedScope {
            version: Some(version.clone()),
            days: None,
            growth_from: Some(now.date() - Duration::days(GROWING_DAYS - 1)),
        },
        missing,
        app,
        version,
    })
}

impl GroupLists {
    async fn load_for_version(
        tx: &mut Tx<TenantTx>,
        filter: &GroupFilter,
        version: &str,
        now: time::OffsetDateTime,
    ) -> Result<GroupLists, Problem> {
        let new = GroupFilter { new_in: Some(version.to_owned()), ..filter.clone() };
        let mut found = groups::list_groups(tx, &new, GroupOrder::Reports, None, GROUPS_LIMIT + 1).await?;
        let is_more = found.len() > GROUPS_LIMIT as usize;
        found.truncate(GROUPS_LIMIT as usize);
        let first = now.date() - Duration::days(GROWING_DAYS - 1);
        let mut growing = growing::list_growing_groups(tx, filter, first, now).await?;
        growing.retain(|group| !is_new_in(group, version));
        growing.truncate(SHORT_LIST_ENTRIES as usize);
        groups::replace_counts(tx, filter, &mut growing).await?;
        let (regressed, new) =
            found.into_iter().partition(|group| group.regressed_in.as_deref() == Some(version));
        Ok(GroupLists { regressed, new, growing, is_more })
    }

    fn all(&self) -> impl Iterator<Item = &ListedGroup> {
        self.regressed.iter().chain(&self.new).chain(&self.growing)
    }
}

fn is_new_in(group: &ListedGroup, version: &str) -> bool {
    group.first_version == version || group.regressed_in.as_deref() == Some(version)
}
