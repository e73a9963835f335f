//! Parts for pages of features. A template names [`escaping`] and may extend `console/layout.html`.

pub use crate::assets::FLAME_PATH;
pub use crate::bar::{BarSelect, FilterBar, PageState, app_select, period};
pub use crate::components::flame_view::{
    FlameSvg, FunctionLine, changed_functions, functions, heaviest_path,
};
pub use crate::escaping::{self, Template, filters};
pub use crate::form::SentForm;
pub use crate::link::{link, session_path};
pub use crate::session::{SignedIn, TakesAway};
pub use crate::shell::{Shell, html, html_answer};
pub use crate::words::{bytes, changed_bytes, counted, duration, estimate, grouped, or, upload_command};
pub use unslide_api::feature::intake::{Caller, assign};
