//! Parts for operations of features.

pub use crate::http::network_of_everything;
pub use crate::limits::charge::Charge;
pub use crate::problem::{Kind, Problem, problems};
pub use crate::requests::access::{Access, TenantAdmin};
pub use crate::requests::input::{Json as JsonBody, Path, Query, is_text, parameter};
pub use crate::requests::page::{List, MAX_LIMIT, Page, PageQuery, time_and_id, timed};
pub use crate::state::Api;
