//! The JSON of a report: scanned once within limits, then read again in place.

mod member_place;
mod members;
mod nested;
mod number;
mod scanner;
mod text;
mod value;

pub use member_place::MemberPlace;
pub(crate) use members::{MemberSlot, MemberSlots, OpenObjects, cpu_from_header, debug_id};
pub use nested::{NestedObject, NestedShape};
pub use number::Number;
pub(crate) use scanner::{JsonMember, JsonScanner, PassedObject, Stop, type_name};
pub use text::Text;
pub use value::Value;
