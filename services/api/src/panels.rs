//! Panels: sections that features add to pages of the core. A page has a slot for them, and knows no kind of content.

use time::{Date, OffsetDateTime};
use unslide_store::queries::groups::ListedGroup;
use unslide_store::queries::reports::ReportRow;
use unslide_store::{HookFuture, Result, TenantTx, Uuid};

/// Returns the sections that a feature has for a slot: none for most slots.
pub type ShowPanel = for<'t> fn(&'t mut TenantTx, PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>>;

/// The panels of all features, in the order of the features.
pub struct Panels(pub Vec<ShowPanel>);

/// A place on a page of the core, with the subject of the page.
#[derive(Clone, Copy, Debug)]
pub enum PanelSlot<'t> {
    /// Sections before the core's own figures on the overview.
    Overview(OverviewScope<'t>),
    /// Sections of a report's page.
    Report(&'t ReportRow),
    /// Sections of a group's page. Links of one without a heading are beside the actions, for those who may change groups.
    Group(&'t ListedGroup),
    /// Columns of the list of versions: a section is a column, with a row of its table for each version that has data.
    Versions(VersionScope<'t>),
    /// Sections about a version before the core's own on its page.
    Version(VersionPageScope<'t>),
    /// The entry with an id that was searched for, as a link.
    SearchedId(SearchedId<'t>),
}

/// The reports that the overview is about.
#[derive(Clone, Copy, Debug)]
pub struct OverviewScope<'t> {
    /// The only app, if one is chosen.
    pub app: Option<&'t str>,
    /// The only version, if one is chosen.
    pub version: Option<&'t str>,
    pub today: Date,
    /// Number of days up to today. The period before has as many.
    pub days: i64,
    /// True if the page shows the last 24 hours: `days` then covers them.
    pub is_hourly: bool,
}

/// The versions that a page lists.
#[derive(Clone, Copy, Debug)]
pub struct VersionScope<'t> {
    pub app: &'t str,
    pub versions: &'t [String],
    pub today: Date,
}

/// The version that a page is about.
#[derive(Clone, Copy, Debug)]
pub struct VersionPageScope<'t> {
    pub app: &'t str,
    pub version: &'t str,
    pub today: Date,
    /// Number of days up to today.
    pub days: i64,
}

/// An id that was searched for.
#[derive(Clone, Copy, Debug)]
pub struct SearchedId<'t> {
    pub id: Uuid,
    /// The only app that the key may see, or that is searched.
    pub app: Option<&'t str>,
}

/// A section of a page. Each part is empty if the section has none.
#[derive(Clone, Debug, Default)]
pub struct PanelSection {
    pub heading: &'static str,
    /// A sentence before the other parts, or instead of them.
    pub hint: Option<&'static str>,
    /// The sentence that follows from the figures.
    pub verdict: Option<PanelVerdict>,
    pub figures: Vec<PanelFigure>,
    pub table: Option<PanelTable>,
    pub links: Vec<PanelLink>,
}

impl PanelSection {
    /// Returns true if the section has no more than its heading and its hint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.verdict.is_none() && self.figures.is_empty() && self.table.is_none() && self.links.is_empty()
    }
}

/// A sentence that judges the subject of a page.
#[derive(Clone, Debug)]
pub struct PanelVerdict {
    /// The mark's class: `bad`, `good` or empty.
    pub class: &'static str,
    pub text: String,
}

/// A figure of a [`PanelSection`].
#[derive(Clone, Debug)]
pub struct PanelFigure {
    pub label: &'static str,
    pub value: String,
    /// An explanation of the value; empty if it needs none.
    pub title: &'static str,
    /// A comparison or a second figure.
    pub note: String,
}

/// A table of a [`PanelSection`]: one value of several entries, such as apps or versions.
#[derive(Clone, Debug)]
pub struct PanelTable {
    /// A line about the order of the rows, or an explanation of the value.
    pub caption: &'static str,
    /// The headings: of the entry, its value, the notes on it, and the number of observations.
    pub columns: [&'static str; 4],
    pub rows: Vec<PanelRow>,
}

/// The row of an entry in a [`PanelTable`].
#[derive(Clone, Debug, Default)]
pub struct PanelRow {
    pub name: String,
    /// The page with more about it.
    pub href: Option<String>,
    pub value: String,
    /// The mark's class if the value has changed: `bad` or `good`; else empty.
    pub class: &'static str,
    /// Comparisons and further figures, a line for each.
    pub notes: Vec<String>,
    /// The number of observations that the value is made of.
    pub observations: String,
}

/// A link to a page of a feature, about an entry of the feature or an action.
#[derive(Clone, Debug, Default)]
pub struct PanelLink {
    pub path: String,
    /// The text: the title of the entry, or the name of the action.
    pub text: String,
    /// The kind of entry as a word, in lower case; empty for an action.
    pub kind: &'static str,
    /// The app that the entry belongs to; empty if it belongs to none.
    pub app: String,
    /// The version of the app; empty if it is not known.
    pub version: String,
    pub received_at: Option<OffsetDateTime>,
}

/// Collects the sections of all features for a slot.
///
/// # Errors
/// Returns an error if a feature fails.
pub async fn collect_panels(
    panels: &Panels,
    tx: &mut TenantTx,
    slot: PanelSlot<'_>,
) -> Result<Vec<PanelSection>> {
    let mut sections = Vec::new();
    for show in &panels.0 {
        sections.extend(show(tx, slot).await?);
    }
    Ok(sections)
}
