//! Parts for operations that send events to a topic of a feature.

pub use crate::http::trace::TraceContext;
pub use crate::requests::events::{EventRequest, EventTarget, MOST_EVENTS, SentEvents, send_events};
pub use crate::requests::refused::RefusedElement;
