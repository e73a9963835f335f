//! Names that nearly every operation uses.

pub(crate) use axum::Json;
pub(crate) use axum::extract::State;
pub(crate) use axum::response::{IntoResponse, Response};
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use std::sync::Arc;
pub(crate) use unslide_api::feature::OperationRouter;
pub(crate) use unslide_api::feature::operation::{
    Access, Kind, List, Page, PageQuery, Path, Problem, Query, ReportsRead, ReportsWrite, ReservedAnswer,
    TenantAdmin, parse_parameter, problems,
};
pub(crate) use unslide_api::feature::{Storage, Symbolication};
pub(crate) use unslide_api::routes;
pub(crate) use utoipa::{IntoParams, ToSchema};
