//! Lists of operations in forms other than JSON pages, such as files. Features add these forms.

pub use crate::http::answers::reserve_bytes;
pub use crate::limits::permits::Reservation;
pub use crate::limits::slot::RequestSlot;
pub use crate::lists::{ListAnswer, ListForms, ListTable, Lists, PAGE_ENTRIES, delegate_to_feature};
pub use crate::requests::accept::parse_weights;
