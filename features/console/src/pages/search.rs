//! `/console/search`: opens the entry with an id, or lists the groups, apps, versions, reports and sessions that match a text.

use crate::prelude::*;
use unslide_api::feature::panels::Panels;
use unslide_api::feature::site::{
    SearchMatch, SearchQuery, SearchResults, find_by_id, find_by_short_id, read_id, search,
};
use unslide_model::GroupRef;
use unslide_model::Scope;

#[derive(Template)]
#[template(path = "console/pages/search.html", askama = escaping)]
struct SearchPage {
    shell: Shell,
    text: String,
    sections: Vec<MatchSection>,
    is_unknown_id: bool,
    /// True if ids of devices, installations and users were searched too.
    person_search: bool,
    /// True if the key may turn that on.
    may_allow: bool,
}

/// The matches of one kind of entry.
struct MatchSection {
    heading: &'static str,
    matches: Vec<SearchMatch>,
    /// Address and text of a link to the whole list.
    whole: Option<(String, &'static str)>,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    State(panels): State<Arc<Panels>>,
    signed: SignedIn<ReportsRead>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let access = signed.access;
    let text = state.get_text("q").unwrap_or_default();
    let may_allow = access.principal.has_scope(Scope::TenantAdmin) && access.only_app().is_none();
    let results = if text.is_empty() {
        SearchResults::default()
    } else {
        let query = SearchQuery { q: text.clone(), app: None };
        search(State(storage), State(panels), access, Query(query)).await?.0
    };
    if let [only] = results.items.as_slice()
        && only.found_by == "id"
    {
        return Ok(Redirect::to(&only.page).into_response());
    }
    let is_unknown_id = results.items.is_empty() && read_id(&text).is_some();
    render_html(&SearchPage {
        shell: Shell::for_viewer(signed.viewer, "search", "Search").with_searched(text.clone()),
        sections: build_sections(&results.items, &text),
        text,
        is_unknown_id,
        person_search: results.person_search,
        may_allow,
    })
}

/// Returns the matches by kind. Kinds without a match have no section.
fn build_sections(items: &[SearchMatch], text: &str) -> Vec<MatchSection> {
    let whole = |page: &str, rest: &[(&str, Option<&str>)]| {
        let pairs: Vec<_> = [("q", Some(text))].into_iter().chain(rest.iter().copied()).collect();
        build_link(page, &pairs)
    };
    let kinds = [
        ("report", "Reports", None),
        ("session", "Sessions", None),
        (
            "group",
            "Groups",
            Some((whole("/console/groups", &[("status", Some("all"))]), "All groups with this text")),
        ),
        ("app", "Apps", None),
        ("version", "Versions", None),
    ];
    let mut sections: Vec<MatchSection> = kinds
        .into_iter()
        .map(|(kind, heading, whole)| {
            let matches = items.iter().filter(|item| item.kind == kind).cloned().collect();
            MatchSection { heading, matches, whole }
        })
        .collect();
    sections.retain(|section| !section.matches.is_empty());
    sections
}

/// Describes the field by which a match was found; empty for a name.
fn found_by(found: &SearchMatch) -> String {
    match found.found_by.as_ref() {
        "device" | "session" | "installation" | "user" => {
            format!("found by the id of the {}", found.found_by)
        }
        _ => String::new(),
    }
}

/// Returns the path of the page for the id or the short id in a search text, if the key may see its entry.
///
/// # Errors
/// The database fails.
pub async fn find_page_by_id(
    storage: &Storage,
    panels: &Panels,
    access: &Access<ReportsRead>,
    text: Option<&str>,
) -> Result<Option<String>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let id = read_id(text);
    if id.is_none() && text.parse::<GroupRef>().is_err() {
        return Ok(None);
    }
    let only = access.only_app();
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = match id {
        Some(id) => find_by_id(panels, &mut tx, access, only, id).await?,
        None => find_by_short_id(&mut tx, only, text).await?,
    };
    Ok(found.map(|found| found.page))
}
