//! The signed-in user.

use crate::store::ConsoleSession;
use std::sync::{Arc, OnceLock};
use time::OffsetDateTime;
use unslide_api::feature::NavigationEntry;
use unslide_model::Scope;

/// The signed-in user of a page.
#[derive(Clone, Debug)]
pub struct Viewer {
    pub tenant: String,
    /// The name that was chosen at sign-in.
    pub name: Option<String>,
    /// The only app that the key may see.
    pub app: Option<String>,
    /// The scopes of the key.
    pub scopes: String,
    /// When the page was requested.
    pub now: OffsetDateTime,
    /// The entries of the side bar.
    pub navigation: Arc<[NavigationEntry]>,
}

impl Viewer {
    /// Returns true if the key may see the results of a search.
    pub fn may_search(&self) -> bool {
        self.has_scope(Scope::ReportsRead)
    }

    /// Returns true if the key may see all tenants.
    pub fn is_operator(&self) -> bool {
        self.has_scope(Scope::Operator) && self.app.is_none()
    }

    fn has_scope(&self, needed: Scope) -> bool {
        self.scopes.split(", ").any(|scope| scope == needed.as_str())
    }

    /// Returns the user of a session that requests a page now.
    pub fn from_session(
        session: &ConsoleSession,
        now: OffsetDateTime,
        navigation: Arc<[NavigationEntry]>,
    ) -> Viewer {
        let principal = &session.principal;
        let scopes: Vec<String> = principal.scopes.iter().map(ToString::to_string).collect();
        Viewer {
            tenant: principal.tenant.to_string(),
            name: session.name.clone(),
            app: principal.app.clone(),
            scopes: scopes.join(", "),
            now,
            navigation,
        }
    }
}

/// Cell in which a request's session records the signed-in user, for the error page.
#[derive(Clone, Default)]
pub struct ViewerCell(Arc<OnceLock<Viewer>>);

impl ViewerCell {
    pub fn set(&self, viewer: Viewer) {
        let _ = self.0.set(viewer);
    }

    pub fn get(&self) -> Option<&Viewer> {
        self.0.get()
    }
}
