//! The site for people: the frame of pages, the sign-in of browsers, and the parts of pages that features use.
//!
//! A feature with pages imports its parts from here, and its templates extend `site/layout.html`. A template names
//! [`escaping`]. A page demands its scope in the type of its argument, as an operation does: [`SignedIn<ReportsRead>`](SignedIn).
//! Pages are complete without the script, and hold no text that [`escaping`] has not escaped, or `unslide_calltree` in a
//! flame graph. The feature that shows the site builds it with [`build_site`].

#![expect(missing_docs, reason = "the fields of pages say what they are by their names")]

mod assets;
mod bar;
mod cookie;
pub mod escaping;
pub mod filters;
mod flame_view;
mod form;
mod link;
mod routes;
mod session;
mod shell;
mod sign_in;
mod store;
mod viewer;
pub mod words;

pub use assets::FLAME_PATH;
pub use bar::{
    BarSelect, FilterBar, PageState, app_and_version, app_select, period_or_all, period_or_any,
    period_or_hours, period_select,
};
pub use cookie::{BrowserCookie, RequestOrigin};
pub use escaping::Template;
pub use flame_view::{
    FlameSvg, FunctionLine, SliceLine, changed_functions, format_samples, heaviest_path, list_functions,
    list_slices,
};
pub use form::{LongForm, SentForm};
pub use link::{build_link, encode_segment, group_path, is_local, session_path};
pub use routes::build_site;
pub use session::{BrowserSession, SignedIn, TakesAway, end_browser_session, find_browser_session};
pub use shell::{FIRST_PAGE, Shell, SideBar, html_answer, html_with, list_entries, render_html};
pub use sign_in::{
    RETURN_PATH_BYTES_LIMIT, SignedInPerson, begin_person_session, read_form_bytes, return_path,
};
pub use store::{EndedProviderSession, end_provider_sessions, end_sessions_of_keys};
pub use unslide_api::feature::intake::Caller;
pub use unslide_api::feature::intake::assign_caller;
pub use viewer::Viewer;
pub use words::{bytes, changed_bytes, counted, duration, estimate, grouped, text_or};
