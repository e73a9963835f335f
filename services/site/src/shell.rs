//! The frame of every page: security headers, the side bar, and error pages.

use super::assets::{ICON_PATH, SCRIPT_PATH, STYLE_PATH};
use super::bar::FilterBar;
use super::cookie::needs_https;
use super::form::{foreign_form, is_own_form};
use super::link::build_link;
use super::viewer::{Viewer, ViewerCell};
use crate::escaping::{self, Template, filters};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use http::header::{self, HeaderName};
use http::{HeaderValue, StatusCode};
use std::sync::Arc;
use time::OffsetDateTime;
use unslide_api::feature::intake::RequestId;
use unslide_api::feature::operation::ReservedAnswer;
use unslide_api::feature::{ApiFeature, NavigationEntry, NavigationPlace};
use unslide_api::problem::{Kind, Problem, Rendered};

const CONSOLE_HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    // The origin of forms is sent to the console itself: see `is_own_form`.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // For browsers that do not know `frame-ancestors`.
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// The words in an empty search field.
const SEARCH_LABEL: &str = "Search an id, a function, an app or a version";
/// The first page after a sign-in, if the key may open it.
pub const FIRST_PAGE: &str = "/console";

/// The entries of the side bar, which each request of a page has as an extension.
#[derive(Clone, Default)]
pub struct SideBar(pub Arc<[NavigationEntry]>);

/// Returns the entries of features for a place.
pub fn list_entries(
    features: &[ApiFeature],
    place: NavigationPlace,
) -> impl Iterator<Item = NavigationEntry> {
    let entries = features.iter().flat_map(|feature| feature.navigation.iter().copied());
    entries.filter(move |entry| entry.place == place)
}

/// Returns the path of the first page that a key with these scopes may open.
pub fn first_page(entries: &[NavigationEntry], may_open: impl Fn(&NavigationEntry) -> bool) -> &'static str {
    let first = entries.iter().find(|entry| !entry.name.is_empty() && may_open(entry));
    first.map_or(FIRST_PAGE, |entry| entry.path)
}

/// Data for the layout of a page.
pub struct Shell {
    pub title: String,
    /// More words for the title of the tab, such as the app.
    pub about: String,
    /// The current entry of the side bar.
    pub current: &'static str,
    pub viewer: Option<Viewer>,
    /// The filters of the page.
    pub bar: Option<FilterBar>,
    /// The text in the search field.
    pub searched: String,
}

impl Shell {
    /// Creates the layout of a page for a signed-in user.
    pub fn for_viewer(viewer: Viewer, current: &'static str, title: impl Into<String>) -> Shell {
        Shell { title: title.into(), current, viewer: Some(viewer), ..Shell::signed_out() }
    }

    /// Creates the layout of the pages around the sign-in.
    pub fn signed_out() -> Shell {
        Shell {
            title: "Sign in".to_owned(),
            about: String::new(),
            current: "",
            viewer: None,
            bar: None,
            searched: String::new(),
        }
    }

    /// Adds words to the title of the tab, so that the tabs of two pages of one kind differ.
    pub fn with_about(self, about: impl Into<String>) -> Shell {
        Shell { about: about.into(), ..self }
    }

    /// Returns the title of the tab.
    pub fn tab_title(&self) -> String {
        match self.about.as_str() {
            "" => self.title.clone(),
            about => format!("{} · {about}", self.title),
        }
    }

    /// Adds a bar of filters.
    pub fn with_bar(self, bar: FilterBar) -> Shell {
        Shell { bar: Some(bar), ..self }
    }

    /// Sets the text in the search field.
    pub fn with_searched(self, searched: String) -> Shell {
        Shell { searched, ..self }
    }

    /// Returns the label of the search field.
    pub fn search_label(&self) -> &'static str {
        SEARCH_LABEL
    }

    /// Returns when the page was requested.
    pub fn now(&self) -> OffsetDateTime {
        self.viewer.as_ref().map_or(OffsetDateTime::UNIX_EPOCH, |viewer| viewer.now)
    }

    /// Returns the path of the stylesheet.
    pub fn style(&self) -> &'static str {
        &STYLE_PATH
    }

    /// Returns the path of the icon.
    pub fn icon(&self) -> &'static str {
        &ICON_PATH
    }

    /// Returns the path of the script.
    pub fn script(&self) -> &'static str {
        &SCRIPT_PATH
    }

    /// Returns the entries of the side bar that the key may open.
    pub fn entries(&self) -> impl Iterator<Item = &NavigationEntry> {
        self.viewer.iter().flat_map(|viewer| viewer.navigation.iter().filter(|entry| viewer.may_open(entry)))
    }

    /// Returns the path of an entry's page, with the chosen app and version if the page has them.
    pub fn entry_path(&self, entry: &NavigationEntry) -> String {
        if entry.keeps_app { self.keep_context(entry.path) } else { entry.path.to_owned() }
    }

    /// Returns the path of the first page that the key may open.
    pub fn home_path(&self) -> String {
        let first = |viewer: &Viewer| first_page(&viewer.navigation, |entry| viewer.may_open(entry));
        self.viewer.as_ref().map_or(FIRST_PAGE, first).to_owned()
    }

    /// Adds the chosen app and version to a path.
    pub fn keep_context(&self, path: impl AsRef<str>) -> String {
        let path = path.as_ref();
        let context = self.viewer.iter().flat_map(|viewer| &viewer.context);
        let pairs: Vec<_> = context.map(|(name, value)| (*name, Some(value.as_str()))).collect();
        let added = build_link("", &pairs);
        if path.contains('?') {
            format!("{path}{}", added.replacen('?', "&", 1))
        } else {
            format!("{path}{added}")
        }
    }
}

