//! Parts for pages of features. A template names [`escaping`] and may extend `console/layout.html`.

pub use crate::console::assets::FLAME_PATH;
pub use crate::console::bar::{BarSelect, FilterBar, PageState, app_select, period_select};
pub use crate::console::components::flame_view::{
    FlameSvg, FunctionLine, changed_functions, heaviest_path, list_functions,
};
pub use crate::console::escaping::{self, Template, filters};
pub use crate::console::form::SentForm;
pub use crate::console::link::{build_link, session_path};
pub use crate::console::session::{SignedIn, TakesAway};
pub use crate::console::shell::{Shell, html_answer, render_html};
pub use crate::console::words::{
    bytes, changed_bytes, counted, duration, estimate, grouped, text_or, upload_command,
};
pub use crate::limits::permits::Caller;
pub use crate::requests::access::assign_caller;
