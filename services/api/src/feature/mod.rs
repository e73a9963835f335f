//! Extension of the api by features, with the parts for their operations and pages.

pub mod buckets;
pub mod calls;
pub mod events;
pub mod hooks;
pub mod intake;
pub mod lists;
pub mod operation;
mod outcomes;
pub mod panels;
pub mod path_keys;
pub mod receiver_networks;
pub mod sealing;
pub mod site;
pub mod sources;
pub mod tenant_turns;
pub mod upload;
pub mod webhook_signature;

pub use crate::http::time_limit::lift_time_bound;
pub use crate::limits::capacity::Capacity;
pub use crate::lists::{ListForms, ListTable};
pub use crate::operation_router::OperationRouter;
pub use crate::reports::app_intake;
pub use crate::reports::symbolication::Symbolication;
pub use crate::requests::broker::Broker;
pub use crate::requests::keys::Keys;
pub use crate::state::{Api, ApiParts};
pub use crate::storage::Storage;
pub use outcomes::OutcomeCounts;

use axum::Router;
use panels::ShowPanel;
use sources::SourceFeature;
use std::error::Error;
use std::sync::Arc;
use tokio::task::JoinHandle;
use unslide_model::Scope;
use unslide_runtime::Host;
use utoipa::openapi::OpenApiBuilder;
use utoipa::openapi::tag::TagBuilder;

/// Builds the routes of a site that shows the pages of all features. The site begins at `/`.
pub type BuildSite = fn(&Api, &[ApiFeature]) -> Router<Api>;

/// Where a site shows an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NavigationPlace {
    /// The side bar of every page.
    SideBar,
    /// The page for people who have not signed in: the entry is another way to sign in than with a key.
    SignIn,
}

/// A link from the pages of a site to a page of a feature.
#[derive(Clone, Copy, Debug)]
pub struct NavigationEntry {
    pub place: NavigationPlace,
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
    /// Its place among the entries: those with the smallest number come first, as they are used most.
    pub rank: u8,
    /// True if its page shows the app and the version of its address: they stay on the way to it.
    pub keeps_app: bool,
}

/// Starts the background work of a feature. It ends when the host begins to stop.
pub type FeatureStart =
    Arc<dyn Fn(&ApiParts, &Host) -> Result<JoinHandle<()>, Box<dyn Error + Send + Sync>> + Send + Sync>;

/// Everything that one feature adds to the api.
#[derive(Clone)]
pub struct ApiFeature {
    /// The feature's name, for errors.
    pub name: &'static str,
    /// Its operations, each with its part of the OpenAPI document, and their tags ([`with_tag`]). They have the time of a
    /// request until they answer; the body of an answer may go on. One that takes long bodies has the layer
    /// [`lift_time_bound`] and holds a permit for uploads.
    pub operations: OperationRouter,
    /// Its routes outside the API: they are not in the document, and have the time of a request. Their answers to failures are
    /// problems or marked with [`Rendered`](crate::problem::Rendered). [`OperationCalls`](calls::OperationCalls) is one of their
    /// extensions.
    pub routes: Router<Api>,
    /// The site for people, if the feature is one. It shows the pages below.
    pub site: Option<BuildSite>,
    /// Its pages of the site, with the time of a request as operations.
    pub pages: Router<Api>,
    /// Its entries in the side bar of the site, and its ways to sign in.
    pub navigation: Vec<NavigationEntry>,
    /// The lists among its operations, for features that add forms.
    pub tables: &'static [ListTable],
    /// Other forms of the lists of all operations.
    pub forms: Option<ListForms>,
    /// Shows its sections on pages of the core.
    pub show_panel: Option<ShowPanel>,
    /// Keeps source files, and finds the lines around the frames of a report.
    pub sources: Option<SourceFeature>,
    pub start: Option<FeatureStart>,
}

impl ApiFeature {
    /// Makes a feature that adds nothing.
    #[must_use]
    pub fn new(name: &'static str) -> ApiFeature {
        ApiFeature {
            name,
            operations: OperationRouter::new(),
            routes: Router::new(),
            site: None,
            pages: Router::new(),
            navigation: Vec::new(),
            tables: &[],
            forms: None,
            show_panel: None,
            sources: None,
            start: None,
        }
    }
}

/// Describes the tag of operations in the OpenAPI document.
#[must_use]
pub fn with_tag(name: &'static str, about: &'static str, operations: OperationRouter) -> OperationRouter {
    let describe = move || {
        let tag = TagBuilder::new().name(name).description(Some(about)).build();
        OpenApiBuilder::new().tags(Some([tag])).build()
    };
    OperationRouter::new().with_part(describe).merge(operations)
}
