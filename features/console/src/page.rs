//! Parts for pages of features. A template names [`escaping`] and may extend `console/layout.html`.

pub use crate::assets::FLAME_PATH;
pub use crate::bar::{BarSelect, FilterBar, PageState, app_select, period_select};
pub use crate::components::flame_view::{
    FlameSvg, FunctionLine, changed_functions, heaviest_path, list_functions,
};
pub use crate::cookie::{BrowserCookie, RequestOrigin};
pub use crate::escaping::{self, Template, filters};
pub use crate::form::SentForm;
pub use crate::link::{build_link, session_path};
pub use crate::pages::sign_in::{SignedInPerson, begin_person_session, read_form_bytes, return_path};
pub use crate::session::{BrowserSession, SignedIn, TakesAway, end_browser_session, find_browser_session};
pub use crate::shell::{Shell, html_answer, html_with, render_html};
pub use crate::store::{EndedProviderSession, end_provider_sessions, end_sessions_of_keys};
pub use crate::words::{bytes, changed_bytes, counted, duration, estimate, grouped, text_or, upload_command};
pub use unslide_api::feature::intake::Caller;
pub use unslide_api::feature::intake::assign_caller;
