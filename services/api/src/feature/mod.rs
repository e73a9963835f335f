//! Extension of the api by features, with the parts for their operations and pages.

pub mod lists;
pub mod operation;
pub mod page;

pub use crate::console::shell::NavigationEntry;
pub use crate::state::Api;
pub use lists::{ListForms, ListTable};

use axum::Router;
use std::error::Error;
use std::sync::Arc;
use tokio::task::JoinHandle;
use unslide_runtime::{ConfigProblem, Host};
use utoipa_axum::router::OpenApiRouter;

/// Begins the work of a feature beside the requests. It ends when the host begins to stop.
pub type FeatureStart =
    Arc<dyn Fn(&Api, &Host) -> Result<JoinHandle<()>, Box<dyn Error + Send + Sync>> + Send + Sync>;

/// Everything that one feature adds to the api.
#[derive(Clone, Default)]
pub struct ApiFeature {
    /// The feature's name, for errors.
    pub name: &'static str,
    /// Its operations, each with its part of the OpenAPI document. They have the time of a request until they answer; the
    /// body of an answer may go on.
    pub operations: OpenApiRouter<Api>,
    /// The tag of its operations in the document, with what they are about; empty without operations.
    pub tag: (&'static str, &'static str),
    /// Its pages of the console. They have the time of a request.
    pub pages: Router<Api>,
    /// Its entries in the side bar of the console.
    pub navigation: Vec<NavigationEntry>,
    /// The lists among its operations, for features that add forms.
    pub tables: &'static [ListTable],
    /// Other forms of the lists of all operations.
    pub forms: Option<ListForms>,
    /// Begins its work beside the requests.
    pub start: Option<FeatureStart>,
    /// Problems of its settings, for which the configuration is refused.
    pub problems: Vec<ConfigProblem>,
    /// Settings of it that are allowed and unsafe.
    pub warnings: Vec<ConfigProblem>,
}
