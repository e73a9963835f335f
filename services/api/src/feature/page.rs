//! Parts for pages of features. A template names [`escaping`] and may extend `console/layout.html`.

pub use crate::console::bar::PageState;
pub use crate::console::escaping::{self, Template, filters};
pub use crate::console::form::SentForm;
pub use crate::console::session::SignedIn;
pub use crate::console::shell::{Shell, html};
pub use crate::limits::permits::Caller;
pub use crate::requests::access::assign;
