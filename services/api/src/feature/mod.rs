//! Extension of the api by features, with the parts for their operations and pages.

pub mod calls;
pub mod events;
pub mod figures;
pub mod intake;
pub mod lists;
pub mod operation;
mod outcomes;
pub mod path_keys;
pub mod site;
pub mod sources;
pub mod upload;

pub use crate::state::Api;
pub use lists::{ListForms, ListTable};
pub use outcomes::OutcomeCounts;

use axum::Router;
use figures::{FindAppSessions, FindMemoryLimit, FindOverview, FindVersionColumn};
use sources::SourceFeature;
use std::error::Error;
use std::sync::Arc;
use time::OffsetDateTime;
use tokio::task::JoinHandle;
use unslide_model::Scope;
use unslide_runtime::{ConfigProblem, Host};
use unslide_store::queries::reports::ReportRow;
use unslide_store::{HookFuture, TenantTx, Uuid};
use utoipa_axum::router::OpenApiRouter;

/// Builds the routes of a site that shows the pages of all features. The site begins at `/`.
pub type BuildSite = fn(&Api) -> Router<Api>;

/// An entry of a site's side bar.
#[derive(Clone, Copy, Debug)]
pub struct NavigationEntry {
    /// The entry's name, which pages give as the current one; empty for a separator line.
    pub name: &'static str,
    /// The path of its page.
    pub path: &'static str,
    /// Its text.
    pub label: &'static str,
    /// The scope that its page needs.
    pub scope: Scope,
    /// True if a key for one app cannot open its page.
    pub needs_every_app: bool,
    /// True if its page shows the app and the version of its address: they stay on the way to it.
    pub keeps_app: bool,
}

/// A page of a feature about a group, which the group's page links to for those who may change groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupLink {
    /// The end of the page's path, after that of the group's page.
    pub path_end: &'static str,
    /// The text of the link.
    pub label: &'static str,
}

/// Starts the background work of a feature. It ends when the host begins to stop.
pub type FeatureStart =
    Arc<dyn Fn(&Api, &Host) -> Result<JoinHandle<()>, Box<dyn Error + Send + Sync>> + Send + Sync>;

/// Finds the entry of a feature with an id, if the key sees it. The text is the only app that the key may see.
pub type FindPage = for<'t> fn(&'t mut TenantTx, Uuid, Option<&'t str>) -> HookFuture<'t, Option<FoundPage>>;

/// An entry of a feature that was found by its id.
#[derive(Clone, Debug)]
pub struct FoundPage {
    /// The kind of entry as a word, in lower case.
    pub kind: &'static str,
    /// Its title, in one line.
    pub title: String,
    /// The app that it belongs to; empty if it belongs to none.
    pub app: String,
    /// The version of the app; empty if it is not known.
    pub version: String,
    /// The path of its page.
    pub path: String,
}

/// Finds a feature's data about a report, for the report's page. Returns `None` if there is nothing.
pub type FindRelated = for<'t> fn(&'t mut TenantTx, &'t ReportRow) -> HookFuture<'t, Option<RelatedSection>>;

/// A section of a report's page with links to pages of a feature.
#[derive(Clone, Debug)]
pub struct RelatedSection {
    pub heading: &'static str,
    /// A sentence on what the pages are good for.
    pub hint: &'static str,
    pub links: Vec<RelatedLink>,
}

/// A link to a page of a feature.
#[derive(Clone, Debug)]
pub struct RelatedLink {
    /// The path of the page.
    pub path: String,
    pub text: String,
    pub received_at: OffsetDateTime,
}

/// Everything that one feature adds to the api.
#[derive(Clone)]
pub struct ApiFeature {
    /// The feature's name, for errors.
    pub name: &'static str,
    /// Its operations, each with its part of the OpenAPI document. They have the time of a request until they answer; the
    /// body of an answer may go on.
    pub operations: OpenApiRouter<Api>,
    /// Its operations that take long bodies. They bound their own time, and hold a permit for uploads.
    pub uploads: OpenApiRouter<Api>,
    /// Its routes outside the API: they are not in the document, and have the time of a request. Their answers to failures are
    /// problems or marked with [`Rendered`](crate::problem::Rendered). [`OperationCalls`](calls::OperationCalls) is one of their
    /// extensions.
    pub routes: Router<Api>,
    /// The tag of its operations in the document, with what they are about; empty without operations.
    pub tag: (&'static str, &'static str),
    /// The site for people, if the feature is one. It shows the pages below.
    pub site: Option<BuildSite>,
    /// Its pages of the site. They have the time of a request.
    pub pages: Router<Api>,
    /// Its forms of the site that send long bodies. They bound their own time.
    pub upload_pages: Router<Api>,
    /// Its entries in the side bar of the site.
    pub navigation: Vec<NavigationEntry>,
    /// Its way to sign in to the site, besides keys.
    pub sign_in: Option<NavigationEntry>,
    /// Its pages about a group.
    pub group_links: &'static [GroupLink],
    /// The lists among its operations, for features that add forms.
    pub tables: &'static [ListTable],
    /// Other forms of the lists of all operations.
    pub forms: Option<ListForms>,
    /// Finds its pages by an id that was searched for.
    pub find_page: Option<FindPage>,
    /// Finds what belongs to a report.
    pub find_related: Option<FindRelated>,
    /// Finds its figures for the overview.
    pub find_overview: Option<FindOverview>,
    /// Finds its column for the list of versions.
    pub find_version_column: Option<FindVersionColumn>,
    /// Finds the sessions of an app, of which a group hits a part.
    pub find_app_sessions: Option<FindAppSessions>,
    /// Finds the memory limit that explains the end of a run.
    pub find_memory_limit: Option<FindMemoryLimit>,
    /// Keeps source files, and finds the lines around the frames of a report.
    pub sources: Option<SourceFeature>,
    pub start: Option<FeatureStart>,
    /// Problems of its settings, for which the configuration is refused.
    pub problems: Vec<ConfigProblem>,
    /// Settings that are allowed but unsafe.
    pub warnings: Vec<ConfigProblem>,
}

impl ApiFeature {
    /// A feature that adds nothing yet but the tag of its operations.
    #[must_use]
    pub fn new(name: &'static str, tag_description: &'static str) -> ApiFeature {
        ApiFeature {
            name,
            operations: OpenApiRouter::new(),
            uploads: OpenApiRouter::new(),
            routes: Router::new(),
            tag: (name, tag_description),
            site: None,
            pages: Router::new(),
            upload_pages: Router::new(),
            navigation: Vec::new(),
            sign_in: None,
            group_links: &[],
            tables: &[],
            forms: None,
            find_page: None,
            find_related: None,
            find_overview: None,
            find_version_column: None,
            find_app_sessions: None,
            find_memory_limit: None,
            sources: None,
            start: None,
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }
}
