//! Parts for operations of features.

pub use crate::http::answers::{ReservedAnswer, reserve_bytes};
pub use crate::limits::charge::Charge;
pub use crate::limits::permits::{Permit, Reservation};
pub use crate::operations::groups::change::is_ticket_url;
pub use crate::operations::tenants::wait_announced;
pub use crate::problem::{Kind, Problem, problems};
pub use crate::reports::image_symbols::SymbolsOfReport;
pub use crate::requests::accepted::AcceptedResponse;
pub use crate::requests::access::{
    Access, ReportsRead, ReportsWrite, SymbolsDownload, TenantAdmin, parse_bearer,
};
pub use crate::requests::input::{
    Json as JsonBody, Path, Query, check_texts, is_text, parse_day, parse_parameter,
};
pub use crate::requests::page::{
    List, MAX_LIMIT, Page, PageQuery, number_and_id, position_by_number, position_by_time, time_and_id,
};
pub use crate::state::Api;
