//! Who is signed in.

use super::shell::NavigationEntry;
use std::sync::{Arc, OnceLock};
use time::OffsetDateTime;
use unslide_model::Scope;
use unslide_store::console_sessions::ConsoleSession;

/// Who is signed in.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// The tenant.
    pub tenant: String,
    /// The name that was chosen at sign-in.
    pub name: Option<String>,
    /// The only app that the key speaks for.
    pub app: Option<String>,
    /// What the key may do.
    pub scopes: String,
    /// When the page was asked for.
    pub now: OffsetDateTime,
    /// The entries of the side bar.
    pub navigation: Arc<[NavigationEntry]>,
}

impl Viewer {
    /// True if the key may read what a search finds.
    pub fn may_search(&self) -> bool {
        self.may(Scope::ReportsRead)
    }

    /// True if the key may see all tenants.
    pub fn is_operator(&self) -> bool {
        self.may(Scope::Operator) && self.app.is_none()
    }

    fn may(&self, needed: Scope) -> bool {
        self.scopes.split(", ").any(|scope| scope == needed.as_str())
    }

    /// Who a session is of that asks for a page now.
    pub fn of(session: &ConsoleSession, now: OffsetDateTime, navigation: Arc<[NavigationEntry]>) -> Viewer {
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

/// Where a request's session notes who is signed in, for the page that says what went wrong.
#[derive(Clone, Default)]
pub struct ViewerCell(Arc<OnceLock<Viewer>>);

impl ViewerCell {
    /// Notes it.
    pub fn set(&self, viewer: Viewer) {
        let _ = self.0.set(viewer);
    }

    /// Who was noted.
    pub fn get(&self) -> Option<&Viewer> {
        self.0.get()
    }
}
