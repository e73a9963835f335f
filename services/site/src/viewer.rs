//! The signed-in user.

use crate::store::ConsoleSession;
use std::borrow::Cow;
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
    /// The app and the version that the page's address has: they stay on the way to other pages.
    pub context: Vec<(&'static str, String)>,
}

/// Parameters of an address that stay on the way to another page.
const CONTEXT_PARAMETERS: [&str; 2] = ["app", "version"];

/// Returns the app and the version in the query of an address.
pub fn read_context(query: Option<&str>) -> Vec<(&'static str, String)> {
    let pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> =
        form_urlencoded::parse(query.unwrap_or_default().as_bytes()).collect();
    let value_of = |name: &str| {
        let found = pairs.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    CONTEXT_PARAMETERS.into_iter().filter_map(|name| Some((name, value_of(name)?))).collect()
}

impl Viewer {
    /// Returns true if the key may see the results of a search.
    pub fn may_search(&self) -> bool {
        self.has_scope(Scope::ReportsRead)
    }

    /// Returns true if the key may open the page of an entry.
    pub fn may_open(&self, entry: &NavigationEntry) -> bool {
        self.has_scope(entry.scope) && (self.app.is_none() || !entry.needs_every_app)
    }

    fn has_scope(&self, needed: Scope) -> bool {
        self.scopes.split(", ").any(|scope| scope == needed.as_str())
    }

    /// Returns the user of a session that requests a page now.
    pub fn from_session(
        session: &ConsoleSession,
        now: OffsetDateTime,
        navigation: Arc<[NavigationEntry]>,
        query: Option<&str>,
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
            context: read_context(query),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_app_and_the_version_of_an_address_stay() {
        let read = |query| read_context(Some(query));
        let both = [("app", "com.example.shop".to_owned()), ("version", "2.4 (b)".to_owned())];
        assert_eq!(read("sort=reports&version=2.4+%28b%29&app=com.example.shop"), both);
        assert_eq!(read("app=&version=%20"), []);
        assert_eq!(read_context(None), []);
    }
}