/// Renders a page as a response.
///
/// # Errors
/// Never: templates write into memory.
pub fn render_html(page: &impl Template) -> Result<Response, Problem> {
    Ok(Html(page.render().map_err(Problem::internal)?).into_response())
}

/// Returns a response with a page of reserved bytes.
pub fn html_answer(page: ReservedAnswer) -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

/// Renders a page with another status than 200.
pub fn html_with(status: StatusCode, page: &impl Template) -> Response {
    let mut response = match render_html(page) {
        Ok(page) => (status, page).into_response(),
        Err(problem) => return problem.into_response(),
    };
    response.extensions_mut().insert(Rendered);
    response
}

#[derive(Template)]
#[template(path = "site/failure.html", askama = escaping)]
struct FailurePage {
    shell: Shell,
    status: u16,
    detail: Option<String>,
    advice: &'static str,
    request_id: String,
    scopes: Option<String>,
    retriable: bool,
}

/// Layer of every request of the console: refuses forms of other sites, renders failures as pages, and
/// forbids framing, caching and reading by others.
pub async fn frame_response(mut request: Request, next: Next) -> Response {
    let cell = ViewerCell::default();
    request.extensions_mut().insert(cell.clone());
    let id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let response = if request.method().is_safe() || is_own_form(request.headers()) {
        next.run(request).await
    } else {
        foreign_form(needs_https(request.headers())).into_response()
    };
    let mut response = render_failure(response, &id, cell.get());
    for (name, value) in CONSOLE_HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Renders a failed response as a page.
fn render_failure(mut response: Response, request_id: &str, viewer: Option<&Viewer>) -> Response {
    let status = response.status();
    let problem = response.extensions_mut().remove::<Problem>();
    let is_page = response.extensions().get::<Rendered>().is_some();
    if problem.is_none() && (is_page || !(status.is_client_error() || status.is_server_error())) {
        return response;
    }
    let problem = problem.unwrap_or_else(|| Problem::from_kind(Kind::from_status(status)));
    problem.log_fault(request_id);
    let kind = problem.kind();
    let title = reader_title(kind).to_owned();
    let shell = Shell { title, viewer: viewer.cloned(), ..Shell::signed_out() };
    let page = FailurePage {
        shell,
        status: kind.status().as_u16(),
        // The template ends the sentence.
        detail: problem.detail().map(|detail| detail.trim_end_matches('.').to_owned()),
        advice: reader_advice(kind),
        request_id: request_id.to_owned(),
        scopes: viewer.filter(|_| kind == Kind::InsufficientScope).map(|viewer| viewer.scopes.clone()),
        retriable: kind.is_retriable(),
    };
    html_with(kind.status(), &page)
}

/// Returns the heading for a reader. The title of a kind is for clients of the API, and people may have signed in without
/// a key.
fn reader_title(kind: Kind) -> &'static str {
    if kind == Kind::InsufficientScope { "You may not do this here" } else { kind.title() }
}

/// Returns advice for the reader of the page. The advice of a kind is for clients of the API.
fn reader_advice(kind: Kind) -> &'static str {
    match kind {
        Kind::InsufficientScope => {
            "Ask an administrator of your tenant for the scope, or sign in with a key that has it."
        }
        Kind::NotFound => "It may have been deleted, or the key may not see it.",
        Kind::InvalidParameter => "Correct the address, or begin again from the list.",
        Kind::TenantSuspended => "Ask the operator of the service.",
        Kind::InvalidRequest => "Open the page in the console and send the form from there.",
        kind if kind.is_retriable() => "Try again in a few seconds.",
        kind if kind.status().is_client_error() => "Go back, correct it and send the form again.",
        _ => "Give the operator the request id: the cause is in the log.",
    }
}

/// Answers every other address of the console.
pub async fn not_found() -> Problem {
    Problem::new(Kind::NotFound, "the console has no such page")
}
